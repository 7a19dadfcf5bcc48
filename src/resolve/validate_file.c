/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/validate.h>

#include "base/error.h"
#include "resolve/read_file.h"

#include <stdlib.h>

hr_status hr_validate_file(const hr_hardware *hardware, const char *path, const hr_validate_options *options,
                           hr_validation **validation, hr_error *error)
{
  char *text;
  size_t length;
  HR_NEED(error, hardware, path, options, validation);
  HR_TRY(hr_read_file(path, path, &text, &length, error));
  hr_status status =
      hr_validate_csv(hardware, &(hr_input){.text = text, .length = length, .name = path}, options, validation, error);
  free(text);
  return status;
}
