/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/gemm_strides.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct text {
  char *to;
  size_t size;
} text;

static void add(text *t, const char *name, char letter, int64_t value)
{
  int length = snprintf(t->to, t->size, " %s%c=%" PRId64, name, letter, value);
  size_t used = length > 0 ? (size_t)length : 0;
  used = used < t->size ? used : t->size - 1;
  t->to += used;
  t->size -= used;
}

static void add_operand(text *t, char letter, hr_matrix matrix, int64_t batch, bool broadcast)
{
  int64_t leading = matrix.rows > 1 ? matrix.leading_dimension : matrix.columns;
  if (leading != matrix.columns)
    add(t, "ld", letter, leading);
  if (batch > 1 && broadcast)
    add(t, "broadcast_", letter, 1);
  else if (batch > 1 && matrix.batch_stride != hr_times(hr_checked(matrix.rows), leading).value)
    add(t, "stride_", letter, matrix.batch_stride);
}

void hr_gemm_format_strides(const hr_gemm *gemm, char *to, size_t size)
{
  text t = {to, size};
  to[0] = '\0';
  add_operand(&t, 'a', hr_gemm_a(gemm), gemm->batch, gemm->broadcast_a);
  add_operand(&t, 'b', hr_gemm_b(gemm), gemm->batch, gemm->broadcast_b);
  add_operand(&t, 'c', hr_gemm_c(gemm), gemm->batch, false);
  if (gemm->bias)
    snprintf(t.to, t.size, " bias=1");
}
