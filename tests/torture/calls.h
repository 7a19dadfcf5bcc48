/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of torture.py share: they call the public interface and print results. Exit code 5 if a call says that
 * memory ran out; 1 for any other error, and if a failed call has changed something. */
#ifndef HEADROOM_TORTURE_CALLS_H
#define HEADROOM_TORTURE_CALLS_H
#include <headroom/experimental/headroom.h>
#include <stdio.h>

/* Ends the function with the status of a failed call. */
#define TRY(call)             \
  do {                        \
    hr_status tried = (call); \
    if (tried != HR_OK) {     \
      status = tried;         \
      goto end;               \
    }                         \
  } while (0)

/* The exit code after `use`, which is all that a program does. */
static inline int calls_end(hr_status (*use)(hr_error *))
{
  hr_error error = {.status = HR_OK};
  hr_status status = use(&error);
  if (status != HR_OK)
    fprintf(stderr, "%s: %s\n", hr_status_name(status), error.message);
  if (status == HR_OK && fflush(stdout) != 0)
    return 5;
  return status == HR_OK ? 0 : status == HR_ERROR_OUT_OF_MEMORY ? 5 : 1;
}

#endif
