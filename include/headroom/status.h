/* Status codes and error messages.
 *
 * Every function that can fail returns an hr_status and, where it takes an hr_error, leaves there one line that
 * says what was wrong and where. HR_ERROR_INVALID also comes, without being named at each function, of a pointer
 * that is NULL where the comment does not allow it ("hr_plan_gemm: device is NULL"), and of a struct whose
 * `struct_size` is not the library's: it was not begun with its hr_…_default(), or is of another version's header.
 * Functions that return no status have nothing to say so with: what they are given is there. An hr_error, an
 * hr_note_fn, an hr_progress_fn and a context may be NULL everywhere, and so may an array of 0 elements. Thread
 * safety: all functions here are pure; an hr_error belongs to one caller. */
#ifndef HEADROOM_STATUS_H
#define HEADROOM_STATUS_H

#include <headroom/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One row a status: enumerator, name as printed and stored, sentence. */
#define HR_STATUS_LIST(ROW)                                                                  \
  ROW(HR_OK, "ok", "no error")                                                               \
  ROW(HR_ERROR_INVALID, "invalid", "an argument or a field has a value that cannot be")      \
  ROW(HR_ERROR_UNREADABLE, "unreadable", "the input cannot be read or parsed")               \
  ROW(HR_ERROR_NOT_FOUND, "not_found", "nothing has that name")                              \
  ROW(HR_ERROR_UNSUPPORTED, "unsupported", "Headroom does not cover this")                   \
  ROW(HR_ERROR_UNAVAILABLE, "unavailable", "this machine lacks the device or library")       \
  ROW(HR_ERROR_OVERFLOW, "overflow", "a size does not fit into 64 bits")                     \
  ROW(HR_ERROR_OUT_OF_MEMORY, "out_of_memory", "memory ran out")                             \
  ROW(HR_ERROR_TIMEOUT, "timeout", "the time limit was reached before the first result")     \
  ROW(HR_ERROR_NOISY, "noisy", "the samples never settled")                                  \
  ROW(HR_ERROR_WRONG_RESULT, "wrong_result", "a kernel's result differs from the reference") \
  ROW(HR_ERROR_INTERRUPTED, "interrupted", "stopped by the caller")                          \
  ROW(HR_ERROR_OUTPUT, "output", "the output cannot be written")                             \
  ROW(HR_ERROR_BACKEND, "backend", "a library below failed")

typedef enum hr_status {
#define HR_STATUS_ENUM(enumerator, name, sentence) enumerator,
  HR_STATUS_LIST(HR_STATUS_ENUM)
#undef HR_STATUS_ENUM
      HR_STATUS_COUNT
} hr_status;

/** The name of a status ("out_of_memory"), "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_status_name(hr_status status);

/** Reads a name ("out_of_memory"). HR_ERROR_NOT_FOUND for any other; *status is then untouched. */
HR_API hr_status hr_status_parse(const char *name, hr_status *status);

/** One sentence about a status, without a full stop. Static storage. */
HR_API const char *hr_status_sentence(hr_status status);

/** The detail of a failure: one line, no trailing newline, cut at the size of the array.
 *  Functions that take an `hr_error *` accept NULL and write to it only when they fail. */
typedef struct hr_error {
  hr_status status;
  char message[512];
} hr_error;

/** Called with a remark that is no error (an ignored field, a guessed default). `message` lives until it returns. */
typedef void (*hr_note_fn)(void *context, const char *message);

/** Called now and then during long work. `done` runs from 0 to 1; `what` is the current step, valid until it returns.
 *  Return 0 to go on, anything else to stop: the function at work then returns HR_ERROR_INTERRUPTED, or HR_OK with
 *  what it has so far and `complete` false, as its own comment says. */
typedef int (*hr_progress_fn)(void *context, double done, const char *what);

#ifdef __cplusplus
}
#endif
#endif
