/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: 16 random bits of each element by Philox4x32-7, as include/headroom/rowwise.h defines them. One counter
 * gives the bits of eight elements, a pack in 16 bits, so that the mask costs about 10 integer operations an element
 * and no memory. */

struct philox_words {
  unsigned word[4];
};

__device__ inline philox_words philox(unsigned long long index, unsigned long long seed)
{
  unsigned a = (unsigned)index, b = (unsigned)(index >> 32), c = 0, d = 0;
  unsigned key = (unsigned)seed, other_key = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 7; round++) {
    unsigned long long p = (unsigned long long)0xD2511F53u * a, q = (unsigned long long)0xCD9E8D57u * c;
    a = (unsigned)(q >> 32) ^ b ^ key;
    b = (unsigned)q;
    c = (unsigned)(p >> 32) ^ d ^ other_key;
    d = (unsigned)p;
    key += 0x9E3779B9u;
    other_key += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

/* The bits of the eight elements from `at` on, which may lie before the first element: those bits are not used. */
__device__ inline philox_words dropout_bits(int64 at, unsigned long long seed)
{
  int off = (int)(at & 7);
  philox_words one = philox((unsigned long long)(at >> 3), seed);
  if (off == 0)
    return one;
  philox_words next = philox((unsigned long long)(at >> 3) + 1, seed);
  unsigned w[8] = {one.word[0],  one.word[1],  one.word[2],  one.word[3],
                   next.word[0], next.word[1], next.word[2], next.word[3]};
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < 4 + step; i++)
      w[i] = off / 2 & step ? w[i + step] : w[i];
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    w[i] = __funnelshift_r(w[i], w[i + 1], 16 * (off % 2));
  return {{w[0], w[1], w[2], w[3]}};
}

/* Treats the tensor as one row, as each_element() does. */
__device__ inline void drop_elements(const task &t)
{
  int64 count = t.rows * t.columns, stride = (int64)gridDim.x * blockDim.x * PACK_ELEMENTS;
  int64 at = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * PACK_ELEMENTS - offset_of(t.out);
  float scale = 65536.0f / (float)(65536u - t.dropped);
  for (; at < count; at += stride) {
    pack x = load_unaligned(t.a, at, count);
    float v[PACK_ELEMENTS];
#pragma unroll
    for (int first = 0; first < PACK_ELEMENTS; first += 8) {
      philox_words bits = dropout_bits(at + first, t.seed);
#pragma unroll
      for (int j = 0; j < 8 && first + j < PACK_ELEMENTS; j++) {
        unsigned u = bits.word[j / 2] >> (j % 2 * 16) & 0xFFFFu;
        v[first + j] = u < t.dropped ? 0.0f : x.at(first + j) * scale;
      }
    }
    store_pack(t.out, at, count, v);
  }
}
