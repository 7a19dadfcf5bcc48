/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

typedef struct status_row {
  const char *name, *sentence;
} status_row;

static const status_row rows[] = {
#define ROW(enumerator, name, sentence) {name, sentence},
    HR_STATUS_LIST(ROW)
#undef ROW
};

const char *hr_status_name(hr_status status)
{
  return (unsigned)status < HR_STATUS_COUNT ? rows[status].name : "unknown";
}

hr_status hr_status_parse(const char *name, hr_status *status)
{
  HR_NEED(NULL, name, status);
  for (int i = 0; i < HR_STATUS_COUNT; i++) {
    if (strcmp(rows[i].name, name) == 0) {
      *status = (hr_status)i;
      return HR_OK;
    }
  }
  return HR_ERROR_NOT_FOUND;
}

const char *hr_status_sentence(hr_status status)
{
  return (unsigned)status < HR_STATUS_COUNT ? rows[status].sentence : "unknown status";
}

hr_status(hr_fail)(hr_error *error, hr_status status, const char *format, ...)
{
  if (error) {
    va_list arguments;
    va_start(arguments, format);
    hr_write_text_v(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    hr_replace_unprintable(error->message);
    error->status = status;
  }
  return status;
}

hr_status(hr_fail_null)(hr_error *error, const char *function, const char *names, size_t index)
{
  for (; index > 0; index--)
    names += strcspn(names, ",") + 2;
  return hr_fail(error, HR_ERROR_INVALID, "%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
}

const char *hr_reason(int number, char text[HR_REASON_SIZE])
{
  if (strerror_r(number, text, HR_REASON_SIZE) != 0)
    snprintf(text, HR_REASON_SIZE, "system error %d", number);
  return text;
}
