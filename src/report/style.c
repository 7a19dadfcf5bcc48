/* SPDX-License-Identifier: Apache-2.0 */
#include "report/style.h"

static const char *const escapes[] = {
    [HR_STYLE_PLAIN] = "",         [HR_STYLE_BOLD] = "\x1b[1m",    [HR_STYLE_DIM] = "\x1b[2m",
    [HR_STYLE_RED] = "\x1b[1;31m", [HR_STYLE_YELLOW] = "\x1b[33m", [HR_STYLE_CYAN] = "\x1b[36m",
    [HR_STYLE_GREEN] = "\x1b[32m",
};

static bool is_styled(const hr_report_options *options, hr_style style)
{
  return options->colour && options->format == HR_FORMAT_TABLE && style != HR_STYLE_PLAIN;
}

void hr_style_begin(FILE *out, const hr_report_options *options, hr_style style)
{
  if (is_styled(options, style))
    fputs(escapes[style], out);
}

void hr_style_end(FILE *out, const hr_report_options *options, hr_style style)
{
  if (is_styled(options, style))
    fputs("\x1b[0m", out);
}
