/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in llama.cpp's q8_0: rows of blocks of 32 int8 values with an fp16 scale, the largest of them over 127. The
 * last block of a row is filled up with zeros. Values and scales are apart: first all values, then all scales.
 * Thread safety: pure functions. */
#ifndef HR_RUNTIME_DEVICE_Q8_H
#define HR_RUNTIME_DEVICE_Q8_H

#include "base/private.h"

#include <headroom/dtype.h>
#include <stddef.h>
#include <stdint.h>

#define HR_Q8_BLOCK 32
#define HR_Q8_BYTES_AHEAD 64 /* of memory behind a matrix, which vectors may read */
#define HR_Q8_TOKENS 8       /* of a GEMV, at most */

typedef struct hr_q8_matrix {
  int64_t rows, columns;
  const void *data;
} hr_q8_matrix;

static inline int64_t hr_q8_blocks(int64_t columns)
{
  return (columns + HR_Q8_BLOCK - 1) / HR_Q8_BLOCK;
}

static inline const int8_t *hr_q8_values(const hr_q8_matrix *m)
{
  return m->data;
}

static inline const uint16_t *hr_q8_scales(const hr_q8_matrix *m)
{
  return (const uint16_t *)((const char *)m->data + m->rows * hr_q8_blocks(m->columns) * HR_Q8_BLOCK);
}

/** Bytes of a matrix whose sizes have been checked. */
HR_PRIVATE int64_t hr_q8_bytes(int64_t rows, int64_t columns);

/** Quantizes rows first … first + count − 1 of `to`, from [count, columns]. Blocks with an infinity or NaN are NaN. */
HR_PRIVATE void hr_q8_quantize(const float *from, int64_t first, int64_t count, const hr_q8_matrix *to);

/** y = x Wᵀ + bias for up to HR_Q8_TOKENS tokens, or rows of W in another format. Strides in elements. */
typedef struct hr_q8_arguments {
  hr_q8_matrix w;
  hr_dtype dtype; /* of x, bias and y: fp32, bf16 or fp16 */
  int64_t tokens; /* rows of x and y */
  int64_t x_row, y_row;
  const void *x, *bias;   /* [tokens, columns], [rows]; bias: NULL: none */
  void *y;                /* [tokens, rows]; of wide rows: [tokens, columns] */
  float *room;            /* [tokens, blocks · 32] for x in fp32 */
  int64_t first;          /* of wide rows: the first one */
  const int32_t *numbers; /* [tokens]: the rows that are widened; NULL: first … first + tokens − 1 */
} hr_q8_arguments;

#endif
