/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/gemm.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/alignment.h"

#include <inttypes.h>

void hr_gemm_init(hr_gemm *gemm, size_t size)
{
  HR_INIT(gemm, size, (hr_gemm){.m = 1, .n = 1, .k = 1, .batch = 1, .dtype = HR_BF16});
}

/* An operand as hr_gemm describes it, with strides that may be 0. */
typedef struct operand {
  char letter; /* lower case */
  int64_t rows, columns, leading_dimension, batch_stride;
  bool broadcast;
} operand;

static operand operand_a(const hr_gemm *g)
{
  int64_t rows = g->transpose_a ? g->k : g->m, columns = g->transpose_a ? g->m : g->k;
  return (operand){'a', rows, columns, g->lda, g->stride_a, g->broadcast_a};
}

static operand operand_b(const hr_gemm *g)
{
  int64_t rows = g->transpose_b ? g->n : g->k, columns = g->transpose_b ? g->k : g->n;
  return (operand){'b', rows, columns, g->ldb, g->stride_b, g->broadcast_b};
}

static operand operand_c(const hr_gemm *g)
{
  return (operand){'c', g->m, g->n, g->ldc, g->stride_c, false};
}

static int64_t leading_dimension(const operand *o)
{
  return o->leading_dimension > 0 ? o->leading_dimension : o->columns;
}

static hr_checked64 batch_stride(const operand *o)
{
  if (o->broadcast || o->batch_stride > 0)
    return hr_checked(o->batch_stride);
  return hr_times(hr_checked(o->rows), leading_dimension(o));
}

static hr_checked64 one_less(int64_t count)
{
  return hr_plus(hr_checked(count), hr_checked(-1));
}

/* Elements of one batch, from the first to the end of the last. */
static hr_checked64 extent(const operand *o)
{
  return hr_plus(hr_times(one_less(o->rows), leading_dimension(o)), hr_checked(o->columns));
}

static hr_checked64 elements(const operand *o, int64_t batch)
{
  hr_checked64 stride = batch_stride(o), last = hr_times(one_less(batch), stride.value);
  return hr_plus((hr_checked64){last.value, last.overflow || stride.overflow}, extent(o));
}

static hr_matrix matrix(const hr_gemm *gemm, operand o)
{
  return (hr_matrix){o.rows, o.columns, leading_dimension(&o), batch_stride(&o).value, elements(&o, gemm->batch).value};
}

hr_matrix hr_gemm_a(const hr_gemm *gemm)
{
  return matrix(gemm, operand_a(gemm));
}

hr_matrix hr_gemm_b(const hr_gemm *gemm)
{
  return matrix(gemm, operand_b(gemm));
}

hr_matrix hr_gemm_c(const hr_gemm *gemm)
{
  return matrix(gemm, operand_c(gemm));
}

static hr_checked64 gemm_flops(const hr_gemm *gemm)
{
  return hr_times(hr_times(hr_times(hr_times(hr_checked(2), gemm->m), gemm->n), gemm->k), gemm->batch);
}

/* Elements of all batches, each counted once: overlapping batches have at most as many as their extent. */
static hr_checked64 distinct(operand o, int64_t batch)
{
  hr_checked64 used = hr_times(hr_times(hr_checked(o.rows), o.columns), o.broadcast ? 1 : batch);
  hr_checked64 all = elements(&o, batch);
  return used.overflow || all.overflow ? used : hr_checked(hr_min64(used.value, all.value));
}

static hr_checked64 gemm_bytes(const hr_gemm *gemm)
{
  hr_checked64 a = distinct(operand_a(gemm), gemm->batch);
  hr_checked64 b = distinct(operand_b(gemm), gemm->batch);
  hr_checked64 c = distinct(operand_c(gemm), gemm->batch);
  hr_checked64 bias = hr_checked(gemm->bias ? gemm->n : 0);
  return hr_times(hr_plus(hr_plus(hr_plus(a, b), c), bias), (int64_t)hr_dtype_bytes(gemm->dtype));
}

static hr_checked64 stored_bytes(const hr_gemm *gemm)
{
  operand a = operand_a(gemm), b = operand_b(gemm), c = operand_c(gemm);
  hr_checked64 all = hr_plus(hr_plus(elements(&a, gemm->batch), elements(&b, gemm->batch)), elements(&c, gemm->batch));
  return hr_times(all, (int64_t)hr_dtype_bytes(gemm->dtype));
}

hr_status hr_gemm_flops(const hr_gemm *gemm, int64_t *flops)
{
  HR_NEED(NULL, gemm, flops);
  return hr_checked_take(gemm_flops(gemm), flops);
}

hr_status hr_gemm_bytes(const hr_gemm *gemm, int64_t *bytes)
{
  HR_NEED(NULL, gemm, bytes);
  return hr_checked_take(gemm_bytes(gemm), bytes);
}

static hr_status check_strides(operand o, hr_error *error)
{
  char capital = (char)(o.letter - 'a' + 'A');
  if (o.leading_dimension < 0)
    return hr_fail(error, HR_ERROR_INVALID, "ld%c: expected at least 0, found %" PRId64, o.letter, o.leading_dimension);
  if (o.leading_dimension > 0 && o.leading_dimension < o.columns)
    return hr_fail(error, HR_ERROR_INVALID, "ld%c: %" PRId64 " is shorter than a row of %c, which has %" PRId64,
                   o.letter, o.leading_dimension, capital, o.columns);
  if (o.batch_stride < 0)
    return hr_fail(error, HR_ERROR_INVALID, "stride_%c: expected at least 0, found %" PRId64, o.letter, o.batch_stride);
  if (o.broadcast && o.batch_stride > 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "stride_%c: is %" PRId64 ", but %c is broadcast: every batch reads the same", o.letter,
                   o.batch_stride, capital);
  return HR_OK;
}

/* Batches of C do not overlap if each begins behind the previous one, or if all are side by side within ldc. */
static hr_status check_overlap(const hr_gemm *g, hr_error *error)
{
  operand c = operand_c(g);
  hr_checked64 side_by_side = hr_plus(hr_times(hr_checked(g->stride_c), g->batch - 1), hr_checked(g->n));
  if (g->stride_c == 0 || g->batch == 1 || g->stride_c >= extent(&c).value)
    return HR_OK;
  if (g->stride_c >= g->n && !side_by_side.overflow && side_by_side.value <= leading_dimension(&c))
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID,
                 "stride_c: with %" PRId64 " the batches of C overlap: expected at least %" PRId64
                 ", or at least %" PRId64 " and ldc at least (batch - 1) x stride_c + n",
                 g->stride_c, extent(&c).value, g->n);
}

hr_status hr_gemm_check(const hr_gemm *gemm, hr_error *error)
{
  HR_NEED(error, gemm);
  HR_TAKE(hr_gemm, gemm, error);
  const struct {
    const char *name;
    int64_t value;
  } sizes[] = {{"m", gemm->m}, {"n", gemm->n}, {"k", gemm->k}, {"batch", gemm->batch}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < 1)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least 1, found %" PRId64, sizes[i].name, sizes[i].value);
  }
  if (hr_dtype_bytes(gemm->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)gemm->dtype);
  HR_TRY(hr_check_alignment(gemm->alignment, gemm->dtype, error));
  HR_TRY(check_strides(operand_a(gemm), error));
  HR_TRY(check_strides(operand_b(gemm), error));
  HR_TRY(check_strides(operand_c(gemm), error));
  if (gemm_flops(gemm).overflow || gemm_bytes(gemm).overflow || stored_bytes(gemm).overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "a GEMM of m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64 " is too large to count%s",
                   gemm->m, gemm->n, gemm->k, gemm->batch,
                   gemm_flops(gemm).overflow || gemm_bytes(gemm).overflow ? "" : " with these strides");
  return check_overlap(gemm, error);
}
