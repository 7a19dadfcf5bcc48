/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with a block of rows of scores in memory at a time, as a compiler arranges the formula: the block is
 * computed, turned into weights and multiplied by V while it is in the cache, and divided by its sums at the end.
 * Each thread of the pool works on its own block, with single-threaded oneDNN GEMMs.
 *
 *   memory of a thread: S [rows, ld] fp32, P in its place | R [rows, v_dim] fp32 | oneDNN's scratchpad | copies of
 *  Q, K, V
 *   S = Q[block] · K[: end]ᵀ → exp(s − max) → R = P · V[: end] → O[block] = R / sums
 *
 * oneDNN prepares each GEMM for its sizes. Under a causal mask the keys behind a block's last row are left out, in
 * steps: `end` is the next of up to 8 multiples. With variable lengths a block's rows and keys are copied and
 * padded with zeros to the next size, each 3/4 or 2/3 of the one before. Operands that oneDNN does not support are
 * also copied, fp16 as fp32; at 128 rows a block these copies cost a few percent. Memory grows with kv_len times
 * the threads, not with q_len. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/cpu/onednn/gemm.h"
#include "runtime/cpu/onednn/scores.h"

#include <stdatomic.h>
#include <stdio.h>

#define LINE 16                        /* floats in a cache line */
#define BLOCK_BYTES ((int64_t)1 << 20) /* of scores: about a core's L2 */
#define ROWS_MIN 16
#define ROWS_MAX 128
#define STEPS_OF_A_MASK 8
#define KEYS_OF_A_STEP 256
#define SIZES_MAX 16
#define KEYS_MIN 32 /* fewer are not worth a GEMM of their own */

/* The two GEMMs of a block for one number of keys. */
typedef struct gemms {
  hr_matmul *score, *value;
} gemms;

typedef struct blocked {
  hr_scores scores;
  hr_onednn *onednn;
  hr_thread_pool *pool;
  int64_t rows, few_rows; /* of a block; of a sequence's last block, with variable lengths of a short block. 0: none */
  int64_t ld, blocks;     /* blocks of a sequence */
  int64_t sizes, keys[SIZES_MAX]; /* number of keys of each GEMM, ascending */
  gemms whole[SIZES_MAX], few[SIZES_MAX];
  size_t result, scratch, q, k, v; /* byte offsets in a thread's memory; the scores are at 0 */
  size_t thread_bytes;
} blocked;

static hr_tensor matrix(hr_dtype dtype, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
  return (hr_tensor){.dtype = dtype, .rank = 2, .sizes = {rows, columns}, .strides = {row_stride, column_stride}};
}

static int64_t row_of(const blocked *f, hr_attention_operand operand)
{
  const hr_attention *a = &f->scores.attention;
  if (!f->scores.packed)
    return hr_attention_strides(a, operand).row;
  return operand == HR_OPERAND_V ? a->v_dim : a->qk_dim;
}

static hr_status create_gemms(const blocked *f, int64_t rows, int64_t keys, gemms *p, hr_error *error)
{
  const hr_attention *a = &f->scores.attention;
  hr_dtype factors = f->scores.factors;
  int64_t weights_row = f->ld * (int64_t)(sizeof(float) / hr_dtype_bytes(factors));
  const hr_tensor score[3] = {matrix(factors, rows, a->qk_dim, row_of(f, HR_OPERAND_Q), 1),
                              matrix(factors, a->qk_dim, keys, 1, row_of(f, HR_OPERAND_K)),
                              matrix(HR_FP32, rows, keys, f->ld, 1)};
  const hr_tensor value[3] = {matrix(factors, rows, keys, weights_row, 1),
                              matrix(factors, keys, a->v_dim, row_of(f, HR_OPERAND_V), 1),
                              matrix(HR_FP32, rows, a->v_dim, a->v_dim, 1)};
  HR_TRY(hr_matmul_create(f->onednn, 1, score, &p->score, error));
  return hr_matmul_create(f->onednn, 1, value, &p->value, error);
}

static void free_gemms(gemms *p)
{
  hr_matmul_free(p->score);
  hr_matmul_free(p->value);
  *p = (gemms){NULL, NULL};
}

static void free_all_gemms(blocked *f)
{
  for (int64_t i = 0; i < SIZES_MAX; i++) {
    free_gemms(&f->whole[i]);
    free_gemms(&f->few[i]);
  }
}

/* Callback of hr_scores_choose_operands(). */
static hr_status create_all_gemms(void *kernel, hr_error *error)
{
  blocked *f = kernel;
  free_all_gemms(f);
  for (int64_t i = 0; i < f->sizes; i++) {
    HR_TRY(create_gemms(f, f->rows, f->keys[i], &f->whole[i], error));
    if (f->few_rows > 0)
      HR_TRY(create_gemms(f, f->few_rows, f->keys[i], &f->few[i], error));
  }
  return HR_OK;
}

static void choose_rows(blocked *f)
{
  const hr_attention *a = &f->scores.attention;
  f->ld = hr_round_up(hr_max64(a->kv_len, 1), LINE);
  f->rows = hr_max64(ROWS_MIN, hr_min64(ROWS_MAX, BLOCK_BYTES / (f->ld * (int64_t)sizeof(float))));
  f->rows = hr_min64(f->rows, a->q_len);
  f->blocks = hr_ceil_div(a->q_len, f->rows);
  f->few_rows = a->q_len % f->rows;
  if (a->variable_lengths)
    f->few_rows = f->rows > ROWS_MIN ? ROWS_MIN : 0;
}

/* Numbers of keys: 1, 3/4, 1/2, 3/8, 1/4 … of the largest. */
static void choose_falling_sizes(blocked *f)
{
  int64_t most = f->scores.attention.kv_len, found = 0, keys[SIZES_MAX];
  for (int64_t i = 0; i < SIZES_MAX; i++) {
    int64_t size = (i % 2 ? hr_ceil_div(3 * most, 4) : most) >> i / 2;
    if (i > 0 && size < KEYS_MIN)
      break;
    keys[found++] = hr_min64(most, hr_round_up(size, LINE));
  }
  f->sizes = found;
  for (int64_t i = 0; i < found; i++)
    f->keys[i] = keys[found - 1 - i];
}

static void choose_sizes(blocked *f)
{
  const hr_attention *a = &f->scores.attention;
  f->sizes = 0;
  if (a->kv_len == 0) /* no GEMMs */
    return;
  if (a->variable_lengths) {
    choose_falling_sizes(f);
    return;
  }
  int64_t steps = a->mask == HR_MASK_NONE ? 1 : hr_max64(1, hr_min64(STEPS_OF_A_MASK, a->kv_len / KEYS_OF_A_STEP));
  int64_t each = hr_round_up(hr_ceil_div(a->kv_len, steps), LINE);
  for (int64_t end = each; end < a->kv_len; end += each)
    f->keys[f->sizes++] = end;
  f->keys[f->sizes++] = a->kv_len;
}

static size_t scratch_of(const blocked *f)
{
  size_t most = 0;
  for (int64_t i = 0; i < f->sizes; i++) {
    const hr_matmul *const all[] = {f->whole[i].score, f->whole[i].value, f->few[i].score, f->few[i].value};
    for (size_t k = 0; k < 4; k++) {
      size_t bytes = all[k] ? hr_matmul_workspace_bytes(all[k]) : 0;
      most = bytes > most ? bytes : most;
    }
  }
  return most;
}

static hr_status lay_out(blocked *f, int threads, size_t *workspace_bytes, hr_error *error)
{
  const hr_attention *a = &f->scores.attention;
  const int64_t element = f->scores.packed ? (int64_t)hr_dtype_bytes(f->scores.factors) : 0, word = sizeof(float);
  hr_checked64 end = hr_checked(0);
  hr_place(&end, hr_times(hr_checked(f->ld), f->rows * word));
  f->result = hr_place(&end, hr_times(hr_checked(a->v_dim), f->rows * word));
  f->scratch = hr_place(&end, hr_checked((int64_t)scratch_of(f)));
  f->q = hr_place(&end, hr_times(hr_checked(a->qk_dim), f->rows * element));
  f->k = hr_place(&end, hr_times(hr_times(hr_checked(a->qk_dim), a->kv_len), element));
  f->v = hr_place(&end, hr_times(hr_times(hr_checked(a->v_dim), a->kv_len), element));
  f->thread_bytes = hr_place(&end, hr_checked(0)); /* where the next thread's memory begins */
  hr_checked64 all = hr_times(end, threads);
  if (all.overflow)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "rows of %lld scores do not fit into memory", (long long)a->kv_len);
  *workspace_bytes = (size_t)all.value;
  return HR_OK;
}

static void release(void *state)
{
  free_all_gemms(state);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  const hr_cpu *cpu = hr_cpu_of(device);
  blocked *f = state;
  f->scores = hr_scores_make(&problem->attention, &cpu->isa);
  HR_TRY(hr_onednn_of(device, &f->onednn, error));
  HR_TRY(hr_cpu_thread_pool(device, &f->pool, error));
  if (problem->attention.q_len == 0)
    return HR_OK;
  choose_rows(f);
  choose_sizes(f);
  HR_TRY(hr_scores_choose_operands(&f->scores, create_all_gemms, f, error));
  return lay_out(f, device->threads, workspace_bytes, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const blocked *f = state;
  snprintf(text, size, "%lld rows at a time, %s", (long long)f->rows, hr_scores_describe_operands(&f->scores));
}

/* ---- the run ---- */

typedef struct work {
  const blocked *f;
  const hr_attention_arguments *arguments;
  char *workspace;
  atomic_int_fast64_t next;
  atomic_int failed; /* the first status that was not HR_OK */
  hr_error error;
} work;

/* A block of rows of one head, and the memory of its thread. */
typedef struct block {
  hr_sequence sequence;
  int64_t head, first, rows;
  char *memory;
} block;

/* An operand's rows from `first` on: in place, or copied to `place` and padded to `all` rows. */
static const void *load_rows(const blocked *f, const block *b, hr_attention_operand operand, int64_t first,
                             int64_t rows, int64_t all, size_t place)
{
  const hr_attention *a = &f->scores.attention;
  int64_t share = operand == HR_OPERAND_Q   ? 1
                  : operand == HR_OPERAND_K ? a->q_heads / a->k_heads
                                            : a->q_heads / a->v_heads;
  const void *from = hr_scores_row(&f->scores, operand, &b->sequence, b->head / share, first);
  if (!f->scores.packed)
    return from;
  void *to = b->memory + place;
  hr_scores_pack(&f->scores, from, hr_attention_strides(a, operand).row, operand == HR_OPERAND_V ? a->v_dim : a->qk_dim,
                 rows, all, to);
  return to;
}

static hr_status run_block(const work *w, const block *b, hr_error *error)
{
  const blocked *f = w->f;
  const hr_attention *a = &f->scores.attention;
  const hr_sequence *s = &b->sequence;
  int64_t end = hr_attention_visible(a, s, b->first + b->rows - 1).end, size = 0;
  for (int64_t i = 0; end <= 0 && i < b->rows; i++)
    hr_scores_write_masked(&f->scores, s, b->head, b->first + i);
  if (end <= 0)
    return HR_OK;
  while (f->keys[size] < end)
    size++;
  const bool few = b->rows <= f->few_rows;
  const gemms *p = few ? &f->few[size] : &f->whole[size];
  const int64_t keys = f->keys[size], there = hr_min64(keys, s->kv_len);
  float *scores = (float *)(void *)b->memory, *result = (float *)(void *)(b->memory + f->result);
  void *scratch = b->memory + f->scratch;
  const void *q = load_rows(f, b, HR_OPERAND_Q, b->first, b->rows, few ? f->few_rows : f->rows, f->q);
  const void *k = load_rows(f, b, HR_OPERAND_K, 0, there, keys, f->k);
  const void *v = load_rows(f, b, HR_OPERAND_V, 0, there, keys, f->v);
  float factors[ROWS_MAX]; /* 1 / sum of each row */
  HR_TRY(hr_matmul_run(p->score, q, k, scores, scratch, error));
  for (int64_t i = 0; i < b->rows; i++)
    factors[i] = hr_scores_softmax(&f->scores, w->arguments, s, b->head, b->first + i, scores + i * f->ld, keys, false);
  HR_TRY(hr_matmul_run(p->value, scores, v, result, scratch, error));
  for (int64_t i = 0; i < b->rows; i++)
    hr_scores_write(&f->scores, s, b->head, b->first + i, result + i * a->v_dim, factors[i]);
  return HR_OK;
}

/* Blocks with many keys come first, so that the threads finish together. */
static void run_blocks(void *context, int member)
{
  work *w = context;
  const blocked *f = w->f;
  const hr_attention *a = &f->scores.attention;
  block b = {.memory = w->workspace + (size_t)member * f->thread_bytes};
  int64_t heads = a->batch * a->q_heads, index;
  while ((index = atomic_fetch_add(&w->next, 1)) < heads * f->blocks) {
    b.sequence = hr_attention_sequence(a, w->arguments, index % heads / a->q_heads);
    b.head = index % a->q_heads;
    b.first = (f->blocks - 1 - index / heads) * f->rows;
    b.rows = hr_min64(f->rows, b.sequence.q_len - b.first);
    hr_error error = {.message = ""};
    hr_status status = b.rows > 0 ? run_block(w, &b, &error) : HR_OK;
    int none = HR_OK;
    if (status != HR_OK && atomic_compare_exchange_strong(&w->failed, &none, (int)status))
      w->error = error;
  }
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const blocked *f = plan->state;
  work w = {.f = f, .arguments = run->arguments, .workspace = run->workspace};
  hr_thread_pool_run(f->pool, run_blocks, &w);
  int failed = atomic_load(&w.failed);
  return failed == HR_OK ? HR_OK : hr_fail(error, (hr_status)failed, "%s", w.error.message);
}

const hr_kernel_functions hr_kernel_attention_blocked_onednn = {.state_bytes = sizeof(blocked),
                                                                .prepare = prepare,
                                                                .run = run,
                                                                .whole = true,
                                                                .release = release,
                                                                .describe = describe};
