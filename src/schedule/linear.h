/* SPDX-License-Identifier: Apache-2.0 */
/* Some linear layers are one kernel with what is before and behind them: a norm, a gate and an activation, a residual.
 * A step of few tokens is bound by its weights and by the beginnings and ends of kernels, so that fewer kernels are
 * faster. */
#ifndef HR_SCHEDULE_LINEAR_H
#define HR_SCHEDULE_LINEAR_H

#include <headroom/rowwise.h>

/** The most rows, but of experts. */
#define HR_LINEAR_ROWS_MAX 8

/** The most of hr_linear_norm_bytes(). */
#define HR_LINEAR_NORM_BYTES_MAX 30720

/** The most weights: with more, a kernel that a library tuned saves more than fewer kernels do, and blocks that start
 *  early crowd where the kernel before has ended (docs/notes/gpu.md). */
#define HR_LINEAR_WEIGHTS_MAX ((int64_t)1 << 24)

/** The most rows of layers that a persistent kernel runs, whose products have no more. With twice as many Pythia-160M
 *  took 1.3 times as long as kernels apart. */
#define HR_LINEAR_PERSISTENT_ROWS_MAX 4

/** Columns of 16 bits of a row of weights in a slot of such a kernel's ring. */
#define HR_LINEAR_SLOT_COLUMNS 1024

/** The most experts of a layer, and of a token, that a persistent kernel runs. */
#define HR_LINEAR_EXPERTS_MAX 512
#define HR_LINEAR_ACTIVE_MAX 32

/** The most weights of a router that is one kernel with its choice: few blocks read them. */
#define HR_ROUTER_WEIGHTS_MAX ((int64_t)1 << 21)

/** The most bytes of x, with some elements behind each row, of layers that a persistent kernel runs. */
#define HR_LINEAR_X_BYTES_MAX 114752

/** Bytes of x in such a kernel: behind each row 8 elements. */
static inline int64_t hr_linear_x_bytes(int64_t rows, int64_t k)
{
  return rows * (k + 8) * 2;
}

/** Rows of x as a program takes them: a power of two. */
static inline int hr_linear_rows(int64_t rows)
{
  return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : HR_LINEAR_ROWS_MAX;
}

/** What a block keeps of a norm: the rows, the weight and the bias. */
static inline int64_t hr_linear_norm_bytes(hr_rowwise_operation norm, int64_t rows, int64_t k, hr_dtype dtype)
{
  const int beside = norm == HR_ROWWISE_LAYER_NORM ? 2 : 1;
  return norm == HR_ROWWISE_COUNT ? 0 : (hr_linear_rows(rows) + beside) * k * (int64_t)hr_dtype_bytes(dtype);
}

#endif
