/* SPDX-License-Identifier: Apache-2.0 */
/* Results of decode_latent_sm90.cu, which includes this file behind its consumer_state: O and the log-sum-exp of a
 * sequence that one team has computed, or its part; and the kernel that adds the parts of sequences that several teams
 * share.
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

/* This warpgroup's columns of a row of O. Neighbouring lanes exchange words of two 8-column tiles, so that a row's four
 * lanes write 32 bytes at once. */
template <int GROUP>
__device__ inline void store_o_row(const latent_call &call, const consumer_state &c, element *row, bool there, int half,
                                   float inverse)
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

template <int GROUP>
__device__ inline void store_part(const latent_call &call, const work_item &item, const consumer_state &c, int half)
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
    call.partial_stats[at] = make_float2(exponent_of_base(c.base[half], softmax_factor(call)), c.sum[half]);
}

template <int GROUP>
__device__ inline void store_item(const latent_call &call, const work_item &item, consumer_state &c)
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
    float base = exponent_of_base(c.base[half], softmax_factor(call)), sum = c.sum[half], inverse = 0;
    if (there)
      inverse = finish_row(call, item.length, head, query, base, sum);
    store_o_row<GROUP>(call, c,
                       call.o + item.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head, there,
                       half, inverse);
    if (GROUP == 0 && there && threadIdx.x % 4 == 0)
      store_lse(call, item.sequence, head, query, base, sum);
  }
}

/* ---- the second kernel: some rows of the row blocks for each boundary of shares within a sequence. Few boundaries: a
 * warp per
 * row; many: a block per row, since each row has many parts then, and a warp per 128 columns ---- */

#define COLUMNS ((HR_V + 127) / 128) /* of a lane, in groups of four */
#define BLOCKS_OF_ROWS \
  ((USED_ROWS + HR_LATENT_COMBINE_ROWS - 1) / HR_LATENT_COMBINE_ROWS) /* of a row block and a boundary */
#define MANY_BOUNDARIES 3

/* The parts of a sequence: those of teams first … end − 1. The first team's is at place `place`, the others' at 0. */
struct shared_item {
  int sequence;
  int first, end, place;
};

/* The sequence that the share of team `team` begins within; first == end if there is none. Called by a warp. */
__device__ inline shared_item find_shared(const latent_call &call, int team)
{
  team_shares shares = divide_pairs(call);
  int begin = shares.begin(team);
  shared_item item = {};
  if (begin == shares.pairs)
    return item;
  pair_place place = find_pair(call, begin);
  if (place.pair == 0)
    return item;
  int first = begin - place.pair, last = first + count_pairs(call, place.sequence) - 1;
  item.sequence = place.sequence;
  item.first = shares.team_of(first);
  item.end = shares.team_of(last) + 1;
  item.place = shares.begin(item.first) < first;
  return item;
}

__device__ inline int64 part_of_item(const latent_call &call, const shared_item &item, int team, int row_block)
{
  return part_of(call, team, team == item.first ? item.place : 0, row_block);
}

/* A row of O while its parts are added: a lane has groups of four columns, 128 columns apart. */
template <int GROUPS> struct row_sum {
  float4 out[GROUPS];
  float sum;
};

/* Adds COUNT parts, whose loads are all in flight. */
template <int GROUPS, int COUNT>
__device__ inline void add_parts(const latent_call &call, const shared_item &item, int team, int row_block, int row,
                                 int column, float base, row_sum<GROUPS> &all)
{
  float4 o[COUNT][GROUPS];
  float2 stats[COUNT];
#pragma unroll
  for (int part = 0; part < COUNT; part++) {
    int64 at = part_of_item(call, item, team + part, row_block) + row;
    stats[part] = call.partial_stats[at];
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
      o[part][i] = *(const float4 *)(call.partial_o + at * HR_V + column + 128 * i);
  }
#pragma unroll
  for (int part = 0; part < COUNT; part++) {
    float factor = exp2_approx(stats[part].x - safe(base));
    all.sum += stats[part].y * factor;
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
      all.out[i].x += o[part][i].x * factor;
      all.out[i].y += o[part][i].y * factor;
      all.out[i].z += o[part][i].z * factor;
      all.out[i].w += o[part][i].w * factor;
    }
  }
}

/* Adds the parts of GROUPS · 128 columns of a row from 128 `group` on, and finishes them. Called by a warp. */
template <int GROUPS>
__device__ inline void combine_row(const latent_call &call, const shared_item &item, int row_block, int row, int group)
{
  constexpr int AT_ONCE = 16 / GROUPS; /* parts */
  int lane = threadIdx.x % 32, column = 128 * group + lane * 4, head, query;
  if (!find_row(call, row_block, row, head, query))
    return;
  float base = minus_infinity();
  for (int team = item.first + lane; team < item.end; team += 32)
    base = fmaxf(base, call.partial_stats[part_of_item(call, item, team, row_block) + row].x);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    base = fmaxf(base, __shfl_xor_sync(0xFFFFFFFFu, base, distance));
  row_sum<GROUPS> all = {};
  int team = item.first;
#pragma unroll 1
  for (; team + AT_ONCE <= item.end; team += AT_ONCE)
    add_parts<GROUPS, AT_ONCE>(call, item, team, row_block, row, column, base, all);
#pragma unroll 1
  for (; team + 2 <= item.end; team += 2)
    add_parts<GROUPS, 2>(call, item, team, row_block, row, column, base, all);
  if (team < item.end)
    add_parts<GROUPS, 1>(call, item, team, row_block, row, column, base, all);
  float inverse = finish_row(call, length_of(call, item.sequence), head, query, base, all.sum);
  element *to = call.o + item.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head;
#pragma unroll
  for (int i = 0; i < GROUPS; i++)
    if (column + 128 * i < call.v_dim)
      *(uint2 *)(to + column + 128 * i) =
          make_uint2(scale_pair(all.out[i].x, all.out[i].y, inverse), scale_pair(all.out[i].z, all.out[i].w, inverse));
  if (column == 0)
    store_lse(call, item.sequence, head, query, base, all.sum);
}

extern "C" __global__ __launch_bounds__(HR_LATENT_COMBINE_THREADS) void combine(
    const __grid_constant__ latent_call call)
{
  int row_block = blockIdx.x / BLOCKS_OF_ROWS % call.row_blocks,
      team = blockIdx.x / BLOCKS_OF_ROWS / call.row_blocks + 1;
  shared_item item = find_shared(call, team);
  if (item.first == item.end)
    return;
  int place =
      (team - 1 - item.first) * BLOCKS_OF_ROWS + blockIdx.x % BLOCKS_OF_ROWS; /* of this block, for the sequence */
  int warp = threadIdx.x / 32, boundaries = item.end - item.first - 1;
  if (boundaries < MANY_BOUNDARIES)
    combine_row<COLUMNS>(call, item, row_block, place * HR_LATENT_COMBINE_ROWS + warp, 0);
  else if (warp < COLUMNS)
    for (int row = place; row < USED_ROWS; row += boundaries * BLOCKS_OF_ROWS)
      combine_row<1>(call, item, row_block, row, warp);
}
