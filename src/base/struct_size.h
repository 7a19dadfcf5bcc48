/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs that begin with their struct_size grow at the end only. So a program that was compiled with the
 * headers of another release passes structs of another size, which the library brings to its own. */
#ifndef HR_BASE_STRUCT_SIZE_H
#define HR_BASE_STRUCT_SIZE_H

#include <headroom/status.h>
#include <stddef.h>

/** Fills the first `size` bytes of a caller's struct with those of `value`, which has `known` bytes, and with 0 behind
 *  them, and sets its struct_size to `size`. */
void hr_init_struct(void *to, size_t size, const void *value, size_t known);

/** The body of hr_gemm_init(gemm, size): HR_INIT(gemm, size, (hr_gemm){.m = 1}). */
#define HR_INIT(to, size, ...) hr_init_struct(to, size, &(__VA_ARGS__), sizeof *(to))

/** The caller's struct in the library's size: `from` itself if it has that, otherwise `to`, a copy, in which members
 *  that the caller does not know are 0, their default. NULL, with HR_ERROR_INVALID, for a size that no release had and
 *  for members that the library does not know and that are not 0. `name`: "hr_gemm". */
const void *hr_take_struct(void *to, size_t size, const void *from, const char *name, hr_error *error);

/** HR_ERROR_INVALID if hr_take_struct() would refuse the struct. For functions that write members of its first
 *  release, and read none. */
hr_status hr_check_struct(const void *from, size_t size, const char *name, hr_error *error);

/** Copies a struct of the library into the caller's, as far as that goes; its struct_size stays. Errors as above. */
hr_status hr_give_struct(void *to, const void *from, size_t size, const char *name, hr_error *error);

/** Makes `pointer`, a parameter that may be NULL, point to the struct in the library's size. Every public function that
 *  returns an hr_status does so with every struct that has a struct_size. Those that count (hr_attention_flops()) or
 *  return a value need not: they read members that the struct had in its first release, and copy none. */
#define HR_TAKE(type, pointer, error)                                                                       \
  type taken_##pointer##_;                                                                                  \
  if ((pointer) &&                                                                                          \
      !((pointer) = hr_take_struct(&taken_##pointer##_, sizeof taken_##pointer##_, pointer, #type, error))) \
  return HR_ERROR_INVALID

#endif
