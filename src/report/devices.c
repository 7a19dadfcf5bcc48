/* SPDX-License-Identifier: Apache-2.0 */
/* `devices`: the devices that are known, their ceilings, and the libraries found at run time. */
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "report/ceilings.h"
#include "report/inputs.h"

#include <math.h>

/* ---- devices ---- */

typedef struct device_row {
  const hr_device_report *device;
  const hr_hardware *hardware;     /* NULL if it is not known */
  double bf16, fp16, fp32, bits16; /* dense FLOP/s; NAN: the device has no such units */
} device_row;

#define DEVICE HR_THROUGH(device_row, device)
#define HARDWARE(member) HR_THROUGH(device_row, hardware), HR_MEMBER(hr_hardware, member)
#define RATE(member) HR_MEMBER(device_row, member)
static const hr_column device_columns[] = {
    {"name", "name", HR_PLAIN, 0, DEVICE, HR_MEMBER(hr_device_report, name)},
    {"product", "product", HR_PLAIN, 5, HARDWARE(about.product)},
    {"architecture", "architecture", HR_PLAIN, 8, HARDWARE(about.architecture)},
    {NULL, "16 bit dense", HR_FLOPS_RATE, 0, RATE(bits16)},
    {"bf16_flops_per_s", NULL, HR_FLOPS_RATE, 0, RATE(bf16)},
    {"fp16_flops_per_s", NULL, HR_FLOPS_RATE, 0, RATE(fp16)},
    {"fp32_flops_per_s", "fp32", HR_FLOPS_RATE, 7, RATE(fp32)},
    {"bandwidth_bytes_per_s", "bandwidth", HR_BYTES_RATE, 0, HARDWARE(bandwidth_bytes_per_s)},
    {"memory_bytes", "memory", HR_BYTES, 0, HARDWARE(memory_bytes)},
    {"multiprocessors", "cores", HR_PLAIN, 6, HARDWARE(multiprocessors)},
    {"calibration", "rates", HR_PLAIN, 3, HARDWARE(about.calibration)},
    {"error_band", "error band", HR_SHARE, 4, HARDWARE(error_band)},
    {"status", NULL, HR_PLAIN, 0, DEVICE, HR_MEMBER(hr_device_report, status)},
    {"detail", NULL, HR_PLAIN, 0, DEVICE, HR_OPTIONAL(hr_device_report, detail)},
};

static double rate_of(const hr_hardware *hardware, hr_dtype dtype)
{
  return hardware && hardware->dense_flops_per_s[dtype] > 0 ? hardware->dense_flops_per_s[dtype] : (double)NAN;
}

static hr_table *device_table(const hr_device_report *devices, size_t count)
{
  hr_table *table = HR_TABLE_OF(device_columns, device_row);
  for (size_t i = 0; i < count; i++) {
    const hr_hardware *hardware = devices[i].hardware;
    device_row row = {
        &devices[i], hardware, rate_of(hardware, HR_BF16), rate_of(hardware, HR_FP16), rate_of(hardware, HR_FP32),
        (double)NAN};
    row.bits16 = isnan(row.bf16) ? row.fp16 : row.bf16;
    hr_table_add(table, &row);
  }
  return table;
}

/* ---- libraries ---- */

typedef struct library_row {
  const hr_library *library;
  const char *version, *missing; /* one of them is NULL */
  const char *shown;             /* the other one */
} library_row;

#define LIBRARY(member) HR_THROUGH(library_row, library), HR_MEMBER(hr_library, member)
static const hr_column library_columns[] = {
    {"name", "library", HR_PLAIN, 0, LIBRARY(name)},
    {"purpose", "needed for", HR_PLAIN, 0, LIBRARY(purpose)},
    {"status", NULL, HR_PLAIN, 0, LIBRARY(status)},
    {"version", NULL, HR_PLAIN, 0, HR_MEMBER(library_row, version)},
    {"detail", NULL, HR_PLAIN, 0, HR_MEMBER(library_row, missing)},
    {NULL, "version", HR_PLAIN, 0, HR_MEMBER(library_row, shown)},
};

static hr_table *library_table(const hr_library *libraries, size_t count)
{
  hr_table *table = HR_TABLE_OF(library_columns, library_row);
  for (size_t i = 0; i < count; i++) {
    library_row row = {.library = &libraries[i]};
    if (libraries[i].status == HR_OK)
      row.shown = row.version = libraries[i].version;
    else
      row.shown = row.missing = libraries[i].detail;
    hr_table_add(table, &row);
  }
  return table;
}

/* ---- the document ---- */

/* Where the threads and memory of CPUs are. */
static void print_placements(const hr_document *document, const hr_device_report *devices, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (!devices[i].hardware || !devices[i].hardware->placement[0])
      continue;
    char line[256];
    snprintf(line, sizeof line, "%s: %s", devices[i].name, devices[i].hardware->placement);
    fprintf(document->out, "\n");
    hr_print_paragraph(document, line);
  }
}

/* Why devices cannot be used. */
static void print_failures(const hr_document *document, const hr_device_report *devices, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (devices[i].status == HR_OK)
      continue;
    fprintf(document->out, "\n");
    hr_print_paragraph(document, devices[i].detail);
  }
}

static hr_status print_ceilings(const hr_document *document, const hr_device_report *devices, size_t count,
                                hr_error *error)
{
  for (size_t i = 0; i < count; i++) {
    if (!devices[i].hardware || devices[i].hardware->ceiling_count == 0)
      continue;
    hr_print_heading(document, "Ceilings of %s", devices[i].name);
    HR_TRY(hr_print_table(document, hr_ceiling_table(devices[i].hardware), error));
    char line[HR_CEILING_NOTE_SIZE];
    if (hr_ceiling_clock_note(devices[i].hardware, line) || hr_ceiling_power_note(devices[i].hardware, line)) {
      fprintf(document->out, "\n");
      hr_print_paragraph(document, line);
    }
  }
  return HR_OK;
}

static hr_status write_text(const hr_document *document, const hr_devices_report *report, hr_error *error)
{
  const hr_device_report *devices = report->devices;
  const size_t count = report->count;
  HR_TRY(hr_print_table(document, device_table(devices, count), error));
  if (document->options->format == HR_FORMAT_CSV)
    return HR_OK;
  print_placements(document, devices, count);
  print_failures(document, devices, count);
  HR_TRY(print_ceilings(document, devices, count, error));
  if (report->library_count == 0)
    return HR_OK;
  fprintf(document->out, "\n");
  return hr_print_table(document, library_table(report->libraries, report->library_count), error);
}

static const hr_column status_fields[] = {
    HR_FIELD(hr_device_report, name),
    HR_FIELD(hr_device_report, status),
    HR_OPTIONAL_FIELD(hr_device_report, detail),
};

static hr_status write_json(FILE *out, const hr_devices_report *report, hr_error *error)
{
  const hr_device_report *devices = report->devices;
  const size_t count = report->count;
  bool failed;
  hr_json json = hr_json_document("devices/1", &failed);
  json_t *list = json_array();
  hr_json_put(json, "devices", list);
  for (size_t i = 0; list && i < count; i++) {
    hr_json device = hr_json_append_object(json, list);
    hr_json_put_fields(device, status_fields, HR_COUNT_OF(status_fields), &devices[i]);
    hr_json_put_hardware(device, devices[i].hardware);
  }
  hr_json_put_table(json, "libraries", library_table(report->libraries, report->library_count));
  return hr_json_write(out, json, error);
}

hr_status hr_report_devices(FILE *out, const hr_report_options *options, const hr_devices_report *devices,
                            hr_error *error)
{
  HR_NEED(error, out, options, devices);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status =
      options->format == HR_FORMAT_JSON ? write_json(out, devices, error) : write_text(&document, devices, error);
  return hr_document_end(&document, status, error);
}
