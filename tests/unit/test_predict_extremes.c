/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions of any sizes on devices with any figures that hr_hardware_check() takes: finite times, or an error. The
 * sanitizers report overflows that results do not show. */
#include "test.h"

#include "analysis/predict/step.h"
#include "hardware/figures.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ROUNDS 20000
#define FIGURES_MAX 6 /* that a round changes */
#define DEVICES 4

static uint64_t next(uint64_t *random)
{
  *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u; /* Knuth, MMIX */
  return *random >> 33;
}

/* Small sizes more often: most products of large ones overflow. */
static int64_t size_of(uint64_t *random)
{
  static const int64_t large[] = {
      511, 512, 513, 4096, 50257, (int64_t)1 << 20, ((int64_t)1 << 20) + 1, INT32_MAX, 1 << 30, (int64_t)1 << 40};
  uint64_t draw = next(random);
  if (draw % 4 == 0)
    return large[draw / 4 % (sizeof large / sizeof *large)];
  return (int64_t)(draw / 4 % (draw % 4 == 1 ? 3 : 130)) + 1;
}

/* Where a number may be: 0, at the ends of its bounds, and between them. */
typedef enum corner { AT_ZERO, AT_MIN, AT_MAX, BETWEEN, CORNERS } corner;

static double number_at(const hr_device_figure *figure, corner where)
{
  const hr_figure_bounds *bounds = figure->bounds;
  const double numbers[CORNERS] = {0, bounds->least, bounds->most, sqrt(bounds->least * bounds->most)};
  return figure->zero || where != AT_ZERO ? numbers[where] : bounds->least;
}

/* Some figures of one device at once, so that they meet in ratios and products. */
static void change_figures(hr_hardware *h, uint64_t *random)
{
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  for (uint64_t i = 0; i < FIGURES_MAX; i++) {
    const hr_device_figure *f = &figures[next(random) % count];
    size_t numbers = hr_device_figure_numbers(h, f);
    if (numbers > 0)
      hr_device_figure_set(h, f, next(random) % numbers, number_at(f, (corner)(next(random) % CORNERS)));
  }
}

static void change_counts(hr_hardware *h, uint64_t *random)
{
  int64_t *const counts[] = {&h->multiprocessors, &h->l2_bytes, &h->shared_bytes, &h->tile_k_bytes, &h->split_k_bytes};
  static const int64_t values[] = {0, 1, 2, 63, 300, 100000, 1000000};
  uint64_t draw = next(random);
  if (draw % 3 == 0)
    *counts[draw / 3 % (sizeof counts / sizeof *counts)] =
        values[next(random) % (sizeof values / sizeof *values)] * (draw % 5 == 0 ? 1000 : 1);
  if (draw % 7 == 0)
    h->alignment_count = 0;
  if (draw % 7 == 1)
    h->attention_count = 0;
  for (size_t i = 0; draw % 7 == 2 && i < h->tile_count; i++)
    h->tiles[i] = (hr_tile){1 + (int64_t)(next(random) % 65), 1 + (int64_t)(next(random) % 65), 0.001};
}

static bool is_time(double ns)
{
  return isfinite(ns) && ns >= 0;
}

static bool is_share(double share)
{
  return share >= 0 && share <= 1 + 1e-9;
}

/* Whether all terms of a prediction can be. */
static bool is_sound(const hr_prediction *p)
{
  const double times[] = {p->time_ns,  p->low_ns,   p->high_ns,     p->matrix_ns,    p->tile_ns,
                          p->store_ns, p->wave_ns,  p->memory_ns,   p->launch_ns,    p->pair_ns,
                          p->split_ns, p->cache_ns, p->rounding_ns, p->alignment_ns, p->reduction_ns};
  const double shares[] = {p->efficiency, p->tile_waste, p->wave_waste, p->alignment_loss};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    if (!is_time(times[i]))
      return false;
  }
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    if (!is_share(shares[i]))
      return false;
  }
  return p->time_ns > 0 && p->low_ns <= p->time_ns && p->time_ns <= p->high_ns && p->clock_ns <= 0 && p->tiles >= 0 &&
         p->waves >= 0 && p->splits >= 0 && p->tile_m >= 0 && p->tile_n >= 0;
}

static void assert_predicted(const char *call, int round, hr_status status, const hr_prediction *p)
{
  if (status != HR_OK)
    assert_true(status == HR_ERROR_OVERFLOW || status == HR_ERROR_INVALID || status == HR_ERROR_UNSUPPORTED);
  else if (!is_sound(p))
    fail_msg(
        "%s of round %d: time %g (%g to %g), matrix %g, tile %g, store %g, wave %g, memory %g, launch %g, pair %g, "
        "split %g, alignment %g, reduction %g, clock %g; waste %g, %g, loss %g, tiles %" PRId64 " in %" PRId64,
        call, round, p->time_ns, p->low_ns, p->high_ns, p->matrix_ns, p->tile_ns, p->store_ns, p->wave_ns, p->memory_ns,
        p->launch_ns, p->pair_ns, p->split_ns, p->alignment_ns, p->reduction_ns, p->clock_ns, p->tile_waste,
        p->wave_waste, p->alignment_loss, p->tiles, p->waves);
}

/* In turn: a GPU with a figure for everything, one with row_share, one without figures for attention, a CPU. */
static void read_devices(hr_hardware devices[DEVICES])
{
  static const char *const names[DEVICES] = {"h200", "v100-sxm2-16gb", "mi300x", "xeon-sapphire-rapids"};
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < DEVICES; i++)
    assert_ok(hr_resolve_hardware(names[i], &devices[i], &error), error);
}

static hr_gemm some_gemm(uint64_t *random)
{
  hr_gemm g = hr_gemm_default();
  g.m = size_of(random), g.n = size_of(random), g.k = size_of(random);
  uint64_t draw = next(random);
  g.batch = draw % 4 == 0 ? size_of(random) : 1;
  g.transpose_a = draw & 1, g.broadcast_b = draw & 2;
  g.dtype = draw % 16 == 0 ? HR_FP32 : HR_BF16;
  return g;
}

static hr_attention some_attention(uint64_t *random)
{
  hr_attention a = hr_attention_default();
  uint64_t draw = next(random);
  a.batch = size_of(random), a.q_len = draw % 3 == 0 ? 1 : size_of(random), a.kv_len = size_of(random);
  a.k_heads = 1 + (int64_t)(next(random) % 4), a.v_heads = a.k_heads * (1 + (int64_t)(next(random) % 3));
  a.q_heads = a.v_heads * (draw % 5 == 0 ? size_of(random) : 1 + (int64_t)(next(random) % 16));
  a.qk_dim = size_of(random), a.v_dim = size_of(random);
  a.mask = draw & 8 ? HR_MASK_NONE : HR_MASK_CAUSAL;
  a.window = a.mask == HR_MASK_CAUSAL && draw & 16 ? size_of(random) : 0;
  return a;
}

static hr_scan_call some_scan(uint64_t *random)
{
  hr_scan_call s = hr_scan_call_default();
  s.recurrence = (hr_recurrence)(1 + next(random) % 6), s.updates = next(random) & 1;
  s.batch = size_of(random), s.tokens = s.updates ? 1 : size_of(random), s.heads = size_of(random);
  s.head_dim = size_of(random), s.groups = size_of(random), s.state = size_of(random);
  s.chunk = next(random) & 1 ? 0 : size_of(random);
  return s;
}

static hr_expert_call some_experts(uint64_t *random)
{
  hr_expert_call e = hr_expert_call_default();
  e.tokens = size_of(random), e.rows = e.tokens * (1 + (int64_t)(next(random) % 8));
  e.hidden = size_of(random), e.width = size_of(random), e.experts = size_of(random), e.gated = next(random) & 1;
  return e;
}

static hr_collective some_collective(uint64_t *random)
{
  hr_collective c = hr_collective_default();
  c.kind = (hr_collective_kind)(next(random) % HR_COLLECTIVE_COUNT), c.devices = 2, c.bytes = size_of(random);
  if (c.kind != HR_POINT_TO_POINT)
    c.devices += (int64_t)(next(random) % 100);
  return c;
}

/* Returns how many of the calls were predicted. */
static int predict_calls(const hr_hardware *device, uint64_t *random, int round)
{
  int predicted = 0;
  hr_prediction p;
  hr_status status;
  hr_gemm gemm = some_gemm(random);
  hr_attention attention = some_attention(random);
  hr_scan_call scan = some_scan(random);
  hr_expert_call experts = some_experts(random);
  hr_collective collective = some_collective(random);
  assert_predicted("gemm", round, hr_predict_gemm(device, &gemm, &p, NULL), &p);
  assert_predicted("scan", round, hr_predict_scan(device, &scan, &p, NULL), &p);
  assert_predicted("collective", round, hr_predict_collective(device, &collective, &p, NULL), &p);
  const hr_framework callers[] = {HR_FRAMEWORK_COMPILED, HR_FRAMEWORK_EAGER, HR_FRAMEWORK_HEADROOM,
                                  (hr_framework)(HR_FRAMEWORK_TRTLLM + round % 3)};
  for (size_t by = 0; by < sizeof callers / sizeof *callers; by++) {
    status = hr_predict_attention_by(device, &attention, callers[by], &p, NULL);
    predicted += status == HR_OK;
    assert_predicted("attention", round, status, &p);
    assert_predicted("experts", round, hr_predict_experts(device, &experts, callers[by], &p, NULL), &p);
  }
  hr_decode decode = hr_decode_default();
  if (hr_decode_from_attention(&attention, &decode, NULL) != HR_OK)
    return predicted;
  decode.top_k = round % 16 == 0 ? 100 : 0;
  for (size_t by = 0; by < sizeof callers / sizeof *callers; by++)
    assert_predicted("decode", round, hr_predict_decode_by(device, &decode, callers[by], &p, NULL), &p);
  return predicted;
}

static void set_conditions(hr_hardware *device, int round)
{
  device->about.cache = round & 4 ? HR_CACHE_WARM : HR_CACHE_COLD;
  device->about.clock = round & 8 ? HR_CLOCK_BURST : HR_CLOCK_SETTLED;
}

static void predictions_of_any_call_on_any_device_are_finite_times_or_errors(void **state)
{
  (void)state;
  static hr_hardware devices[DEVICES], device;
  uint64_t random = 5;
  int64_t usable = 0, predicted = 0;
  read_devices(devices);
  for (int round = 0; round < ROUNDS; round++) {
    device = devices[round % DEVICES];
    change_figures(&device, &random);
    change_counts(&device, &random);
    set_conditions(&device, round);
    if (hr_hardware_check(&device, NULL) != HR_OK)
      continue;
    usable++;
    predicted += predict_calls(&device, &random, round);
  }
  assert_true(usable > ROUNDS / 2 && predicted > ROUNDS / 2);
}

/* ---- every figure ---- */

/* Row-wise operations, collectives and GEMMs of a step; a model with an odd vocabulary. */
static void predict_steps(const hr_hardware *device, const char *figure, int round)
{
  static hr_step step;
  hr_model model = hr_model_default();
  model.hidden = 2560, model.vocabulary = 50257;
  hr_layer_group *layer = &model.groups[0];
  layer->count = 3, layer->dense.width = 6827, layer->dense.gated = true;
  layer->attention.q_heads = layer->attention.k_heads = layer->attention.v_heads = 32;
  layer->attention.qk_dim = layer->attention.v_dim = 80;
  hr_workload workload = hr_workload_default(&model);
  workload.phase = round & 1 ? HR_PHASE_TRAIN : HR_PHASE_DECODE;
  workload.dtype = hr_hardware_usual_dtype(device);
  workload.attention = round & 2 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
  workload.tensor_parallel = device->interconnect_bytes_per_s > 0 ? 2 : 1;
  hr_status status = hr_fill_step(device, &model, &workload, &step, NULL);
  if (status != HR_OK) {
    assert_true(status == HR_ERROR_OVERFLOW || status == HR_ERROR_UNSUPPORTED);
    return;
  }
  for (size_t i = 0; i < step.operators.count; i++)
    assert_predicted(figure, round, HR_OK, &step.predictions[i]);
  assert_true(step.about.time_ns > 0 && is_time(step.about.time_ns) && is_time(step.about.low_ns) &&
              is_time(step.about.high_ns));
}

static void every_figure_at_either_end_of_its_bounds_predicts_positive_finite_times(void **state)
{
  (void)state;
  static hr_hardware devices[DEVICES], device;
  uint64_t random = 7;
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  int usable = 0, rounds = 0;
  read_devices(devices);
  for (size_t i = 0; i < DEVICES * count * CORNERS; i++, rounds++) {
    const hr_device_figure *figure = &figures[i / DEVICES % count];
    device = devices[i % DEVICES];
    for (size_t at = 0; at < hr_device_figure_numbers(&device, figure); at++)
      hr_device_figure_set(&device, figure, at, number_at(figure, (corner)(i / DEVICES / count)));
    set_conditions(&device, rounds);
    if (hr_hardware_check(&device, NULL) != HR_OK)
      continue;
    usable++;
    for (int calls = 0; calls < 3; calls++)
      predict_calls(&device, &random, rounds);
    predict_steps(&device, figure->field ? figure->field : figure->object, rounds);
  }
  assert_true(usable > rounds * 9 / 10);
}

/* A step beyond an end is refused, with the name of the figure. */
static void a_figure_beyond_its_bounds_is_refused_by_name(void **state)
{
  (void)state;
  static hr_hardware devices[DEVICES], device;
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  read_devices(devices);
  for (size_t i = 0; i < count; i++) {
    const hr_device_figure *f = &figures[i];
    const double beyond[] = {f->integer ? -1 : f->bounds->least / 2, f->bounds->most * 2, -1, (double)NAN};
    for (size_t k = 0; k < (f->integer ? 3 : 4) && !f->former; k++) {
      hr_error error = {HR_OK, ""};
      device = devices[0];
      if (hr_device_figure_numbers(&device, f) == 0 || hr_device_figure_allows(f, beyond[k]))
        continue;
      hr_device_figure_set(&device, f, 0, beyond[k]);
      assert_int_equal(hr_hardware_check(&device, &error), HR_ERROR_INVALID);
      assert_non_null(strstr(error.message, f->object ? f->object : f->field));
      assert_non_null(strstr(error.message, "expected"));
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_of_any_call_on_any_device_are_finite_times_or_errors),
      cmocka_unit_test(every_figure_at_either_end_of_its_bounds_predicts_positive_finite_times),
      cmocka_unit_test(a_figure_beyond_its_bounds_is_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
