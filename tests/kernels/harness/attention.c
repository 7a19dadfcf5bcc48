/* SPDX-License-Identifier: Apache-2.0 */
/* Attention kernels against the formula: common shapes, shapes that do not fill tiles, and
 * combinations of all options of a problem. The memory around the arrays is checked throughout. */
#include "attention_truth.h"

#define MULTIPLY_ADDS ((int64_t)800000) /* multiply-adds of the reference for one call */

static const int64_t heads[][3] = {{1, 1, 1},   {8, 8, 8},   {8, 1, 1},  {32, 8, 8},
                                   {32, 4, 16}, {32, 16, 4}, {12, 3, 6}, {71, 1, 1}};
static const int64_t dims[][2] = {{32, 64},   {128, 256}, {64, 64},   {80, 80},   {96, 96},
                                  {100, 100}, {128, 128}, {192, 128}, {256, 256}, {64, 128}};
static const int64_t lengths[][2] = {{1, 1},     {64, 128},  {128, 192}, {239, 1},    {799, 3},    {113, 203},
                                     {108, 256}, {384, 256}, {640, 128}, {1023, 130}, {130, 1024}, {1, 1000}};

static attention_setup plain_call(const int64_t h[3], const int64_t d[2], const int64_t l[2], hr_dtype dtype)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = 1};
  hr_attention *a = &setup.a;
  a->dtype = dtype;
  a->mask = HR_MASK_NONE;
  a->q_heads = h[0], a->k_heads = h[1], a->v_heads = h[2];
  a->qk_dim = d[0], a->v_dim = d[1];
  a->q_len = l[0], a->kv_len = l[1];
  return setup;
}

/* ---- shapes ---- */

static void check_heads_and_dims(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int64_t ran = 0;
  for (int64_t h = 0; h < LENGTH(heads); h++)
    for (int64_t d = 0; d < LENGTH(dims); d++) {
      const int64_t length[] = {h % 2 ? 19 : 3, d % 2 ? 37 : 70};
      attention_setup setup = plain_call(heads[h], dims[d], length, dtype);
      setup.a.mask = (h + d) % 3 ? HR_MASK_CAUSAL : HR_MASK_NONE;
      setup.at_start = (h + d) % 2;
      if (!test_takes(h * LENGTH(dims) + d))
        continue;
      if (attention_takes_long(kernel, &setup.a))
        setup.a.q_len = 2, setup.a.kv_len = 3;
      if (attention_takes_long(kernel, &setup.a))
        continue;
      setup.seed = (uint64_t)(h * 100 + d + 1);
      ran += attention_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
    }
  assert_true(ran > 0);
}

static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < LENGTH(lengths); i++)
    for (int causal = 0; causal < 2; causal++) {
      attention_setup setup = plain_call(heads[i % 2 ? 0 : 6], dims[i % 4 == 1 ? 2 : i % 4], lengths[i], dtype);
      if (attention_takes_long(kernel, &setup.a) || !test_takes(i * 2 + causal))
        continue;
      setup.a.mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
      setup.a.window = causal && i % 3 == 2 ? 65 : 0;
      setup.at_start = i % 2;
      setup.seed = (uint64_t)(i * 2 + causal + 1);
      attention_try(device, kernel, &setup, MULTIPLY_ADDS);
    }
}

static uint64_t seed_of_run(void)
{
  return (uint64_t)from_environment("HEADROOM_TEST_SEED", 20261121);
}

/* ---- head sizes ---- */

#define SIZES 32 /* 8, 16 … 256 */

/* Each size for all of Q, K and V, and each size of Q and K with another size of V: 224 has 160. A GPU kernel has a
 * program for each pair, which takes a second to compile. So the pairs are distributed over the formats, and half of
 * them are tested with one seed, the others with the next. */
static void check_head_sizes(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int turns, turn = turn_of(kernel, dtype, &turns);
  for (int64_t i = (int64_t)((2 * (uint64_t)turn + seed_of_run()) % (2 * (uint64_t)turns)); i < 2 * SIZES;
       i += 2 * turns) {
    const int64_t h[] = {2, 1, 2}, of_v = i < SIZES ? i : (5 * i + 12) % SIZES;
    const int64_t d[] = {8 * (i % SIZES + 1), 8 * (of_v + 1)}, length[] = {70, i % 3 ? 100 : 40};
    attention_setup setup = plain_call(h, d, length, dtype);
    setup.a.mask = i % 2 ? HR_MASK_CAUSAL : HR_MASK_NONE;
    setup.at_start = i % 8 != 7;
    setup.seed = (uint64_t)i + 1;
    if (attention_takes_long(kernel, &setup.a))
      setup.a.q_len = 4, setup.a.kv_len = 5;
    if (test_takes(i))
      attention_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
  }
}

/* ---- combinations ---- */

static int64_t pick(uint64_t *random, int64_t count)
{
  return (int64_t)(next_random(random) % (uint64_t)count);
}

/* 1 … most; short and long ones are equally frequent. */
static int64_t pick_length(uint64_t *random, int64_t most)
{
  return 1 + pick(random, 1 + pick(random, most));
}

static void pick_scores(hr_attention *a, uint64_t *random)
{
  a->mask = pick(random, 3) ? HR_MASK_CAUSAL : HR_MASK_NONE;
  if (a->mask == HR_MASK_CAUSAL && pick(random, 3) == 0)
    a->window = pick_length(random, a->kv_len + 10);
  const float scales[] = {0, 0, 0.3F, 1, -0.5F};
  a->scale = scales[pick(random, 5)];
  if (pick(random, 4) == 0)
    a->softcap = pick(random, 2) ? 2 : 30;
  a->alibi = pick(random, 4) == 0;
  a->first_keys = pick(random, 3) == 0;
}

#define SEQUENCES_MAX 6

/* Sequences of random lengths, some empty, with unused rows before and after them but not between them. */
static void pick_sequences(attention_setup *setup, int32_t offsets[2][SEQUENCES_MAX + 1], uint64_t *random)
{
  hr_attention *a = &setup->a;
  a->variable_lengths = true;
  a->batch = 1 + pick(random, SEQUENCES_MAX);
  for (int which = 0; which < 2; which++) {
    int64_t longest = which == 0 ? a->q_len : a->kv_len, at = pick(random, 3);
    for (int64_t b = 0; b <= a->batch; b++) {
      offsets[which][b] = (int32_t)at;
      at += pick(random, 4) == 0 ? 0 : pick(random, 5) == 0 ? longest : pick(random, longest + 1);
    }
    int64_t total = offsets[which][a->batch] + pick(random, 3);
    *(which == 0 ? &a->q_total : &a->kv_total) = total;
  }
  setup->q_offsets = offsets[0];
  setup->kv_offsets = offsets[1];
}

static void pick_call(attention_setup *setup, int32_t offsets[2][SEQUENCES_MAX + 1], hr_dtype dtype, uint64_t *random)
{
  const int64_t mosts[] = {12, 150, 150, 400}, most = mosts[pick(random, 4)];
  const int64_t length[] = {pick_length(random, most), pick_length(random, most)};
  int64_t odd[] = {1 + pick(random, 140), 1 + pick(random, 140)};
  int64_t even[] = {16 * (1 + pick(random, 16)), 16 * (1 + pick(random, 16))};
  const int64_t *const sizes[] = {dims[pick(random, LENGTH(dims))], odd, even};
  const int64_t *d = sizes[pick(random, 3)];
  *setup = plain_call(heads[pick(random, LENGTH(heads))], d, length, dtype);
  setup->seed = next_random(random) >> 32;
  setup->a.batch = 1 + pick(random, 3);
  pick_scores(&setup->a, random);
  setup->at_start = pick(random, 2);
  setup->no_lse = pick(random, 4) == 0;
  setup->gap = pick(random, 2) ? pick(random, 9) : 0;
  if (pick(random, 4) == 0)
    setup->layout = HR_LAYOUT_BHSD;
  if (pick(random, 6) == 0)
    setup->layout = HR_LAYOUT_PACKED_QKV, setup->a.q_len = setup->a.kv_len;
  if (setup->layout != HR_LAYOUT_PACKED_QKV && pick(random, 3) == 0)
    pick_sequences(setup, offsets, random);
}

static void check_combinations(hr_device *device, const char *kernel, hr_dtype dtype)
{
  uint64_t random = seed_of_run();
  int64_t samples = from_environment("HEADROOM_TEST_SAMPLES", 50);
  for (int64_t i = 0; i < samples; i++) {
    int32_t offsets[2][SEQUENCES_MAX + 1];
    attention_setup setup;
    pick_call(&setup, offsets, dtype, &random);
    if (!attention_takes_long(kernel, &setup.a))
      attention_try(device, kernel, &setup, MULTIPLY_ADDS / 4);
  }
}

static const fact facts[] = {
    FACT(every_kernel_agrees_with_the_formula_for_all_heads_and_dims, check_heads_and_dims),
    FACT(every_kernel_agrees_with_the_formula_for_lengths_that_break_tiles, check_lengths),
    FACT(every_kernel_agrees_with_the_formula_for_head_sizes_in_steps_of_8, check_head_sizes),
    FACT(every_kernel_agrees_with_the_formula_for_combinations, check_combinations),
};
const fact_group attention_facts = {
    .name = "attention", .operation = "attention", .facts = facts, .count = LENGTH(facts)};
