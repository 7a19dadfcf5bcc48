/* SPDX-License-Identifier: Apache-2.0 */
/* The time of Headroom's decode kernel for GPUs (runtime/cuda/decode/decode_split.c) from its thread blocks. */
#include "analysis/predict/terms.h"

#include "base/checked.h"
#include "shape/split_keys.h"

#include <math.h>

#define WARPS 8          /* of a multiprocessor */
#define WARP_KEYS 16     /* of a stage */
#define STAGES 3         /* of a warp, 2 where these do not fit; one of them is read from while the others are copied */
#define BLOCK_BYTES 1024 /* of shared memory, that a block takes in addition */
#define CLUSTER_MOST 16
#define GROUP_ROWS 16  /* query heads times queries of a group */
#define LINE_BYTES 128 /* rows of K and V are padded to */
/* Empty slots of the last wave, of which the other blocks' higher rate makes up for most, and how waves overlap with
 * reading: fitted to data/results/h200/calibration.csv, docs/prediction.md. */
#define EMPTY_SHARE 0.24
#define WAVE_EXPONENT 1.25

/* Blocks and what they have under way. */
typedef struct block_plan {
  double slots;     /* blocks that run at a time */
  double in_flight; /* bytes of K and V that a multiprocessor waits for */
  double blocks, waves;
  hr_split_choice choice;
} block_plan;

/* As hr_decode_split_choose() does, but for what only the kernel knows. */
static block_plan plan_blocks(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call)
{
  int blocks = call->groups > 2 * hardware->multiprocessors ? 2 : 1;
  int64_t warps = WARPS / blocks, stages = STAGES, stage = WARP_KEYS * call->staged_bytes;
  int64_t room = hardware->shared_bytes / blocks - BLOCK_BYTES;
  while (warps * stages * stage > room && warps > 1) {
    warps = stages == STAGES ? warps : warps / 2;
    stages = stages == STAGES ? STAGES - 1 : STAGES;
  }
  int64_t at_once = hardware->shared_bytes / (warps * stages * stage + BLOCK_BYTES);
  at_once = hr_max64(1, hr_min64(at_once, 2 * blocks));
  block_plan plan = {.slots = (double)(at_once * hardware->multiprocessors)};
  plan.in_flight = (double)(at_once * warps * (stages - 1) * WARP_KEYS * call->key_bytes);
  plan.choice = hr_divide_keys(&(hr_split_problem){.groups = call->groups,
                                                   .keys = (int64_t)call->keys,
                                                   .key_bytes = call->key_bytes,
                                                   .multiprocessors = hardware->multiprocessors,
                                                   .tile = warps * WARP_KEYS,
                                                   .blocks = blocks,
                                                   .cluster_most = cost->cluster_ns > 0 ? CLUSTER_MOST : 1});
  plan.blocks = (double)call->groups * (double)plan.choice.splits;
  plan.waves = ceil(plan.blocks / plan.slots);
  return plan;
}

/* Reading all K and V: at a share of the bandwidth, less while the last-level cache fills, and as fast as the copies
 * under way and the multiprocessor with the most blocks allow. */
static double reading_ns(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                         const block_plan *plan)
{
  double multiprocessors = (double)hardware->multiprocessors, bandwidth = hardware->bandwidth_bytes_per_s / 1e9;
  double waiting_ns = call->bytes / (multiprocessors * plan->in_flight) * cost->read_latency_ns;
  double read_ns = hr_overlap(hr_transfer_ns(hardware, call->bytes, cost->bandwidth_share), waiting_ns);
  double fill_ns = cost->fill_share * fmin(call->bytes, (double)hardware->l2_bytes) / bandwidth;
  if (plan->waves > 1)
    return read_ns * (1 + EMPTY_SHARE * (plan->waves * plan->slots / plan->blocks - 1)) + fill_ns;
  double most = ceil(plan->blocks / multiprocessors) * call->bytes / plan->blocks;
  double longest_ns = cost->reach > 0 ? most * multiprocessors / (cost->reach * bandwidth) : 0;
  return fmax(read_ns, longest_ns) + fill_ns;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
  while (b > 0) { /* Euclid's algorithm */
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

void hr_predict_set_groups(const hr_decode *d, hr_split_kv *call)
{
  if (d->latent || d->top_k > 0)
    return;
  int64_t element = (int64_t)hr_decode_cache_bytes(d), units = common_divisor(d->k_heads, d->v_heads);
  int64_t k_heads = d->k_heads / units, v_heads = d->v_heads / units;
  call->groups = d->batch * units * hr_ceil_div(d->q_heads / units * d->q_len, GROUP_ROWS);
  call->key_bytes = (k_heads * d->qk_dim + v_heads * d->v_dim) * element;
  call->staged_bytes =
      k_heads * hr_round_up(d->qk_dim * element, LINE_BYTES) + v_heads * hr_round_up(d->v_dim * element, LINE_BYTES);
}

double hr_predict_decode_blocks(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                                hr_prediction *p)
{
  const block_plan plan = plan_blocks(hardware, cost, call);
  p->memory_ns = reading_ns(hardware, cost, call, &plan);
  double later_ns = (plan.waves - 1) * cost->wave_ns, busy_ns = p->memory_ns;
  if (plan.waves > 1)
    busy_ns = pow(pow(p->memory_ns, WAVE_EXPONENT) + pow(later_ns, WAVE_EXPONENT), 1 / WAVE_EXPONENT);
  p->wave_ns = busy_ns - p->memory_ns;
  p->tiles = (int64_t)plan.blocks;
  p->waves = (int64_t)plan.waves;
  p->splits = plan.choice.splits;
  p->wave_waste = 1 - plan.blocks / (plan.waves * plan.slots);
  if (plan.choice.splits > 1)
    p->split_ns = plan.choice.cluster > 1 ? cost->cluster_ns : cost->combine_ns;
  return hr_overlap(call->compute_ns, busy_ns) + p->split_ns;
}
