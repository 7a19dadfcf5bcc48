/* SPDX-License-Identifier: Apache-2.0 */
/* Long sequences, and tensors of more than 2^31 elements, for every attention kernel that supports them. */
#include "attention_large.h"

#define PARTS 6

typedef struct shape {
  int64_t q_len, kv_len, heads, k_heads, v_heads, dim;
} shape;

static hr_attention attention_of(const shape *s, hr_dtype dtype, bool causal)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a.q_len = s->q_len, a.kv_len = s->kv_len;
  a.q_heads = s->heads, a.k_heads = s->k_heads, a.v_heads = s->v_heads;
  a.qk_dim = a.v_dim = s->dim;
  return a;
}

/* ---- long sequences ---- */

static const shape long_shapes[] = {
    {1023, 1024, 2, 1, 2, 64}, {1024, 1023, 2, 2, 1, 128}, {4096, 4096, 1, 1, 1, 64}, {4224, 4224, 2, 1, 1, 128}};

/* The combinations of masks and shapes are distributed over a kernel's formats; with HEADROOM_TEST=thorough each format
 * gets all. */
static void check_long(hr_device *device, const char *kernel, hr_dtype dtype)
{
  int turns, turn = turn_of(kernel, dtype, &turns);
  for (int i = 0; i < LENGTH(long_shapes); i++)
    for (int causal = 0; causal < 2; causal++) {
      hr_attention a = attention_of(&long_shapes[i], dtype, causal);
      bool has_a_turn = i % turns == turn && (i / 2 + i) % 2 == causal;
      if ((has_a_turn || test_asks_for("thorough")) && test_takes(i + causal) && !attention_takes_long(kernel, &a))
        assert_true(attention_try_large(device, kernel, &a, (uint64_t)(i * 8 + causal * 4), PARTS) !=
                    ATTENTION_NO_MEMORY);
    }
}

/* ---- more than 2^31 elements ---- */

/* More than 2^31 elements of Q and O; of K and V; of the scores, where a kernel stores them. Addresses are computed
 * alike in all formats, so each kernel is tested in one, and in fp8, whose V it may transpose. */
static const shape huge_shapes[] = {
    {16500, 77, 1024, 1024, 1024, 128}, {77, 16500, 1024, 1024, 1024, 128}, {5900, 5900, 64, 8, 16, 64}};

static void check_huge(hr_device *device, const char *kernel, hr_dtype dtype)
{
  if (!test_asks_for("thorough")) /* needs gigabytes of a GPU */
    return;
  static const char *const outcomes[] = {"compared", "refused", "not enough memory"};
  int turns, turn = turn_of(kernel, dtype, &turns);
  if (turn != turns / 2 && dtype != HR_FP8_E4M3)
    return;
  for (int i = 0; i < LENGTH(huge_shapes) && device->backend->own_memory; i++) {
    const shape *s = &huge_shapes[i];
    assert_true(s->heads * (s->q_len + s->kv_len) * s->dim > INT32_MAX || s->heads * s->q_len * s->kv_len > INT32_MAX);
    hr_attention a = attention_of(s, dtype, i == 2);
    attention_outcome outcome = attention_try_large(device, kernel, &a, (uint64_t)i * 4, PARTS);
    print_message("%s %s, %d x %d, %d heads of %d: %s\n", kernel, hr_dtype_name(dtype), (int)s->q_len, (int)s->kv_len,
                  (int)s->heads, (int)s->dim, outcomes[outcome]);
  }
}

static const fact facts[] = {
    FACT(long_sequences_give_what_the_formula_gives, check_long),
    FACT(tensors_of_more_than_2_to_the_31_elements_give_what_the_formula_gives, check_huge),
};
const fact_group attention_large_facts = {
    .name = "attention_large", .operation = "attention", .facts = facts, .count = LENGTH(facts)};
