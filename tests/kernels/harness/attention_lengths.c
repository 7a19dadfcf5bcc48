/* SPDX-License-Identifier: Apache-2.0 */
/* Every length from 1 to 300 for every attention kernel, so that its last tile has every size. */
#include "attention_truth.h"

#define LENGTH_MAX 300
#define MULTIPLY_ADDS ((int64_t)100000) /* multiply-adds of the reference for one call */

/* q_len and kv_len: alternately equal, and one of them fixed. */
static void pick_lengths(int64_t length, bool alike, bool causal, hr_attention *a)
{
  uint64_t random = (uint64_t)(length * 2 + causal);
  int64_t other = 1 + (int64_t)(next_random(&random) % LENGTH_MAX);
  bool of_keys = (length / 2 + causal) % 2;
  a->q_len = alike || !of_keys ? length : other;
  a->kv_len = alike || of_keys ? length : other;
}

static void check_length(hr_device *device, const char *kernel, hr_dtype dtype, int64_t length, bool alike, bool causal)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = (uint64_t)(length * 4 + alike * 2 + causal)};
  hr_attention *a = &setup.a;
  a->dtype = dtype;
  a->mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a->batch = 2;
  a->q_heads = 2, a->k_heads = 1, a->v_heads = 2;
  a->qk_dim = a->v_dim = length % 3 ? 64 : 128;
  pick_lengths(length, alike, causal, a);
  setup.at_start = length % 4 != 0; /* GPU kernels have another build for unaligned addresses */
  if (!attention_takes_long(kernel, a))
    attention_try(device, kernel, &setup, MULTIPLY_ADDS);
}

/* All lengths, distributed over a kernel's formats. Of the four calls of each length one, with HEADROOM_TEST=thorough
 * all. */
static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int turns, turn = turn_of(kernel, dtype, &turns);
  for (int64_t length = 1 + (turn + turns - 1) % turns; length <= LENGTH_MAX; length += turns)
    for (int call = 0; call < 4 && test_takes(length / turns); call++)
      if (length / turns % 4 == call || test_asks_for("thorough"))
        check_length(device, kernel, dtype, length, call / 2 == 0, call % 2);
}

/* Thousands of queries without a mask: blocks may share K/V tiles in pairs, of which the second may have no rows. */
static void check_long_queries(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t calls[][4] = {
      {4097, 520, 72, 8}, {4200, 516, 192, 192}, {4500, 550, 128, 256}, {4300, 600, 256, 256}};
  int turns, turn = turn_of(kernel, dtype, &turns);
  for (int i = turn; i < 4; i += turns) {
    attention_setup setup = {.a = hr_attention_default(), .seed = (uint64_t)i, .at_start = true};
    hr_attention *a = &setup.a;
    a->dtype = dtype;
    a->mask = HR_MASK_NONE;
    a->q_len = calls[i][0], a->kv_len = calls[i][1], a->qk_dim = calls[i][2], a->v_dim = calls[i][3];
    if (test_takes(i) && !test_asks_for("few") && !attention_takes_long(kernel, a))
      attention_try(device, kernel, &setup, MULTIPLY_ADDS);
  }
}

static const fact facts[] = {
    FACT(every_length_up_to_300_gives_what_the_formula_gives, check_lengths),
    FACT(long_queries_of_one_or_two_blocks_give_what_the_formula_gives, check_long_queries),
};
const fact_group attention_lengths_facts = {
    .name = "attention_lengths", .operation = "attention", .facts = facts, .count = LENGTH(facts)};
