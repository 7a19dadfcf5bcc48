/* SPDX-License-Identifier: Apache-2.0 */
/* Results of decode_latent_sm90.cu, which includes this file behind its consumer_state: O and the log-sum-exp of a sequence that one
 * team has computed, or its part; and the kernel that adds the parts of sequences that several teams share.
 *
 * A team has at most two parts: place 0 is that of its first sequence, place 1 that of its last. */

__device__ inline int64 part_of(const latent_call &call, int team, int place, int row_block)
{
  return (((int64)team * 2 + place) * call.row_blocks + row_block) * USED_ROWS;
}

/* The query head and the query of a row of a row block; false if there are none. */
__device__ inline bool find_row(const latent_call &call, int row_block, int row, int &head, int &query)
{
  head = row_block % call.head_blocks * HR_HEADS + row % HR_HEADS;
  query = row_block / call.head_blocks * HR_QUERIES + row / HR_HEADS;
  return row < USED_ROWS && head < call.q_heads && query < call.q_len;
}

/* What O is multiplied by; with sinks, base and sum are those with the sink. 0 for a row without keys. */
__device__ inline float finish_row(const latent_call &call, int length, int head, int query, float &base, float &sum)
{
  key_range keys = keys_of_query(call, length, query);
  float inverse = 1;
  if (call.sinks) {
    float sink = call.sinks[head] * LOG2_E, larger = fmaxf(base, sink);
    inverse = exp2_approx(base - safe(larger));
    sum = sum * inverse + exp2_approx(sink - safe(larger));
    base = larger;
  }
  return keys.first >= keys.end ? 0.0f : inverse / sum;
}

__device__ inline void store_lse(const latent_call &call, int sequence, int head, int query, float base, float sum)
{
  if (call.lse)
    call.lse[((int64)sequence * call.q_len + query) * call.q_heads + head] = (base + log2f(sum)) * LN_2;
}

/* O in words of two elements; 0 also where 0 · NaN of V made NaN. */
__device__ inline unsigned scale_pair(float low, float high, float inverse)
{
  return inverse == 0 ? 0u : pack_pair(low * inverse, high * inverse);
}

/* This warpgroup's columns of a row of O. Neighbouring lanes exchange words of two 8-column tiles, so that a row's four lanes write
 * 32 bytes at once. */
template <int GROUP>
__device__ inline void store_o_row(const latent_call &call, const consumer_state &c, element *row, bool there, int half, float inverse)
{
  int lane = threadIdx.x % 4, first = GROUP * V_HALF + lane % 2 * 8;
#pragma unroll
  for (int n = 0; n < V_HALF / 8; n += 2) {
    const float *o = c.out + n * 4 + half * 2;
    unsigned a = scale_pair(o[0], o[1], inverse), b = scale_pair(o[4], o[5], inverse);
    unsigned got = __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? a : b, 1);
    if (there && first + n * 8 < call.v_dim)
      *(uint2 *)(row + first + n * 8 + lane / 2 * 4) = lane % 2 ? make_uint2(got, b) : make_uint2(a, got);
  }
}

/* The row sums of both warpgroups. */
template <int GROUP> __device__ inline void add_sums(consumer_state &c)
{
  float other[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    c.sum[half] += __shfl_xor_sync(0xFFFFFFFFu, c.sum[half], 1);
    c.sum[half] += __shfl_xor_sync(0xFFFFFFFFu, c.sum[half], 2);
  }
  write_rows(GROUP == 0 ? SUM_A : SUM_B, c.sum);
  named_barrier_sync(SUMS_READY, CONSUMER_THREADS);
  read_rows(GROUP == 0 ? SUM_B : SUM_A, other);
  c.sum[0] += other[0];
  c.sum[1] += other[1];
}

template <int GROUP> __device__ inline void store_part(const latent_call &call, const work_item &item, const consumer_state &c, int half)
{
  int row = row_of(half), team = blockIdx.x / call.row_blocks;
  if (row >= USED_ROWS)
    return;
  int64 at = part_of(call, team, item.first ? 0 : 1, blockIdx.x % call.row_blocks) + row;
  float *to = call.partial_o + at * HR_V + GROUP * V_HALF + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < V_HALF / 8; n++)
    *(float2 *)(to + n * 8) = make_float2(c.out[n * 4 + half * 2], c.out[n * 4 + half * 2 + 1]);
  if (GROUP == 0 && threadIdx.x % 4 == 0)
    call.partial_stats[at] = make_float2(c.base[half], c.sum[half]);
}

template <int GROUP> __device__ inline void store_item(const latent_call &call, const work_item &item, consumer_state &c)
{
  add_sums<GROUP>(c);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    if (!item.whole) {
      store_part<GROUP>(call, item, c, half);
      continue;
    }
    int head, query;
    bool there = find_row(call, blockIdx.x % call.row_blocks, row_of(half), head, query);
    float base = c.base[half], sum = c.sum[half], inverse = 0;
    if (there)
      inverse = finish_row(call, item.length, head, query, base, sum);
    store_o_row<GROUP>(call, c, call.o + item.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head, there,
                       half, inverse);
    if (GROUP == 0 && there && threadIdx.x % 4 == 0)
      store_lse(call, item.sequence, head, query, base, sum);
  }
}

/* ---- the second kernel: a warp per row; a few rows of the row blocks of each first boundary of shares within a sequence ---- */

#define COLUMNS ((HR_V + 127) / 128) /* of a lane, in groups of four */

/* The parts of a sequence: those of teams first … end − 1. The first team's is at place `place`, the others' at 0. */
struct shared_item {
  int sequence;
  int first, end, place;
};

/* The sequence that the share of team `team` begins within, if no share before does; otherwise first == end. Called by a warp. */
__device__ inline shared_item find_shared(const latent_call &call, int team)
{
  team_shares shares = divide_pairs(call);
  int begin = shares.begin(team), before = shares.begin(team - 1);
  shared_item item = {};
  if (begin == shares.pairs)
    return item;
  pair_place place = find_pair(call, begin);
  int first = begin - place.pair, end = first + count_pairs(call, place.sequence);
  if (place.pair == 0 || before > first)
    return item;
  item.sequence = place.sequence;
  item.first = team - 1;
  item.place = before < first;
  for (item.end = team + 1; item.end < call.teams && shares.begin(item.end) < end;)
    item.end++;
  return item;
}

__device__ inline int64 part_of_item(const latent_call &call, const shared_item &item, int team, int row_block)
{
  return part_of(call, team, team == item.first ? item.place : 0, row_block);
}

/* A row of O while its parts are added: a lane has groups of four columns, 128 columns apart. */
struct row_sum {
  float4 out[COLUMNS];
  float sum;
};

__device__ inline void add_part(const latent_call &call, int64 part, float base, row_sum &row)
{
  const float4 *from = (const float4 *)(call.partial_o + part * HR_V) + threadIdx.x % 32;
  float2 stats = call.partial_stats[part];
  float factor = exp2_approx(stats.x - safe(base));
  row.sum += stats.y * factor;
#pragma unroll
  for (int i = 0; i < COLUMNS; i++) {
    float4 o = from[32 * i];
    row.out[i].x += o.x * factor;
    row.out[i].y += o.y * factor;
    row.out[i].z += o.z * factor;
    row.out[i].w += o.w * factor;
  }
}

/* Adds the parts of a row and finishes it. Called by a warp. */
__device__ inline void combine_row(const latent_call &call, const shared_item &item, int row_block, int row)
{
  int lane = threadIdx.x % 32, head, query;
  if (!find_row(call, row_block, row, head, query))
    return;
  float base = minus_infinity();
  for (int team = item.first + lane; team < item.end; team += 32)
    base = fmaxf(base, call.partial_stats[part_of_item(call, item, team, row_block) + row].x);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    base = fmaxf(base, __shfl_xor_sync(0xFFFFFFFFu, base, distance));
  row_sum all = {};
  int team = item.first;
#pragma unroll 1
  for (; team + 8 <= item.end; team += 8)
#pragma unroll
    for (int i = 0; i < 8; i++)
      add_part(call, part_of_item(call, item, team + i, row_block) + row, base, all);
#pragma unroll 2
  for (; team < item.end; team++)
    add_part(call, part_of_item(call, item, team, row_block) + row, base, all);
  float inverse = finish_row(call, length_of(call, item.sequence), head, query, base, all.sum);
  element *to = call.o + item.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head;
#pragma unroll
  for (int i = 0; i < COLUMNS; i++)
    if (lane * 4 + 128 * i < call.v_dim)
      *(uint2 *)(to + lane * 4 + 128 * i) =
          make_uint2(scale_pair(all.out[i].x, all.out[i].y, inverse), scale_pair(all.out[i].z, all.out[i].w, inverse));
  if (lane == 0)
    store_lse(call, item.sequence, head, query, base, all.sum);
}

extern "C" __global__ __launch_bounds__(HR_LATENT_COMBINE_THREADS) void combine(const __grid_constant__ latent_call call)
{
  constexpr int BLOCKS = (USED_ROWS + HR_LATENT_COMBINE_ROWS - 1) / HR_LATENT_COMBINE_ROWS; /* of a row block */
  int first = blockIdx.x % BLOCKS * HR_LATENT_COMBINE_ROWS, row_block = blockIdx.x / BLOCKS % call.row_blocks;
  shared_item item = find_shared(call, blockIdx.x / BLOCKS / call.row_blocks + 1);
  if (item.first == item.end)
    return;
#pragma unroll 1
  for (int row = threadIdx.x / 32; row < HR_LATENT_COMBINE_ROWS; row += HR_LATENT_COMBINE_THREADS / 32)
    combine_row(call, item, row_block, first + row);
}
