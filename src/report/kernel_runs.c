/* SPDX-License-Identifier: Apache-2.0 */
#include "report/kernel_runs.h"

#include "report/lines.h"

#include <math.h>
#include <string.h>

/* The reason without the kernel's name, with which some begin. */
static const char *reason_of(const hr_kernel_measurement *run)
{
  const char *reason = run->measurement.reason;
  size_t name = strlen(run->kernel);
  bool named = strncmp(reason, run->kernel, name) == 0 && reason[name] == ' ';
  return named ? reason + name + 1 : reason;
}

static bool same_reason(const hr_kernel_measurement *a, const hr_kernel_measurement *b)
{
  return a->measurement.status == b->measurement.status && strcmp(reason_of(a), reason_of(b)) == 0;
}

void hr_print_reasons(const hr_document *document, const hr_kernel_measurement *runs, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const hr_kernel_measurement *run = &runs[i];
    size_t earlier = 0, alike = 0;
    char names[512] = "";
    while (!same_reason(run, &runs[earlier]))
      earlier++;
    if (!run->measurement.reason[0] || earlier < i)
      continue;
    for (size_t k = i; k < count; k++)
      if (same_reason(run, &runs[k])) {
        hr_append_item(names, sizeof names, "%s", runs[k].kernel);
        alike++;
      }
    bool named = reason_of(run) != run->measurement.reason;
    hr_print_field(document, hr_status_name(run->measurement.status), "%s%s%s", names, named && alike == 1 ? " " : ": ",
                   reason_of(run));
  }
}

void hr_whole_cell(const void *number, hr_cell *cell)
{
  const double *count = number;
  if (!isnan(*count))
    hr_cell_set_count(cell, (int64_t)*count);
}

void hr_json_put_strides(hr_json json, const char *key, const hr_strides *strides)
{
  static const hr_column fields[] = {
      HR_FIELD(hr_strides, batch),
      HR_FIELD(hr_strides, row),
      HR_FIELD(hr_strides, head),
  };
  hr_json_put_fields(hr_json_put_object(json, key), fields, HR_COUNT_OF(fields), strides);
}
