/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM with its operands on a device and on the host, for tests that compare it with a GEMM computed in float64. */
#ifndef HR_TESTS_KERNELS_GEMM_OPERANDS_H
#define HR_TESTS_KERNELS_GEMM_OPERANDS_H

#include "machine.h"

#include "runtime/device/number.h"
#include "runtime/device/plan.h"

#include <headroom/buffer.h>

#include <stdlib.h>

typedef struct gemm_operands {
  hr_gemm gemm;
  hr_buffer *a, *b, *c;
  void *a_values, *b_values, *c_values; /* copies on the host; C's after run_plan() */
} gemm_operands;

static inline size_t bytes_of(const hr_gemm *g, hr_matrix matrix)
{
  return hr_dtype_bytes(g->dtype) * (size_t)matrix.elements;
}

static inline void *values_of(const hr_buffer *buffer, size_t bytes)
{
  hr_error error;
  void *values = malloc(bytes);
  assert_non_null(values);
  assert_ok(hr_buffer_read(buffer, values, bytes, &error), error);
  return values;
}

static inline void make_operands(hr_device *device, const hr_gemm *g, uint64_t seed, gemm_operands *p)
{
  hr_error error;
  *p = (gemm_operands){.gemm = *g};
  assert_ok(hr_buffer_create(device, bytes_of(g, hr_gemm_a(g)), &p->a, &error), error);
  assert_ok(hr_buffer_create(device, bytes_of(g, hr_gemm_b(g)), &p->b, &error), error);
  assert_ok(hr_buffer_create(device, bytes_of(g, hr_gemm_c(g)), &p->c, &error), error);
  assert_ok(hr_buffer_fill_uniform(p->a, g->dtype, seed, &error), error);
  assert_ok(hr_buffer_fill_uniform(p->b, g->dtype, seed + 1, &error), error);
  assert_ok(hr_buffer_poison(p->c, g->dtype, &error), error);
  p->a_values = values_of(p->a, bytes_of(g, hr_gemm_a(g)));
  p->b_values = values_of(p->b, bytes_of(g, hr_gemm_b(g)));
}

static inline void free_operands(gemm_operands *p)
{
  free(p->a_values);
  free(p->b_values);
  free(p->c_values);
  hr_buffer_free(p->a);
  hr_buffer_free(p->b);
  hr_buffer_free(p->c);
}

/* Index of an element in the stored matrix; computed here independently of the tested code. */
static inline size_t element_index(const hr_gemm *g, char operand, int64_t batch, int64_t row, int64_t column)
{
  int64_t rows = operand == 'b' ? g->k : g->m, columns = operand == 'a' ? g->k : g->n;
  int64_t leading = operand == 'a' ? g->lda : operand == 'b' ? g->ldb : g->ldc;
  int64_t stride = operand == 'a' ? g->stride_a : operand == 'b' ? g->stride_b : g->stride_c;
  bool transposed = operand == 'a' ? g->transpose_a : operand == 'b' ? g->transpose_b : false;
  bool broadcast = operand == 'a' ? g->broadcast_a : operand == 'b' ? g->broadcast_b : false;
  leading = leading ? leading : transposed ? rows : columns;
  stride = broadcast ? 0 : stride ? stride : leading * (transposed ? columns : rows);
  return (size_t)(batch * stride + (transposed ? column * leading + row : row * leading + column));
}

static inline double element_a(const gemm_operands *p, int64_t batch, int64_t row, int64_t inner)
{
  return hr_number_load(p->gemm.dtype, p->a_values, element_index(&p->gemm, 'a', batch, row, inner));
}

static inline double element_b(const gemm_operands *p, int64_t batch, int64_t inner, int64_t column)
{
  return hr_number_load(p->gemm.dtype, p->b_values, element_index(&p->gemm, 'b', batch, inner, column));
}

/* Runs a plan and copies C to the host. */
static inline void run_plan(hr_device *device, hr_plan *plan, gemm_operands *p)
{
  hr_buffer *workspace = NULL;
  hr_error error;
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_gemm(plan,
                             &(hr_gemm_arguments){sizeof(hr_gemm_arguments), hr_buffer_data(p->a), hr_buffer_data(p->b),
                                                  hr_buffer_data(p->c)},
                             workspace ? hr_buffer_data(workspace) : NULL, NULL, &error),
            error);
  p->c_values = values_of(p->c, bytes_of(&p->gemm, hr_gemm_c(&p->gemm)));
  hr_buffer_free(workspace);
}

#endif
