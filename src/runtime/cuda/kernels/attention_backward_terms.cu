/* SPDX-License-Identifier: Apache-2.0 */
/* What attention_backward_naive.cu and attention_backward_sm80.cu need besides their operands; any strides.
 *
 *   prepare     row terms of each query: lse · log2 e and delta = rowsum(dO ∘ O); +∞ and 0 if it sees no key
 *   add_sinks   d_sinks of a head from its row terms, a block each, in one order
 *
 * Bound: memory. Sums are in float64. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_backward.cuh"
#include "runtime/cuda/kernels/attention_backward_tiles.h"

#define THREADS HR_BACKWARD_TERMS_THREADS
#define ROWS HR_BACKWARD_TERMS_ROWS

/* The sum over a warp, in each of its lanes. */
__device__ inline double sum_of_warp(double value)
{
  for (int step = 16; step > 0; step /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  return value;
}

__device__ inline double delta_of(const attention_call &call, const element *o, const element *d_o)
{
  double sum = 0;
  for (int d = threadIdx.x % 32; d < call.v_dim; d += 32)
    sum = fma((double)to_float(o[d]), (double)to_float(d_o[d]), sum);
  return sum_of_warp(sum);
}

extern "C" __global__ __launch_bounds__(THREADS) void prepare(const attention_call call, const backward_call backward)
{
  own_tile t = find_tile<DQ>(call, ROWS);
  head_view view = view_head(call, t.batch, t.head);
  operand_rows queries = queries_of(call, backward, view, t.batch, t.head);
  float2 *terms = row_terms_of(call, backward, view);
  int end = min(t.first_row + ROWS, view.q_len);
  for (int row = t.first_row + threadIdx.x / 32; row < end; row += THREADS / 32) {
    double delta = delta_of(call, view.o + row * call.o_at.row, queries.v + row * queries.v_row);
    key_range keys = keys_of_row(call, view, row);
    bool empty = keys.first >= keys.end || view.lse[row] == minus_infinity();
    if (threadIdx.x % 32 == 0)
      terms[row] = empty ? make_float2(-minus_infinity(), 0) : make_float2(view.lse[row] * LOG2_E, (float)delta);
  }
}

/* A thread's part of the sum over the head's queries of a sequence. */
__device__ inline double sink_sum(const float2 *terms, int q_len, float sink)
{
  double sum = 0;
  for (int row = threadIdx.x; row < q_len; row += THREADS)
    if (has_keys(terms[row]))
      sum -= (double)exp2f(fmaf(sink, LOG2_E, -terms[row].x)) * terms[row].y;
  return sum;
}

extern "C" __global__ __launch_bounds__(THREADS) void add_sinks(const attention_call call, const backward_call backward)
{
  __shared__ double sums[THREADS / 32];
  int head = blockIdx.x, batches = call.heads / call.q_heads;
  double sum = 0;
  for (int batch = 0; batch < batches; batch++) {
    head_view view = view_head(call, batch, head);
    sum += sink_sum(row_terms_of(call, backward, view), view.q_len, backward.sinks[head]);
  }
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < THREADS / 32; i++)
    sum += sums[i];
  if (threadIdx.x == 0)
    backward.d_sinks[head] = (float)sum;
}
