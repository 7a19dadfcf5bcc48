/* Packs: 16 bytes of a tensor in registers, what one access moves; and the parameters of operations on rows. */
#include "runtime/cuda/kernels/number.cuh"

typedef long long int64;

#define PACK_BYTES 16
#define WIDE (PACK_BYTES / (int)sizeof(element))
#define LOG2_E 1.4426950408889634f

#define PARAMETERS                                                                                                \
  (const element *a, const element *b, const element *c, element *out, int64 rows, int64 columns, int64 period, \
   int64 group)
#define TASK {a, b, c, out, rows, columns, period, group}

struct task {
  const element *a, *b, *c;
  element *out;
  int64 rows, columns, period, group;
};

__device__ inline float minus_infinity() { return __uint_as_float(0xFF800000u); }

/* 2^x; results below 2^-126 are 0. */
__device__ inline float power_of_2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct pack {
  unsigned word[4];

  pack() = default;
  __device__ pack(unsigned a, unsigned b, unsigned c, unsigned d) : word{a, b, c, d} {}
  __device__ explicit pack(uint4 v) : word{v.x, v.y, v.z, v.w} {}
  __device__ uint4 words() const { return make_uint4(word[0], word[1], word[2], word[3]); }
  __device__ float at(int i) const { return value_in(word[i / PER_WORD], i % PER_WORD); }

  /* As if it were changed: or the compiler keeps every value of a pass over a row as a float for the next, and spills. */
  __device__ void pin() { asm volatile("" : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3])); }
};

/* Elements from the multiple of 16 bytes below to an address. */
__device__ inline int offset_of(const element *at)
{
  return (int)((size_t)at % PACK_BYTES) / (int)sizeof(element);
}

__device__ inline pack load_aligned(const element *at) { return pack(*(const uint4 *)at); }

/* The elements first ≤ j < last of the pack at `at`, from whatever address; the others are 0. */
__device__ inline pack load_elements(const element *at, int first, int last)
{
  pack p(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j < WIDE; j++) {
    if (j >= first && j < last)
      p.word[j / PER_WORD] |= bits_of(at[j]) << (32 / PER_WORD * (j % PER_WORD));
  }
  return p;
}

/* The pack that begins `elements` behind the beginning of one and ends in the next. */
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

template <class INDEX> __device__ inline int within_pack(INDEX i) { return i < 0 ? 0 : i > WIDE ? WIDE : (int)i; }

/* row[column …], as far as that is in 0 ≤ … < columns; row + column is a multiple of 16 bytes. */
template <class INDEX> __device__ inline pack load_alike(const element *row, INDEX column, INDEX columns)
{
  if (column >= 0 && column + WIDE <= columns)
    return load_aligned(row + column);
  return load_elements(row + column, within_pack(-column), within_pack(columns - column));
}

/* The pack at any address, of elements that have others around them: two accesses and a shift. */
__device__ inline pack load_inside(const element *at)
{
  int off = offset_of(at);
  return shifted(load_aligned(at - off), load_aligned(at - off + WIDE), off);
}

/* row[column …], as far as that is in 0 ≤ … < columns, from wherever. */
template <class INDEX> __device__ inline pack load_anyhow(const element *row, INDEX column, INDEX columns)
{
  const element *at = row + column;
  int off = offset_of(at);
  INDEX begin = column - off;
  if (begin >= 0 && begin + (off > 0 ? 2 * WIDE : WIDE) <= columns) {
    pack one = load_aligned(at - off);
    return off > 0 ? shifted(one, load_aligned(at - off + WIDE), off) : one;
  }
  return load_elements(at, within_pack(-column), within_pack(columns - column));
}

/* A pack at a multiple of 16 bytes. In so many words: the compiler takes a store of a uint4 apart where it has much else to
 * do, and rows of odd lengths then reach half of a copy. */
__device__ inline void store_aligned(element *at, const float (&v)[WIDE])
{
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    word[i] = word_of(v + i * PER_WORD);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)), "r"(word[0]), "r"(word[1]),
               "r"(word[2]), "r"(word[3])
               : "memory");
}

/* row[column …] = v, as far as that is in 0 ≤ … < columns; row + column is a multiple of 16 bytes. */
template <class INDEX>
__device__ inline void store_pack(element *row, INDEX column, INDEX columns, const float (&v)[WIDE])
{
  if (column >= 0 && column + WIDE <= columns) {
    store_aligned(row + column, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < WIDE; j++) {
    if (column + j >= 0 && column + j < columns)
      row[column + j] = from_float(v[j]);
  }
}

/* 16 bytes to shared memory that pass no register; both at multiples of 16. Own copies are there after wait_for_copies(). */
__device__ inline void copy_async(uint4 *to, const element *from)
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *to = *(const uint4 *)from;
#endif
}

__device__ inline void wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
