/* What there is: devices and kernels. */
#include "report/document.h"

#include "base/error.h"
#include "report/ceilings.h"

#include <headroom/plan.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const hr_column device_columns[] = {
    {"name", "name", HR_CELL_TEXT, 0},
    {"product", "product", HR_CELL_TEXT, 5},
    {"architecture", "architecture", HR_CELL_TEXT, 8},
    {NULL, "16 bit dense", HR_CELL_FLOPS_RATE, 0},
    {"bf16_flops_per_s", NULL, HR_CELL_FLOPS_RATE, 0},
    {"fp16_flops_per_s", NULL, HR_CELL_FLOPS_RATE, 0},
    {"fp32_flops_per_s", "fp32", HR_CELL_FLOPS_RATE, 7},
    {"bandwidth_bytes_per_s", "bandwidth", HR_CELL_BYTES_RATE, 0},
    {"memory_bytes", "memory", HR_CELL_BYTES, 0},
    {"multiprocessors", "cores", HR_CELL_COUNT, 6},
    {"calibration", "rates", HR_CELL_TEXT, 3},
    {"error_band", "error band", HR_CELL_SHARE, 4},
    {"status", NULL, HR_CELL_TEXT, 0},
    {"detail", NULL, HR_CELL_TEXT, 0},
};

static double rate_of(const hr_hardware *hardware, hr_dtype dtype)
{
  return hardware->dense_flops_per_s[dtype] > 0 ? hardware->dense_flops_per_s[dtype] : NAN;
}

static void put_hardware(hr_table *table, const hr_hardware *hardware)
{
  hr_put_text(table, hardware->product);
  hr_put_text(table, hardware->architecture);
  double bf16 = rate_of(hardware, HR_BF16), fp16 = rate_of(hardware, HR_FP16);
  hr_put(table, isnan(bf16) ? fp16 : bf16);
  hr_put(table, bf16);
  hr_put(table, fp16);
  hr_put(table, rate_of(hardware, HR_FP32));
  hr_put(table, hardware->bandwidth_bytes_per_s);
  hr_put_count(table, hardware->memory_bytes);
  hr_put_count(table, hardware->multiprocessors);
  hr_put_text(table, hr_calibration_name(hardware->calibration));
  hr_put(table, hardware->error_band);
}

static hr_table *device_table(const hr_device_report *devices, size_t count)
{
  hr_table *table = hr_table_create(device_columns, COUNT_OF(device_columns));
  for (size_t i = 0; i < count; i++) {
    hr_put_text(table, devices[i].name);
    if (devices[i].hardware) {
      put_hardware(table, devices[i].hardware);
    } else {
      for (size_t column = 1; column + 2 < COUNT_OF(device_columns); column++)
        hr_put_none(table);
    }
    hr_put_text(table, hr_status_name(devices[i].status));
    hr_put_text(table, devices[i].detail && devices[i].detail[0] ? devices[i].detail : NULL);
  }
  return table;
}

static const hr_column library_columns[] = {
    {"name", "library", HR_CELL_TEXT, 0}, {"purpose", "needed for", HR_CELL_TEXT, 0},
    {"status", NULL, HR_CELL_TEXT, 0},    {"version", NULL, HR_CELL_TEXT, 0},
    {"detail", NULL, HR_CELL_TEXT, 0},    {NULL, "version", HR_CELL_TEXT, 0},
};

static hr_table *library_table(const hr_library *libraries, size_t count)
{
  hr_table *table = hr_table_create(library_columns, COUNT_OF(library_columns));
  for (size_t i = 0; i < count; i++) {
    const hr_library *library = &libraries[i];
    bool found = library->status == HR_OK;
    hr_put_text(table, library->name);
    hr_put_text(table, library->purpose);
    hr_put_text(table, hr_status_name(library->status));
    hr_put_text(table, found ? library->version : NULL);
    hr_put_text(table, found ? NULL : library->detail);
    hr_put_text(table, found ? library->version : library->detail);
  }
  return table;
}

/* The table, and below it, for people, where threads and memory of a CPU lie, ceilings, why devices are missing, and
 * the libraries. */
static hr_status write_devices(const hr_document *document, const hr_device_report *devices, size_t count,
                               const hr_library *libraries, size_t library_count, hr_error *error)
{
  HR_TRY(hr_put_table(document, device_table(devices, count), error));
  if (document->options->format == HR_FORMAT_CSV)
    return HR_OK;
  for (size_t i = 0; i < count; i++) {
    if (!devices[i].hardware || !devices[i].hardware->placement[0])
      continue;
    char line[256];
    snprintf(line, sizeof line, "%s: %s", devices[i].name, devices[i].hardware->placement);
    fprintf(document->out, "\n");
    hr_put_paragraph(document, line);
  }
  for (size_t i = 0; i < count; i++) {
    if (devices[i].status == HR_OK)
      continue;
    fprintf(document->out, "\n");
    hr_put_paragraph(document, devices[i].detail);
  }
  for (size_t i = 0; i < count; i++) {
    if (!devices[i].hardware || devices[i].hardware->ceiling_count == 0)
      continue;
    hr_put_heading(document, "Ceilings of %s", devices[i].name);
    HR_TRY(hr_put_table(document, hr_ceiling_table(devices[i].hardware), error));
    char line[HR_CEILING_WORDS];
    if (hr_ceiling_words(devices[i].hardware, line)) {
      fprintf(document->out, "\n");
      hr_put_paragraph(document, line);
    }
  }
  if (library_count == 0)
    return HR_OK;
  fprintf(document->out, "\n");
  return hr_put_table(document, library_table(libraries, library_count), error);
}

static hr_status write_devices_json(FILE *out, const hr_device_report *devices, size_t count,
                                    const hr_library *libraries, size_t library_count, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("devices", &failed);
  json_t *list = json_array();
  hr_json_put(json, "devices", list);
  for (size_t i = 0; list && i < count; i++) {
    hr_json device = {json_object(), &failed};
    hr_json_put_text(device, "name", devices[i].name);
    hr_json_put_text(device, "status", hr_status_name(devices[i].status));
    hr_json_put_text(device, "detail", devices[i].detail && devices[i].detail[0] ? devices[i].detail : NULL);
    hr_json_put_hardware(device, devices[i].hardware);
    if (json_array_append_new(list, device.object) != 0)
      failed = true;
  }
  hr_json_put_table(json, "libraries", library_table(libraries, library_count));
  return hr_json_write(out, json, error);
}

hr_status hr_report_devices(FILE *out, const hr_report_options *options, const hr_device_report *devices, size_t count,
                            const hr_library *libraries, size_t library_count, hr_error *error)
{
  HR_NEED(error, out, options);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status = options->format == HR_FORMAT_JSON
                         ? write_devices_json(out, devices, count, libraries, library_count, error)
                         : write_devices(&document, devices, count, libraries, library_count, error);
  return hr_document_end(&document, status, error);
}

static const hr_column kernel_columns[] = {
    {"name", "kernel", HR_CELL_TEXT, 0},   {"operation", "operation", HR_CELL_TEXT, 0},
    {"device", "device", HR_CELL_TEXT, 0}, {"dtypes", "formats", HR_CELL_TEXT, 3},
    {"needs", NULL, HR_CELL_TEXT, 0},      {"runs", "runs here", HR_CELL_FLAG, 0},
    {"why", NULL, HR_CELL_TEXT, 0},        {"summary", NULL, HR_CELL_TEXT, 0},
    {NULL, "", HR_CELL_TEXT, 0},
};

#define DEVICES_MAX 4

/* The devices that kernels name, each opened once, or why not: what concerns all of a device's kernels is said once
 * below. */
typedef struct opened_devices {
  size_t count;
  const char *names[DEVICES_MAX];
  hr_device *devices[DEVICES_MAX];
  hr_error errors[DEVICES_MAX];
} opened_devices;

static size_t open_once(opened_devices *opened, const char *name)
{
  size_t i = 0;
  while (i < opened->count && strcmp(opened->names[i], name) != 0)
    i++;
  if (i < opened->count || i == DEVICES_MAX)
    return i;
  opened->names[i] = name;
  opened->errors[i] = (hr_error){.status = HR_OK};
  if (hr_device_open(name, 0, &opened->devices[i], &opened->errors[i]) != HR_OK)
    opened->devices[i] = NULL;
  opened->count++;
  return i;
}

static bool is_open(const opened_devices *opened, size_t device)
{
  return device < DEVICES_MAX && opened->devices[device];
}

static void put_kernel(hr_table *table, opened_devices *opened, const hr_kernel_info *kernel)
{
  char why[256] = "";
  size_t device = open_once(opened, kernel->device);
  bool runs = is_open(opened, device) && hr_kernel_runs(opened->devices[device], kernel->name, why, sizeof why);
  const char *reason = runs ? "" : why[0] ? why : device < DEVICES_MAX ? opened->errors[device].message : "";
  hr_put_text(table, kernel->name);
  hr_put_text(table, kernel->operation);
  hr_put_text(table, kernel->device);
  hr_put_text(table, kernel->dtypes);
  hr_put_text(table, kernel->needs[0] ? kernel->needs : NULL);
  hr_put_flag(table, runs);
  hr_table_style(table, runs ? HR_STYLE_GREEN : HR_STYLE_YELLOW);
  hr_put_text(table, reason[0] ? reason : NULL);
  hr_put_text(table, kernel->summary);
  hr_put_text(table, why[0] ? why : kernel->summary);
}

static hr_table *kernel_table(opened_devices *opened)
{
  *opened = (opened_devices){.count = 0};
  hr_table *table = hr_table_create(kernel_columns, COUNT_OF(kernel_columns));
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    put_kernel(table, opened, &kernels[i]);
  for (size_t i = 0; i < opened->count; i++)
    hr_device_close(opened->devices[i]);
  return table;
}

static hr_status write_kernels(const hr_document *document, hr_error *error)
{
  opened_devices opened;
  HR_TRY(hr_put_table(document, kernel_table(&opened), error));
  for (size_t i = 0; i < opened.count && document->options->format != HR_FORMAT_CSV; i++) {
    if (opened.errors[i].status == HR_OK)
      continue;
    char line[sizeof opened.errors->message + 64];
    size_t length = strlen(opened.names[i]);
    bool named = strncmp(opened.errors[i].message, opened.names[i], length) == 0;
    snprintf(line, sizeof line, "%s%s%s", named ? "" : opened.names[i], named ? "" : ": ", opened.errors[i].message);
    fprintf(document->out, "\n");
    hr_put_paragraph(document, line);
  }
  return HR_OK;
}

hr_status hr_report_kernels(FILE *out, const hr_report_options *options, hr_error *error)
{
  HR_NEED(error, out, options);
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status;
  if (options->format == HR_FORMAT_JSON) {
    bool failed;
    hr_json json = hr_json_document("kernels", &failed);
    opened_devices opened;
    hr_json_put_table(json, "kernels", kernel_table(&opened));
    status = hr_json_write(out, json, error);
  } else {
    status = write_kernels(&document, error);
  }
  return hr_document_end(&document, status, error);
}
