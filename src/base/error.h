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

#endif
