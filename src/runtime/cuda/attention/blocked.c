/* Attention with blocks of its scores in memory: S = Q Kᵀ by cuBLASLt, and kernels/attention_blocked.cu (exact fp32:
 * attention_blocked_fp32.cu) for the rest, which computes weights while it takes scores to the second product.
 *
 * A score is written once and read once, 8 bytes, and nothing else is as large. Between two steps some 8 µs go by on an
 * H200, and blocks of SCORE_BYTES take 100 to 150 µs a step; with half of that all takes 4 to 13% longer, with a
 * quarter 15 to 30%. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention/scores.h"

#include <inttypes.h>
#include <stdio.h>

#define SCORE_BYTES ((int64_t)512 << 20)
#define PART_KEYS 256 /* at least, of a part: its sums are written and read, too */
#define RESERVED 1024 /* bytes of shared memory that the driver takes of each block */

/* As score_block of the programs. */
typedef struct score_block {
  cu_address scores, sums, states;
  int32_t pitch;
  int32_t first_head, heads;
  int32_t first_row, rows, row_tiles;
  int32_t parts, part_tiles;
} score_block;

typedef struct blocked {
  hr_cuda_scores s;
  hr_blocked tiles;
  score_block block;             /* the first */
  size_t sums, states, products; /* further parts of the workspace */
  bool aligned;                  /* what `attention` counts on */
  cu_function attention, combine;
} blocked;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  if (problem->attention.v_dim > HR_CUDA_ATTENTION_DIM_MOST) {
    snprintf(why, why_size, "takes head sizes of V up to %d", HR_CUDA_ATTENTION_DIM_MOST);
    return false;
  }
  return hr_cuda_scores_supports(device, problem, why, why_size);
}

/* As S_PITCH, PITCH and the stages in the programs; with matrix units the stages take O in the end. */
static size_t shared_bytes(const hr_blocked *t, hr_dtype dtype)
{
  int64_t element = (int64_t)hr_dtype_bytes(dtype), chunk = 16 / element, v = (t->v / chunk | 1) * chunk * element;
  if (dtype == HR_FP32)
    return (size_t)(2 * 4 * (t->rows * (hr_round_up(t->columns, 32) + 4) + (int64_t)t->columns * t->v));
  int64_t stage = 4 * (int64_t)t->rows * (t->columns + 8) + t->columns * v;
  return (size_t)hr_max64(2 * stage, t->rows * v);
}

/* A warp has 16 rows, or 32 where sums of O for these fit its registers: half as much of V is read from shared memory
 * then. More rows of a block instead, at 16 bits and head sizes above 128, gain 3 to 5% as V comes from the L2 half as
 * often. */
static hr_blocked cut_of(hr_dtype dtype, int v)
{
  if (dtype == HR_FP32)
    return (hr_blocked){.rows = 64, .threads = 256, .columns = 64, .blocks = v <= 128 ? 2 : 1};
  if (v <= 128)
    return (hr_blocked){.rows = 128, .threads = 128, .columns = dtype == HR_TF32 && v > 64 ? 32 : 64, .blocks = 2};
  if (dtype == HR_TF32)
    return (hr_blocked){.rows = 64, .threads = 128, .columns = 32, .blocks = 2};
  return (hr_blocked){.rows = 128, .threads = 256, .columns = 64, .blocks = 1};
}

hr_blocked hr_blocked_choose(const hr_attention *a, size_t shared_most)
{
  int v = (int)hr_round_up(a->v_dim, 16);
  hr_blocked t = cut_of(a->dtype, v);
  t.v = v;
  for (;; t.columns /= 2) {
    t.shared_bytes = shared_bytes(&t, a->dtype);
    if ((size_t)t.blocks * (t.shared_bytes + RESERVED) <= shared_most + RESERVED)
      return t;
    if (t.columns == 16)
      break;
  }
  t.blocks = 1;
  return t;
}

void hr_blocked_defines(const hr_blocked *t, hr_dtype dtype, bool modified, bool aligned, char text[HR_DEFINES_SIZE])
{
  int used = snprintf(text, HR_DEFINES_SIZE, "HR_V=%d HR_COLUMNS=%d%s%s", t->v, t->columns,
                      modified ? " HR_MODIFIED" : "", aligned ? " HR_ALIGNED" : "");
  if (dtype != HR_FP32)
    snprintf(text + used, HR_DEFINES_SIZE - (size_t)used, " HR_WARPS=%d HR_ROW_TILES=%d HR_BLOCKS=%d", t->threads / 32,
             t->rows / (t->threads / 2), t->blocks);
}

const char *hr_blocked_source(hr_dtype dtype)
{
  return dtype == HR_FP32 ? "attention_blocked_fp32" : "attention_blocked";
}

/* As many row tiles as SCORE_BYTES hold, whole waves of `slots` if there are more, and the blocks as large as each
 * other. */
static void cut_rows(blocked *f, int64_t slots)
{
  hr_cuda_scores *s = &f->s;
  const hr_attention *a = &s->a;
  int64_t tile = f->tiles.rows, of_head = hr_ceil_div(a->q_len, tile), all = s->heads;
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

/* Where row tiles leave multiprocessors idle, keys are dealt out to several blocks of threads. */
static void cut_keys(blocked *f, int64_t slots)
{
  const hr_cuda_scores *s = &f->s;
  int64_t row_tiles = hr_ceil_div(s->rows, f->tiles.rows), key_tiles = hr_ceil_div(s->a.kv_len, f->tiles.columns);
  int64_t parts = hr_min64(slots / (row_tiles * s->heads), s->a.kv_len / PART_KEYS);
  int64_t part_tiles = hr_ceil_div(key_tiles, hr_max64(1, parts));
  f->block = (score_block){.pitch = (int32_t)s->pitch,
                           .heads = (int32_t)s->heads,
                           .rows = (int32_t)s->rows,
                           .row_tiles = (int32_t)row_tiles,
                           .parts = (int32_t)hr_ceil_div(key_tiles, part_tiles),
                           .part_tiles = (int32_t)part_tiles};
}

static hr_status cut(blocked *f, hr_error *error)
{
  const hr_cuda *cuda = f->s.cuda;
  int shared_most = 0, multiprocessors = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&shared_most, CU_MAX_SHARED_OPTIN, cuda->device), error));
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&multiprocessors, CU_MULTIPROCESSORS, cuda->device), error));
  f->tiles = hr_blocked_choose(&f->s.a, (size_t)shared_most);
  int64_t slots = (int64_t)multiprocessors * f->tiles.blocks;
  cut_rows(f, slots);
  cut_keys(f, slots);
  return HR_OK;
}

static void lay_out(blocked *f, size_t *workspace_bytes)
{
  const score_block *b = &f->block;
  int64_t rows = b->parts == 1 ? 0 : (int64_t)b->parts * b->heads * b->row_tiles * f->tiles.rows;
  f->sums = f->s.end;
  f->states = f->sums + hr_cuda_scores_round(rows * f->tiles.v, sizeof(float));
  f->products = f->states + hr_cuda_scores_round(rows * 2, sizeof(float));
  *workspace_bytes = f->products + f->s.product.chosen.workspace_bytes + HR_CUDA_SCORES_ALIGNMENT;
}

static hr_status find_function(const blocked *f, bool aligned, const char *name, cu_function *function, hr_error *error)
{
  const hr_attention *a = &f->s.a;
  const hr_cuda *cuda = f->s.cuda;
  char defines[HR_DEFINES_SIZE];
  hr_blocked_defines(&f->tiles, a->dtype, hr_cuda_attention_modified(a), aligned, defines);
  HR_TRY(hr_cuda_function(cuda, hr_blocked_source(a->dtype), a->dtype, defines, name, function, error));
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status =
      HR_CU(&cuda->driver, cuFuncSetAttribute, (*function, CU_FUNCTION_SHARED_MOST, (int)f->tiles.shared_bytes), error);
  hr_cuda_leave(cuda);
  return status;
}

static void release(void *state)
{
  blocked *f = state;
  hr_cuda_scores_free(&f->s);
}

static hr_status prepare_parts(blocked *f, size_t *workspace_bytes, hr_error *error)
{
  HR_TRY(cut(f, error));
  HR_TRY(hr_cuda_scores_prepare(&f->s, error));
  lay_out(f, workspace_bytes);
  f->aligned = hr_cuda_attention_aligned(&f->s.a);
  HR_TRY(find_function(f, f->aligned, "attention", &f->attention, error));
  return find_function(f, f->aligned, "combine", &f->combine, error);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  blocked *f = state;
  f->s = hr_cuda_scores_describe(device->state, &problem->attention);
  return prepare_parts(f, workspace_bytes, error);
}

static hr_status run_block(const blocked *f, hr_cuda_attention *call, score_block *block, cu_address base,
                           hr_error *error)
{
  const hr_cuda_scores *s = &f->s;
  unsigned threads = (unsigned)f->tiles.threads, shared = (unsigned)f->tiles.shared_bytes;
  unsigned blocks = (unsigned)(block->row_tiles * block->heads * block->parts);
  void *parameters[] = {call, block};
  HR_TRY(hr_cuda_scores_multiply(s, base, block->first_head, block->first_row, base + f->products, error));
  HR_TRY(HR_CU(&s->cuda->driver, cuLaunchKernel,
               (f->attention, blocks, 1, 1, threads, 1, 1, shared, s->cuda->stream, parameters, NULL), error));
  if (block->parts == 1)
    return HR_OK;
  int64_t rows = (int64_t)block->heads * block->rows, warps = threads / 32; /* a row each */
  return hr_cuda_scores_launch(s->cuda, f->combine, hr_ceil_div(rows, warps), threads, parameters, error);
}

static hr_status run_blocks(const blocked *f, const hr_attention_arguments *arguments, cu_address base, hr_error *error)
{
  const hr_cuda_scores *s = &f->s;
  hr_cuda_attention call = s->call;
  score_block block = f->block;
  int64_t all = s->a.q_heads * s->a.batch;
  hr_cuda_attention_address(&call, &s->a, arguments);
  block.scores = base + s->scores, block.sums = base + f->sums, block.states = base + f->states;
  HR_TRY(hr_cuda_scores_begin(s, arguments, base, error));
  for (int64_t head = 0; head < all; head += s->heads)
    for (int64_t row = 0; row < s->a.q_len; row += s->rows) {
      block.first_head = (int32_t)hr_min64(head, all - s->heads);
      block.first_row = (int32_t)hr_min64(row, s->a.q_len - s->rows);
      HR_TRY(run_block(f, &call, &block, base, error));
    }
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  blocked f = *(const blocked *)plan->state;
  if (f.aligned && !hr_cuda_attention_addresses_aligned(arguments)) {
    HR_TRY(find_function(&f, false, "attention", &f.attention, error));
    HR_TRY(find_function(&f, false, "combine", &f.combine, error));
  }
  HR_TRY(hr_cuda_enter(f.s.cuda, error));
  hr_status status = run_blocks(&f, arguments, hr_cuda_scores_base(workspace), error);
  hr_cuda_leave(f.s.cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const blocked *f = state;
  int used = snprintf(text, size, "scores of %" PRId64 " heads × %" PRId64 " rows at once, %.0f MB, tile %dx%d",
                      f->s.heads, f->s.rows, (double)f->s.heads * (double)f->s.rows * (double)f->s.pitch * 4e-6,
                      f->tiles.rows, f->tiles.columns);
  if (f->block.parts > 1 && used > 0 && (size_t)used < size)
    snprintf(text + used, size - (size_t)used, ", keys in %d parts", f->block.parts);
}

const hr_kernel_functions hr_kernel_attention_blocked_cublaslt = {.state_bytes = sizeof(blocked),
                                                                  .supports = supports,
                                                                  .prepare = prepare,
                                                                  .run_attention = run,
                                                                  .release = release,
                                                                  .describe = describe};
