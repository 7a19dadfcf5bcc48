/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of logits, and with HR_GRADIENT that of the logits, in one kernel that reads them once.
 *
 *   loss = max + log(sum) − x[target], sum of 2^((x − max) log2 e);  dx = scale (softmax − 1 at the target)
 *   A target outside of the row: loss and gradient are 0. The gradient may replace the logits: a thread writes the
 *   packs that it has read. Bound: memory; rows as those of a softmax (rowwise_registers.cuh, rowwise_staged.cuh). */
#define STORES_ROWS HR_GRADIENT
#if HR_STAGED_ROWS
#include "runtime/cuda/kernels/rowwise_staged.cuh"
#else
#include "runtime/cuda/kernels/rowwise_registers.cuh"
#endif

static_assert(ROWS == 1, "a row group processes one row at a time");

struct row_stats {
  float most, sum; /* sum of 2^((x − most) log2 e) */
};

/* Where the loss of a row goes, and what it needs of the row before that is overwritten. */
struct row_target {
  int64 number, column; /* of the row; −1: the row does not count */
  float logit;          /* of one thread, which writes the loss */

  __device__ row_target(const task &t, int64 row) : number(row), column(-1), logit(0)
  {
    if (row >= t.rows)
      return;
    int target = ((const int *)t.b)[row];
    if (target < 0 || target >= COLUMNS)
      return;
    column = target;
    if (is_first_thread())
      logit = to_float(*(const volatile element *)(t.a + row * COLUMNS + target));
  }

  static __device__ bool is_first_thread()
  {
    return threadIdx.x == 0 && (CLUSTER == 1 || cluster_rank() == 0);
  }

  __device__ void write_loss(const task &t, float most, float sum) const
  {
    if (number < t.rows && is_first_thread())
      ((float *)(size_t)t.c)[number] = column < 0 ? 0.0f : most + logf(sum) - logit;
  }
};

/* The maximum and the sum of the row; with KEEPS_FLOATS the values become 2^((x − `from`) log2 e). */
__device__ inline row_stats find_stats(row_group &x, float &from)
{
  float most[1] = {minus_infinity()}, sum = 0;
  x.largest(most);
  most[0] = warp_reduce(most[0], max_op());
  from = most[0] == minus_infinity() ? 0.0f : most[0];
  x.for_each([&](int, float &value) {
    float exponential = exp2_approx((value - from) * LOG2_E);
    sum += exponential;
    if (KEEPS_FLOATS)
      value = exponential;
  });
  row_stats own[1] = {{most[0], warp_reduce(sum, sum_op())}};
  warp_stats<row_stats> all = exchange(own);
  float largest = all.reduce(0, max_op(), [](const row_stats &f) { return f.most; });
  return {largest, all.reduce(0, sum_op(),
                              [&](const row_stats &f) { return f.sum * exp2_approx((f.most - largest) * LOG2_E); })};
}

__device__ inline void cross_entropy(row_group &x, const task &t)
{
  row_target target(t, x.number);
  float from;
  row_stats stats = find_stats(x, from);
  target.write_loss(t, stats.most, stats.sum);
  float scale = t.number, share = scale / stats.sum;
  if (!HR_GRADIENT)
    return;
  x.for_each_unit(COLUMNS, [&](const unit(&p)[ROWS], int i) {
    float values[UNIT];
#pragma unroll
    for (int k = 0; k < UNIT; k++) {
      float e = KEEPS_FLOATS ? p[0].at(k) : exp2_approx((p[0].at(k) - stats.most) * LOG2_E);
      values[k] = target.column < 0 ? 0.0f : e * share - (x.column(i) + k == target.column ? scale : 0.0f);
    }
    x.store(i, 0, values);
  });
}

ROWWISE_KERNEL(cross_entropy_rows, cross_entropy)
