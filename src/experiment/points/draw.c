/* SPDX-License-Identifier: Apache-2.0 */
/* Random points to hold predictions against. */
#include "experiment/points/limits.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/hardware.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define SIZE_MIN 16
#define LARGEST_SIZE 32768
#define GRANULE 8   /* elements */
#define ODD_EVERY 3 /* points of a kind */
#define STREAMS 9   /* of random numbers, one a kind; as many kinds as there were when the shipped points were drawn */
#define TRIES_MAX 10000 /* until a point keeps the limits */

#define GPU_MOST_S 25e-3 /* of a point */

/* Kinds take turns in this order. */
static const hr_interval_kind turns[] = {HR_INTERVAL_GEMM, HR_INTERVAL_BMM,    HR_INTERVAL_GEMM, HR_INTERVAL_ATTENTION,
                                         HR_INTERVAL_GEMM, HR_INTERVAL_DECODE, HR_INTERVAL_GEMM, HR_INTERVAL_BMM};

#define TURN_COUNT (sizeof turns / sizeof *turns)
#define DRAWN_KINDS \
  (1u << HR_INTERVAL_GEMM | 1u << HR_INTERVAL_BMM | 1u << HR_INTERVAL_ATTENTION | 1u << HR_INTERVAL_DECODE)

void hr_points_draw_options_init(hr_points_draw_options *options, size_t size)
{
  HR_INIT(options, size, (hr_points_draw_options){.seed = 1, .kinds = DRAWN_KINDS, .count = 200, .dtype = HR_BF16});
}

/* Splitmix64. Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014. */
static uint64_t next(uint64_t *state)
{
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static int64_t below(uint64_t *state, int64_t count)
{
  return (int64_t)(next(state) % (uint64_t)count);
}

static int64_t log_uniform(uint64_t *state, int64_t least, int64_t most)
{
  double u = (double)(next(state) >> 11) * 0x1p-53;
  int64_t value = (int64_t)floor((double)least * exp(u * log((double)(most + 1) / (double)least)));
  return value < least ? least : value > most ? most : value;
}

/* A size or a length. An odd one is moved up if it is a multiple of 8, another one is rounded to a multiple. */
static int64_t size_of(uint64_t *state, bool odd)
{
  int64_t size = log_uniform(state, SIZE_MIN, odd ? LARGEST_SIZE - GRANULE : LARGEST_SIZE);
  if (!odd)
    return (size + GRANULE / 2) / GRANULE * GRANULE;
  return size % GRANULE ? size : size + 1 + below(state, GRANULE - 1);
}

static hr_gemm draw_gemm(uint64_t *state, bool odd, bool batched, hr_dtype dtype)
{
  static const struct {
    bool a, b;
  } transposes[] = {{false, true}, {false, false}, {true, false}}; /* forward, the input's gradient, the weight's */
  hr_gemm g = hr_gemm_default();
  int64_t pass = below(state, 3);
  g.dtype = dtype;
  g.m = size_of(state, odd);
  g.n = size_of(state, odd);
  g.k = size_of(state, odd);
  g.batch = batched ? log_uniform(state, 2, 1024) : 1;
  g.transpose_a = transposes[pass].a, g.transpose_b = transposes[pass].b;
  return g;
}

static hr_attention draw_attention(uint64_t *state, bool odd, bool decode, hr_dtype dtype)
{
  static const int64_t sizes[] = {64, 128, 64, 128, 64, 128, 64, 128, 80, 96, 192, 256};
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.kv_len = size_of(state, odd);
  a.q_len = decode ? 1 : a.kv_len;
  a.batch = log_uniform(state, 1, decode ? 256 : 64);
  a.k_heads = a.v_heads = (int64_t)1 << below(state, 6);
  a.q_heads = a.k_heads << below(state, 4);
  a.qk_dim = a.v_dim = sizes[below(state, sizeof sizes / sizeof *sizes)];
  a.mask = decode || below(state, 4) > 0 ? HR_MASK_CAUSAL : HR_MASK_NONE;
  return a;
}

static bool is_gemm(hr_interval_kind kind)
{
  return kind == HR_INTERVAL_GEMM || kind == HR_INTERVAL_BMM;
}

/* The point number `index` of a kind. The streams of two points begin at different places of one permutation. */
static hr_status draw_point(const hr_hardware *hardware, const hr_points_draw_options *options, hr_interval_kind kind,
                            int64_t index, hr_point *point, hr_error *error)
{
  uint64_t state = options->seed;
  bool odd = index % ODD_EVERY == ODD_EVERY - 1;
  state = next(&state) + (uint64_t)index * STREAMS + (uint64_t)kind;
  state = next(&state);
  *point = (hr_point){.kind = kind, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
  for (int i = 0; i < TRIES_MAX; i++) {
    if (is_gemm(kind))
      point->gemm = draw_gemm(&state, odd, kind == HR_INTERVAL_BMM, options->dtype);
    else
      point->attention = draw_attention(&state, odd, kind == HR_INTERVAL_DECODE, options->dtype);
    if (hr_point_keeps_limits(hardware, point, GPU_MOST_S))
      return HR_OK;
  }
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no %s of %d that were drawn in %s is small enough",
                 hardware->about.name, hr_interval_kind_name(kind), TRIES_MAX, hr_dtype_name(options->dtype));
}

static hr_status check_options(const hr_points_draw_options *options, hr_error *error)
{
  if (options->count < 1 || options->count > HR_POINTS_DRAWN_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to %d, found %" PRId64, HR_POINTS_DRAWN_MAX,
                   options->count);
  if (options->kinds == 0 || (options->kinds & ~DRAWN_KINDS))
    return hr_fail(error, HR_ERROR_INVALID, "kinds: expected some of gemm, bmm, attention and decode");
  if ((unsigned)options->dtype >= HR_DTYPE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: expected a number format of the list");
  return HR_OK;
}

hr_status hr_points_draw(const hr_hardware *hardware, const hr_points_draw_options *options, hr_point **points,
                         size_t *count, hr_error *error)
{
  HR_NEED(error, hardware, options, points, count);
  HR_TAKE(hr_points_draw_options, options, error);
  HR_TRY(hr_hardware_check(hardware, error));
  HR_TRY(check_options(options, error));
  size_t wanted = (size_t)options->count, used = 0;
  int64_t drawn[HR_INTERVAL_KIND_COUNT] = {0};
  hr_point *found = calloc(wanted, sizeof *found);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", wanted);
  hr_status status = HR_OK;
  for (size_t turn = 0; used < wanted && status == HR_OK; turn++) {
    hr_interval_kind kind = turns[turn % TURN_COUNT];
    if (options->kinds & 1u << kind)
      status = draw_point(hardware, options, kind, drawn[kind]++, &found[used++], error);
  }
  if (status == HR_OK)
    *points = found, *count = wanted;
  else
    free(found);
  return status;
}
