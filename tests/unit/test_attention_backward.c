/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention: the problem, and the reference against finite differences of the forward reference. */
#include "test.h"

#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/attention_backward.h>

#include <math.h>

#define ELEMENTS_MAX 600

enum { Q, K, V, DO, O, DQ, DK, DV, TENSORS };

typedef struct call {
  hr_device *device;
  hr_attention a;
  hr_attention_backward options;
  _Alignas(64) double tensors[TENSORS][ELEMENTS_MAX]; /* packed */
  float lse[ELEMENTS_MAX], slopes[8], sinks[8], d_sinks[8];
  int32_t first_keys[64];
  double step, allowed; /* of differences */
} call;

static int64_t elements_of(const call *c, int which)
{
  const hr_attention *a = &c->a;
  if (which == Q || which == DQ)
    return a->batch * a->q_len * a->q_heads * a->qk_dim;
  if (which == K || which == DK)
    return a->batch * a->kv_len * a->k_heads * a->qk_dim;
  if (which == V || which == DV)
    return a->batch * a->kv_len * a->v_heads * a->v_dim;
  return a->batch * a->q_len * a->q_heads * a->v_dim;
}

static hr_buffer *workspace_of(const call *c, const hr_plan *plan)
{
  hr_buffer *buffer;
  hr_error error;
  assert_ok(hr_buffer_create(c->device, hr_plan_workspace_bytes(plan) + 1, &buffer, &error), error);
  return buffer;
}

static void run_forward(call *c)
{
  hr_plan *plan;
  hr_error error;
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = c->tensors[Q], x.k = c->tensors[K], x.v = c->tensors[V], x.o = c->tensors[O];
  x.lse = c->lse, x.alibi_slopes = c->slopes, x.first_keys = c->first_keys;
  assert_ok(hr_plan_attention(c->device, &c->a, NULL, &plan, &error), error);
  hr_buffer *space = workspace_of(c, plan);
  assert_ok(hr_plan_run_attention(plan, &x, hr_buffer_data(space), NULL, &error), error);
  hr_buffer_free(space);
  hr_plan_free(plan);
}

/* Sinks add a term to the softmax's sum. */
static void attend(call *c)
{
  run_forward(c);
  for (int64_t i = 0; c->options.sinks && i < c->a.batch * c->a.q_len * c->a.q_heads; i++) {
    int64_t head = i % c->a.q_heads, token = i / c->a.q_heads;
    int64_t at = (token / c->a.q_len * c->a.q_heads + head) * c->a.q_len + token % c->a.q_len;
    double both = log(exp((double)c->lse[at]) + exp((double)c->sinks[head]));
    for (int64_t d = 0; d < c->a.v_dim; d++)
      c->tensors[O][i * c->a.v_dim + d] *= exp((double)c->lse[at] - both);
    c->lse[at] = (float)both;
  }
}

static void run_backward(call *c)
{
  hr_plan *plan;
  hr_error error;
  hr_attention_backward_arguments x = hr_attention_backward_arguments_default();
  x.q = c->tensors[Q], x.k = c->tensors[K], x.v = c->tensors[V], x.o = c->tensors[O], x.d_o = c->tensors[DO];
  x.dq = c->tensors[DQ], x.dk = c->tensors[DK], x.dv = c->tensors[DV];
  x.lse = c->lse, x.alibi_slopes = c->slopes, x.first_keys = c->first_keys;
  x.sinks = c->sinks, x.d_sinks = c->d_sinks;
  assert_ok(hr_plan_attention_backward(c->device, &c->a, &c->options, NULL, &plan, &error), error);
  hr_buffer *space = workspace_of(c, plan);
  assert_ok(hr_plan_run_attention_backward(plan, &x, hr_buffer_data(space), NULL, &error), error);
  hr_buffer_free(space);
  hr_plan_free(plan);
}

/* Σ dO · O, whose gradients dQ, dK, dV and d_sinks are. */
static double loss(call *c)
{
  double sum = 0;
  attend(c);
  for (int64_t i = 0; i < elements_of(c, O); i++)
    sum += c->tensors[DO][i] * c->tensors[O][i];
  return sum;
}

static double slope_of(call *c, double *at)
{
  double kept = *at;
  *at = kept + c->step;
  double above = loss(c);
  *at = kept - c->step;
  double below = loss(c);
  *at = kept;
  return (above - below) / (2 * c->step);
}

static void compare_with_differences(call *c)
{
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &c->device, &error), error);
  for (int which = Q; which <= DO; which++)
    hr_numbers_uniform(HR_FP64, 7 + (uint64_t)which, 0, ELEMENTS_MAX, c->tensors[which]);
  hr_attention_alibi_slopes(c->a.q_heads, c->slopes);
  hr_numbers_uniform(HR_FP32, 3, 0, 8, c->sinks);
  attend(c);
  run_backward(c);
  for (int which = Q; which <= V; which++)
    for (int64_t i = 0; i < elements_of(c, which); i++) {
      double found = c->tensors[DQ + which][i], expected = slope_of(c, &c->tensors[which][i]);
      if (!(fabs(found - expected) < c->allowed))
        fail_msg("softcap %g, tensor %d, element %d: %.9g, differences give %.9g", (double)c->a.softcap, which, (int)i,
                 found, expected);
    }
  for (int64_t head = 0; c->options.sinks && head < c->a.q_heads; head++) {
    float kept = c->sinks[head];
    c->sinks[head] = kept + 0x1p-10F;
    double above = loss(c);
    c->sinks[head] = kept - 0x1p-10F;
    double below = loss(c);
    c->sinks[head] = kept;
    assert_true(fabs((double)c->d_sinks[head] - (above - below) * 0x1p9) < 1e-5);
  }
  hr_device_close(c->device);
}

static call small_call(void)
{
  call c = {.a = hr_attention_default(), .options = hr_attention_backward_default(), .step = 1e-5, .allowed = 1e-6};
  c.a.dtype = HR_FP64;
  c.a.batch = 2, c.a.q_len = 4, c.a.kv_len = 5;
  c.a.q_heads = 4, c.a.k_heads = 2, c.a.v_heads = 4;
  c.a.qk_dim = 3, c.a.v_dim = 2;
  return c;
}

static void gradients_are_slopes_of_the_forward_reference(void **state)
{
  (void)state;
  static call c;
  c = small_call();
  compare_with_differences(&c);
  c = small_call();
  c.a.mask = HR_MASK_NONE, c.a.softcap = 1.5F, c.a.k_heads = 4, c.a.v_heads = 1;
  compare_with_differences(&c);
  c = small_call();
  c.a.window = 2, c.a.alibi = true, c.a.scale = -0.7F, c.a.softcap = 2;
  compare_with_differences(&c);
}

static void gradients_of_sinks_and_behind_first_keys_are_slopes(void **state)
{
  (void)state;
  static call c;
  c = small_call();
  c.options.sinks = true;
  c.step = 1e-3, c.allowed = 3e-5; /* the loss has the log-sum-exp in fp32 */
  compare_with_differences(&c);
  c = small_call();
  c.a.first_keys = true;
  for (int i = 0; i < 8; i++)
    c.first_keys[i] = i % 4 / 2 * 2;
  compare_with_differences(&c);
}

static void a_query_without_keys_has_no_part_in_gradients(void **state)
{
  (void)state;
  static call c;
  hr_error error;
  c = small_call();
  c.a.q_len = 5, c.a.kv_len = 4, c.a.batch = 1; /* query 0 sees no key */
  assert_ok(hr_device_open("reference", 0, &c.device, &error), error);
  for (int which = Q; which <= DO; which++)
    hr_numbers_uniform(HR_FP64, 7 + (uint64_t)which, 0, ELEMENTS_MAX, c.tensors[which]);
  attend(&c);
  for (int d = 0; d < 2; d++)
    c.tensors[DO][d] = (double)NAN;
  run_backward(&c);
  for (int64_t i = 0; i < c.a.q_heads * c.a.qk_dim; i++)
    assert_true(c.tensors[DQ][i] == 0);
  for (int64_t i = 0; i < elements_of(&c, DV); i++)
    assert_true(isfinite(c.tensors[DV][i]));
  hr_device_close(c.device);
}

static void refusals_name_the_field(void **state)
{
  (void)state;
  hr_error error;
  hr_attention a = hr_attention_default();
  hr_attention_backward b = hr_attention_backward_default();
  assert_int_equal(hr_attention_backward_check(&a, NULL, &error), HR_OK);
  a.q_heads = 0;
  assert_int_equal(hr_attention_backward_check(&a, &b, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "q_heads: expected at least 1, found 0"));
  a = hr_attention_default();
  a.dtype = HR_FP8_E4M3;
  assert_int_equal(hr_attention_backward_check(&a, &b, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "dtype: gradients are in a wider format than fp8");
  a = hr_attention_default();
  a.kv_len = 4;
  b.dk_strides = (hr_strides){.batch = 0, .row = 8, .head = 64};
  assert_int_equal(hr_attention_backward_check(&a, &b, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "dk_strides: 0, 8, 64: elements overlap");
  b = hr_attention_backward_default();
  b.do_strides = (hr_strides){.batch = -1, .row = 64, .head = 64};
  assert_int_equal(hr_attention_backward_check(&a, &b, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "do_strides: -1, 64, 64 must not be negative");
}

static void counts_are_those_of_five_products(void **state)
{
  (void)state;
  int64_t forward, backward, bytes, bytes_forward;
  hr_attention a = hr_attention_default();
  a.batch = 2, a.q_len = a.kv_len = 128, a.q_heads = 8, a.k_heads = a.v_heads = 2;
  assert_int_equal(hr_attention_flops(&a, &forward), HR_OK);
  assert_int_equal(hr_attention_backward_flops(&a, &backward), HR_OK);
  assert_int_equal(2 * backward, 5 * forward);
  assert_int_equal(hr_attention_bytes(&a, &bytes_forward), HR_OK);
  assert_int_equal(hr_attention_backward_bytes(&a, &bytes), HR_OK);
  assert_int_equal(bytes, 2 * bytes_forward + 2 * 8 * 128 * 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_slopes_of_the_forward_reference),
                                     cmocka_unit_test(gradients_of_sinks_and_behind_first_keys_are_slopes),
                                     cmocka_unit_test(a_query_without_keys_has_no_part_in_gradients),
                                     cmocka_unit_test(refusals_name_the_field),
                                     cmocka_unit_test(counts_are_those_of_five_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
