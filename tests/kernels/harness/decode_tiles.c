/* SPDX-License-Identifier: Apache-2.0 */
/* Tile handling of the AMX version of decode attention, on processors without AMX: tiles that are not full, K rows that
 * are no tile in memory, the ends of blocks and sequences, and values that are not finite. */
#include "decode_call.h"
#include "emulated_tiles_kernels.h"

#include "runtime/cpu/decode/cut.h"

#define MULTIPLY_ADDS ((int64_t)100000) /* of the reference for one call */

/* Heads of V: 0 for latent attention. */
static decode_setup call_of(int64_t batch, const int64_t heads[3], const int64_t dims[2], int64_t kv_len,
                            int64_t page_size)
{
  decode_setup setup = decode_call_of(heads, dims, kv_len, HR_BF16);
  hr_decode *d = &setup.d;
  hr_error error;
  d->batch = batch;
  setup.seed = (uint64_t)(kv_len * 100 + heads[0] + dims[0] + dims[1]);
  d->latent = heads[2] == 0;
  if (d->latent)
    d->v_heads = 1, d->v_dim = d->v_dim < d->qk_dim ? d->v_dim : d->qk_dim;
  assert_ok(hr_decode_set_pages(d, page_size, &error), error);
  setup.shuffled = page_size > 0;
  return setup;
}

/* One to 71 query rows a head; K heads of more and of fewer query heads than V heads; latent attention. */
static const int64_t heads[][3] = {{1, 1, 1},  {8, 8, 8},  {8, 1, 1},   {32, 8, 8},  {64, 4, 4},
                                   {17, 1, 1}, {16, 2, 8}, {32, 4, 16}, {32, 16, 4}, {12, 3, 6},
                                   {12, 4, 6}, {71, 1, 1}, {48, 1, 1},  {33, 1, 0}};
static const int64_t dims[][2] = {{64, 64}, {128, 128}, {32, 64},   {80, 80}, {100, 100},
                                  {72, 15}, {192, 128}, {256, 240}, {33, 17}, {96, 96}};

static void check_part_tiles(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t lengths[] = {1, 15, 16, 17, 31, 33, 64, 127, 128, 129, 200, 1100};
  static const int64_t page_sizes[] = {0, 16, 64, 24, 5};
  for (int64_t i = 0; i < LENGTH(heads) * LENGTH(dims); i++) {
    int64_t h = i / LENGTH(dims), n = i % LENGTH(dims);
    decode_setup setup = call_of(1 + n % 2, heads[h], dims[n], lengths[(h + n) % LENGTH(lengths)], page_sizes[i % 5]);
    setup.unaligned = i % 3 == 1;
    if (test_takes(i))
      assert_true(decode_try(device, kernel, &setup, MULTIPLY_ADDS / 4));
  }
}

/* Up to 16 queries, of which the first see fewer keys, and in a window also later ones. */
static void check_queries(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int32_t lengths[] = {0, 1, 2, 16, 17, 128, 130, 300, 1030};
  for (int64_t i = 0; i < 3 * 8; i++) {
    decode_setup setup = call_of(LENGTH(lengths), heads[3 + i % 8], dims[i % 2], 1030, i % 2 ? 16 : 0);
    hr_decode *d = &setup.d;
    setup.lengths = lengths;
    d->q_len = (const int64_t[]){2, 5, 16}[i / 8];
    d->window = (const int64_t[]){0, 1, 40, 300}[i % 4];
    d->softcap = i % 5 == 3 ? 0.5f : 0;
    d->scale = i % 6 == 5 ? -0.1f : 0;
    d->sinks = i % 3 == 1;
    if (test_takes(i))
      assert_true(decode_try(device, kernel, &setup, MULTIPLY_ADDS));
  }
}

/* A weight of 0 in a tile would make NaN of an infinity. */
static void check_infinities(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  for (int64_t i = 0; i < 2 * 8; i++) {
    decode_setup setup = call_of(1, heads[1 + i % 8], dims[i % 2], 140, i % 2 ? 16 : 0);
    setup.d.q_len = 1 + i % 4;
    setup.special = i / 8 ? DECODE_INFINITY_IN_V : DECODE_NAN_IN_K;
    setup.exactly = true;
    assert_true(decode_try(device, kernel, &setup, MULTIPLY_ADDS));
  }
}

/* Blocks of 32, 64 and 128 keys. */
static void check_blocks(hr_device *device, const char *kernel, hr_dtype dtype)
{
  (void)dtype;
  static const int64_t k_heads[] = {40, 16, 4}, blocks[] = {32, 64, 128}, dim[2] = {128, 128};
  for (int64_t i = 0; i < 2 * LENGTH(k_heads); i++) {
    decode_setup setup = call_of(1, (const int64_t[]){80, k_heads[i / 2], k_heads[i / 2]}, dim, 1500, i % 2 * 16);
    hr_split_cut cut;
    hr_error error;
    assert_ok(hr_split_cut_make(&setup.d, true, 2, &cut, &error), error);
    assert_int_equal(cut.block, blocks[i / 2]);
    if (test_takes(i / 2))
      assert_true(decode_try(device, kernel, &setup, MULTIPLY_ADDS));
  }
}

static const fact facts[] = {
    FACT(tiles_that_are_not_full_give_what_the_formula_gives, check_part_tiles),
    FACT(queries_that_see_other_keys_have_their_own_weights, check_queries),
    FACT(an_infinity_reaches_only_those_who_see_it, check_infinities),
    FACT(blocks_of_any_length_give_what_the_formula_gives, check_blocks),
};
const fact_group decode_tiles_facts = {.name = "decode_tiles",
                                       .operation = "decode",
                                       .facts = facts,
                                       .count = LENGTH(facts),
                                       .emulated = &hr_decode_amx_emulated,
                                       .emulated_alone = true};
