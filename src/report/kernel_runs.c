/* SPDX-License-Identifier: Apache-2.0 */
#include "report/kernel_runs.h"

#include <math.h>
#include <string.h>

void hr_print_reasons(const hr_document *document, const hr_kernel_measurement *runs, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const hr_measurement *m = &runs[i].measurement;
    const char *kernel = runs[i].kernel;
    bool named = strncmp(m->reason, kernel, strlen(kernel)) == 0;
    if (m->reason[0])
      hr_print_field(document, hr_status_name(m->status), "%s%s%s", named ? "" : kernel, named ? "" : ": ", m->reason);
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
