/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a kernel's result with the float64 reference on a sample of rows, and in large GEMMs on a sample of their
 * columns. docs/notes/measuring-derivations.md describes the sample. */
#include "runtime/measure/check.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/host.h"
#include "runtime/device/number.h"
#include "runtime/device/plan.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/measure/selection.h"
#include "runtime/operation/decode_sequences.h"
#include "runtime/reference/reference.h"

#include <headroom/buffer.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ROWS_MAX 16
#define COLUMNS 32                      /* width of a range of columns */
#define LARGE ((size_t)1 << 26)         /* bytes from which the host's free memory is checked first */
#define COLUMNS_MIN 8                   /* per row */
#define SELECTED_ROWS_MIN 8             /* rows of a call with top_k, for its selection_error */
#define PRODUCTS_MAX ((int64_t)1 << 23) /* multiply-adds of the reference: 10 ms, and as long to copy the part of B */

/* The sampled part of the result: `count` rows, and in each `ranges` ranges of `width` columns; one range is the whole
 * row unless that is too much. */
typedef struct sample {
  int64_t rows;          /* of the result */
  int64_t length;        /* of a row */
  int64_t count;         /* sampled rows */
  int64_t ranges, width; /* of a row */
  size_t scratch;        /* doubles */
  uint64_t seed;
} sample;

static sample whole_rows(int64_t rows, int64_t length, int64_t products, size_t scratch)
{
  int64_t count = hr_min64(ROWS_MAX, hr_max64(1, PRODUCTS_MAX / products));
  return (sample){
      .rows = rows, .length = length, .count = hr_min64(count, rows), .ranges = 1, .width = length, .scratch = scratch};
}

static sample sample_of_gemm(const hr_gemm *g)
{
  sample result = {.rows = g->batch * g->m, .length = g->n, .scratch = hr_reference_gemm_scratch(g)};
  result.count = hr_min64(ROWS_MAX, result.rows);
  int64_t columns = hr_min64(g->n, hr_max64(COLUMNS_MIN, PRODUCTS_MAX / result.count / g->k));
  result.width = columns == g->n ? g->n : hr_min64(COLUMNS, columns);
  result.ranges = columns / result.width;
  return result;
}

static sample sample_of_decode(const hr_decode *d)
{
  int64_t products = d->kv_len * (d->qk_dim + d->v_dim);
  if (hr_decode_selects(d))
    products = hr_min64(products, PRODUCTS_MAX / SELECTED_ROWS_MIN);
  return whole_rows(d->batch * d->q_len * d->q_heads, d->v_dim, products, hr_reference_decode_scratch(d));
}

static sample sample_of_operation(const hr_problem *p)
{
  const hr_attention *a = &p->attention;
  const hr_decode *d = &p->decode;
  switch (p->operation) {
  case HR_OPERATION_GEMM: return sample_of_gemm(&p->gemm);
  case HR_OPERATION_ROWWISE:
    return whole_rows(p->rows.rows, p->rows.columns, p->rows.columns * 16, hr_reference_rowwise_scratch(&p->rows));
  case HR_OPERATION_DECODE: return sample_of_decode(d);
  default:
    return whole_rows(a->batch * a->q_len * a->q_heads, a->v_dim, a->kv_len * (a->qk_dim + a->v_dim),
                      hr_reference_attention_scratch(a));
  }
}

static sample sample_of(const hr_problem *p, uint64_t seed)
{
  sample result = sample_of_operation(p);
  result.seed = seed;
  return result;
}

/* A random number below `count`, determined by seed, row and range. */
static int64_t drawn(uint64_t seed, int64_t row, int64_t range, int64_t count)
{
  uint64_t spread = (seed + (uint64_t)row + ROWS_MAX * (uint64_t)range) * 0x9E3779B97F4A7C15u;
  return (int64_t)((spread >> 16) % (uint64_t)count);
}

/* The last row, the first, and one random row of each of count − 2 equal stretches between them. */
int64_t hr_sampled_row(int64_t rows, int64_t count, int64_t index, uint64_t seed)
{
  if (index < 2)
    return index == 0 ? rows - 1 : 0;
  int64_t between = rows - 2, stretches = count - 2, at = index - 2;
  int64_t first = between / stretches * at + hr_min64(between % stretches, at);
  int64_t length = between / stretches + (at < between % stretches);
  return 1 + first + drawn(seed, index, 0, length);
}

/* First column of range `range` in the index-th sampled row: a random one in each of `ranges` equal stretches, but the
 * very end of the last row and the very beginning of the first. */
static int64_t sampled_column(const sample *s, int64_t index, int64_t range)
{
  int64_t stretch = s->length / s->ranges, room = stretch - s->width;
  if (index == 0 && range == s->ranges - 1)
    return s->length - s->width;
  if (index == 1 && range == 0)
    return 0;
  return range * stretch + drawn(s->seed, index, range + 1, room + 1);
}

typedef struct part {
  size_t offset, bytes;
} part;

/* The operands of set 0, readable by the host. From a device's own memory only the parts that the sample needs are
 * copied, each to its offset in a reserved image of the operand: address space is free, copying gigabytes is not. */
typedef struct host_set {
  const void *operands[HR_OPERANDS_MAX];
  void *images[HR_OPERANDS_MAX]; /* NULL if the host can read the device's memory */
  part here[HR_OPERANDS_MAX];    /* the part copied last */
} host_set;

static void *reserve(size_t bytes)
{
  void *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return image == MAP_FAILED ? NULL : image;
}

static hr_status begin_host_set(const hr_runner *s, host_set *host, hr_error *error)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    host->operands[i] = hr_buffer_data(s->buffers[i]);
    if (!s->device->backend->own_memory)
      continue;
    host->operands[i] = host->images[i] = reserve(s->operands.bytes[i]);
    if (!host->images[i])
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "the host has no address space to check %.2f GiB",
                     (double)s->operands.bytes[i] * 0x1p-30);
  }
  return HR_OK;
}

static void end_host_set(const hr_runner *s, host_set *host)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    if (host->images[i])
      munmap(host->images[i], s->operands.bytes[i]);
  }
}

/* Copies a part of operand i unless it was copied last. */
static hr_status fetch(const hr_runner *s, host_set *host, size_t i, part wanted, hr_error *error)
{
  const part *here = &host->here[i];
  if (!host->images[i] || (here->offset == wanted.offset && here->bytes == wanted.bytes))
    return HR_OK;
  if (wanted.bytes > LARGE && wanted.bytes > hr_host_memory_available() / 16 * 15)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "the host has no %.2f GiB to check an operand",
                   (double)wanted.bytes * 0x1p-30);
  HR_TRY(s->device->backend->read(s->device, (char *)host->images[i] + wanted.offset,
                                  (const char *)hr_buffer_data(s->buffers[i]) + wanted.offset, wanted.bytes, error));
  host->here[i] = wanted;
  return HR_OK;
}

/* The index-th of `parts` equal parts of operand i. */
static part equal_part(const hr_runner *s, size_t i, int64_t index, int64_t parts)
{
  size_t bytes = s->operands.bytes[i] / (size_t)parts;
  return (part){bytes * (size_t)index, bytes};
}

/* `rows` rows of a GEMM's matrix, from row `row` of a batch on. */
static part rows_of(const hr_gemm *g, hr_matrix matrix, int64_t batch, int64_t row, int64_t rows)
{
  size_t element = hr_dtype_bytes(g->dtype);
  int64_t start = batch * matrix.batch_stride + row * matrix.leading_dimension;
  return (part){(size_t)start * element, (size_t)((rows - 1) * matrix.leading_dimension + matrix.columns) * element};
}

/* The part of B for `width` columns from `column` on. It is all of a batch, and is reused for the next ranges, if
 * columns are not contiguous or if the ranges of its rows add up to as much. */
static part columns_of_b(const hr_gemm *g, const sample *of, int64_t batch, int64_t column)
{
  hr_matrix b = hr_gemm_b(g);
  int64_t rows_of_batch = hr_ceil_div(of->count, g->broadcast_b ? 1 : g->batch);
  if (!g->transpose_b || rows_of_batch * of->ranges * of->width >= g->n)
    return rows_of(g, b, batch, 0, b.rows);
  return rows_of(g, b, batch, column, of->width);
}

static hr_status fetch_for_gemm(const hr_runner *s, host_set *host, const sample *of, int64_t row, int64_t column,
                                hr_error *error)
{
  const hr_gemm *g = &s->problem.gemm;
  int64_t batch = row / g->m;
  hr_matrix a = hr_gemm_a(g);
  HR_TRY(
      fetch(s, host, 0, g->transpose_a ? rows_of(g, a, batch, 0, a.rows) : rows_of(g, a, batch, row % g->m, 1), error));
  HR_TRY(fetch(s, host, 1, columns_of_b(g, of, batch, column), error));
  return fetch(s, host, 2, rows_of(g, hr_gemm_c(g), batch, row % g->m, 1), error);
}

/* Index of the first element of a row of attention's or decode's result; rows are sequences by queries by heads. */
static int64_t query_start(hr_strides strides, int64_t q_len, int64_t q_heads, int64_t row)
{
  int64_t query = row / q_heads % q_len, batch = row / q_heads / q_len;
  return batch * strides.batch + query * strides.row + row % q_heads * strides.head;
}

/* Index of the first element of a row of the result. */
static int64_t row_start(const hr_problem *p, const sample *of, int64_t row)
{
  if (p->operation == HR_OPERATION_ROWWISE)
    return row * of->length;
  if (p->operation == HR_OPERATION_GEMM) {
    hr_matrix c = hr_gemm_c(&p->gemm);
    return row / p->gemm.m * c.batch_stride + row % p->gemm.m * c.leading_dimension;
  }
  if (p->operation == HR_OPERATION_DECODE)
    return query_start(hr_decode_o_strides(&p->decode), p->decode.q_len, p->decode.q_heads, row);
  const hr_attention *a = &p->attention;
  return query_start(hr_attention_strides(a, HR_OPERAND_O), a->q_len, a->q_heads, row);
}

/* Copies what the reference reads for a range of a row of the result, and that row. */
static hr_status fetch_for_range(const hr_runner *s, host_set *host, const sample *of, int64_t row, int64_t column,
                                 hr_error *error)
{
  size_t last = s->operands.count - 1;
  if (s->problem.operation == HR_OPERATION_GEMM)
    return fetch_for_gemm(s, host, of, row, column, error);
  size_t element = hr_dtype_bytes(hr_problem_output_dtype(&s->problem)),
         start = (size_t)row_start(&s->problem, of, row);
  HR_TRY(fetch(s, host, last, (part){start * element, (size_t)of->length * element}, error));
  for (size_t i = 0; i < last; i++) {
    bool by_row = s->problem.operation == HR_OPERATION_ROWWISE && s->operands.bytes[i] == s->operands.bytes[last];
    HR_TRY(fetch(s, host, i, by_row ? equal_part(s, i, row, of->rows) : equal_part(s, i, 0, 1), error));
  }
  return HR_OK;
}

static void reference_attention(const hr_runner *s, const host_set *host, int64_t row, double *scratch,
                                hr_reference_query *query)
{
  const hr_attention *a = &s->problem.attention;
  hr_attention_arguments arguments =
      hr_problem_arguments(&s->problem, &s->operands, (hr_operand_addresses){host->operands, NULL}).attention;
  int64_t place = row / a->q_heads % a->q_len, batch = row / a->q_heads / a->q_len;
  hr_reference_attention_row(a, &arguments, batch, place, row % a->q_heads, scratch, query);
}

static void reference_decode(const hr_runner *s, const host_set *host, int64_t row, double *scratch,
                             hr_reference_query *query)
{
  const hr_decode *d = &s->problem.decode;
  hr_decode_arguments arguments =
      hr_problem_arguments(&s->problem, &s->operands, (hr_operand_addresses){host->operands, NULL}).decode;
  int64_t place = row / d->q_heads % d->q_len, sequence = row / d->q_heads / d->q_len;
  hr_reference_decode_row(d, &arguments, sequence, place, row % d->q_heads, scratch, query);
}

/* A range of columns is computed as a row of the GEMM with only these columns of B. */
static void reference_gemm(const hr_gemm *g, const host_set *host, const sample *of, int64_t row, int64_t column,
                           double *scratch, hr_reference_query *query)
{
  hr_gemm some = *g;
  hr_matrix b = hr_gemm_b(g);
  size_t skipped = (size_t)(g->transpose_b ? column * b.leading_dimension : column) * hr_dtype_bytes(g->dtype);
  some.n = of->width;
  some.ldb = b.leading_dimension;
  some.stride_b = b.batch_stride;
  hr_reference_gemm_row(&some, host->operands[0], (const char *)host->operands[1] + skipped, row / g->m, row % g->m,
                        scratch, query->out, query->norm);
}

static void reference_range(const hr_runner *s, const host_set *host, const sample *of, int64_t row, int64_t column,
                            double *scratch, hr_reference_query *query)
{
  const hr_problem *p = &s->problem;
  switch (p->operation) {
  case HR_OPERATION_ROWWISE:
    hr_reference_rowwise_row(&p->rows, host->operands, row, scratch, query->out, query->norm);
    break;
  case HR_OPERATION_GEMM: reference_gemm(&p->gemm, host, of, row, column, scratch, query); break;
  case HR_OPERATION_DECODE: reference_decode(s, host, row, scratch, query); break;
  default: reference_attention(s, host, row, scratch, query);
  }
}

static bool selects(const hr_runner *s)
{
  return s->problem.operation == HR_OPERATION_DECODE && s->problem.decode.top_k > 0;
}

static double bound_of(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_problem *p = &plan->problem;
  if (p->operation == HR_OPERATION_ATTENTION)
    return hr_attention_error_bound(p->dtype, hr_problem_output_dtype(p), p->attention.qk_dim, query, column);
  if (p->operation == HR_OPERATION_DECODE)
    return hr_attention_error_bound(p->dtype, p->dtype, p->decode.qk_dim, query, column);
  double reference = query->out[column], norm = query->norm[column];
  return p->operation == HR_OPERATION_ROWWISE
             ? hr_rowwise_error_bound(p->dtype, p->rows.columns, reference, norm)
             : hr_gemm_error_bound(p->dtype, p->gemm.k, &plan->summation, reference, norm);
}

static hr_status check_range(const hr_runner *s, host_set *host, const sample *of, int64_t row, int64_t column,
                             double *scratch, hr_measurement *m, hr_error *error)
{
  double *expected = scratch + of->scratch, *swapped = expected + 2 * of->width;
  hr_reference_query query = {.out = expected, .norm = expected + of->width};
  HR_TRY(fetch_for_range(s, host, of, row, column, error));
  reference_range(s, host, of, row, column, scratch, &query);
  if (selects(s))
    hr_selection_swaps(s, host->operands, row, &query, scratch, swapped);
  const void *result = host->operands[s->operands.count - 1];
  int64_t start = row_start(&s->problem, of, row) + column;
  for (int64_t j = 0; j < of->width; j++) {
    hr_dtype dtype = hr_problem_output_dtype(&s->problem);
    double found = hr_number_load(dtype, result, (size_t)(start + j));
    expected[j] = hr_dtype_saturate(dtype, expected[j]);
    double off = fabs(found - expected[j]), bound = bound_of(s->plan, &query, j) + swapped[j];
    if (!(off <= m->max_error))
      m->max_error = off;
    if (!(off <= bound)) /* also if NaN */
      return hr_fail(error, HR_ERROR_WRONG_RESULT, "%s: row %" PRId64 ", column %" PRId64 ": %g, the reference is %g",
                     hr_plan_kernel(s->plan), row, column + j, found, expected[j]);
  }
  return HR_OK;
}

static hr_status check_row(const hr_runner *s, host_set *host, const sample *of, int64_t index, double *scratch,
                           hr_measurement *m, hr_error *error)
{
  int64_t row = hr_sampled_row(of->rows, of->count, index, of->seed);
  for (int64_t range = 0; range < of->ranges; range++)
    HR_TRY(check_range(s, host, of, row, sampled_column(of, index, range), scratch, m, error));
  m->rows_checked++;
  return HR_OK;
}

/* Returns the largest error of the rows that are checked. */
static double selection_error(const hr_runner *s, const host_set *host, const sample *of, double *scratch)
{
  int64_t rows[ROWS_MAX];
  for (int64_t i = 0; i < of->count; i++)
    rows[i] = hr_sampled_row(of->rows, of->count, i, of->seed);
  return hr_selection_error(s, host->operands, rows, of->count, scratch);
}

/* Returns how much the device's free memory fell, by the workspace and by allocations of driver and libraries. Memory
 * is allocated in large pages, so that a small workspace may not show; then its own size counts. */
static double device_memory_taken(const hr_runner *s)
{
  size_t after = hr_device_memory_available(s->device);
  if (s->free_before == 0 || after == 0)
    return (double)NAN;
  return fmax((double)s->free_before - (double)after, (double)hr_plan_workspace_bytes(s->plan));
}

/* The first run, and the memory it takes in addition to the operands. */
static hr_status run_first(hr_runner *s, hr_measurement *m, hr_error *error)
{
  const hr_backend *backend = s->device->backend;
  size_t before = backend->own_memory ? 0 : hr_host_peak_begin();
  s->next = 0;
  HR_TRY(hr_runner_run(s, error));
  if (backend->own_memory && backend->wait)
    HR_TRY(backend->wait(s->device, error));
  if (backend->own_memory)
    m->peak_bytes = device_memory_taken(s);
  else
    m->peak_bytes = before > 0 ? hr_host_peak_since(before) : (double)NAN;
  return HR_OK;
}

hr_status hr_runner_check(hr_runner *runner, uint64_t seed, hr_measurement *m, hr_error *error)
{
  sample of = sample_of(&runner->problem, seed);
  HR_TRY(run_first(runner, m, error));
  double *scratch = calloc(of.scratch + 3 * (size_t)of.width, sizeof *scratch);
  if (!scratch)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to check rows of %" PRId64 " elements", of.length);
  m->max_error = 0;
  host_set host = {{NULL}, {NULL}, {{0, 0}}};
  hr_status status = begin_host_set(runner, &host, error);
  for (int64_t i = 0; i < of.count && status == HR_OK; i++)
    status = check_row(runner, &host, &of, i, scratch, m, error);
  if (status == HR_OK && selects(runner))
    m->selection_error = selection_error(runner, &host, &of, scratch);
  end_host_set(runner, &host);
  free(scratch);
  return status;
}
