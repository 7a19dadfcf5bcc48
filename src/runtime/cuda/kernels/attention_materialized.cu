/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of attention with all scores in memory, around two cuBLASLt GEMMs: pack Q, K and V, softmax over rows of
 * scores, unpack O. Head h is query head h % q_heads of sequence h / q_heads.
 *
 * A block processes one row of scores at a time; P replaces the scores, in the dtype of the operands. Bound: memory;
 * the softmax alone takes 110 µs for 268 MB of scores (H200, 2026-11-22, docs/notes/attention-gpu.md). */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#define THREADS 256

typedef hr_score_matrix score_block;

#define CHUNK (16 / (int)sizeof(element)) /* elements of a 16-byte copy; widths are multiples of it */

struct alignas(16) chunk {
  element at[CHUNK];
};

/* Offset in an operand, with `each` heads per sequence, of a chunk of [heads][length][width], and the chunk's first
 * column. */
__device__ inline int64 operand_offset(int64 index, strides at, int each, int64 length, int width, int &column)
{
  int64 line = index / (width / CHUNK), head = line / length;
  column = (int)(index % (width / CHUNK)) * CHUNK;
  return head / each * at.batch + line % length * at.row + head % each * at.head + column;
}

__device__ inline bool is_full(const element *address, int column, int dim)
{
  return column + CHUNK <= dim && (unsigned long long)address % sizeof(chunk) == 0;
}

/* Copies an operand to a contiguous [heads][length][width]; columns from dim on are 0. */
extern "C" __global__ void pack(const element *from, strides at, chunk *to, int64 heads, int each, int64 length,
                                int dim, int width)
{
  int64 count = heads * length * (width / CHUNK), step = (int64)gridDim.x * blockDim.x;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    int column;
    const element *source = from + operand_offset(i, at, each, length, width, column);
    chunk taken = {};
    if (is_full(source, column, dim))
      taken = *(const chunk *)source;
    else
      for (int c = 0; c < CHUNK && column + c < dim; c++)
        taken.at[c] = source[c];
    to[i] = taken;
  }
}

/* The lengths, equal for all sequences, and the ALiBi slope of a head. */
__device__ inline head_view view_lengths(const attention_call &call, int64 head)
{
  head_view view = {};
  view.q_len = call.q_len;
  view.kv_len = call.kv_len;
  view.slope = call.slopes ? call.slopes[head % call.q_heads] : 0;
  set_first_keys(call, view, head / call.q_heads, 0);
  return view;
}

/* Copies O back, without the columns from v_dim on. Rows without keys become 0: the GEMM may have made NaN of them. */
extern "C" __global__ void unpack(const attention_call call, const chunk *from, int64 heads, int width)
{
  int64 chunks = width / CHUNK, count = heads * call.q_len * chunks, step = (int64)gridDim.x * blockDim.x;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    int column;
    element *place = call.o + operand_offset(i, call.o_at, call.q_heads, call.q_len, width, column);
    key_range keys = keys_of_row(call, view_lengths(call, i / chunks / call.q_len), (int)(i / chunks % call.q_len));
    chunk taken = {};
    if (keys.first < keys.end)
      taken = from[i];
    if (is_full(place, column, call.v_dim))
      *(chunk *)place = taken;
    else
      for (int c = 0; c < CHUNK && column + c < call.v_dim; c++)
        place[c] = taken.at[c];
  }
}

struct sum_op {
  __device__ float operator()(float x, float y) const
  {
    return x + y;
  }
};

struct max_op {
  __device__ float operator()(float x, float y) const
  {
    return fmaxf(x, y);
  }
};

/* A reduction over the block; every thread gets the result. */
template <class OPERATION> __device__ float block_reduce(float value, OPERATION combine)
{
  __shared__ float partial[THREADS / 32];
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  __syncthreads(); /* no thread reads partial any more */
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int i = 1; i < THREADS / 32; i++)
    value = combine(value, partial[i]);
  return value;
}

/* Softmax of one row. Scores are q · k. A key that is not seen gets 0; a row whose every score is −∞ gets NaN. */
extern "C" __global__ __launch_bounds__(THREADS) void softmax(const attention_call call, float *scores,
                                                              score_block block)
{
  int64 head = blockIdx.x / block.rows;
  int row = (int)(blockIdx.x % block.rows);
  head_view view = view_lengths(call, head);
  key_range keys = keys_of_row(call, view, row);
  float *from = scores + (int64)blockIdx.x * block.pitch, factor = softmax_factor(call);
  element *to = (element *)from;
  float largest = minus_infinity(), sum = 0;
  for (int key = keys.first + threadIdx.x; key < keys.end; key += THREADS)
    largest = fmaxf(largest, modify_score(call, view, from[key], row, key));
  largest = block_reduce(largest, max_op());
  for (int key = keys.first + threadIdx.x; key < keys.end; key += THREADS)
    sum += exp2f((modify_score(call, view, from[key], row, key) - largest) * factor);
  sum = block_reduce(sum, sum_op());
  for (int first = 0; first < call.kv_len; first += THREADS) {
    int key = first + threadIdx.x;
    float p = 0;
    if (key >= keys.first && key < keys.end)
      p = exp2f((modify_score(call, view, from[key], row, key) - largest) * factor) / sum;
    __syncthreads(); /* P is no longer than the scores: what is overwritten has been read */
    if (key < call.kv_len)
      to[key] = from_float(p);
  }
  if (call.lse && threadIdx.x == 0) {
    bool nothing = keys.first >= keys.end || largest == minus_infinity();
    call.lse[head / call.q_heads * call.lse_at.batch + head % call.q_heads * call.lse_at.head + row] =
        nothing ? minus_infinity() : largest * (factor * LN_2) + log2f(sum) * LN_2;
  }
}
