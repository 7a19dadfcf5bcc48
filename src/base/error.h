/* SPDX-License-Identifier: Apache-2.0 */
/* Reporting errors: a status and one line that says what is wrong and where. */
#ifndef HR_BASE_ERROR_H
#define HR_BASE_ERROR_H

#include <headroom/status.h>
#include <stdarg.h>
#include <stddef.h>

/** Writes the message to `error` (which may be NULL) and returns `status`. */
hr_status hr_fail(hr_error *error, hr_status status, const char *format, ...) HR_PRINTF(3, 4);

/** Fails with HR_ERROR_INVALID and "hr_plan_gemm: gemm is NULL"; `names` is "device, gemm, plan", of which the index-th
 *  is NULL. */
hr_status hr_fail_null(hr_error *error, const char *function, const char *names, size_t index);

/** Writes the system's message for an errno to `text` and returns it. Unlike strerror() it is thread-safe. */
#define HR_REASON_SIZE 128
const char *hr_reason(int number, char text[HR_REASON_SIZE]);

#ifdef __clang_analyzer__ /* it does not see other files, and would assume that a failure may return HR_OK */
#define hr_fail(error, status, ...) ((void)hr_fail(error, status, __VA_ARGS__), (status))
#define hr_fail_null(...) ((void)hr_fail_null(__VA_ARGS__), HR_ERROR_INVALID)
#endif

/** Returns from the calling function if `call` fails. */
#define HR_TRY(call)            \
  do {                          \
    hr_status status_ = (call); \
    if (status_ != HR_OK)       \
      return status_;           \
  } while (0)

/** Returns HR_ERROR_INVALID from the calling function if one of the arguments is NULL. Every public function that
 *  returns an hr_status begins with it. `error` is NULL where the function takes none.
 *  tests/structure/null_arguments.sh calls every public function with NULL. */
#define HR_NEED(error, ...)                                                     \
  do {                                                                          \
    const void *const needed_[] = {__VA_ARGS__};                                \
    for (size_t need_ = 0; need_ < sizeof needed_ / sizeof *needed_; need_++) { \
      if (!needed_[need_])                                                      \
        return hr_fail_null(error, __func__, #__VA_ARGS__, need_);              \
    }                                                                           \
  } while (0)

#endif
