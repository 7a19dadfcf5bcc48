/* SPDX-License-Identifier: Apache-2.0 */
/* `kernels`: the kernel tables, and whether this machine can run each kernel. */
#include "base/error.h"
#include "base/struct_size.h"
#include "report/document.h"
#include "report/json.h"

#include <headroom/plan.h>
#include <string.h>

typedef struct kernel_row {
  const hr_kernel_info *info;
  bool runs;
  char reason[256];          /* why the kernel does not run, from the kernel itself */
  const char *device_reason; /* why its device cannot be used; "" if it can */
} kernel_row;

static void runs(const void *row, hr_cell *cell)
{
  const kernel_row *r = row;
  hr_cell_set_flag(cell, r->runs);
  cell->style = r->runs ? HR_STYLE_GREEN : HR_STYLE_YELLOW;
}

static void why(const void *row, hr_cell *cell)
{
  const kernel_row *r = row;
  hr_cell_set_text(cell, r->reason[0] ? r->reason : r->device_reason);
}

/* Why a device cannot be used is printed once, below the table. */
static void reason_or_summary(const void *row, hr_cell *cell)
{
  const kernel_row *r = row;
  hr_cell_set_text(cell, r->reason[0] ? r->reason : r->info->summary);
}

#define INFO HR_THROUGH(kernel_row, info)
static const hr_column columns[] = {
    {"name", "kernel", HR_PLAIN, 0, INFO, HR_MEMBER(hr_kernel_info, name)},
    {"operation", "operation", HR_PLAIN, 0, INFO, HR_MEMBER(hr_kernel_info, operation)},
    {"device", "device", HR_PLAIN, 0, INFO, HR_MEMBER(hr_kernel_info, device)},
    {"dtypes", "dtypes", HR_PLAIN, 3, INFO, HR_MEMBER(hr_kernel_info, dtypes)},
    {"needs", NULL, HR_PLAIN, 0, INFO, HR_OPTIONAL(hr_kernel_info, needs)},
    {"runs", "runs here", HR_PLAIN, 0, HR_COMPUTED(FLAG, runs)},
    {"why", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, why), .optional = true},
    {"summary", NULL, HR_PLAIN, 0, INFO, HR_MEMBER(hr_kernel_info, summary)},
    {NULL, "", HR_PLAIN, 0, HR_COMPUTED(TEXT, reason_or_summary)},
};

#define DEVICES_MAX 4

/* The devices that kernels name, each opened once, and the error if that failed. */
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

static kernel_row row_of(opened_devices *opened, const hr_kernel_info *kernel)
{
  kernel_row row = {.info = kernel, .device_reason = ""};
  size_t device = open_once(opened, kernel->device);
  row.runs =
      is_open(opened, device) && hr_kernel_runs(opened->devices[device], kernel->name, row.reason, sizeof row.reason);
  if (row.runs)
    row.reason[0] = '\0';
  else if (device < DEVICES_MAX)
    row.device_reason = opened->errors[device].message;
  return row;
}

static hr_table *kernel_table(opened_devices *opened)
{
  *opened = (opened_devices){.count = 0};
  hr_table *table = HR_TABLE_OF(columns, kernel_row);
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    kernel_row row = row_of(opened, &kernels[i]);
    hr_table_add(table, &row);
  }
  for (size_t i = 0; i < opened->count; i++)
    hr_device_close(opened->devices[i]);
  return table;
}

static void print_error(const hr_document *document, const char *device, const char *message)
{
  char line[sizeof((hr_error *)0)->message + 64];
  bool named = strncmp(message, device, strlen(device)) == 0;
  snprintf(line, sizeof line, "%s%s%s", named ? "" : device, named ? "" : ": ", message);
  fprintf(document->out, "\n");
  hr_print_paragraph(document, line);
}

/* Rows say what ran out; that memory did is also the result of the whole. */
static hr_status had_memory(const opened_devices *opened, hr_error *error)
{
  for (size_t i = 0; i < opened->count; i++) {
    if (opened->errors[i].status == HR_ERROR_OUT_OF_MEMORY)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s", opened->errors[i].message);
  }
  return HR_OK;
}

static hr_status write_text(const hr_document *document, hr_error *error)
{
  opened_devices opened;
  HR_TRY(hr_print_table(document, kernel_table(&opened), error));
  for (size_t i = 0; i < opened.count && document->options->format != HR_FORMAT_CSV; i++) {
    if (opened.errors[i].status != HR_OK)
      print_error(document, opened.names[i], opened.errors[i].message);
  }
  return had_memory(&opened, error);
}

static hr_status write_json(FILE *out, hr_error *error)
{
  bool failed;
  opened_devices opened;
  hr_json json = hr_json_document("kernels/1", &failed);
  hr_json_put_table(json, "kernels", kernel_table(&opened));
  HR_TRY(hr_json_write(out, json, error));
  return had_memory(&opened, error);
}

hr_status hr_report_kernels(FILE *out, const hr_report_options *options, hr_error *error)
{
  HR_NEED(error, out, options);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(out, error) : write_text(&document, error);
  return hr_document_end(&document, status, error);
}
