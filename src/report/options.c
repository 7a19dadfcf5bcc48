/* SPDX-License-Identifier: Apache-2.0 */
/* Options of reports, and the names of their formats. */
#include <headroom/experimental/report.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"

static const char *const format_names[] = {[HR_FORMAT_TABLE] = "table",
                                           [HR_FORMAT_JSON] = "json",
                                           [HR_FORMAT_CSV] = "csv",
                                           [HR_FORMAT_MARKDOWN] = "markdown",
                                           [HR_FORMAT_HTML] = "html"};

HR_DEFINE_PARSE(hr_format_parse, hr_format, format_names, sizeof format_names / sizeof *format_names)

static const char *const csv_names[] = {[HR_CSV_FINDINGS] = "findings",
                                        [HR_CSV_OPERATORS] = "operators",
                                        [HR_CSV_MEASUREMENTS] = "measurements",
                                        [HR_CSV_LAYOUTS] = "layouts"};

HR_DEFINE_PARSE(hr_csv_table_parse, hr_csv_table, csv_names, sizeof csv_names / sizeof *csv_names)

void hr_page_init(hr_page *page, size_t size)
{
  HR_INIT(page, size, (hr_page){.title = "Headroom report"});
}

void hr_report_options_init(hr_report_options *options, size_t size)
{
  HR_INIT(options, size, (hr_report_options){.format = HR_FORMAT_TABLE});
}
