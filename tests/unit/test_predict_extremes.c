/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions of any sizes on devices with any figures that hr_hardware_check() takes: finite times, or an error. The
 * sanitizers report overflows that results do not show. */
#include "test.h"

#include <headroom/headroom.h>

#include <inttypes.h>
#include <math.h>

#define ROUNDS 20000
#define FIGURES_MOST 6 /* that a round changes */

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

/* A figure and the numbers at the ends of what is allowed; 0 is allowed for all. */
typedef struct figure {
  double *number;
  double least, most;
} figure;

#define DECODE(cost)                                                                                          \
  {&(cost).launch_ns, 1e-9, 1e9}, {&(cost).bandwidth_share, 0.001, 1}, {&(cost).pair_ns, 1e-9, 1e9},          \
      {&(cost).split_ns, 1e-9, 1e9}, {&(cost).compute_share, 0.001, 2}, {&(cost).key_ns, 1e-9, 1e9},          \
      {&(cost).wave_ns, 1e-9, 1e9}, {&(cost).busy_ns, 1e-9, 1e9}, {&(cost).combine_element_ns, 1e-9, 1e9},    \
      {&(cost).combine_ns, 1e-9, 1e9}, {&(cost).cluster_ns, 1e-9, 1e9}, {&(cost).read_latency_ns, 1e-9, 1e9}, \
      {&(cost).fill_share, 0.001, 4}, {&(cost).reach, 0.001, 256}, {&(cost).element_ns, 1e-9, 1e9},
#define PREFILL(cost)                                                                       \
  {&(cost).launch_ns, 1e-9, 1e9}, {&(cost).block_ns, 1e-9, 1e9}, {&(cost).share, 0.001, 4}, \
      {&(cost).element_ns, 1e-9, 1e9}, {&(cost).load_share, 0.001, 1}, {&(cost).busy_ns, 1e-9, 1e9},

static void change_figures(hr_hardware *h, uint64_t *random)
{
  const figure figures[] = {{&h->error_band, 1e-9, 100},
                            {&h->bandwidth_bytes_per_s, 1, 1e18},
                            {&h->load_share, 0.001, 1},
                            {&h->store_share, 0.001, 1},
                            {&h->sector_store_share, 0.001, 1},
                            {&h->store_exposed, 1e-9, 1},
                            {&h->boost, 1e-9, 4},
                            {&h->burst, 1, 4},
                            {&h->cache_bytes_per_s, 1, 1e18},
                            {&h->reach, 0.1, 1e6},
                            {&h->split_ns, 1e-9, 1e9},
                            {&h->launch_ns, 1e-9, 1e9},
                            {&h->product_launch_ns, 1e-9, 1e9},
                            {&h->narrow_store, 1e-9, 1000},
                            {&h->attention_block_ns, 1e-9, 1e9},
                            {&h->prefill_launch_ns, 1e-9, 1e9},
                            {&h->wide.launch_ns, 1e-9, 1e9},
                            {&h->wide.refill_ns, 1e-9, 1e9},
                            {&h->wide.matrix_share, 0.001, 4},
                            {&h->wide.row_ns, 1e-9, 1e9},
                            {&h->wide.idle_share, 0.001, 1},
                            {&h->wide.load_16, 0.001, 100},
                            {&h->wide.store_bytes_per_ns, 0.001, 1e5},
                            {&h->wide.sector_bytes_per_ns, 0.001, 1e7},
                            {&h->wide.fill_ns, 1e-9, 1e9},
                            {&h->wide.part_ns, 1e-9, 1e9},
                            {&h->odd.launch_ns, 1e-9, 1e9},
                            {&h->odd.latency_ns, 1e-9, 1e9},
                            {&h->odd.row_ns, 1e-9, 1e9},
                            {&h->odd.store, 0.001, 1000},
                            {&h->odd.part_ns, 1e-9, 1e9},
                            {&h->library_share[HR_BF16], 0.001, 1},
                            {&h->dense_flops_per_s[HR_BF16], 1e6, 1e18},
                            DECODE(h->decode_framework) DECODE(h->decode_headroom) PREFILL(h->prefill_headroom)
                                PREFILL(h->prefill_latent)};
  for (uint64_t i = 0; i < FIGURES_MOST; i++) {
    const figure *f = &figures[next(random) % (sizeof figures / sizeof *figures)];
    uint64_t draw = next(random) % 8;
    *f->number = draw == 0 ? 0 : draw < 3 ? f->least : draw < 5 ? f->most : sqrt(f->least * f->most);
  }
}

static void change_counts(hr_hardware *h, uint64_t *random)
{
  int64_t *const counts[] = {&h->multiprocessors, &h->l2_bytes,      &h->shared_bytes,
                             &h->tile_k_bytes,    &h->split_k_bytes, &h->narrow_k_bytes};
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
  return p->low_ns <= p->time_ns && p->time_ns <= p->high_ns && p->clock_ns <= 0 && p->tiles >= 0 && p->waves >= 0 &&
         p->splits >= 0 && p->tile_m >= 0 && p->tile_n >= 0;
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

/* In turn: a GPU with a figure for everything, one without figures for attention, a CPU. */
static void read_devices(hr_hardware devices[3])
{
  static const char *const names[3] = {"h200", "mi300x", "xeon-sapphire-rapids"};
  hr_error error = {.status = HR_OK};
  for (int i = 0; i < 3; i++)
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

static void predictions_of_any_call_on_any_device_are_finite_times_or_errors(void **state)
{
  (void)state;
  static hr_hardware devices[3], device;
  uint64_t random = 5;
  int64_t usable = 0, predicted = 0;
  read_devices(devices);
  for (int round = 0; round < ROUNDS; round++) {
    device = devices[round % 3];
    change_figures(&device, &random);
    change_counts(&device, &random);
    device.cache = round & 4 ? HR_CACHE_WARM : HR_CACHE_COLD;
    device.clock = round & 8 ? HR_CLOCK_BURST : HR_CLOCK_SETTLED;
    if (hr_hardware_check(&device, NULL) != HR_OK)
      continue;
    usable++;
    hr_prediction p;
    hr_gemm gemm = some_gemm(&random);
    assert_predicted("gemm", round, hr_predict_gemm(&device, &gemm, &p, NULL), &p);
    hr_attention attention = some_attention(&random);
    for (int by = HR_FRAMEWORK_COMPILED; by <= HR_FRAMEWORK_HEADROOM; by++) {
      hr_status status = hr_predict_attention_by(&device, &attention, (hr_framework)by, &p, NULL);
      predicted += status == HR_OK;
      assert_predicted("attention", round, status, &p);
    }
    hr_decode decode;
    if (hr_decode_from_attention(&attention, &decode, NULL) != HR_OK)
      continue;
    decode.top_k = round % 16 == 0 ? 100 : 0;
    assert_predicted("decode", round, hr_predict_decode(&device, &decode, &p, NULL), &p);
  }
  assert_true(usable > ROUNDS / 2 && predicted > ROUNDS / 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_of_any_call_on_any_device_are_finite_times_or_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
