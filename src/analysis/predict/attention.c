/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a fused attention kernel, which keeps the scores on the chip. */
#include "analysis/predict/flash.h"
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"

#include <headroom/experimental/attention_backward.h>
#include <headroom/experimental/predict.h>
#include <inttypes.h>
#include <math.h>

/* Most and fewest rows of a Q tile and rows of a K/V tile of such kernels, on every recent device. */
#define Q_TILE 128
#define Q_TILE_MIN 16
/* Bytes of shared memory from which on CUDA kernels have the largest Q tile; AMD's 64 KiB suffice for its kernels. */
#define CUDA_SHARED_MIN 98304
#define LARGE_TILE_SHARED 131072
#define LARGE_TILE_DIM 128 /* head size up to which others have the largest Q tile without a mask, too */
#define KV_TILE 128
#define SMALL_KV_TILE 64 /* of servers' kernels where shared memory is small */
/* Rows of a matrix instruction: split-KV computes this many, even if fewer query heads share a K head. */
#define INSTRUCTION_ROWS 16
#define MANY_KEYS 8 /* keys for each query, from which on frameworks split them; an estimate */
/* Head sizes are padded to a multiple of this. */
#define HEAD_GRANULE 16

/* What a call computes and moves, and how fast. */
typedef struct call_work {
  int64_t entries; /* of the scores of one query head of one sequence */
  int64_t flops, bytes;
  double library_rate, rate; /* FLOP/s of the library's best GEMM, and of fused attention */
  hr_prefill_cost cost;
  bool server; /* the kernel is that of an inference server */
} call_work;

/* FLOPs of one score entry with both head sizes padded. */
static double entry_flops(const hr_attention *a)
{
  return 2.0 * (double)(hr_round_up(a->qk_dim, HEAD_GRANULE) + hr_round_up(a->v_dim, HEAD_GRANULE));
}

/* How a kernel cuts a call: each Q tile has the rows of `group` query heads of a K head. */
typedef struct call_tiles {
  int64_t group, q_tile, kv_tile;
  int64_t last; /* keys to whose multiple the loop along the keys of a Q tile goes */
} call_tiles;

/* Score entries of the heads of a Q tile that a kernel computes: whole Q tiles and, on each edge of the mask, half of
 * the tiles that the edge crosses. */
static double computed_entries(const hr_attention *a, const call_tiles *t, double entries)
{
  double packed = (double)(a->q_len * t->group), rows = (double)hr_round_up(a->q_len * t->group, t->q_tile);
  double whole = rows * (double)hr_round_up(a->kv_len, t->kv_tile);
  double edges = a->mask == HR_MASK_NONE ? 0 : a->window > 0 && a->window < a->kv_len ? 2 : 1;
  double crossed = (double)t->q_tile / (double)t->group + (double)t->kv_tile;
  double padded = entries * (double)t->group * rows / packed + edges * rows * crossed / 4.0;
  return fmin(padded, whole);
}

/* Kernels for short sequences have smaller tiles, and so have those for a little shared memory, except without a mask
 * for heads of up to 128 (FlashAttention-2 2.8, flash_fwd_launch_template.h). Servers' kernels may pack the query heads
 * of a K head into a Q tile (FlashAttention-3 2.8, pack_gqa.h; FlashInfer 0.2, scheduler.cuh) and end their loops along
 * the keys before a whole K/V tile. */
static call_tiles tiles_of(const hr_hardware *hardware, const hr_attention *a, const call_work *w)
{
  const bool small = hardware->shared_bytes >= CUDA_SHARED_MIN && hardware->shared_bytes < LARGE_TILE_SHARED;
  call_tiles t = {.group = 1, .q_tile = Q_TILE_MIN, .kv_tile = KV_TILE, .last = KV_TILE};
  if (w->server) {
    const double packed = a->window > 0 ? w->cost.packed_window_share : w->cost.packed_share;
    const int64_t heads = a->q_heads / hr_max64(a->k_heads, a->v_heads);
    t = (call_tiles){hr_max64(1, (int64_t)(packed * (double)heads)), Q_TILE_MIN, small ? SMALL_KV_TILE : KV_TILE,
                     INSTRUCTION_ROWS};
  }
  const bool halved = small && (a->mask != HR_MASK_NONE || hr_max64(a->qk_dim, a->v_dim) > LARGE_TILE_DIM);
  while (t.q_tile < (halved ? Q_TILE / 2 : Q_TILE) && t.q_tile < a->q_len * t.group)
    t.q_tile *= 2;
  return t;
}

/* Latent attention in its expanded form is the one whose V heads are smaller than its K heads. */
static bool is_latent(const hr_attention *a)
{
  return a->v_dim < a->qk_dim && a->k_heads == a->q_heads;
}

/* The cost of the kernel that a framework has for a call; without a launch where the device's file has none. */
static hr_prefill_cost kernel_cost(const hr_hardware *hardware, const hr_attention *a, hr_framework framework,
                                   bool server)
{
  if (framework == HR_FRAMEWORK_HEADROOM)
    return hardware->prefill_headroom;
  if (is_latent(a))
    return hardware->prefill_latent;
  if (hr_dtype_bytes(a->dtype) == 1)
    return hardware->prefill_fp8;
  const hr_server_cost *own = hr_server_cost_of(hardware, framework);
  if (server && own && own->prefill.launch_ns > 0)
    return own->prefill;
  if (server)
    return hardware->prefill_server;
  return a->mask == HR_MASK_NONE ? hardware->prefill_full : (hr_prefill_cost){.launch_ns = 0};
}

static hr_prefill_cost prefill_cost(const hr_hardware *hardware, const hr_attention *a, hr_framework framework,
                                    bool server)
{
  hr_attention_share share = hr_predict_attention_share(hardware, hr_max64(a->qk_dim, a->v_dim));
  hr_prefill_cost cost = kernel_cost(hardware, a, framework, server);
  if (!(cost.launch_ns > 0))
    cost = (hr_prefill_cost){.launch_ns = hardware->launch_ns};
  if (cost.block_ns == 0)
    cost.block_ns = hardware->attention_block_ns;
  cost.block_ns += cost.element_ns * (double)hr_max64(a->qk_dim, a->v_dim);
  if (a->window > 0 && cost.window_launch_ns > 0)
    cost.launch_ns = cost.window_launch_ns;
  if (cost.share == 0)
    cost.share = framework == HR_FRAMEWORK_HEADROOM ? share.headroom_share
                 : hr_dtype_bytes(a->dtype) == 1    ? share.fp8_share
                                                    : 0;
  if (cost.share == 0 && a->mask == HR_MASK_NONE)
    cost.share = share.full_share;
  if (cost.share == 0)
    cost.share = share.forward_share * (cost.forward_share > 0 ? cost.forward_share : 1);
  return cost;
}

/* One Q tile per slot. Without a mask all tiles take equally long and the last wave may be partly empty. With a mask
 * the long tiles run first and the short ones fill the gaps, so that the longest tile bounds the time from below; where
 * servers' kernels have about as many tiles as slots, it adds to the time before, too. */
static double q_tiles_ns(const hr_hardware *hardware, const hr_attention *a, const call_work *w, hr_prediction *p)
{
  const call_tiles t = tiles_of(hardware, a, w);
  double slots = (double)hardware->multiprocessors;
  double heads = (double)a->q_heads / (double)t.group * (double)a->batch;
  double blocks = (double)hr_ceil_div(a->q_len * t.group, t.q_tile) * heads;
  double slot_rate = w->rate / slots / 1e9, block_ns = w->cost.block_ns, entries = (double)w->entries;
  double columns = (double)hr_round_up(a->kv_len, t.last);
  if (a->window > 0)
    columns = fmin(columns, (double)hr_round_up(hr_min64(a->window, a->kv_len), t.last) + (double)t.last);
  double key_ns = fmax((double)t.q_tile * entry_flops(a) / slot_rate, w->cost.key_ns);
  double longest_ns = columns * key_ns + block_ns, computed = computed_entries(a, &t, entries);
  double filled_ns = computed * entry_flops(a) * heads / (slot_rate * slots) + blocks / slots * block_ns;
  double waves = ceil(blocks / slots);
  double even_ns = a->mask == HR_MASK_NONE ? waves * filled_ns * slots / blocks : filled_ns;
  double busy_ns = w->server ? hr_overlap(even_ns, longest_ns) : fmax(even_ns, longest_ns);
  p->tile_m = t.q_tile;
  p->tile_n = t.kv_tile;
  p->tiles = (int64_t)blocks;
  p->waves = (int64_t)waves;
  p->splits = 1;
  p->tile_waste = 1 - entries * (double)t.group / computed;
  p->wave_waste = fmax(0, 1 - filled_ns / busy_ns);
  p->tile_ns = fmax(filled_ns - p->matrix_ns, 0);
  p->wave_ns = fmax(busy_ns - fmax(filled_ns, p->matrix_ns), 0);
  return fmax(busy_ns, p->matrix_ns);
}

/* Split-KV for few queries over many keys: the query heads that share a K head form one Q tile, and the keys are split
 * so that every slot has work. */
static double split_kv_ns(const hr_hardware *hardware, const hr_attention *a, hr_framework framework,
                          const call_work *w, hr_prediction *p)
{
  int64_t groups = hr_max64(a->k_heads, a->v_heads), rows = a->q_heads / groups * a->q_len;
  double padded_rows = (double)hr_round_up(rows, INSTRUCTION_ROWS), keys = (double)w->entries / (double)a->q_len;
  double work = keys * padded_rows * (double)groups * (double)a->batch * entry_flops(a);
  hr_split_kv call = {.compute_ns = fmax(work / w->rate * 1e9, p->matrix_ns),
                      .bytes = (double)w->bytes,
                      .pairs = (double)groups * (double)a->batch,
                      .keys = keys,
                      .head_dim = (double)hr_max64(a->qk_dim, a->v_dim),
                      .rows = (double)rows};
  const hr_decode_cost *cost = hr_predict_decode_cost(hardware, framework, false, hr_dtype_bytes(a->dtype) == 1);
  hr_decode decode = hr_decode_default();
  if (framework == HR_FRAMEWORK_HEADROOM && hr_decode_from_attention(a, &decode, NULL) == HR_OK)
    call.decode = hr_predict_split_decode(&decode);
  if (call.decode && cost->compute_share > 0)
    call.compute_ns = fmax(work / (w->library_rate * cost->compute_share) * 1e9, p->matrix_ns);
  p->tile_m = (int64_t)padded_rows;
  p->tile_n = KV_TILE;
  p->tile_waste = 1 - (double)rows / padded_rows;
  p->tile_ns = call.compute_ns - p->matrix_ns;
  return hr_predict_split_kv(hardware, cost, &call, p);
}

static hr_status check_predictable(const hr_attention *a, hr_error *error)
{
  HR_TRY(hr_attention_check(a, error));
  if (a->variable_lengths)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "variable lengths are only known at run time, so they have no prediction");
  if (a->q_len == 0 || a->kv_len == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "q_len %" PRId64 " and kv_len %" PRId64 " give nothing to predict",
                   a->q_len, a->kv_len);
  return HR_OK;
}

/* Q tiles, or for few queries over many keys split-KV if that is faster; a single query is never tiled. */
static void predict_call(const hr_hardware *hardware, const hr_attention *a, hr_framework framework,
                         const call_work *work, hr_prediction *prediction)
{
  double flops = (double)work->flops, peak = hr_predict_peak(hardware, a->dtype);
  hr_prediction tiled = {.launch_ns = work->cost.launch_ns};
  tiled.matrix_ns = flops / work->library_rate * 1e9;
  tiled.memory_ns = framework == HR_FRAMEWORK_HEADROOM ? hr_transfer_ns(hardware, (double)work->bytes, 0)
                                                       : hr_recent_ns(hardware, (double)work->bytes, 0);
  hr_prediction split_kv = {.matrix_ns = tiled.matrix_ns};
  double tiled_ns = hr_predict_is_flash(hardware, a, framework)
                        ? hr_predict_flash(hardware, a, flops, (double)work->bytes, work->library_rate, &tiled)
                        : hr_overlap(q_tiles_ns(hardware, a, work, &tiled), tiled.memory_ns);
  hr_prediction_finish(hardware, tiled_ns, flops, peak, &tiled);
  *prediction = tiled;
  int64_t most = hr_predict_is_flash(hardware, a, framework) ? HR_DECODE_Q_LEN_MAX : Q_TILE - 1; /* that are split */
  if (a->q_len > most || (a->q_len > 1 && a->kv_len / a->q_len < MANY_KEYS))
    return;
  hr_prediction_finish(hardware, split_kv_ns(hardware, a, framework, work, &split_kv), flops, peak, &split_kv);
  if (a->q_len == 1 || split_kv.time_ns < tiled.time_ns)
    *prediction = split_kv;
}

hr_interval_kind hr_predict_attention_kind(const hr_attention *attention, hr_framework framework)
{
  bool own = framework == HR_FRAMEWORK_HEADROOM;
  if (attention->q_len == 1)
    return own ? HR_INTERVAL_OWN_DECODE : HR_INTERVAL_DECODE;
  if (own)
    return HR_INTERVAL_OWN_ATTENTION;
  return is_latent(attention) ? HR_INTERVAL_LATENT_PREFILL : HR_INTERVAL_ATTENTION;
}

hr_status hr_predict_attention(const hr_hardware *hardware, const hr_attention *attention, hr_prediction *prediction,
                               hr_error *error)
{
  HR_NEED(error, hardware, attention, prediction);
  return hr_predict_attention_by(hardware, attention, HR_FRAMEWORK_COMPILED, prediction, error);
}

hr_status hr_predict_attention_by(const hr_hardware *hardware, const hr_attention *attention, hr_framework framework,
                                  hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, attention, prediction);
  HR_TAKE(hr_attention, attention, error);
  return hr_predict_prefill(hardware, attention, framework, false, prediction, error);
}

hr_status hr_predict_prefill(const hr_hardware *hardware, const hr_attention *attention, hr_framework framework,
                             bool server, hr_prediction *prediction, hr_error *error)
{
  HR_TRY(check_predictable(attention, error));
  HR_TRY(hr_predict_check_framework(framework, error));
  call_work work = {0};
  HR_TRY(hr_predict_rate(hardware, attention->dtype, &work.library_rate, error));
  work.cost = prefill_cost(hardware, attention, framework, server);
  work.server = framework != HR_FRAMEWORK_HEADROOM && (server || is_latent(attention));
  work.rate = work.library_rate * work.cost.share;
  HR_TRY(hr_attention_entries(attention, &work.entries));
  HR_TRY(hr_attention_flops(attention, &work.flops));
  HR_TRY(hr_attention_bytes(attention, &work.bytes));
  predict_call(hardware, attention, framework, &work, prediction);
  hr_prediction_set_interval(hardware, hr_predict_attention_kind(attention, framework), HR_DTYPE_COUNT, prediction);
  return HR_OK;
}

#define BACKWARD_KERNELS 3 /* before the call, itself, behind it */
#define GROUPED_KERNELS 2  /* where query heads share K or V: a sum each for dK and dV */

static bool is_grouped(const hr_attention *a)
{
  return a->q_heads > a->k_heads || a->q_heads > a->v_heads;
}

/* The sums of dK and dV over the query heads of each K and V head. */
static double grouped_bytes(const hr_attention *a)
{
  double rows = (double)a->batch * (double)a->kv_len, q = (double)a->q_heads;
  double k = (q + (double)a->k_heads) * (double)a->qk_dim, v = (q + (double)a->v_heads) * (double)a->v_dim;
  return is_grouped(a) ? rows * (k + v) * (double)hr_dtype_bytes(a->dtype) : 0;
}

/* Kernels around the backward call: rows of O times dO; and dQ, which blocks of keys add up in fp32, in the operands'
 * format. Source: Dao 2023 (arXiv 2307.08691), algorithm 2; cuDNN's compute_dot_do_o, convert_dq, fmha_reduce_head. */
static double around_backward_ns(const hr_hardware *hardware, const hr_attention *a)
{
  double rows = (double)a->batch * (double)a->q_len * (double)a->q_heads, element = (double)hr_dtype_bytes(a->dtype);
  double dot_bytes = rows * (double)a->v_dim * 2 * element, dq_bytes = rows * (double)a->qk_dim * (4 + element);
  return hr_transfer_ns(hardware, dot_bytes + dq_bytes + grouped_bytes(a), 0);
}

static double gradients_share(const hr_hardware *hardware, const hr_operator *op)
{
  const hr_attention_share share =
      hr_predict_attention_share(hardware, hr_max64(op->attention.qk_dim, op->attention.v_dim));
  const bool own = op->framework == HR_FRAMEWORK_HEADROOM && share.headroom_backward_share > 0;
  return own ? share.headroom_backward_share : share.backward_share;
}

hr_status hr_predict_gradients(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                               hr_error *error)
{
  const hr_attention *a = &op->attention;
  HR_TRY(check_predictable(a, error));
  double rate = 0;
  HR_TRY(hr_predict_rate(hardware, a->dtype, &rate, error));
  int64_t entries = 0;
  HR_TRY(hr_attention_entries(a, &entries));
  const double share = gradients_share(hardware, op);
  double blocks = (double)hr_ceil_div(a->kv_len, KV_TILE) * (double)a->q_heads * (double)a->batch;
  double padding = entry_flops(a) / (2.0 * (double)(a->qk_dim + a->v_dim));

  hr_prediction p = {.launch_ns = hardware->launch_ns * (BACKWARD_KERNELS + (is_grouped(a) ? GROUPED_KERNELS : 0))};
  p.matrix_ns = (double)op->flops / rate * 1e9;
  p.memory_ns = hr_transfer_ns(hardware, (double)op->bytes, 0);
  const call_tiles tiles = {.group = 1, .q_tile = Q_TILE, .kv_tile = KV_TILE, .last = KV_TILE};
  double computed = entries > 0 ? computed_entries(a, &tiles, (double)entries) / (double)entries : 1;
  double blocks_ns = blocks / (double)hardware->multiprocessors * hardware->attention_block_ns;
  double filled_ns = fmax(p.matrix_ns * computed * padding / share + blocks_ns, p.matrix_ns);
  p.tile_waste = 1 - 1 / computed;
  double around_ns = around_backward_ns(hardware, a);
  p.tile_ns = filled_ns - p.matrix_ns;
  p.memory_ns += around_ns;
  hr_prediction_finish(hardware, hr_overlap(filled_ns, p.memory_ns - around_ns) + around_ns, (double)op->flops,
                       hr_predict_peak(hardware, a->dtype), &p);
  *prediction = p;
  return HR_OK;
}

hr_status hr_predict_attention_backward(const hr_hardware *hardware, const hr_attention *forward,
                                        hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, forward, prediction);
  HR_TAKE(hr_attention, forward, error);
  HR_TRY(hr_attention_backward_check(forward, NULL, error));
  hr_operator op = {
      .kind = HR_KIND_ATTENTION, .pass = HR_PASS_DGRAD, .framework = HR_FRAMEWORK_HEADROOM, .attention = *forward};
  HR_TRY(hr_attention_backward_flops(forward, &op.flops));
  HR_TRY(hr_attention_backward_bytes(forward, &op.bytes));
  return hr_predict_gradients(hardware, &op, prediction, error);
}
