/* Attention with a block of rows of scores in memory at a time, what a compiler makes of the formula: the block is
 * multiplied, turned into weights and multiplied with V while it is in the cache, and divided by its sums at the end. A
 * thread works on one block alone, by oneDNN's products on one thread.
 *
 *   member of the team: S [rows, ld] fp32, P in its place | R [rows, v_dim] fp32 | oneDNN's scratch
 *   S = Q[block] · K[: end]ᵀ → exp(s − largest) → R = P · V[: end] → O[block] = R / sums
 *
 * Under a causal mask the keys behind a block's last row are left out, in steps, since oneDNN makes each product for
 * its sizes: `end` is the next of up to 8 multiples. Memory grows with kv_len times the threads, not with q_len. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/scores.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINE 16                        /* floats in a cache line */
#define BLOCK_BYTES ((int64_t)1 << 20) /* of scores: about what a core's own cache holds */
#define ROWS_LEAST 16
#define ROWS_MOST 128
#define STEPS_MOST 8
#define KEYS_OF_A_STEP 256

/* The two products of a block for one number of keys. */
typedef struct products {
  hr_matmul *score, *value;
} products;

typedef struct fused {
  hr_attention a;
  hr_scores scores;
  hr_team *team;
  int64_t rows, ld, steps, keys_of_a_step, blocks;
  products whole[STEPS_MOST], tail[STEPS_MOST]; /* tail: the last block, where it is shorter */
  size_t scores_bytes, result_bytes, member_bytes;
} fused;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  if (problem->attention.variable_lengths) {
    snprintf(why, why_size,
             "takes one length for all sequences: oneDNN's products are made for their sizes beforehand");
    return false;
  }
  return true;
}

static int64_t keys_of(const fused *f, int64_t step)
{
  return hr_min64(f->a.kv_len, (step + 1) * f->keys_of_a_step);
}

static hr_tensor matrix(hr_dtype dtype, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
  return (hr_tensor){.dtype = dtype, .rank = 2, .sizes = {rows, columns}, .strides = {row_stride, column_stride}};
}

static hr_status make_products(const fused *f, const hr_cpu *cpu, int64_t rows, int64_t keys, products *p,
                               hr_error *error)
{
  const hr_attention *a = &f->a;
  int64_t weights_row = f->ld * (int64_t)(sizeof(float) / hr_dtype_bytes(f->scores.weights));
  const hr_tensor score[3] = {matrix(a->dtype, rows, a->qk_dim, hr_attention_strides(a, HR_OPERAND_Q).row, 1),
                              matrix(a->dtype, a->qk_dim, keys, 1, hr_attention_strides(a, HR_OPERAND_K).row),
                              matrix(HR_FP32, rows, keys, f->ld, 1)};
  const hr_tensor value[3] = {matrix(f->scores.weights, rows, keys, weights_row, 1),
                              matrix(a->dtype, keys, a->v_dim, hr_attention_strides(a, HR_OPERAND_V).row, 1),
                              matrix(HR_FP32, rows, a->v_dim, a->v_dim, 1)};
  HR_TRY(hr_matmul_create(cpu->onednn, 1, score, &p->score, error));
  return hr_matmul_create(cpu->onednn, 1, value, &p->value, error);
}

static size_t scratch_of(const products *p)
{
  size_t score = p->score ? hr_matmul_workspace_bytes(p->score) : 0;
  size_t value = p->value ? hr_matmul_workspace_bytes(p->value) : 0;
  return score > value ? score : value;
}

static void choose_blocks(fused *f)
{
  const hr_attention *a = &f->a;
  f->ld = hr_round_up(hr_max64(a->kv_len, 1), LINE);
  f->rows = hr_max64(ROWS_LEAST, hr_min64(ROWS_MOST, BLOCK_BYTES / (f->ld * (int64_t)sizeof(float))));
  f->rows = hr_min64(f->rows, a->q_len);
  f->blocks = hr_ceil_div(a->q_len, f->rows);
  f->steps = a->mask == HR_MASK_NONE ? 1 : hr_max64(1, hr_min64(STEPS_MOST, a->kv_len / KEYS_OF_A_STEP));
  f->keys_of_a_step = hr_round_up(hr_ceil_div(hr_max64(a->kv_len, 1), f->steps), LINE);
  f->steps = hr_ceil_div(a->kv_len, f->keys_of_a_step);
}

static hr_status build(fused *f, hr_device *device, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &f->a;
  HR_TRY(hr_cpu_team(device, &f->team, error));
  if (a->q_len == 0)
    return HR_OK;
  choose_blocks(f);
  if (a->kv_len == 0) /* rows without products */
    return HR_OK;
  size_t scratch = 0;
  int64_t tail = a->q_len % f->rows;
  for (int64_t step = 0; step < f->steps; step++) {
    HR_TRY(make_products(f, device->state, f->rows, keys_of(f, step), &f->whole[step], error));
    if (tail > 0)
      HR_TRY(make_products(f, device->state, tail, keys_of(f, step), &f->tail[step], error));
    size_t whole_scratch = scratch_of(&f->whole[step]), tail_scratch = scratch_of(&f->tail[step]);
    scratch = whole_scratch > scratch ? whole_scratch : scratch;
    scratch = tail_scratch > scratch ? tail_scratch : scratch;
  }
  hr_checked64 scores = hr_times(hr_checked(f->ld * f->rows), (int64_t)sizeof(float));
  hr_checked64 result = hr_times(hr_checked(a->v_dim * f->rows), (int64_t)sizeof(float));
  hr_checked64 member = hr_plus(hr_plus(scores, result), hr_checked((int64_t)scratch + 3 * 64));
  if (hr_times(member, device->threads).overflow)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "rows of %lld scores fit no memory", (long long)a->kv_len);
  f->scores_bytes = (size_t)hr_round_up(scores.value, 64);
  f->result_bytes = (size_t)hr_round_up(result.value, 64);
  f->member_bytes = f->scores_bytes + f->result_bytes + (size_t)hr_round_up((int64_t)scratch, 64);
  *workspace_bytes = f->member_bytes * (size_t)device->threads;
  return HR_OK;
}

static void release(void *state)
{
  fused *f = state;
  for (int64_t step = 0; f && step < STEPS_MOST; step++) {
    hr_matmul_free(f->whole[step].score);
    hr_matmul_free(f->whole[step].value);
    hr_matmul_free(f->tail[step].score);
    hr_matmul_free(f->tail[step].value);
  }
  free(f);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = device->state;
  fused *f = calloc(1, sizeof *f);
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory for a plan");
  f->a = problem->attention;
  f->scores = hr_scores_make(&f->a, &cpu->isa);
  *workspace_bytes = 0;
  hr_status status = build(f, device, workspace_bytes, error);
  if (status != HR_OK) {
    release(f);
    return status;
  }
  *state = f;
  return HR_OK;
}

/* ---- the run ---- */

typedef struct work {
  const fused *f;
  const hr_attention_arguments *arguments;
  char *workspace;
  atomic_int_fast64_t next;
  atomic_int failed; /* the first status that was not HR_OK */
  hr_error error;
} work;

/* A block of rows of one head. */
typedef struct block {
  hr_sequence sequence;
  int64_t head, first, rows;
  float *scores, *result;
  void *scratch;
  float factors[ROWS_MOST]; /* 1 / sum of each row; 0 where nothing is seen */
} block;

static const void *head_of(const hr_attention *a, hr_attention_operand which, const void *base, int64_t row,
                           int64_t head)
{
  hr_strides s = hr_attention_strides(a, which);
  return (const char *)base + (row * s.row + head * s.head) * (int64_t)hr_dtype_bytes(a->dtype);
}

static void weigh_rows(const work *w, block *b, int64_t keys)
{
  const fused *f = w->f;
  const hr_attention *a = &f->a;
  for (int64_t i = 0; i < b->rows; i++) {
    int64_t query = b->first + i;
    const hr_score_row how = {.seen = hr_attention_visible(a, a->q_len, a->kv_len, query),
                              .slope = a->alibi ? w->arguments->alibi_slopes[b->head] : 0,
                              .position = query + a->kv_len - a->q_len};
    hr_score_sum sum = hr_scores_softmax(&f->scores, &how, b->scores + i * f->ld, keys, false);
    b->factors[i] = how.seen.first >= how.seen.end ? 0 : 1 / sum.sum;
    if (b->sequence.lse)
      b->sequence.lse[b->head * b->sequence.lse_head + query] = sum.lse;
  }
}

static void write_rows(const fused *f, const block *b)
{
  const hr_attention *a = &f->a;
  for (int64_t i = 0; i < b->rows; i++) {
    void *o = (void *)(uintptr_t)head_of(a, HR_OPERAND_O, b->sequence.o, b->first + i, b->head);
    hr_scores_write(&f->scores, b->result + i * a->v_dim, b->factors[i], a->v_dim, o);
  }
}

static hr_status run_block(const work *w, block *b, hr_error *error)
{
  const fused *f = w->f;
  const hr_attention *a = &f->a;
  int64_t end = hr_attention_visible(a, a->q_len, a->kv_len, b->first + b->rows - 1).end;
  memset(b->factors, 0, sizeof b->factors);
  if (end <= 0) {
    for (int64_t i = 0; b->sequence.lse && i < b->rows; i++)
      b->sequence.lse[b->head * b->sequence.lse_head + b->first + i] = -INFINITY;
    write_rows(f, b);
    return HR_OK;
  }
  int64_t step = (end - 1) / f->keys_of_a_step;
  const products *p = b->rows == f->rows ? &f->whole[step] : &f->tail[step];
  const void *q = head_of(a, HR_OPERAND_Q, b->sequence.q, b->first, b->head);
  const void *k = head_of(a, HR_OPERAND_K, b->sequence.k, 0, b->head / (a->q_heads / a->k_heads));
  const void *v = head_of(a, HR_OPERAND_V, b->sequence.v, 0, b->head / (a->q_heads / a->v_heads));
  HR_TRY(hr_matmul_run(p->score, q, k, b->scores, b->scratch, error));
  weigh_rows(w, b, keys_of(f, step));
  HR_TRY(hr_matmul_run(p->value, b->scores, v, b->result, b->scratch, error));
  write_rows(f, b);
  return HR_OK;
}

/* Blocks with many keys come first, so that none of them is left for the end. */
static void run_blocks(void *context, int member)
{
  work *w = context;
  const fused *f = w->f;
  const hr_attention *a = &f->a;
  char *mine = w->workspace + (size_t)member * f->member_bytes;
  block b = {.scores = (float *)(void *)mine,
             .result = (float *)(void *)(mine + f->scores_bytes),
             .scratch = mine + f->scores_bytes + f->result_bytes};
  int64_t heads = a->batch * a->q_heads, index;
  while ((index = atomic_fetch_add(&w->next, 1)) < heads * f->blocks) {
    int64_t place = f->blocks - 1 - index / heads;
    b.sequence = hr_attention_sequence(a, w->arguments, index % heads / a->q_heads);
    b.head = index % a->q_heads;
    b.first = place * f->rows;
    b.rows = hr_min64(f->rows, a->q_len - b.first);
    hr_error error = {.message = ""};
    hr_status status = run_block(w, &b, &error);
    int none = HR_OK;
    if (status != HR_OK && atomic_compare_exchange_strong(&w->failed, &none, (int)status))
      w->error = error;
  }
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *x, void *workspace, hr_error *error)
{
  const fused *f = plan->state;
  work w = {.f = f, .arguments = x, .workspace = workspace};
  hr_team_run(f->team, run_blocks, &w);
  int failed = atomic_load(&w.failed);
  return failed == HR_OK ? HR_OK : hr_fail(error, (hr_status)failed, "%s", w.error.message);
}

const hr_kernel_functions hr_kernel_attention_fused_onednn = {
    .supports = supports, .prepare = prepare, .run_attention = run, .release = release};
