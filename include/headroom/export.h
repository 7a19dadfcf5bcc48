/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the public functions, and the defaults of structs that callers fill. */
#ifndef HEADROOM_EXPORT_H
#define HEADROOM_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define HR_API __attribute__((visibility("default")))
#define HR_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define HR_API
#define HR_PRINTF(format_index, first_argument)
#endif

/** Structs that callers fill begin with their size and grow at their ends from release to release. So the library fills
 *  no more of one than its caller has: hr_gemm_init(gemm, size) fills the first `size` bytes with the defaults, which
 *  are 0 for members that the library does not know, and sets struct_size to `size`. HR_DEFAULT(hr_gemm) defines
 *  hr_gemm_default(), which returns a struct of the caller's header. */
#define HR_DEFAULT(type)                  \
  static inline type type##_default(void) \
  {                                       \
    type value;                           \
    type##_init(&value, sizeof value);    \
    return value;                         \
  }

#endif
