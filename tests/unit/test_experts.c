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

/* A device with the last two experts has copies of 0 none, of 1 one; the order goes on with experts 0 and 1. */
static void a_device_places_the_copies_of_its_own_experts_first(void **state)
{
  (void)state;
  const routes r = route((hr_route_arguments){.logits = logits, .first = 2, .held = 2});
  static const int32_t offsets[] = {0, 1, 3, 5, 6}, copied[] = {1, 1, 2, 0, 2, 0}, places[] = {-1, -1, 1, 0, -1, 2},
                       experts_of[] = {0, 1, 1, -1, -1, -1};
  assert_weights(&r, (double[]){0.4, 0.3, 0.4, 0.3, 0.5, 0.3});
  assert_memory_equal(r.offsets, offsets, sizeof offsets);
  assert_memory_equal(r.copied, copied, sizeof copied);
  assert_memory_equal(r.places, places, sizeof places);
  assert_memory_equal(r.experts_of, experts_of, sizeof experts_of);
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

/* ---- gradients ---- */

/* The sum of the weights of all copies, each times a number of its place. */
static double sum_of_weights(hr_route_arguments r, const float *factors)
{
  const routes to = route(r);
  double sum = 0;
  for (int i = 0; i < TOKENS * ACTIVE; i++)
    sum += (double)(factors[to.places[i]] * to.weights[i]);
  return sum;
}

/* Central differences of weights in fp32: 6e-8 / STEP of rounding. A bias makes the choice differ from the scores. */
static void gradients_of_logits_are_those_of_finite_differences(void **state)
{
  (void)state;
  static const float factors[] = {1, -2, 0.5F, 3, 0.25F, -1}, bias[] = {0, 0.13F, -0.07F, 0.26F};
  const float step = 0x1p-8F;
  for (int i = 0; i < 12; i++) {
    float x[TOKENS][EXPERTS], found[TOKENS][EXPERTS];
    memcpy(x, logits, sizeof x);
    const hr_route_arguments r = {.sigmoid = i % 2,
                                  .normalized = i / 2 % 2,
                                  .scale = i % 3,
                                  .logits = x,
                                  .bias = i % 3 == 0 ? bias : NULL,
                                  .groups = i % 4 == 0 ? 2 : 0,
                                  .active_groups = 1};
    const routes to = route(r);
    const hr_route_backward_arguments back = {.sigmoid = r.sigmoid,
                                              .normalized = r.normalized,
                                              .scale = r.scale,
                                              .tokens = TOKENS,
                                              .experts = EXPERTS,
                                              .active = ACTIVE,
                                              .dtype = HR_FP32,
                                              .logits = x,
                                              .weights = to.weights,
                                              .chosen = to.chosen,
                                              .places = to.places,
                                              .d_weights = factors,
                                              .d_logits = found};
    memset(found, 0xFF, sizeof found);
    hr_host_route_backward(&back);
    for (int at = 0; at < TOKENS * EXPERTS; at++) {
      float *value = &x[at / EXPERTS][at % EXPERTS];
      const float before = *value;
      *value = before + step;
      const double above = sum_of_weights(r, factors);
      *value = before - step;
      const double expected = (above - sum_of_weights(r, factors)) / (2 * (double)step);
      *value = before;
      if (!(fabs((double)found[at / EXPERTS][at % EXPERTS] - expected) < 3e-4))
        fail_msg("case %d, logit %d: %g, by differences %g", i, at, (double)found[at / EXPERTS][at % EXPERTS],
                 expected);
    }
  }
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
    if (!(fabsf(x - y) <= 2e-5f * fabsf(y) + 1e-7f) && !(isnan(x) && isnan(y)))
      fail_msg("%d experts, choice %d: weight %.9g, expected %.9g", (int)found->experts, (int)i, (double)x, (double)y);
    assert_true(found->chosen[i] >= 0 && found->chosen[i] < found->experts);
  }
}

static void compare_places(const hr_route_arguments *r)
{
  int32_t place = 0;
  for (int32_t expert = 0; expert < r->experts; expert++) {
    const bool own = r->held == 0 || expert < r->held;
    assert_int_equal(r->offsets[expert], place);
    for (int64_t i = 0; i < r->tokens * r->active; i++) {
      if (r->chosen[i] != (r->first + expert) % r->experts)
        continue;
      assert_int_equal(r->places[i], own ? place : -1);
      assert_int_equal(r->experts_of[place], own ? expert : -1);
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
                                         .first = i % 3 == 1 ? size[1] / 2 : 0,
                                         .held = i % 3 == 1 ? size[1] / 4 : 0,
                                         .dtype = dtypes[i % 3]},
                    i % 2);
  }
}

/* ---- few tokens, with the router before ---- */

typedef struct router_case {
  hr_router_arguments arguments;
  tensor x, norm_weight, norm_bias, weight, bias, logits, normed, of[RESULTS];
} router_case;

static double rounded(hr_dtype dtype, double value)
{
  double there = 0;
  hr_number_store(dtype, &there, 0, value);
  return hr_number_load(dtype, &there, 0);
}

/* The norm of a row, as it is rounded. */
static void norm_row(const router_case *c, int64_t row, double *x)
{
  const hr_linear_arguments *a = &c->arguments.linear;
  const bool centred = a->norm == HR_ROWWISE_LAYER_NORM;
  double mean = 0, squares = 0;
  hr_numbers_load(a->dtype, c->x.host, (size_t)(row * a->x_stride), (size_t)a->k, x);
  if (a->norm == HR_ROWWISE_COUNT)
    return;
  for (int64_t i = 0; i < a->k; i++)
    mean += centred ? x[i] / (double)a->k : 0;
  for (int64_t i = 0; i < a->k; i++)
    squares += (x[i] - mean) * (x[i] - mean) / (double)a->k;
  for (int64_t i = 0; i < a->k; i++)
    x[i] = rounded(a->dtype, (x[i] - mean) / sqrt(squares + a->epsilon) *
                                     hr_number_load(a->dtype, c->norm_weight.host, (size_t)i) +
                                 (centred ? hr_number_load(a->dtype, c->norm_bias.host, (size_t)i) : 0));
}

/* What a norm's result may be off: the other neighbour, and fp32's own. */
static void compare_normed(const router_case *c, int64_t row, const double *x)
{
  const hr_linear_arguments *a = &c->arguments.linear;
  for (int64_t i = 0; i < a->k && a->norm != HR_ROWWISE_COUNT; i++) {
    const double found = hr_number_load(a->dtype, c->normed.host, (size_t)(row * a->k + i));
    const double bound = 2 * hr_dtype_rounding_error(a->dtype, x[i]) + 1e-6 * (1 + fabs(x[i]));
    if (!(fabs(found - x[i]) <= bound) && !(isnan(found) && isnan(x[i])))
      fail_msg("%s, k %d: norm [%d, %d] is %g, exactly %g", hr_dtype_name(a->dtype), (int)a->k, (int)row, (int)i, found,
               x[i]);
  }
}

static void compare_logits(const router_case *c, int64_t row, const double *x)
{
  const hr_linear_arguments *a = &c->arguments.linear;
  const double share = a->norm == HR_ROWWISE_COUNT ? 0 : hr_dtype_rounding_error(a->dtype, 1) / 8;
  for (int64_t column = 0; column < a->n; column++) {
    double sum = a->bias ? hr_number_load(a->dtype, c->bias.host, (size_t)column) : 0, size = fabs(sum);
    for (int64_t i = 0; i < a->k; i++) {
      const double term = x[i] * hr_number_load(a->dtype, c->weight.host, (size_t)(column * a->k + i));
      sum += term, size += fabs(term);
    }
    const double found = hr_number_load(a->dtype, c->logits.host, (size_t)(row * a->n + column));
    const double bound = size * (share + 0x1p-20 * (1 + (double)a->k / 64)) + hr_dtype_rounding_error(a->dtype, sum);
    if (!(fabs(found - sum) <= bound) && found != sum && !(isnan(found) && isnan(sum)))
      fail_msg("%s, %d experts, k %d: logit [%d, %d] is %g, exactly %g, allowed ±%g", hr_dtype_name(a->dtype),
               (int)a->n, (int)a->k, (int)row, (int)column, found, sum, bound);
  }
}

static void make_router(router_case *c, bool special)
{
  hr_error error;
  hr_linear_arguments *a = &c->arguments.linear;
  hr_route_arguments *r = &c->arguments.route;
  void *there[RESULTS];
  c->x = random_tensor(a->dtype, 1, a->rows * a->x_stride), c->weight = random_tensor(a->dtype, 2, a->n * a->k);
  c->norm_weight = random_tensor(a->dtype, 3, a->k), c->norm_bias = random_tensor(a->dtype, 4, a->k);
  c->bias = random_tensor(a->dtype, 5, a->n);
  c->logits = tensor_of((size_t)(a->rows * a->n) * hr_dtype_bytes(a->dtype));
  c->normed = tensor_of((size_t)(a->rows * a->k) * hr_dtype_bytes(a->dtype));
  for (int i = 0; i < RESULTS; i++) {
    c->of[i] = tensor_of((size_t)(i == OFFSETS ? a->n + 1 : a->rows * r->active) * 4);
    there[i] = hr_buffer_data(c->of[i].buffer);
  }
  if (special)
    hr_number_store(a->dtype, c->x.host, (size_t)((a->rows - 1) * a->x_stride), r->sigmoid ? INFINITY : (double)NAN);
  assert_ok(hr_buffer_write(c->x.buffer, c->x.host, c->x.bytes, &error), error);
  a->x = hr_buffer_data(c->x.buffer), a->weight = hr_buffer_data(c->weight.buffer);
  a->norm_weight = hr_buffer_data(c->norm_weight.buffer), a->norm_bias = hr_buffer_data(c->norm_bias.buffer);
  a->bias = a->bias ? hr_buffer_data(c->bias.buffer) : NULL;
  a->y = hr_buffer_data(c->logits.buffer), r->logits = a->y;
  c->arguments.normed = a->norm == HR_ROWWISE_COUNT ? NULL : hr_buffer_data(c->normed.buffer);
  set_results(r, there);
}

/* The choices are those of the host by the device's own logits. */
static void compare_routes(router_case *c)
{
  hr_route_arguments r = c->arguments.route, exact = r;
  tensor host[RESULTS];
  void *here[RESULTS], *expected[RESULTS];
  for (int i = 0; i < RESULTS; i++) {
    fetch(&c->of[i]);
    host[i] = tensor_of(c->of[i].bytes);
    here[i] = c->of[i].host, expected[i] = host[i].host;
  }
  exact.logits = c->logits.host;
  set_results(&exact, expected);
  hr_host_route(&exact);
  set_results(&r, here);
  compare_choices(&r, &exact);
  compare_places(&r);
  for (int i = 0; i < RESULTS; i++)
    tensor_free(&host[i]), tensor_free(&c->of[i]);
}

static void route_few_on_device(router_case *c, bool special)
{
  hr_error error;
  const hr_linear_arguments *a = &c->arguments.linear;
  make_router(c, special);
  assert_true(device->backend->routes_few(device, &c->arguments));
  assert_ok(device->backend->route_few(device, &c->arguments, hr_device_stream(device), &error), error);
  fetch(&c->logits);
  fetch(&c->normed);
  double *x = malloc((size_t)a->k * sizeof *x);
  assert_non_null(x);
  for (int64_t row = 0; row < a->rows; row++) {
    norm_row(c, row, x);
    compare_normed(c, row, x);
    compare_logits(c, row, x);
  }
  free(x);
  compare_routes(c);
  tensor *const all[] = {&c->x, &c->weight, &c->norm_weight, &c->norm_bias, &c->bias, &c->logits, &c->normed};
  for (int i = 0; i < 7; i++)
    tensor_free(all[i]);
}

/* Tokens, experts, active, groups, active groups, k: one expert a warp and several, rows that no load divides. */
static void a_gpu_routes_few_tokens_from_their_hidden_states(void **state)
{
  (void)state;
  if (!device->backend->has(device, "sm_90")) /* whose blocks work in clusters */
    skip();
  static const int64_t sizes[][6] = {{1, 8, 2, 0, 0, 128},  {1, 128, 8, 0, 0, 520},  {2, 60, 4, 0, 0, 264},
                                     {3, 33, 3, 0, 0, 51},  {5, 160, 6, 8, 3, 72},   {8, 256, 8, 8, 4, 136},
                                     {7, 16, 1, 0, 0, 100}, {1, 1024, 64, 0, 0, 40}, {4, 512, 10, 4, 2, 64}};
  static const hr_rowwise_operation norms[] = {HR_ROWWISE_RMS_NORM, HR_ROWWISE_COUNT, HR_ROWWISE_LAYER_NORM,
                                               HR_ROWWISE_RMS_NORM};
  static const int something;
  if (!device->backend->routes_few)
    return;
  for (int i = 0; i < 4 * (int)(sizeof sizes / sizeof *sizes); i++) {
    const int64_t *size = sizes[i / 4];
    router_case c = {.arguments = {.route = {.sigmoid = i % 2,
                                             .normalized = i % 3 == 0,
                                             .group_pairs = i % 4 < 2,
                                             .scale = i % 5,
                                             .tokens = size[0],
                                             .experts = size[1],
                                             .active = size[2],
                                             .groups = size[3],
                                             .active_groups = size[4],
                                             .first = i % 4 == 2 ? size[1] / 2 : 0,
                                             .held = i % 4 == 2 ? size[1] / 4 : 0,
                                             .dtype = dtypes[i % 3]},
                                   .linear = {.rows = size[0],
                                              .n = size[1],
                                              .k = size[5],
                                              .x_stride = size[5] + (i % 4 == 1 ? 8 : 0),
                                              .dtype = dtypes[i % 3],
                                              .norm = norms[i % 4],
                                              .activation = HR_ROWWISE_COUNT,
                                              .epsilon = 0.125,
                                              .bias = i % 5 < 2 ? &something : NULL}}};
    if (test_takes(i))
      route_few_on_device(&c, i % 7 == 0);
  }
}

/* These have too many weights, scores or copies, and would take other routes. */
static void a_gpu_refuses_routers_that_are_too_large(void **state)
{
  (void)state;
  static const int64_t sizes[][4] = {{9, 8, 2, 64}, {1, 256, 8, 16384}, {8, 512, 8, 64}, {8, 256, 65, 64}};
  for (int i = 0; i < 4 && device->backend->routes_few; i++) {
    const int64_t *size = sizes[i];
    const hr_router_arguments x = {
        .route = {.tokens = size[0], .experts = size[1], .active = size[2]},
        .linear = {.rows = size[0], .n = size[1], .k = size[3], .dtype = HR_BF16, .norm = HR_ROWWISE_COUNT}};
    assert_false(device->backend->routes_few(device, &x));
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

/* An element of an expert's W; of gradients of copies W is [k, n]. */
static double element_of(const hr_grouped_arguments *x, const void *b, int64_t expert, int64_t column, int64_t i)
{
  const int64_t at = x->back ? i * x->n + column : column * x->k + i;
  return hr_number_load(x->dtype, b, (size_t)(expert * x->n * x->k + at));
}

static bool is_sum(hr_dtype dtype, double found, double sum, double size, int64_t terms)
{
  const double bound = size * 0x1p-20 * (1 + (double)terms / 64) + hr_dtype_rounding_error(dtype, sum);
  return fabs(found - sum) <= bound || found == sum || (isnan(found) && isnan(sum));
}

static void compare_products(const hr_grouped_arguments *x, const int32_t *offsets, const void *a, const void *b,
                             const void *c)
{
  for (int64_t expert = 0; expert < x->experts; expert++)
    for (int64_t row = offsets[expert]; row < offsets[expert + 1]; row++)
      for (int64_t column = 0; column < x->n; column++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < x->k; i++) {
          const double term =
              hr_number_load(x->dtype, a, (size_t)(row * x->k + i)) * element_of(x, b, expert, column, i);
          sum += term, size += fabs(term);
        }
        const double found = hr_number_load(x->dtype, c, (size_t)(row * x->n + column));
        if (!is_sum(x->dtype, found, sum, size, x->k))
          fail_msg("%s, %d experts, %d copies, n %d, k %d%s: expert %d, [%d, %d] is %g, exactly %g",
                   hr_dtype_name(x->dtype), (int)x->experts, (int)x->copies, (int)x->n, (int)x->k,
                   x->back ? ", back" : "", (int)expert, (int)row, (int)column, found, sum);
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
  x.mean = x.copies > x.experts ? x.copies / x.experts : 1;
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

/* Copies and widths around tiles of 64 and 128 and depths of 16 and 32. */
static const int64_t gradient_sizes[][4] = {
    {1, 1, 8, 8},     {4, 2, 40, 64},     {5, 7, 129, 72},   {8, 20, 136, 200}, {3, 40, 64, 96},   {2, 60, 130, 136},
    {6, 300, 96, 88}, {1, 200, 128, 128}, {1, 400, 100, 64}, {2, 27, 24, 33},   {40, 90, 72, 320}, {3, 9, 256, 520},
    {3, 33, 264, 16}, {4, 131, 128, 256}, {2, 7, 1, 1},      {7, 64, 8, 1000}};
#define GRADIENT_SIZES (int)(sizeof gradient_sizes / sizeof *gradient_sizes)

static void a_gpu_multiplies_gradients_by_each_experts_weights(void **state)
{
  (void)state;
  for (int i = 0; device->backend->multiply_groups && i < 3 * GRADIENT_SIZES; i++) {
    const int64_t *size = gradient_sizes[i / 3];
    if (test_takes(i))
      multiply_on_device((hr_grouped_arguments){.back = true,
                                                .experts = size[0],
                                                .copies = size[1],
                                                .most = size[1],
                                                .n = size[2],
                                                .k = size[3],
                                                .dtype = dtypes[i % 3]},
                         i % 2);
  }
}

static void compare_gradients(const hr_grouped_gradient_arguments *x, const int32_t *offsets, const void *dy,
                              const void *input, const void *dw)
{
  for (int64_t at = 0; at < x->experts * x->n * x->k; at++) {
    const int64_t expert = at / x->k / x->n, row = at / x->k % x->n, column = at % x->k;
    double sum = 0, size = 0;
    for (int64_t copy = offsets[expert]; copy < offsets[expert + 1]; copy++) {
      const double term = hr_number_load(x->dtype, dy, (size_t)(copy * x->n + row)) *
                          hr_number_load(x->dtype, input, (size_t)(copy * x->k + column));
      sum += term, size += fabs(term);
    }
    const double found = hr_number_load(x->dtype, dw, (size_t)at);
    if (!is_sum(x->dtype, found, sum, size, x->copies))
      fail_msg("%s, %d experts, %d copies: dW [%d, %d, %d] of [%d, %d] is %g, exactly %g", hr_dtype_name(x->dtype),
               (int)x->experts, (int)x->copies, (int)expert, (int)row, (int)column, (int)x->n, (int)x->k, found, sum);
  }
}

/* `special`: one copy has a NaN and an infinity, which must not reach another expert. */
static void weigh_on_device(hr_grouped_gradient_arguments x, bool special)
{
  hr_error error;
  tensor dy = random_tensor(x.dtype, 1, x.copies * x.n), input = random_tensor(x.dtype, 2, x.copies * x.k);
  tensor dw = tensor_of((size_t)(x.experts * x.n * x.k) * hr_dtype_bytes(x.dtype));
  tensor offsets = tensor_of((size_t)(x.experts + 1) * 4);
  const hr_grouped_arguments sizes = {.experts = x.experts, .copies = x.copies};
  fill_offsets(&sizes, offsets.host);
  if (special) {
    hr_number_store(x.dtype, dy.host, (size_t)((x.copies - 1) * x.n), (double)NAN);
    hr_number_store(x.dtype, input.host, (size_t)((x.copies - 1) * x.k + x.k / 2), (double)INFINITY);
  }
  tensor *const all[] = {&dy, &input, &offsets, &dw};
  for (int i = 0; i < 3; i++)
    assert_ok(hr_buffer_write(all[i]->buffer, all[i]->host, all[i]->bytes, &error), error);
  x.dy = hr_buffer_data(dy.buffer), x.x = hr_buffer_data(input.buffer), x.dw = hr_buffer_data(dw.buffer);
  x.offsets = hr_buffer_data(offsets.buffer);
  assert_ok(device->backend->group_gradients(device, &x, hr_device_stream(device), &error), error);
  fetch(&dw);
  compare_gradients(&x, offsets.host, dy.host, input.host, dw.host);
  for (int i = 0; i < 4; i++)
    tensor_free(all[i]);
}

static void a_gpu_adds_up_each_experts_gradients_and_zeros_for_none(void **state)
{
  (void)state;
  for (int i = 0; device->backend->group_gradients && i < 3 * GRADIENT_SIZES; i++) {
    const int64_t *size = gradient_sizes[i / 3];
    if (test_takes(i))
      weigh_on_device(
          (hr_grouped_gradient_arguments){
              .experts = size[0], .copies = size[1], .n = size[2], .k = size[3], .dtype = dtypes[i % 3]},
          i % 2);
  }
}

/* From the choice of the host. */
static void route_back_on_device(hr_route_arguments r)
{
  hr_error error;
  const size_t copies = (size_t)(r.tokens * r.active);
  tensor scores = random_tensor(r.dtype, 5, r.tokens * r.experts),
         d_weights = random_tensor(HR_FP32, 6, (int64_t)copies);
  tensor d_logits = tensor_of(scores.bytes), of[RESULTS];
  void *here[RESULTS];
  for (int i = 0; i < RESULTS; i++) {
    of[i] = tensor_of((i == OFFSETS ? (size_t)r.experts + 1 : copies) * 4);
    here[i] = of[i].host;
  }
  r.logits = scores.host;
  set_results(&r, here);
  hr_host_route(&r);
  for (int i = 0; i < RESULTS; i++)
    assert_ok(hr_buffer_write(of[i].buffer, of[i].host, of[i].bytes, &error), error);
  hr_route_backward_arguments exact = {.sigmoid = r.sigmoid,
                                       .normalized = r.normalized,
                                       .scale = r.scale,
                                       .tokens = r.tokens,
                                       .experts = r.experts,
                                       .active = r.active,
                                       .dtype = r.dtype,
                                       .logits = scores.host,
                                       .weights = r.weights,
                                       .chosen = r.chosen,
                                       .places = r.places,
                                       .d_weights = d_weights.host,
                                       .d_logits = malloc(scores.bytes)};
  hr_route_backward_arguments there = exact;
  there.logits = hr_buffer_data(scores.buffer), there.d_logits = hr_buffer_data(d_logits.buffer);
  there.weights = hr_buffer_data(of[WEIGHTS].buffer), there.chosen = hr_buffer_data(of[CHOSEN].buffer);
  there.places = hr_buffer_data(of[PLACES].buffer), there.d_weights = hr_buffer_data(d_weights.buffer);
  assert_ok(device->backend->route_backward(device, &there, hr_device_stream(device), &error), error);
  fetch(&d_logits);
  hr_host_route_backward(&exact);
  for (int64_t i = 0; i < r.tokens * r.experts; i++) {
    const double found = hr_number_load(r.dtype, d_logits.host, (size_t)i);
    const double expected = hr_number_load(r.dtype, exact.d_logits, (size_t)i);
    if (!(fabs(found - expected) <= 1e-5 * (1 + fabs(r.scale)) + 2 * hr_dtype_rounding_error(r.dtype, expected)))
      fail_msg("%d experts, logit %d: %.9g, expected %.9g", (int)r.experts, (int)i, found, expected);
  }
  free(exact.d_logits);
  for (int i = 0; i < RESULTS; i++)
    tensor_free(&of[i]);
  tensor_free(&scores), tensor_free(&d_weights), tensor_free(&d_logits);
}

static void a_gpu_has_the_gradients_of_logits_of_the_host(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{1, 4, 1},   {3, 8, 2},     {70, 128, 8}, {33, 60, 4},
                                     {5, 160, 6}, {9, 1024, 64}, {600, 33, 3}, {2, 72, 9}};
  for (int i = 0; device->backend->route_backward && i < 3 * (int)(sizeof sizes / sizeof *sizes); i++) {
    const int64_t *size = sizes[i / 3];
    if (test_takes(i))
      route_back_on_device((hr_route_arguments){.sigmoid = i % 2,
                                                .normalized = i / 2 % 2,
                                                .scale = i % 5,
                                                .tokens = size[0],
                                                .experts = size[1],
                                                .active = size[2],
                                                .dtype = dtypes[i % 3]});
  }
}

/* `rows` of a plan's 9: what is behind the first stays as it was. */
static void compute_first_rows(hr_rowwise_operation operation, hr_dtype dtype, int32_t rows)
{
  enum { ALL = 9, COLUMNS = 40 };
  hr_error error;
  hr_plan *plan;
  const size_t row = COLUMNS * hr_dtype_bytes(dtype);
  const bool gathers = operation == HR_ROWWISE_GATHER;
  hr_rowwise r = hr_rowwise_default();
  r.operation = operation, r.dtype = dtype, r.rows = ALL, r.columns = COLUMNS, r.period = gathers ? ALL : 0;
  tensor x = random_tensor(dtype, 1, ALL * COLUMNS), numbers = tensor_of(ALL * sizeof(int32_t));
  tensor count = tensor_of(sizeof rows), y = tensor_of(ALL * row), whole = tensor_of(ALL * row);
  for (int32_t i = 0; i < ALL; i++)
    ((int32_t *)numbers.host)[i] = ALL - 1 - i;
  memcpy(count.host, &rows, sizeof rows);
  assert_ok(hr_buffer_write(numbers.buffer, numbers.host, numbers.bytes, &error), error);
  assert_ok(hr_buffer_write(count.buffer, count.host, count.bytes, &error), error);
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  a.inputs[0] = hr_buffer_data(gathers ? numbers.buffer : x.buffer), a.inputs[1] = hr_buffer_data(x.buffer);
  a.output = hr_buffer_data(whole.buffer);
  assert_ok(hr_plan_rowwise(device, &r, NULL, &plan, &error), error);
  tensor workspace = tensor_of(hr_plan_workspace_bytes(plan) + 1);
  void *room = hr_buffer_data(workspace.buffer);
  assert_ok(hr_plan_run_rowwise(plan, &a, room, hr_device_stream(device), &error), error);
  a.output = hr_buffer_data(y.buffer), a.row_count = hr_buffer_data(count.buffer);
  assert_ok(hr_plan_run_rowwise(plan, &a, room, hr_device_stream(device), &error), error);
  fetch(&y), fetch(&whole);
  const size_t written = (size_t)(rows < ALL ? rows : ALL) * row;
  assert_memory_equal(y.host, whole.host, written);
  for (size_t i = written; i < y.bytes; i++)
    assert_int_equal(((const uint8_t *)y.host)[i], 0xFF);
  hr_plan_free(plan);
  tensor *const all[] = {&x, &numbers, &count, &y, &whole, &workspace};
  for (int i = 0; i < 6; i++)
    tensor_free(all[i]);
}

static void rows_behind_a_number_on_the_device_are_not_computed(void **state)
{
  (void)state;
  for (int i = 0; i < 12; i++) {
    const int32_t rows = i % 4 == 0 ? 0 : i % 4 == 1 ? 5 : i % 4 == 2 ? 9 : 100;
    compute_first_rows(HR_ROWWISE_SWIGLU, dtypes[i % 3], rows);
    compute_first_rows(HR_ROWWISE_GATHER, dtypes[i % 3], rows);
  }
}

static void operations_of_whole_rows_take_no_number_of_them(void **state)
{
  (void)state;
  hr_error error;
  hr_plan *plan;
  hr_rowwise r = hr_rowwise_default();
  r.operation = HR_ROWWISE_SOFTMAX, r.dtype = HR_FP32, r.rows = 2, r.columns = 8;
  tensor x = random_tensor(HR_FP32, 1, 16), y = tensor_of(64);
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  a.inputs[0] = hr_buffer_data(x.buffer), a.output = hr_buffer_data(y.buffer), a.row_count = a.inputs[0];
  assert_ok(hr_plan_rowwise(device, &r, NULL, &plan, &error), error);
  assert_int_equal(hr_plan_run_rowwise(plan, &a, NULL, NULL, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "row_count: softmax computes all rows");
  hr_plan_free(plan);
  tensor_free(&x), tensor_free(&y);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_behind_a_number_on_the_device_are_not_computed),
      cmocka_unit_test(operations_of_whole_rows_take_no_number_of_them),
      cmocka_unit_test(tokens_are_sorted_by_their_experts),
      cmocka_unit_test(a_device_places_the_copies_of_its_own_experts_first),
      cmocka_unit_test(experts_are_of_the_best_groups_with_the_bias_for_the_choice_alone),
      cmocka_unit_test(weights_are_divided_by_their_sum_and_scaled),
      cmocka_unit_test(logits_that_are_no_numbers_choose_experts_that_exist),
      cmocka_unit_test(a_gpu_chooses_the_experts_of_the_host),
      cmocka_unit_test(a_gpu_routes_few_tokens_from_their_hidden_states),
      cmocka_unit_test(a_gpu_refuses_routers_that_are_too_large),
      cmocka_unit_test(gradients_of_logits_are_those_of_finite_differences),
      cmocka_unit_test(a_gpu_multiplies_each_experts_copies),
      cmocka_unit_test(a_gpu_multiplies_gradients_by_each_experts_weights),
      cmocka_unit_test(a_gpu_adds_up_each_experts_gradients_and_zeros_for_none),
      cmocka_unit_test(a_gpu_has_the_gradients_of_logits_of_the_host)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
