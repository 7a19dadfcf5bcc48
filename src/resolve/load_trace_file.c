/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/load.h>

#include "base/error.h"
#include "resolve/read_file.h"

#include <stdlib.h>

hr_status hr_load_trace_file(const char *path, hr_load_request **requests, size_t *count, hr_error *error)
{
  char *text;
  size_t length;
  HR_NEED(error, path, requests, count);
  HR_TRY(hr_read_file(path, path, &text, &length, error));
  hr_status status =
      hr_load_trace_parse(&(hr_input){.text = text, .length = length, .name = path}, requests, count, error);
  free(text);
  return status;
}
