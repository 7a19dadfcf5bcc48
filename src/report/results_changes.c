/* SPDX-License-Identifier: Apache-2.0 */
/* `results import` and `merge`: how many rows came from each file. */
#include "base/error.h"
#include "base/struct_size.h"
#include "report/document.h"
#include "report/json.h"

typedef struct change_row {
  const char *file;
  hr_store_change change;
} change_row;

static const hr_column columns[] = {
    {"file", "file", HR_PLAIN, 0, HR_MEMBER(change_row, file)},
    {"added", "added", HR_PLAIN, 0, HR_MEMBER(change_row, change.added)},
    {"present", "already there", HR_PLAIN, 0, HR_MEMBER(change_row, change.present)},
};

static hr_status write_json(FILE *out, hr_table *table, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("results/1", &failed);
  hr_json_put_table(json, "changes", table);
  return hr_json_write(out, json, error);
}

hr_status hr_report_changes(FILE *out, const hr_report_options *options, const char *const *names,
                            const hr_store_change *changes, size_t count, hr_error *error)
{
  HR_NEED(error, out, options);
  HR_TAKE(hr_report_options, options, error);
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_table *table = HR_TABLE_OF(columns, change_row);
  for (size_t i = 0; i < count; i++)
    hr_table_add(table, &(change_row){names[i], changes[i]});
  hr_status status =
      options->format == HR_FORMAT_JSON ? write_json(out, table, error) : hr_print_table(&document, table, error);
  return hr_document_end(&document, status, error);
}
