/* Reporting failures: one line that says what and where. */
#ifndef HR_BASE_ERROR_H
#define HR_BASE_ERROR_H

#include <headroom/status.h>
#include <stdarg.h>
#include <stddef.h>

/** Writes the message to `error` (which may be NULL) and returns `status`. */
hr_status hr_fail(hr_error *error, hr_status status, const char *format, ...) HR_PRINTF(3, 4);

/** HR_ERROR_INVALID unless `found`, the first member of a public struct, is the size that this library knows: the
 *  struct was not begun with its hr_…_default(), or comes from another version's header. `name`: "hr_gemm". */
hr_status hr_check_struct_size(const char *name, size_t found, size_t expected, hr_error *error);

/** HR_ERROR_INVALID, "hr_plan_gemm: gemm is NULL": the index-th of `names`, "device, gemm, plan". */
hr_status hr_fail_null(hr_error *error, const char *function, const char *names, size_t index);

/** The system's words for an errno, written to `text`, which is returned. Unlike strerror() safe with threads. */
#define HR_REASON_SIZE 128
const char *hr_reason(int number, char text[HR_REASON_SIZE]);

#ifdef __clang_analyzer__ /* does not look into other files, and so would take a failure for a possible HR_OK */
#define hr_fail(error, status, ...) ((void)hr_fail(error, status, __VA_ARGS__), (status))
#endif

/** Returns from the calling function if `call` fails. */
#define HR_TRY(call)            \
  do {                          \
    hr_status status_ = (call); \
    if (status_ != HR_OK)       \
      return status_;           \
  } while (0)

/** Begins every public function that returns an hr_status: returns from it if one of these arguments is NULL. `error`
 *  is NULL where the function takes none. tests/structure/null_arguments.sh calls each of them. */
#define HR_NEED(error, ...)                                                     \
  do {                                                                          \
    const void *const needed_[] = {__VA_ARGS__};                                \
    for (size_t need_ = 0; need_ < sizeof needed_ / sizeof *needed_; need_++) { \
      if (!needed_[need_])                                                      \
        return hr_fail_null(error, __func__, #__VA_ARGS__, need_);              \
    }                                                                           \
  } while (0)

#endif
