/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   S^T = K Q^T   A: 16 keys × 32 elements of K, loaded from the cache as they are     B: 16 query rows of Q^T, packed
 *                 once a split                                                         C: 16 keys × 16 query rows
 *   softmax       a lane is a query row; weights are transposed to rows of P in bf16
 *   O += P V      directly, with up to 16 query rows a V head:
 *                   B: 16 keys × 32 columns of V as they are. A product takes columns 2n and 2n + 1 of a key together,
 *                   so A is P in words whose other half is 0: in the lower halves for even columns, in the upper ones
 *                   for odd columns. Up to 8 query rows: both in one tile
 *                 packed, with more, and where O is not finite, as 0 · ∞ of a word's other half is NaN:
 *                   A: 16 query rows × 32 keys of P     B: 32 keys × 16 columns of V, pairs of keys interleaved
 *
 * Even columns of O precede the odd ones in each 32, as with simd_load_pair().
 *
 * A block has 128 keys, or fewer where two blocks of K and V would not stay in L2: a change from tiles to vectors and
 * back takes some 600 cycles, and O is loaded and stored once a block. Rows that are no tile in memory (other strides
 * within 16 keys, head sizes that are no multiples of 32, the end of a sequence) are copied. What comes next is
 * prefetched during all phases. */
#include "runtime/cpu/decode/decode_prefetch.h"

#if defined(__x86_64__)

#include "runtime/cpu/decode/decode_amx_direct.h"
#include "runtime/cpu/decode/decode_amx_packed.h"
#include "runtime/cpu/decode/decode_amx_scores.h"
#include "runtime/cpu/decode/decode_amx_softmax.h"

static void enter(void)
{
  configure(TILE);
}

static void leave(void)
{
  tile_release();
}

/* Q of a K head: [tile of rows][pair of elements][row], the rows behind the last 0. */
static void load(hr_dtype dtype, bool in_order, const void *from, int64_t dim, int64_t row, float *to)
{
  (void)dtype, (void)in_order;
  int64_t pairs = hr_round_up(dim, HR_SPLIT_PAD) / 2;
  char *tile = (char *)to + row / TILE * pairs * ROW_BYTES;
  if (row % TILE == 0)
    memset(tile, 0, (size_t)(pairs * ROW_BYTES));
  for (int64_t i = 0; i < dim; i += 2)
    memcpy(tile + i / 2 * ROW_BYTES + row % TILE * 4, (const char *)from + 2 * i, dim - i == 1 ? 2 : 4);
}

static void add_values(const hr_split_step *step)
{
  if (step->direct)
    add_direct(step);
  else
    add_packed(step);
}

/* ---- sums and results, in fp32 ---- */

static bool sums_are_finite(const hr_split_sums *sums)
{
  simd_f32 bad = simd_set1(0);
  for (int64_t at = 0; at < sums->rows * sums->pitch; at += SIMD_LANES) {
    simd_f32 o = simd_load(sums->o + at);
    bad = bad + (o - o); /* NOLINT(misc-redundant-expression): 0 of finite numbers, NaN of others */
  }
  return simd_bits(simd_is_nan(bad)) == 0;
}

static void merge(const hr_split_sums *sums, const hr_split_sums *more)
{
  hr_split_avx512.merge(sums, more);
}

static void store(hr_dtype dtype, bool in_order, float *o, float share, int64_t dim, void *to)
{
  hr_split_avx512.store(dtype, in_order, o, share, dim, to);
}

const hr_split_version hr_split_amx = {.tiles = true,
                                       .enter = enter,
                                       .leave = leave,
                                       .load = load,
                                       .multiply = multiply,
                                       .online_softmax = online_softmax,
                                       .add_values = add_values,
                                       .is_finite = sums_are_finite,
                                       .end_direct = end_direct,
                                       .merge = merge,
                                       .store = store};

#endif
