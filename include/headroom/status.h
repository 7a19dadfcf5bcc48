/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and error messages.
 *
 * Every function that can fail returns an hr_status. If it takes an hr_error, it writes one line there that says what
 * was wrong and where.
 *
 * Every function that returns a status may return HR_ERROR_INVALID for two reasons that its own comment does not
 * repeat: a pointer is NULL where the comment does not allow it ("hr_plan_gemm: device is NULL"), or the `struct_size`
 * of a struct is none that it had in a release, since the struct was not initialised with its hr_…_default(). Functions
 * that return no status require valid pointers. An hr_error, hr_note_fn, hr_progress_fn or context may be NULL
 * everywhere, and so may an array of 0 elements.
 *
 * Structs with a `struct_size` grow at the end only, and 0 is the default of what is added. So a program that was
 * compiled with the headers of an earlier release is served, and one of a later release as long as what its structs
 * have in addition is 0 (HR_ERROR_INVALID otherwise).
 *
 * Thread safety: all functions here are pure; an hr_error belongs to one caller. */
#ifndef HEADROOM_STATUS_H
#define HEADROOM_STATUS_H

#include <headroom/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerator, name as printed and stored, sentence. */
#define HR_STATUS_LIST(ROW)                                                                  \
  ROW(HR_OK, "ok", "no error")                                                               \
  ROW(HR_ERROR_INVALID, "invalid", "an argument or a field has an invalid value")            \
  ROW(HR_ERROR_UNREADABLE, "unreadable", "the input cannot be read or parsed")               \
  ROW(HR_ERROR_NOT_FOUND, "not_found", "no such name")                                       \
  ROW(HR_ERROR_UNSUPPORTED, "unsupported", "not supported by Headroom")                      \
  ROW(HR_ERROR_UNAVAILABLE, "unavailable", "this machine lacks the device or library")       \
  ROW(HR_ERROR_OVERFLOW, "overflow", "a size does not fit into 64 bits")                     \
  ROW(HR_ERROR_OUT_OF_MEMORY, "out_of_memory", "out of memory")                              \
  ROW(HR_ERROR_TIMEOUT, "timeout", "the time limit was reached before the first result")     \
  ROW(HR_ERROR_NOISY, "noisy", "the samples did not stabilize")                              \
  ROW(HR_ERROR_WRONG_RESULT, "wrong_result", "a kernel's result differs from the reference") \
  ROW(HR_ERROR_INTERRUPTED, "interrupted", "stopped by the caller")                          \
  ROW(HR_ERROR_OUTPUT, "output", "the output cannot be written")                             \
  ROW(HR_ERROR_BACKEND, "backend", "a backend library failed")

typedef enum hr_status {
#define HR_STATUS_ENUM(enumerator, name, sentence) enumerator,
  HR_STATUS_LIST(HR_STATUS_ENUM)
#undef HR_STATUS_ENUM
      HR_STATUS_COUNT
} hr_status;

/** The name of a status ("out_of_memory"), "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_status_name(hr_status status);

/** Parses a name ("out_of_memory"). HR_ERROR_NOT_FOUND, with *status untouched, for any other text. */
HR_API hr_status hr_status_parse(const char *name, hr_status *status);

/** Describes a status in one sentence without a full stop. Static storage. */
HR_API const char *hr_status_sentence(hr_status status);

/** The detail of a failure: one line without a trailing newline, truncated to the array. Functions write to it only
 *  when they fail. */
typedef struct hr_error {
  hr_status status;
  char message[512];
} hr_error;

/** What a remark is about. */
typedef enum hr_note_kind {
  HR_NOTE_DETAIL,  /* how the input was read: an assumed default, a second name of a field */
  HR_NOTE_LEFT_OUT /* something of the input is not in the result: an ignored field, the vision part of a model */
} hr_note_kind;

/** Receives a remark that is not an error. `message` is valid during the call. */
typedef void (*hr_note_fn)(void *context, hr_note_kind kind, const char *message);

/** Called repeatedly during long tasks. `done` grows from 0 to 1; `what` names the current step and is valid during the
 *  call. Return 0 to continue. Any other value stops the task, which then returns HR_ERROR_INTERRUPTED, or HR_OK with
 *  partial results and `complete` false, as its comment says. */
typedef int (*hr_progress_fn)(void *context, double done, const char *what);

#ifdef __cplusplus
}
#endif
#endif
