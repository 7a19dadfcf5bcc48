/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with blocks of its scores in memory: S = Q Kᵀ by cuBLASLt, then kernels/attention_blocked.cu (exact fp32:
 * attention_blocked_fp32.cu), which computes P in registers on the way to P V.
 *
 * A score is written once and read once, 8 bytes, more than everything else. On an H200 there are about 8 µs between
 * two kernels, and a block of SCORE_BYTES takes 100 to 150 µs in each; with half of SCORE_BYTES a call takes 4 to 13%
 * longer, with a quarter 15 to 30%. */
#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/cuda/attention/scores.h"

#include <inttypes.h>
#include <stdio.h>

#define SCORE_BYTES ((int64_t)512 << 20)
#define SPLIT_KEYS_MIN 256 /* of a split: its partial O is written and read, too */
#define RESERVED 1024      /* bytes of shared memory that the driver takes of each block */

typedef struct blocked {
  hr_cuda_scores s;
  hr_blocked tiles;
  hr_score_block block;                            /* the first */
  size_t partial_o, partial_stats, gemm_workspace; /* offsets in the workspace, after those of `s` */
  cu_function attention, combine;
} blocked;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  if (problem->attention.v_dim > HR_CUDA_ATTENTION_DIM_MAX) {
    snprintf(why, why_size, "takes head sizes of V up to %d", HR_CUDA_ATTENTION_DIM_MAX);
    return false;
  }
  return hr_cuda_scores_supports(device, problem, why, why_size);
}

static size_t shared_bytes(const hr_blocked *t, hr_dtype dtype)
{
  if (dtype == HR_FP32)
    return (size_t)hr_blocked_fp32_bytes(t->v, t->kv_tile);
  return (size_t)hr_blocked_bytes(t->v, t->q_rows, t->kv_tile, (int)hr_dtype_bytes(dtype));
}

/* A warp has 16 rows, or 32 where their accumulators of O fit its registers, which halves the shared memory reads of V.
 * For 16-bit dtypes and head sizes above 128, more rows per block gain 3 to 5%, as V is read from the L2 half as
 * often. */
static hr_blocked tiles_of(hr_dtype dtype, int v)
{
  if (dtype == HR_FP32)
    return (hr_blocked){.q_rows = 64, .threads = 256, .kv_tile = 64, .min_blocks = v <= 128 ? 2 : 1};
  if (v <= 128)
    return (hr_blocked){
        .q_rows = 128, .threads = 128, .kv_tile = dtype == HR_TF32 && v > 64 ? 32 : 64, .min_blocks = 2};
  if (dtype == HR_TF32)
    return (hr_blocked){.q_rows = 64, .threads = 128, .kv_tile = 32, .min_blocks = 2};
  return (hr_blocked){.q_rows = 128, .threads = 256, .kv_tile = 64, .min_blocks = 1};
}

hr_blocked hr_blocked_choose(const hr_attention *a, size_t shared_max)
{
  int v = (int)hr_round_up(a->v_dim, 16);
  hr_blocked t = tiles_of(a->dtype, v);
  t.v = v;
  for (;; t.kv_tile /= 2) {
    t.shared_bytes = shared_bytes(&t, a->dtype);
    if ((size_t)t.min_blocks * (t.shared_bytes + RESERVED) <= shared_max + RESERVED)
      return t;
    if (t.kv_tile == 16)
      break;
  }
  t.min_blocks = 1;
  return t;
}

void hr_blocked_defines(const hr_blocked *t, hr_dtype dtype, const char *scores, bool aligned,
                        char text[HR_DEFINES_SIZE])
{
  int used = snprintf(text, HR_DEFINES_SIZE, "HR_V=%d HR_KV_TILE=%d%s%s", t->v, t->kv_tile, scores,
                      aligned ? " HR_ALIGNED" : "");
  if (dtype != HR_FP32)
    snprintf(text + used, HR_DEFINES_SIZE - (size_t)used, " HR_WARPS=%d HR_M_TILES=%d HR_MIN_BLOCKS=%d",
             t->threads / 32, t->q_rows / (t->threads / 2), t->min_blocks);
}

const char *hr_blocked_source(hr_dtype dtype)
{
  return dtype == HR_FP32 ? "attention_blocked_fp32" : "attention_blocked";
}

/* Blocks of as many Q tiles as SCORE_BYTES hold, of whole waves of `slots` if there are more than that, all of one
 * size. */
static void divide_rows(blocked *f, int64_t slots)
{
  hr_cuda_scores *s = &f->s;
  const hr_attention *a = &s->a;
  int64_t tile = f->tiles.q_rows, of_head = hr_ceil_div(a->q_len, tile), all = s->heads;
  int64_t most = hr_max64(1, SCORE_BYTES / (s->pitch * (int64_t)sizeof(float) * tile));
  if (most > slots)
    most -= most % slots;
  if (most < of_head) {
    s->heads = 1;
    s->rows = hr_round_up(hr_ceil_div(a->q_len, hr_ceil_div(of_head, most)), tile);
    return;
  }
  int64_t heads = hr_cuda_scores_heads(a, hr_min64(all, most / of_head)), group = a->q_heads / a->k_heads;
  if (heads > group)
    heads = hr_round_up(hr_ceil_div(all, hr_ceil_div(all, heads)), group);
  s->heads = heads;
}

/* Split-KV: where Q tiles leave multiprocessors idle, several thread blocks share the keys of a Q tile. */
static void divide_keys(blocked *f, int64_t slots)
{
  const hr_cuda_scores *s = &f->s;
  int64_t q_tiles = hr_ceil_div(s->rows, f->tiles.q_rows), kv_tiles = hr_ceil_div(s->a.kv_len, f->tiles.kv_tile);
  int64_t splits = hr_min64(slots / (q_tiles * s->heads), s->a.kv_len / SPLIT_KEYS_MIN);
  int64_t split_tiles = hr_ceil_div(kv_tiles, hr_max64(1, splits));
  f->block = (hr_score_block){.pitch = (int32_t)s->pitch,
                              .heads = (int32_t)s->heads,
                              .rows = (int32_t)s->rows,
                              .q_tiles = (int32_t)q_tiles,
                              .splits = (int32_t)hr_ceil_div(kv_tiles, split_tiles),
                              .split_tiles = (int32_t)split_tiles};
}

static hr_status divide(blocked *f, hr_error *error)
{
  const hr_cuda *cuda = f->s.cuda;
  size_t shared_max = 0;
  int64_t multiprocessors = 0;
  HR_TRY(hr_cuda_attention_shared_max(cuda, &shared_max, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_MULTIPROCESSORS, &multiprocessors, error));
  f->tiles = hr_blocked_choose(&f->s.a, shared_max);
  int64_t slots = multiprocessors * f->tiles.min_blocks;
  divide_rows(f, slots);
  divide_keys(f, slots);
  return HR_OK;
}

static void lay_out(blocked *f, size_t *workspace_bytes)
{
  const hr_score_block *b = &f->block;
  int64_t rows = b->splits == 1 ? 0 : (int64_t)b->splits * b->heads * b->q_tiles * f->tiles.q_rows;
  f->partial_o = f->s.end;
  f->partial_stats = f->partial_o + hr_cuda_scores_round(rows * f->tiles.v, sizeof(float));
  f->gemm_workspace = f->partial_stats + hr_cuda_scores_round(rows * 2, sizeof(float));
  *workspace_bytes = f->gemm_workspace + f->s.gemm.chosen.workspace_bytes + HR_CUDA_SCORES_ALIGNMENT;
}

static hr_status find_function(const blocked *f, const char *name, cu_function *function, hr_error *error)
{
  const hr_attention *a = &f->s.a;
  char defines[HR_DEFINES_SIZE];
  hr_blocked_defines(&f->tiles, a->dtype, hr_cuda_attention_score_defines(a), hr_cuda_attention_aligned(a), defines);
  return hr_cuda_function_shared(f->s.cuda, hr_blocked_source(a->dtype), a->dtype, defines, name, f->tiles.shared_bytes,
                                 function, error);
}

static void release(void *state)
{
  blocked *f = state;
  hr_cuda_scores_free(&f->s);
}

static hr_status prepare_all(blocked *f, size_t *workspace_bytes, hr_error *error)
{
  HR_TRY(divide(f, error));
  HR_TRY(hr_cuda_scores_prepare(&f->s, error));
  lay_out(f, workspace_bytes);
  HR_TRY(find_function(f, "attention", &f->attention, error));
  return find_function(f, "combine", &f->combine, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  blocked *f = state;
  f->s = hr_cuda_scores_describe(device->state, &problem->attention);
  return prepare_all(f, workspace_bytes, error);
}

static hr_status run_block(const blocked *f, const hr_cuda_queue *queue, hr_attention_call *call, hr_score_block *block,
                           cu_address base, hr_error *error)
{
  unsigned threads = (unsigned)f->tiles.threads;
  const hr_cuda_kernel attention = {.function = f->attention,
                                    .blocks = (int64_t)block->q_tiles * block->heads * block->splits,
                                    .threads = threads,
                                    .shared_bytes = f->tiles.shared_bytes};
  void *parameters[] = {call, block};
  HR_TRY(hr_cuda_scores_gemm(&f->s, queue, base, block->first_head, block->first_row, base + f->gemm_workspace, error));
  HR_TRY(hr_cuda_launch(queue, &attention, parameters, error));
  if (block->splits == 1)
    return HR_OK;
  int64_t rows = (int64_t)block->heads * block->rows, warps = threads / 32; /* a row per warp */
  const hr_cuda_kernel combine = {.function = f->combine, .blocks = hr_ceil_div(rows, warps), .threads = threads};
  return hr_cuda_launch(queue, &combine, parameters, error);
}

static hr_status run_blocks(const blocked *f, const hr_run *run, hr_error *error)
{
  const hr_cuda_queue queue = {f->s.cuda, run->stream};
  const cu_address base = hr_cuda_scores_base(run->workspace);
  const hr_cuda_scores *s = &f->s;
  hr_attention_call call = s->call;
  hr_score_block block = f->block;
  int64_t all = s->a.q_heads * s->a.batch;
  hr_cuda_attention_set_addresses(&call, &s->a, run->arguments);
  block.scores = base + s->scores, block.partial_o = base + f->partial_o, block.partial_stats = base + f->partial_stats;
  HR_TRY(hr_cuda_scores_pack_qk(s, &queue, run->arguments, base, error));
  for (int64_t head = 0; head < all; head += s->heads)
    for (int64_t row = 0; row < s->a.q_len; row += s->rows) {
      block.first_head = (int32_t)hr_min64(head, all - s->heads);
      block.first_row = (int32_t)hr_min64(row, s->a.q_len - s->rows);
      HR_TRY(run_block(f, &queue, &call, &block, base, error));
    }
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const blocked *f = plan->state;
  HR_TRY(hr_cuda_enter(f->s.cuda, error));
  hr_status status = run_blocks(f, run, error);
  hr_cuda_leave(f->s.cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const blocked *f = state;
  int used = hr_write_text(text, size, "scores of %" PRId64 " heads × %" PRId64 " rows at once, %.0f MB, tile %dx%d",
                           f->s.heads, f->s.rows, (double)f->s.heads * (double)f->s.rows * (double)f->s.pitch * 4e-6,
                           f->tiles.q_rows, f->tiles.kv_tile);
  if (f->block.splits > 1 && used > 0 && (size_t)used < size)
    snprintf(text + used, size - (size_t)used, ", split-KV %d", f->block.splits);
}

const hr_kernel_functions hr_kernel_attention_blocked_cublaslt = {.state_bytes = sizeof(blocked),
                                                                  .supports = supports,
                                                                  .prepare = prepare,
                                                                  .run = run,
                                                                  .whole = true,
                                                                  .release = release,
                                                                  .describe = describe};
