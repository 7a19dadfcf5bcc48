/* Attention with its scores in memory: S = Q Kᵀ and O = P V are batched products of cuBLASLt, between them a softmax
 * (kernels/attention_materialized.cu). `materialized` has the scores of all heads at once, q × kv in fp32 for each, and
 * stops where memory does: that is what it is for. `fused` has a block of heads, or of rows of one head, that stays in the
 * L2, so that the softmax and the second product read what the step before has just written.
 *
 * Operands are copied to [head][row][dim] first, K and V once for each query head, so that one batch covers unequal heads
 * and any strides. Masked scores are computed and thrown away. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/batched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 256
#define COPY_BLOCKS 4096
#define STEP 16       /* elements that rows of copies are a multiple of: 32 bytes, as products like */
#define ALIGNMENT 256 /* bytes, of the parts of the workspace */
#define BATCH_MOST 65535

/* Parts of the workspace, in bytes from its beginning. */
typedef struct parts {
  size_t q, k, v, o, scores, products, end;
} parts;

typedef struct materialized {
  const hr_cuda *cuda;
  hr_attention a;
  hr_cuda_attention call;
  int64_t heads, rows; /* of a block of scores; the last block of either ends with the last head or row */
  int64_t qk, v, pitch;
  parts at;
  hr_batched score, value;
  cu_function pack, unpack, weigh;
} materialized;

/* As score_block of the program. */
typedef struct score_block {
  int64_t first_head, first_row, rows, pitch;
} score_block;

static bool supports(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  const hr_attention *a = &problem->attention;
  const char *reason = NULL;
  if (a->variable_lengths)
    reason = "takes one length for all sequences: its products are made for their sizes beforehand";
  else if (a->q_len == 0 || a->kv_len == 0)
    reason = "takes lengths above 0";
  else if (a->q_heads * a->batch > BATCH_MOST)
    reason = "takes up to 65535 heads of all sequences";
  if (!reason)
    return hr_cuda_attention_fits(a, 1, why, why_size);
  snprintf(why, why_size, "%s", reason);
  return false;
}

static size_t round_bytes(int64_t elements, size_t element)
{
  return ((size_t)elements * element + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Everything is as large as all heads need, but the scores and O, which are of a block. */
static void lay_out(materialized *m)
{
  const hr_attention *a = &m->a;
  size_t element = hr_dtype_bytes(a->dtype);
  int64_t all = a->q_heads * a->batch;
  m->at.q = 0;
  m->at.k = m->at.q + round_bytes(all * a->q_len * m->qk, element);
  m->at.v = m->at.k + round_bytes(all * a->kv_len * m->qk, element);
  m->at.o = m->at.v + round_bytes(all * a->kv_len * m->v, element);
  m->at.scores = m->at.o + round_bytes(m->heads * m->rows * m->v, element);
  m->at.products = m->at.scores + round_bytes(m->heads * m->rows * m->pitch, sizeof(float));
}

/* Scores of `most` bytes at once: several heads, or some rows of one. */
static void cut(materialized *m, size_t most)
{
  const hr_attention *a = &m->a;
  int64_t row_bytes = m->pitch * (int64_t)sizeof(float), budget = (int64_t)most;
  m->rows = hr_min64(a->q_len, hr_max64(1, budget / row_bytes));
  m->heads = m->rows < a->q_len ? 1 : hr_min64(a->q_heads * a->batch, hr_max64(1, budget / (row_bytes * a->q_len)));
}

static void describe_products(materialized *m)
{
  const hr_attention *a = &m->a;
  int64_t weights =
      m->pitch * (int64_t)(sizeof(float) / hr_dtype_bytes(a->dtype)); /* from one row of them to the next */
  m->score = (hr_batched){.m = m->rows,
                          .n = a->kv_len,
                          .k = m->qk,
                          .batch = m->heads,
                          .b_transposed = true,
                          .dtype = a->dtype,
                          .result = HR_FP32,
                          .lda = m->qk,
                          .ldb = m->qk,
                          .ldc = m->pitch,
                          .a_stride = a->q_len * m->qk,
                          .b_stride = a->kv_len * m->qk,
                          .c_stride = m->rows * m->pitch};
  m->value = (hr_batched){.m = m->rows,
                          .n = m->v,
                          .k = a->kv_len,
                          .batch = m->heads,
                          .dtype = a->dtype,
                          .result = a->dtype,
                          .lda = weights,
                          .ldb = m->v,
                          .ldc = m->v,
                          .a_stride = m->rows * weights,
                          .b_stride = a->kv_len * m->v,
                          .c_stride = m->rows * m->v};
}

static void release(void *state)
{
  materialized *m = state;
  if (m && hr_cuda_enter(m->cuda, NULL) == HR_OK) {
    hr_batched_free(m->cuda, &m->score);
    hr_batched_free(m->cuda, &m->value);
    hr_cuda_leave(m->cuda);
  }
  free(m);
}

static hr_status find_functions(materialized *m, hr_error *error)
{
  const char *source = "attention_materialized", *defines = hr_cuda_attention_modified(&m->a) ? "HR_MODIFIED" : NULL;
  hr_dtype dtype = m->a.dtype == HR_TF32 ? HR_FP32 : m->a.dtype;
  HR_TRY(hr_cuda_function(m->cuda, source, dtype, defines, "pack", &m->pack, error));
  HR_TRY(hr_cuda_function(m->cuda, source, dtype, defines, "unpack", &m->unpack, error));
  return hr_cuda_function(m->cuda, source, dtype, defines, "weigh", &m->weigh, error);
}

static hr_status find_products(materialized *m, hr_error *error)
{
  HR_TRY(hr_cuda_enter(m->cuda, error));
  hr_status status = hr_batched_prepare(m->cuda, &m->score, error);
  if (status == HR_OK)
    status = hr_batched_prepare(m->cuda, &m->value, error);
  hr_cuda_leave(m->cuda);
  return status;
}

/* `most`: bytes of scores at once; 0: all. */
static hr_status prepare_blocks(hr_device *device, const hr_attention *a, size_t most, void **state,
                                size_t *workspace_bytes, hr_error *error)
{
  materialized *m = calloc(1, sizeof *m);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", device->name);
  m->cuda = device->state;
  m->a = *a;
  m->call = hr_cuda_attention_describe(a, 1);
  m->qk = hr_round_up(a->qk_dim, STEP);
  m->v = hr_round_up(a->v_dim, STEP);
  m->pitch = hr_round_up(a->kv_len, STEP);
  m->rows = a->q_len;
  m->heads = a->q_heads * a->batch;
  if (most > 0)
    cut(m, most);
  lay_out(m);
  describe_products(m);
  hr_status status = find_functions(m, error);
  if (status == HR_OK)
    status = find_products(m, error);
  if (status != HR_OK) {
    release(m);
    return status;
  }
  size_t products = m->score.chosen.workspace_bytes;
  if (products < m->value.chosen.workspace_bytes)
    products = m->value.chosen.workspace_bytes;
  *workspace_bytes = m->at.products + products + ALIGNMENT;
  *state = m;
  return HR_OK;
}

static hr_status prepare_materialized(hr_device *device, const hr_problem *problem, void **state,
                                      size_t *workspace_bytes, hr_error *error)
{
  return prepare_blocks(device, &problem->attention, 0, state, workspace_bytes, error);
}

static hr_status prepare_fused(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                               hr_error *error)
{
  return prepare_blocks(device, &problem->attention, device->cache_bytes / 2, state, workspace_bytes, error);
}

static hr_status launch(const materialized *m, cu_function function, int64_t blocks, void **parameters, hr_error *error)
{
  return HR_CU(&m->cuda->driver, cuLaunchKernel,
               (function, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, m->cuda->stream, parameters, NULL), error);
}

static int64_t copy_blocks(int64_t elements)
{
  return hr_min64(hr_ceil_div(elements, THREADS), COPY_BLOCKS);
}

/* All heads of an operand to [head][row][dim]. */
static hr_status pack(const materialized *m, const void *from, hr_strides at, cu_address to, int64_t group,
                      int64_t length, int64_t dim, int64_t width, hr_error *error)
{
  cu_address source = (cu_address)(uintptr_t)from;
  int64_t first = 0, heads = m->a.q_heads * m->a.batch;
  int q_heads = (int)m->a.q_heads, shared_by = (int)group, columns = (int)dim, padded = (int)width;
  void *parameters[] = {&source, &at, &to, &first, &heads, &q_heads, &shared_by, &length, &columns, &padded};
  return launch(m, m->pack, copy_blocks(heads * length * width), parameters, error);
}

static hr_status pack_all(const materialized *m, const hr_attention_arguments *x, cu_address base, hr_error *error)
{
  const hr_attention *a = &m->a;
  HR_TRY(pack(m, x->q, m->call.q_at, base + m->at.q, 1, a->q_len, a->qk_dim, m->qk, error));
  HR_TRY(pack(m, x->k, m->call.k_at, base + m->at.k, m->call.k_group, a->kv_len, a->qk_dim, m->qk, error));
  return pack(m, x->v, m->call.v_at, base + m->at.v, m->call.v_group, a->kv_len, a->v_dim, m->v, error);
}

static hr_status run_block(const materialized *m, const hr_cuda_attention *call, cu_address base, int64_t head,
                           int64_t row, hr_error *error)
{
  const hr_attention *a = &m->a;
  size_t element = hr_dtype_bytes(a->dtype);
  cu_address q = base + m->at.q + (size_t)((head * a->q_len + row) * m->qk) * element;
  cu_address k = base + m->at.k + (size_t)(head * a->kv_len * m->qk) * element;
  cu_address v = base + m->at.v + (size_t)(head * a->kv_len * m->v) * element;
  cu_address scores = base + m->at.scores, o = base + m->at.o, products = base + m->at.products;
  score_block block = {head, row, m->rows, m->pitch};
  hr_cuda_attention described = *call;
  void *weighing[] = {&described, &scores, &block};
  HR_TRY(hr_batched_run(m->cuda, &m->score, q, k, scores, products, error));
  HR_TRY(launch(m, m->weigh, m->heads * m->rows, weighing, error));
  HR_TRY(hr_batched_run(m->cuda, &m->value, scores, v, o, products, error));
  int64_t first = head, first_row = row, heads = m->heads, rows = m->rows;
  int q_heads = (int)a->q_heads, dim = (int)a->v_dim, width = (int)m->v;
  void *unpacking[] = {&o, &described.o_at, &described.o, &first, &heads, &q_heads, &first_row, &rows, &dim, &width};
  return launch(m, m->unpack, copy_blocks(heads * rows * dim), unpacking, error);
}

static hr_status run_blocks(const materialized *m, const hr_attention_arguments *arguments, cu_address base,
                            hr_error *error)
{
  hr_cuda_attention call = m->call;
  hr_cuda_attention_address(&call, &m->a, arguments);
  HR_TRY(pack_all(m, arguments, base, error));
  int64_t all = m->a.q_heads * m->a.batch;
  for (int64_t head = 0; head < all; head += m->heads)
    for (int64_t row = 0; row < m->a.q_len; row += m->rows)
      HR_TRY(run_block(m, &call, base, hr_min64(head, all - m->heads), hr_min64(row, m->a.q_len - m->rows), error));
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace, hr_error *error)
{
  const materialized *m = plan->state;
  cu_address base = ((cu_address)(uintptr_t)workspace + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  HR_TRY(hr_cuda_enter(m->cuda, error));
  hr_status status = run_blocks(m, arguments, base, error);
  hr_cuda_leave(m->cuda);
  return status;
}

static void describe(const void *state, char *text, size_t size)
{
  const materialized *m = state;
  snprintf(text, size, "scores of %" PRId64 " heads × %" PRId64 " rows at once, %.0f MB", m->heads, m->rows,
           (double)m->heads * (double)m->rows * (double)m->pitch * 4e-6);
}

const hr_kernel_functions hr_kernel_attention_materialized_cublaslt = {.supports = supports,
                                                                       .prepare = prepare_materialized,
                                                                       .run_attention = run,
                                                                       .release = release,
                                                                       .describe = describe};

const hr_kernel_functions hr_kernel_attention_fused_cublaslt = {
    .supports = supports, .prepare = prepare_fused, .run_attention = run, .release = release, .describe = describe};
