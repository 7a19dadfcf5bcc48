/* SPDX-License-Identifier: Apache-2.0 */
/* The time of attention whose keys may be split: of one or a few queries per sequence. */
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "hardware/hardware.h"
#include "schedule/decode_tiles.h"
#include "shape/kv_format.h"

#include <headroom/experimental/decode.h>
#include <math.h>

#define BLOCK_BYTES 1024 /* of shared memory, that a block takes in addition */
#define CLUSTER_MAX 16
#define DIM_MAX 256 /* of a head, that the kernel takes */
/* Empty slots of the last wave, of which the other blocks' higher rate makes up for most, and how waves overlap with
 * reading: fitted to data/results/h200/calibration.csv, docs/notes/prediction.md. */
#define EMPTY_SHARE 0.2

/* The figures are fitted to pages of 16 tokens. A contiguous cache takes 2.1% less time: 34 calls in the geometric
 * mean, data/results/h200/decode_gpu_vs_torch.csv. Larger pages lie between, by their number, which is not measured. */
#define PAGES_COST 0.021

/* Blocks and what they have under way. */
typedef struct block_plan {
  double slots;     /* blocks that run at a time */
  double in_flight; /* bytes of K and V that a multiprocessor waits for */
  double blocks, waves;
  hr_decode_split tiles;
} block_plan;

static block_plan plan_blocks(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_decode *d)
{
  const hr_decode_gpu gpu = {.multiprocessors = hardware->multiprocessors,
                             .shared_max = (size_t)hardware->shared_bytes - BLOCK_BYTES,
                             .shared_of_multiprocessor = (size_t)hardware->shared_bytes,
                             .cluster_max = cost->cluster_ns > 0 ? CLUSTER_MAX : 1,
                             .shares = true,
                             .wgmma = cost->cluster_ns > 0};
  block_plan plan = {.tiles = hr_decode_split_choose(d, &gpu)};
  const hr_decode_split *t = &plan.tiles;
  int64_t key_bytes = (t->k_heads * d->qk_dim + t->v_heads * d->v_dim) * (int64_t)hr_decode_cache_bytes(d);
  int64_t at_once = hardware->shared_bytes / ((int64_t)t->shared_bytes + BLOCK_BYTES);
  at_once = hr_max64(1, hr_min64(at_once, (int64_t)2 * t->min_blocks));
  plan.slots = (double)(at_once * hardware->multiprocessors);
  plan.in_flight = (double)(at_once * t->warps * (t->stages - 1) * HR_DECODE_WARP_KEYS * key_bytes);
  plan.blocks = (double)hr_decode_split_blocks(t, d);
  plan.waves = ceil(plan.blocks / plan.slots);
  return plan;
}

/* The time of reading in these pages over that in pages of 16. */
static double pages_share(const hr_decode *d)
{
  double smaller = HR_KV_PAGE_USUAL / (double)hr_max64(d->page_size, HR_KV_PAGE_USUAL);
  return (1 + PAGES_COST * (d->table_pitch > 1 ? smaller : 0)) / (1 + PAGES_COST);
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

const hr_decode *hr_predict_split_decode(const hr_decode *d)
{
  return d->latent || d->top_k > 0 || d->qk_dim > DIM_MAX || d->v_dim > DIM_MAX ? NULL : d;
}

/* Time of Headroom's kernel for GPUs (runtime/cuda/decode/decode_split.c) without its launch, from its thread blocks.
 * Sets the terms but those of compute and launch. */
static double decode_blocks_ns(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                               hr_prediction *p)
{
  const block_plan plan = plan_blocks(hardware, cost, call->decode);
  p->memory_ns = reading_ns(hardware, cost, call, &plan) * pages_share(call->decode);
  double start_ns = cost->element_ns * call->head_dim, slots = (double)hardware->multiprocessors;
  p->wave_ns = (plan.waves - 1) * (cost->wave_ns + start_ns);
  p->launch_ns += cost->busy_ns * fmin(1, plan.blocks / slots) + start_ns;
  p->tiles = (int64_t)plan.blocks;
  p->waves = (int64_t)plan.waves;
  p->splits = plan.tiles.splits;
  p->wave_waste = 1 - plan.blocks / (plan.waves * plan.slots);
  if (plan.tiles.splits > 1 || plan.tiles.shares > 0)
    p->split_ns = (plan.tiles.cluster > 1 ? cost->cluster_ns : cost->combine_ns) +
                  cost->combine_element_ns * (double)(plan.tiles.rows * call->decode->v_dim);
  return hr_overlap(call->compute_ns, p->memory_ns + p->wave_ns) + p->split_ns;
}

/* ---- any kernel ---- */

#define SHARED_MIN 49152   /* bytes of a multiprocessor, with which any head has room */
#define UNSPLIT_ROWS 64.0  /* query heads, and keys that cost nothing more, of a block that does not split keys */
#define UNSPLIT_KEYS 128.0 /* that one block reads: more are split where multiprocessors are idle */

static double bandwidth_share(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call)
{
  double share = cost->bandwidth_share > 0 ? cost->bandwidth_share : hardware->bandwidth_share;
  return call->rows <= 1 && cost->one_head_share > 0 ? share * cost->one_head_share : share;
}

const hr_decode_cost *hr_predict_decode_cost(const hr_hardware *hardware, hr_framework framework, bool latent, bool fp8)
{
  const bool own = framework == HR_FRAMEWORK_HEADROOM;
  const hr_decode_cost *of_latent = own ? &hardware->decode_latent_headroom : &hardware->decode_latent;
  if (latent && of_latent->launch_ns > 0)
    return of_latent;
  if (fp8 && !own && hardware->decode_fp8.launch_ns > 0)
    return &hardware->decode_fp8;
  const hr_server_cost *server = hr_server_cost_of(hardware, framework);
  if (server && server->decode.launch_ns > 0)
    return &server->decode;
  return own && hardware->decode_headroom.launch_ns > 0 ? &hardware->decode_headroom : &hardware->decode_framework;
}

double hr_predict_split_kv(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                           hr_prediction *p)
{
  double slots = (double)hardware->multiprocessors;
  p->launch_ns = fmax(cost->launch_ns, hardware->launch_ns);
  if (call->decode && cost->wave_ns > 0 && hardware->shared_bytes >= SHARED_MIN)
    return decode_blocks_ns(hardware, cost, call, p);
  /* Where blocks are known, bandwidth_share is what they reach before their latencies. */
  p->memory_ns = hr_reread_ns(hardware, call->bytes, cost->wave_ns > 0 ? 0 : bandwidth_share(hardware, cost, call));
  p->pair_ns = call->pairs / slots * (cost->pair_ns + cost->element_ns * call->head_dim);
  if (cost->key_ns > 0)
    p->pair_ns +=
        ceil(call->pairs * ceil(call->rows / UNSPLIT_ROWS) / slots) * fmax(0, call->keys - UNSPLIT_ROWS) * cost->key_ns;
  p->split_ns = cost->split_ns * fmax(0, log2(call->keys / UNSPLIT_KEYS)) * fmax(0, 1 - call->pairs / slots);
  return hr_overlap(hr_overlap(call->compute_ns, p->memory_ns), p->pair_ns) + p->split_ns;
}
