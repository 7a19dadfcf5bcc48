/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that stay in fp8 (E4M3) on the device: first all values, packed rows of whole 16 bytes, then the scales in
 * fp32: of each row, or of blocks of 128 columns and some rows. Thread safety: pure functions. */
#ifndef HR_RUNTIME_DEVICE_FP8_H
#define HR_RUNTIME_DEVICE_FP8_H

#include "base/checked.h"

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>

#define HR_FP8_BLOCK 128     /* columns of a block, and its rows at most */
#define HR_FP8_ROWS_LEAST 16 /* of a block: those of an mma.sync */
#define HR_FP8_COLUMNS 16    /* of which rows are multiples: a load */
#define HR_FP8_LARGEST 448.0F

/** What shares a scale. Rows of blocks have a stride of scales that is a multiple of 4, as cuBLASLt reads them. */
typedef struct hr_fp8_scales {
  int64_t rows;   /* a power of two; 1 with columns 0 */
  int64_t stride; /* scales from a row of blocks to the next */
  bool blocks;    /* of 128 columns; else of whole rows, one each */
} hr_fp8_scales;

static inline hr_fp8_scales hr_fp8_scales_of_rows(void)
{
  return (hr_fp8_scales){.rows = 1, .stride = 1};
}

static inline hr_fp8_scales hr_fp8_scales_of_blocks(int64_t rows, int64_t columns)
{
  return (hr_fp8_scales){.rows = rows, .stride = hr_round_up(hr_ceil_div(columns, HR_FP8_BLOCK), 4), .blocks = true};
}

/** Scales of a matrix of so many rows. */
static inline int64_t hr_fp8_scale_count(const hr_fp8_scales *s, int64_t rows)
{
  return hr_ceil_div(rows, s->rows) * s->stride;
}

static inline int64_t hr_fp8_bytes(const hr_fp8_scales *s, int64_t rows, int64_t columns)
{
  return rows * columns + hr_fp8_scale_count(s, rows) * (int64_t)sizeof(float);
}

/** What widen_fp8, quantize_fp8 and multiply_fp8 read and write, each some of it. */
struct hr_fp8_arguments {
  int64_t rows, columns; /* of w */
  hr_fp8_scales scales;
  hr_dtype dtype; /* of x and y: bf16 or fp16 */
  const void *w;  /* [rows, columns] */
  const float *w_scales;
  int64_t tokens;   /* of x */
  int64_t padded;   /* the same, rounded up to a multiple of 16: zeros behind them */
  int64_t x_row;    /* elements from a row of x to the next */
  const void *x;    /* [tokens, columns], at a multiple of 16 bytes, as its rows */
  void *narrow;     /* x in fp8, [padded, columns] */
  float *x_scales;  /* the largest of each over 448: of rows [padded], of 128 columns [⌈columns / 128⌉, padded] */
  const void *plan; /* of multiply_fp8: y = x Wᵀ of narrow and w */
  void *y;          /* [padded, rows]; of widen_fp8 w times its scales, [rows, columns] */
};

/** A product with weights in fp8 and rows that are narrowed with scales of as many columns. */
struct hr_fp8_gemm {
  int64_t m, n, k; /* m: padded */
  hr_fp8_scales scales;
  hr_dtype dtype;        /* of the result */
  const float *w_scales; /* of one of the weights: its alignment counts */
};

#endif
