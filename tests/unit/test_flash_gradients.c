/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by the CPU's blocked kernels: what the harness does not compare. */
#include "test.h"

#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/attention_backward.h>

#include <math.h>

#define HEADS 2
#define Q_LEN 300
#define KV_LEN 280 /* two blocks: queries 0 to 19 see no key */
#define DIM 40
#define Q_ELEMENTS (Q_LEN * HEADS * DIM)
#define KV_ELEMENTS (KV_LEN * DIM)

typedef struct call {
  _Alignas(16) float q[Q_ELEMENTS], k[KV_ELEMENTS], v[KV_ELEMENTS], o[Q_ELEMENTS], d_o[Q_ELEMENTS];
  float lse[HEADS * Q_LEN], sinks[4];
  float dq[Q_ELEMENTS], dk[KV_ELEMENTS], dv[KV_ELEMENTS], d_sinks[4];
} call;

static const char *const kernels[] = {"attention_backward_flash_avx512", "attention_backward_flash_avx2",
                                      "attention_backward_flash_neon", "attention_backward_flash_portable"};

static hr_attention problem(void)
{
  hr_attention a = hr_attention_default();
  a.dtype = HR_FP32;
  a.mask = HR_MASK_CAUSAL;
  a.q_heads = HEADS, a.q_len = Q_LEN, a.kv_len = KV_LEN;
  a.qk_dim = a.v_dim = DIM;
  return a;
}

/* The forward call's O is not needed here: any O and log-sum-exp have gradients. */
static void fill(call *c)
{
  memset(c, 0, sizeof *c);
  hr_numbers_uniform(HR_FP32, 1, 0, Q_ELEMENTS, c->q);
  hr_numbers_uniform(HR_FP32, 2, 0, KV_ELEMENTS, c->k);
  hr_numbers_uniform(HR_FP32, 3, 0, KV_ELEMENTS, c->v);
  hr_numbers_uniform(HR_FP32, 4, 0, Q_ELEMENTS, c->o);
  hr_numbers_uniform(HR_FP32, 5, 0, Q_ELEMENTS, c->d_o);
  for (int i = 0; i < HEADS * Q_LEN; i++)
    c->lse[i] = i % Q_LEN < Q_LEN - KV_LEN ? -INFINITY : logf((float)(i % Q_LEN - (Q_LEN - KV_LEN) + 1));
}

/* Returns false where the processor lacks what the kernel needs. */
static bool run(hr_device *device, const char *kernel, call *c)
{
  hr_plan *plan;
  hr_error error;
  hr_buffer *workspace;
  const hr_attention a = problem();
  hr_attention_backward options = hr_attention_backward_default();
  options.sinks = options.deterministic = true;
  hr_attention_backward_arguments x = hr_attention_backward_arguments_default();
  x.q = c->q, x.k = c->k, x.v = c->v, x.o = c->o, x.d_o = c->d_o, x.lse = c->lse, x.sinks = c->sinks;
  x.dq = c->dq, x.dk = c->dk, x.dv = c->dv, x.d_sinks = c->d_sinks;
  hr_status status = hr_plan_attention_backward(device, &a, &options, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_attention_backward(plan, &x, hr_buffer_data(workspace), NULL, &error), error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  return true;
}

static void each_kernel(void (*check)(hr_device *device, const char *kernel))
{
  hr_device *device;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    check(device, kernels[i]);
  hr_device_close(device);
}

static void check_equal_bits(hr_device *device, const char *kernel)
{
  static call first, again;
  fill(&first);
  if (!run(device, kernel, &first))
    return;
  for (int i = 0; i < 20; i++) {
    fill(&again);
    run(device, kernel, &again);
    assert_memory_equal(&first, &again, sizeof first);
  }
}

static void equal_runs_write_equal_bits_while_threads_share_the_keys_of_a_head(void **state)
{
  (void)state;
  each_kernel(check_equal_bits);
}

static void check_queries_without_keys(hr_device *device, const char *kernel)
{
  static call finite, poisoned;
  fill(&finite);
  fill(&poisoned);
  for (int i = 0; i < (Q_LEN - KV_LEN) * HEADS * DIM; i++)
    poisoned.q[i] = poisoned.o[i] = poisoned.d_o[i] = NAN;
  if (!run(device, kernel, &finite))
    return;
  run(device, kernel, &poisoned);
  for (int i = 0; i < (Q_LEN - KV_LEN) * HEADS * DIM; i++)
    assert_true(poisoned.dq[i] == 0);
  assert_memory_equal(finite.dq, poisoned.dq, sizeof finite.dq);
  assert_memory_equal(finite.dk, poisoned.dk, sizeof finite.dk);
  assert_memory_equal(finite.dv, poisoned.dv, sizeof finite.dv);
  assert_memory_equal(finite.d_sinks, poisoned.d_sinks, sizeof finite.d_sinks);
}

static void queries_without_keys_add_nothing_whatever_their_rows_contain(void **state)
{
  (void)state;
  each_kernel(check_queries_without_keys);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_runs_write_equal_bits_while_threads_share_the_keys_of_a_head),
      cmocka_unit_test(queries_without_keys_add_nothing_whatever_their_rows_contain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
