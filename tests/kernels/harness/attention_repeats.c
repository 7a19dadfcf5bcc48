/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel gives the same bits in every run: with its operands at other addresses, its blocks in another order, and NaN
 * in its workspace and results before. */
#include "attention_call.h"

/* Causal, so that a kernel's atomic counter, if any, distributes the Q tiles; and more Q tiles than multiprocessors, so
 * that blocks process several. */
static attention_setup asked_of(hr_device *device, const char *kernel, hr_dtype dtype)
{
  attention_setup setup = {.a = hr_attention_default(), .seed = 9, .at_start = true};
  hr_attention *a = &setup.a;
  bool gpu = device->backend->own_memory;
  a->dtype = dtype;
  a->q_len = gpu ? 200 : 150, a->kv_len = test_asks_for("few") ? 210 : 250;
  a->q_heads = gpu ? 96 : 12, a->k_heads = 4, a->v_heads = 12;
  a->qk_dim = a->v_dim = 16;
  if (attention_takes_long(kernel, a))
    a->q_len = 9, a->kv_len = 11;
  return setup;
}

/* A thousand runs in the kernel's first format, and in fp8, where a launch that transposes V may come before it; the
 * order of blocks does not depend on the format. */
static int runs_of(const char *kernel, hr_dtype dtype, bool gpu)
{
  int turns;
  bool first = turn_of(kernel, dtype, &turns) == 0 || dtype == HR_FP8_E4M3;
  if (test_asks_for("few"))
    return first ? 2 : 0;
  if (!gpu && !test_asks_for("thorough"))
    return first ? 200 : 10;
  return first ? 1000 : 5;
}

static void compare(const attention_call *c, const char *kernel, int run, const char *o, const char *lse)
{
  char text[512];
  const place *arrays = c->arrays;
  for (size_t i = 0; i < arrays[ARRAY_O].bytes; i++) {
    if (arrays[ARRAY_O].host[i] != o[i])
      fail_msg("%s %s: byte %zu of O differs in run %d", kernel, attention_words(c, text), i, run);
  }
  if (memcmp(arrays[ARRAY_LSE].host, lse, arrays[ARRAY_LSE].bytes) != 0)
    fail_msg("%s %s: the log-sum-exp differs in run %d", kernel, attention_words(c, text), run);
}

static char *copy_of(const place *array)
{
  char *copy = malloc(array->bytes);
  assert_non_null(copy);
  memcpy(copy, array->host, array->bytes);
  return copy;
}

static void check_repeats(hr_device *device, const char *kernel, hr_dtype dtype)
{
  attention_setup setup = asked_of(device, kernel, dtype);
  int runs = runs_of(kernel, dtype, device->backend->own_memory), repeated = 0, moved = 0;
  uint64_t random = 1;
  attention_call c;
  if (runs == 0)
    return;
  attention_open(device, &setup, &c);
  if (attention_run(&c, kernel)) {
    char *o = copy_of(&c.arrays[ARRAY_O]), *lse = copy_of(&c.arrays[ARRAY_LSE]);
    for (int run = 1; run < runs; run++) {
      if (!test_takes(run - 1))
        continue;
      const void *q = c.arguments.q;
      attention_move(&c, &random);
      moved += c.arguments.q != q;
      assert_true(attention_run(&c, kernel));
      compare(&c, kernel, run, o, lse);
      repeated++;
    }
    assert_true(moved >= repeated / 2);
    free(o);
    free(lse);
  }
  attention_close(&c);
}

static const fact facts[] = {
    FACT(a_thousand_runs_anywhere_in_memory_give_the_same_bits, check_repeats),
};
const fact_group attention_repeats_facts = {
    .name = "attention_repeats", .operation = "attention", .facts = facts, .count = LENGTH(facts)};
