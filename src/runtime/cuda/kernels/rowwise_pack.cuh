/* SPDX-License-Identifier: Apache-2.0 */
/* Packs (16 bytes of a tensor in registers, one load or store) and the kernel parameters of row-wise operations. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/rowwise_layout.h"

typedef long long int64;

#define PACK_BYTES HR_ROWWISE_PACK_BYTES
#define PACK_ELEMENTS (PACK_BYTES / (int)sizeof(element))
#define LOG2_E 1.4426950408889634f

#define PARAMETERS (const element *a, const element *b, const element *c, element *out, hr_rowwise_call call)
#define TASK           \
  {                    \
    call, a, b, c, out \
  }

struct task : hr_rowwise_call {
  const element *a, *b, *c;
  element *out;

  __device__ const element *row_of_x(int64 row) const
  {
    return a + (x_stride > 0 ? row / group * x_stride + row % group * x_row : row * x_row);
  }

  __device__ element *row_of_y(int64 row) const
  {
    return out + (y_stride > 0 ? row / group * y_stride + row % group * columns : row * columns);
  }
};

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

/* 2^x; results below 2^-126 are 0. */
__device__ inline float exp2_approx(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct pack {
  unsigned word[4];

  pack() = default;
  __device__ pack(unsigned a, unsigned b, unsigned c, unsigned d) : word{a, b, c, d}
  {
  }
  __device__ explicit pack(uint4 v) : word{v.x, v.y, v.z, v.w}
  {
  }
  __device__ uint4 words() const
  {
    return make_uint4(word[0], word[1], word[2], word[3]);
  }
  __device__ float at(int i) const
  {
    return value_in(word[i / PER_WORD], i % PER_WORD);
  }

  /* Tells the compiler that the pack changes; otherwise it keeps all values of a pass as floats for the next pass, and
   * spills. */
  __device__ void pin()
  {
    asm volatile("" : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3]));
  }
};

/* Elements from the multiple of 16 bytes at or below an address to it. */
__device__ inline int offset_of(const element *at)
{
  return (int)((size_t)at % PACK_BYTES) / (int)sizeof(element);
}

__device__ inline pack load_aligned(const element *at)
{
  return pack(*(const uint4 *)at);
}

/* The elements first ≤ j < last of the pack at `at`, of any alignment; the others are 0. */
__device__ inline pack load_elements(const element *at, int first, int last)
{
  pack p(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j < PACK_ELEMENTS; j++) {
    if (j >= first && j < last)
      p.word[j / PER_WORD] |= bits_of(at[j]) << (32 / PER_WORD * (j % PER_WORD));
  }
  return p;
}

/* The pack that begins `elements` after the start of `one` and ends in `next`. */
__device__ inline pack shifted(const pack &one, const pack &next, int elements)
{
  int bytes = elements * (int)sizeof(element);
  unsigned w[8] = {one.word[0],  one.word[1],  one.word[2],  one.word[3],
                   next.word[0], next.word[1], next.word[2], next.word[3]};
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < 4 + step; i++)
      w[i] = bytes / 4 & step ? w[i + step] : w[i];
  }
  if (sizeof(element) < 4) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      w[i] = __funnelshift_r(w[i], w[i + 1], 8 * (bytes % 4));
  }
  return pack(w[0], w[1], w[2], w[3]);
}

template <class INDEX> __device__ inline int clamp_to_pack(INDEX i)
{
  return i < 0 ? 0 : i > PACK_ELEMENTS ? PACK_ELEMENTS : (int)i;
}

/* row[column …] where 0 ≤ column < columns, otherwise 0; row + column is a multiple of 16 bytes. */
template <class INDEX> __device__ inline pack load_base_aligned(const element *row, INDEX column, INDEX columns)
{
  if (column >= 0 && column + PACK_ELEMENTS <= columns)
    return load_aligned(row + column);
  return load_elements(row + column, clamp_to_pack(-column), clamp_to_pack(columns - column));
}

/* The pack at an address of any alignment with readable elements around it: two loads and a shift. */
__device__ inline pack load_interior(const element *at)
{
  int off = offset_of(at);
  return shifted(load_aligned(at - off), load_aligned(at - off + PACK_ELEMENTS), off);
}

/* row[column …] where 0 ≤ column < columns, otherwise 0; any alignment. */
template <class INDEX> __device__ inline pack load_unaligned(const element *row, INDEX column, INDEX columns)
{
  const element *at = row + column;
  int off = offset_of(at);
  INDEX begin = column - off;
  if (begin >= 0 && begin + (off > 0 ? 2 * PACK_ELEMENTS : PACK_ELEMENTS) <= columns) {
    pack one = load_aligned(at - off);
    return off > 0 ? shifted(one, load_aligned(at - off + PACK_ELEMENTS), off) : one;
  }
  return load_elements(at, clamp_to_pack(-column), clamp_to_pack(columns - column));
}

/* Stores a pack at a multiple of 16 bytes. By asm, as the compiler splits the store of a uint4 in large kernels, and
 * rows of odd lengths then reach half of a copy. */
__device__ inline void store_aligned(element *at, const float (&v)[PACK_ELEMENTS])
{
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    word[i] = word_of(v + i * PER_WORD);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)), "r"(word[0]),
               "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}

/* row[column …] = v where 0 ≤ column < columns; row + column is a multiple of 16 bytes. */
template <class INDEX>
__device__ inline void store_pack(element *row, INDEX column, INDEX columns, const float (&v)[PACK_ELEMENTS])
{
  if (column >= 0 && column + PACK_ELEMENTS <= columns) {
    store_aligned(row + column, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < PACK_ELEMENTS; j++) {
    if (column + j >= 0 && column + j < columns)
      row[column + j] = from_float(v[j]);
  }
}

/* Copies 16 bytes to shared memory, both addresses multiples of 16; complete after cp_async_wait_all() of the same
 * thread. */
__device__ inline void cp_async_16(uint4 *to, const element *from)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *to = *(const uint4 *)from;
#endif
}

__device__ inline void cp_async_wait_all()
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
