/* SPDX-License-Identifier: Apache-2.0 */
/* The experts that a router chooses, the places of tokens that are sorted by them, and the GEMMs of each expert's; with
 * HEADROOM_TEST=gpu those of a GPU against those of the host. */
#include "device_tensors.h"

#include "runtime/device/experts.h"

#include <math.h>

enum { TOKENS = 3, EXPERTS = 4, ACTIVE = 2 };

typedef struct routes {
  float weights[TOKENS * ACTIVE];
  int32_t chosen[TOKENS * ACTIVE], places[TOKENS * ACTIVE], copied[TOKENS * ACTIVE], experts_of[TOKENS * ACTIVE],
      offsets[EXPERTS + 1];
} routes;

static routes route(hr_route_arguments r)
{
  routes to = {0};
  r.tokens = TOKENS, r.experts = EXPERTS, r.active = ACTIVE;
  r.dtype = HR_FP32;
  r.weights = to.weights, r.chosen = to.chosen, r.places = to.places, r.copied = to.copied;
  r.experts_of = to.experts_of, r.offsets = to.offsets;
  hr_host_route(&r);
  return to;
}

static void assert_weights(const routes *found, const double *expected)
{
  for (int i = 0; i < TOKENS * ACTIVE; i++)
    if (!(fabs((double)found->weights[i] - expected[i]) < 1e-6))
      fail_msg("weight %d is %g, expected %g", i, (double)found->weights[i], expected[i]);
}

/* Softmax of logarithms: shares 4 3 2 1, 1 2 3 4 and 5 1 1 3 of 10. */
static const float logits[TOKENS][EXPERTS] = {
    {1.3862944F, 1.0986123F, 0.6931472F, 0}, {0, 0.6931472F, 1.0986123F, 1.3862944F}, {1.6094379F, 0, 0, 1.0986123F}};

static void tokens_are_sorted_by_their_experts(void **state)
{
  (void)state;
  const routes r = route((hr_route_arguments){.logits = logits});
  static const int32_t offsets[] = {0, 2, 3, 4, 6}, copied[] = {0, 2, 0, 1, 1, 2}, places[] = {0, 2, 4, 3, 1, 5};
  assert_weights(&r, (double[]){0.4, 0.3, 0.4, 0.3, 0.5, 0.3});
  assert_memory_equal(r.offsets, offsets, sizeof offsets);
  assert_memory_equal(r.copied, copied, sizeof copied);
  assert_memory_equal(r.places, places, sizeof places);
}

/* Sums of the two groups of two: 0.7 and 0.3, 0.3 and 0.7, 0.6 and 0.4; a bias of 0.5 of the last expert turns the
 * first, 0.8, and the third, 0.9, but not the weights. */
static void experts_are_of_the_best_groups_with_the_bias_for_the_choice_alone(void **state)
{
  (void)state;
  const float bias[EXPERTS] = {0, 0, 0, 0.5F};
  hr_route_arguments r = {.logits = logits, .groups = 2, .active_groups = 1, .group_pairs = true};
  routes to = route(r);
  assert_weights(&to, (double[]){0.4, 0.3, 0.4, 0.3, 0.5, 0.1});
  r.bias = bias;
  to = route(r);
  assert_weights(&to, (double[]){0.1, 0.2, 0.4, 0.3, 0.3, 0.1});
}

/* Equal sigmoids: a half of 2.5 each; of equal experts the first are chosen. */
static void weights_are_divided_by_their_sum_and_scaled(void **state)
{
  (void)state;
  const float equal[TOKENS][EXPERTS] = {{0}};
  const routes r = route((hr_route_arguments){.logits = equal, .sigmoid = true, .normalized = true, .scale = 2.5});
  assert_weights(&r, (double[]){1.25, 1.25, 1.25, 1.25, 1.25, 1.25});
  assert_int_equal(r.offsets[1], TOKENS);
  assert_int_equal(r.offsets[2], 2 * TOKENS);
}

static void logits_that_are_no_numbers_choose_experts_that_exist(void **state)
{
  (void)state;
  float broken[TOKENS][EXPERTS];
  for (int i = 0; i < TOKENS * EXPERTS; i++)
    broken[i / EXPERTS][i % EXPERTS] = NAN;
  const routes r = route((hr_route_arguments){.logits = broken, .groups = 2, .active_groups = 1});
  for (int i = 0; i < TOKENS * ACTIVE; i++)
    assert_true(r.places[i] >= 0 && r.places[i] < TOKENS * ACTIVE && isnan(r.weights[i]));
  assert_int_equal(r.offsets[EXPERTS], TOKENS * ACTIVE);
}

/* ---- on a GPU ---- */

static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16};

enum { WEIGHTS, CHOSEN, PLACES, COPIED, EXPERTS_OF, OFFSETS, RESULTS };

static void set_results(hr_route_arguments *r, void *const *of)
{
  r->weights = of[WEIGHTS], r->chosen = of[CHOSEN], r->places = of[PLACES], r->copied = of[COPIED];
  r->experts_of = of[EXPERTS_OF], r->offsets = of[OFFSETS];
}

/* Choices by fp32 scores may differ from those by float64 where two are nearly equal: those of the device are taken
 * over where their scores are. The places follow from the choices. */
static void compare_choices(const hr_route_arguments *found, const hr_route_arguments *expected)
{
  for (int64_t i = 0; i < found->tokens * found->active; i++) {
    const float x = found->weights[i], y = expected->weights[i];
    if (!(fabsf(x - y) <= 2e-5f * fabsf(y) + 1e-7f))
      fail_msg("%d experts, choice %d: weight %.9g, expected %.9g", (int)found->experts, (int)i, (double)x, (double)y);
    assert_true(found->chosen[i] >= 0 && found->chosen[i] < found->experts);
  }
}

static void compare_places(const hr_route_arguments *r)
{
  int32_t place = 0;
  for (int32_t expert = 0; expert < r->experts; expert++) {
    assert_int_equal(r->offsets[expert], place);
    for (int64_t i = 0; i < r->tokens * r->active; i++) {
      if (r->chosen[i] != expert)
        continue;
      assert_int_equal(r->places[i], place);
      assert_int_equal(r->experts_of[place], expert);
      assert_int_equal(r->copied[place], i / r->active);
      place++;
    }
  }
  assert_int_equal(r->offsets[r->experts], place);
}

static void route_on_device(hr_route_arguments r, bool biased)
{
  hr_error error;
  tensor scores = random_tensor(r.dtype, 5, r.tokens * r.experts), bias = random_tensor(HR_FP32, 6, r.experts);
  const size_t words[RESULTS] = {[0 ... EXPERTS_OF] = (size_t)(r.tokens * r.active), [OFFSETS] = (size_t)r.experts + 1};
  tensor of[RESULTS], host[RESULTS];
  void *there[RESULTS], *here[RESULTS], *expected[RESULTS];
  for (int i = 0; i < RESULTS; i++) {
    of[i] = tensor_of(words[i] * 4), host[i] = tensor_of(words[i] * 4);
    there[i] = hr_buffer_data(of[i].buffer), here[i] = of[i].host, expected[i] = host[i].host;
  }
  hr_route_arguments exact = r;
  r.logits = hr_buffer_data(scores.buffer), exact.logits = scores.host;
  r.bias = biased ? hr_buffer_data(bias.buffer) : NULL, exact.bias = biased ? bias.host : NULL;
  set_results(&r, there);
  set_results(&exact, expected);
  assert_ok(device->backend->route(device, &r, hr_device_stream(device), &error), error);
  for (int i = 0; i < RESULTS; i++)
    fetch(&of[i]);
  hr_host_route(&exact);
  set_results(&r, here);
  compare_choices(&r, &exact);
  compare_places(&r);
  for (int i = 0; i < RESULTS; i++)
    tensor_free(&of[i]), tensor_free(&host[i]);
  tensor_free(&scores);
  tensor_free(&bias);
}

static void a_gpu_chooses_the_experts_of_the_host(void **state)
{
  (void)state;
  static const int64_t sizes[][5] = {{1, 4, 1, 0, 0},    {3, 8, 2, 0, 0},     {70, 128, 8, 0, 0},  {33, 60, 4, 0, 0},
                                     {17, 256, 8, 8, 4}, {5, 160, 6, 8, 3},   {9, 1024, 64, 0, 0}, {600, 33, 3, 0, 0},
                                     {2, 72, 9, 72, 9},  {129, 512, 10, 4, 2}};
  if (!device->backend->route)
    return;
  for (int i = 0; i < 3 * (int)(sizeof sizes / sizeof *sizes); i++) {
    const int64_t *size = sizes[i / 3];
    if (!test_takes(i))
      continue;
    route_on_device((hr_route_arguments){.sigmoid = i % 2,
                                         .normalized = i % 3 == 0,
                                         .group_pairs = i % 4 < 2,
                                         .scale = i % 5,
                                         .tokens = size[0],
                                         .experts = size[1],
                                         .active = size[2],
                                         .groups = size[3],
                                         .active_groups = size[4],
                                         .dtype = dtypes[i % 3]},
                    i % 2);
  }
}

/* The first expert has none, the second all that are left of one each for the others, every third none. */
static void fill_offsets(const hr_grouped_arguments *x, int32_t *offsets)
{
  int64_t others = 0;
  offsets[0] = 0;
  for (int64_t i = 2; i < x->experts; i++)
    others += i % 3 != 0;
  for (int64_t i = 0; i < x->experts; i++) {
    const bool alone = x->experts < 3;
    int64_t count = i == 0 ? (alone ? x->copies : 0) : i == 1 ? (alone ? 0 : x->copies - others) : i % 3 != 0;
    offsets[i + 1] = offsets[i] + (int32_t)count;
  }
}

static void compare_products(const hr_grouped_arguments *x, const int32_t *offsets, const void *a, const void *b,
                             const void *c)
{
  for (int64_t expert = 0; expert < x->experts; expert++)
    for (int64_t row = offsets[expert]; row < offsets[expert + 1]; row++)
      for (int64_t column = 0; column < x->n; column++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < x->k; i++) {
          const double term = hr_number_load(x->dtype, a, (size_t)(row * x->k + i)) *
                              hr_number_load(x->dtype, b, (size_t)((expert * x->n + column) * x->k + i));
          sum += term, size += fabs(term);
        }
        const double found = hr_number_load(x->dtype, c, (size_t)(row * x->n + column));
        const double bound = size * 0x1p-20 * (1 + (double)x->k / 64) + hr_dtype_rounding_error(x->dtype, sum);
        if (!(fabs(found - sum) <= bound) && !(isnan(found) && isnan(sum)))
          fail_msg("%s, %d experts, %d copies, n %d, k %d: expert %d, [%d, %d] is %g, exactly %g",
                   hr_dtype_name(x->dtype), (int)x->experts, (int)x->copies, (int)x->n, (int)x->k, (int)expert,
                   (int)row, (int)column, found, sum);
      }
}

/* `special`: of each copy a NaN, which must not reach another. */
static void multiply_on_device(hr_grouped_arguments x, bool special)
{
  hr_error error;
  tensor a = random_tensor(x.dtype, 1, x.copies * x.k), b = random_tensor(x.dtype, 2, x.experts * x.n * x.k);
  tensor c = tensor_of((size_t)(x.copies * x.n) * hr_dtype_bytes(x.dtype));
  tensor offsets = tensor_of((size_t)(x.experts + 1) * 4);
  fill_offsets(&x, offsets.host);
  if (special)
    hr_number_store(x.dtype, a.host, (size_t)(x.copies / 2 * x.k), (double)NAN);
  assert_ok(hr_buffer_write(a.buffer, a.host, a.bytes, &error), error);
  assert_ok(hr_buffer_write(offsets.buffer, offsets.host, offsets.bytes, &error), error);
  x.a = hr_buffer_data(a.buffer), x.b = hr_buffer_data(b.buffer), x.c = hr_buffer_data(c.buffer);
  x.offsets = hr_buffer_data(offsets.buffer);
  assert_ok(device->backend->multiply_groups(device, &x, hr_device_stream(device), &error), error);
  fetch(&c);
  compare_products(&x, offsets.host, a.host, b.host, c.host);
  tensor *const all[] = {&a, &b, &c, &offsets};
  for (int i = 0; i < 4; i++)
    tensor_free(all[i]);
}

/* Copies for each tile of the programs, rows of W and k that are none of a tile's. */
static void a_gpu_multiplies_each_experts_copies(void **state)
{
  (void)state;
  static const int64_t sizes[][4] = {{1, 1, 8, 8},      {4, 2, 40, 64},    {5, 7, 129, 72},   {8, 20, 136, 200},
                                     {3, 40, 64, 96},   {2, 60, 130, 136}, {6, 300, 96, 88},  {1, 200, 128, 128},
                                     {1, 400, 100, 64}, {2, 27, 24, 33},   {40, 90, 72, 320}, {3, 9, 256, 520}};
  if (!device->backend->multiply_groups)
    return;
  for (int i = 0; i < 3 * (int)(sizeof sizes / sizeof *sizes); i++) {
    const int64_t *size = sizes[i / 3];
    if (!test_takes(i))
      continue;
    multiply_on_device(
        (hr_grouped_arguments){
            .experts = size[0], .copies = size[1], .most = size[1], .n = size[2], .k = size[3], .dtype = dtypes[i % 3]},
        i % 2);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_sorted_by_their_experts),
      cmocka_unit_test(experts_are_of_the_best_groups_with_the_bias_for_the_choice_alone),
      cmocka_unit_test(weights_are_divided_by_their_sum_and_scaled),
      cmocka_unit_test(logits_that_are_no_numbers_choose_experts_that_exist),
      cmocka_unit_test(a_gpu_chooses_the_experts_of_the_host),
      cmocka_unit_test(a_gpu_multiplies_each_experts_copies)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
