/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of kv_cache_append.cu, kv_cache_heads.cu, kv_cache_quantize.cu and kv_cache_numbers.cu. C includes this
 * header, and NVRTC compiles it into the kernels. */
#ifndef HR_RUNTIME_CUDA_KERNELS_KV_CACHE_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_KV_CACHE_LAYOUT_H

#ifdef __CUDACC_RTC__
#define HR_DEVICE_POINTER(type) type *
#define HR_LAYOUT_ASSERT(condition) static_assert(condition, #condition)
#else
#include <stdint.h>
#define HR_DEVICE_POINTER(type) uint64_t
#define HR_LAYOUT_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/** One append; sizes in elements. `list` is that of hr_kv_writes (runtime/device/kv_cache.h). */
typedef struct hr_kv_append_call {
  HR_DEVICE_POINTER(const element) k;
  HR_DEVICE_POINTER(const element) v; /* NULL: none, the cache is latent */
  HR_DEVICE_POINTER(void) k_cache;
  HR_DEVICE_POINTER(void) v_cache;
  HR_DEVICE_POINTER(float) k_scales; /* of a quantized cache: of heads, or of tokens and heads */
  HR_DEVICE_POINTER(float) v_scales;
  HR_DEVICE_POINTER(const float) cos; /* [position, rotary_half] */
  HR_DEVICE_POINTER(const float) sin;
  HR_DEVICE_POINTER(const int) list;
  long long k_row, v_row; /* from one new token to the next */
  int tokens, sequences;
  int page_size;
  int k_width, v_width; /* of all heads of a token */
  int qk_dim, v_dim;
  int rotary_first, rotary_half; /* pairs per head; 0: no rotary embedding */
  int interleaved;
  int int8, token_scales; /* of a quantized cache: int8 rather than fp8, a scale per token */
  int padding;
} hr_kv_append_call;

HR_LAYOUT_ASSERT(sizeof(hr_kv_append_call) == 11 * 8 + 14 * 4);

/** An append with what is before attention, hr_kv_heads. */
typedef struct hr_kv_heads_call {
  hr_kv_append_call append;
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(element) q_to;
  HR_DEVICE_POINTER(element) k_to;         /* NULL: none */
  HR_DEVICE_POINTER(const element) angles; /* [position, rotated] */
  HR_DEVICE_POINTER(const element) q_norm; /* NULL: none */
  HR_DEVICE_POINTER(const element) k_norm;
  long long q_row;
  int q_heads;
  int rotated, interleaved;
  int norm_stride; /* from the weight of a head's norm to the next's; 0: all have one */
  float epsilon;
  int padding;
} hr_kv_heads_call;

HR_LAYOUT_ASSERT(sizeof(hr_kv_heads_call) == sizeof(hr_kv_append_call) + 7 * 8 + 6 * 4);

/* Ranges are HR_KV_GATHERED_MAX, whose header NVRTC does not have. */
enum { HR_PUT_RANGES_MAX = 8, HR_PUT_NUMBERS_MAX = 992 };

/** Numbers for kv_cache_numbers.cu, of ranges behind each other; a launch has 4096 bytes of parameters. */
typedef struct hr_put_numbers {
  HR_DEVICE_POINTER(int) to[HR_PUT_RANGES_MAX];
  int ends[HR_PUT_RANGES_MAX]; /* in `numbers` */
  int count, padding;          /* of ranges */
  int numbers[HR_PUT_NUMBERS_MAX];
} hr_put_numbers;

HR_LAYOUT_ASSERT(sizeof(hr_put_numbers) <= 4096);

#endif
