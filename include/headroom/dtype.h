/* SPDX-License-Identifier: Apache-2.0 */
/* Data types (number formats) of operands. Thread safety: pure functions. */
#ifndef HEADROOM_DTYPE_H
#define HEADROOM_DTYPE_H

#include <headroom/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerator, name, bytes per element. tf32 is stored as fp32 and multiplied with 10 mantissa bits. */
#define HR_DTYPE_LIST(ROW) \
  ROW(HR_FP64, "fp64", 8)  \
  ROW(HR_FP32, "fp32", 4)  \
  ROW(HR_TF32, "tf32", 4)  \
  ROW(HR_FP16, "fp16", 2)  \
  ROW(HR_BF16, "bf16", 2)  \
  ROW(HR_FP8_E4M3, "fp8", 1)

typedef enum hr_dtype {
#define HR_DTYPE_ENUM(enumerator, name, bytes) enumerator,
  HR_DTYPE_LIST(HR_DTYPE_ENUM)
#undef HR_DTYPE_ENUM
      HR_DTYPE_COUNT
} hr_dtype;

/** The name of a dtype ("bf16"); "unknown" for a value outside the list. Static storage. */
HR_API const char *hr_dtype_name(hr_dtype dtype);

/** Bytes per element; 0 for a value outside the list. */
HR_API size_t hr_dtype_bytes(hr_dtype dtype);

/** Parses a name ("bf16"). HR_ERROR_NOT_FOUND, with *dtype untouched, for any other text. */
HR_API hr_status hr_dtype_parse(const char *name, hr_dtype *dtype);

#ifdef __cplusplus
}
#endif
#endif
