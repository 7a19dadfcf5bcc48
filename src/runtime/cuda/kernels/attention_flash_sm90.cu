/* Attention forward with an online softmax on Hopper's warpgroup products (sm_90a); fp16 and bf16.
 *
 *   block: HR_GROUPS × 64 query rows × the keys in tiles of HR_COLUMNS, right to left; one block a multiprocessor, which
 *   walks over row tiles of all heads
 *   ┌ warpgroups 0 … HR_GROUPS − 1, 64 rows each:
 *   │   S = Q Kᵀ (both from shared memory) → softmax in registers → O += P V (P from registers, V as it lies)
 *   └ the warpgroup behind them: a thread each that hands out row tiles and copies Q, that copies K, that copies V
 *
 * A warpgroup issues S of the next tile before P V of this one, and does the softmax of the next while both are under way;
 * it leaves out tiles that none of its rows sees. With HR_TURNS the warpgroups issue by turns, so that one is in its
 * softmax while another's products run. Blocks fetch row tiles from a counter, the longest first, which evens out causal
 * ones.
 *
 * HR_CAUSAL, HR_WINDOW: which tiles a mask may cut. HR_OUT_APART: O goes through shared memory of its own, otherwise from
 * registers. HR_VARIABLE: sequences of different lengths lie behind each other. HR_MODIFIED: attention.cuh.
 *
 * docs/attention-hopper.md says what was tried, and what lost. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/hopper.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm90.cuh"

#define THREADS (128 * (HR_GROUPS + 1))

#if HR_GROUPS == 4
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 112
#elif HR_GROUPS == 3
#define PRODUCER_REGISTERS 32
#define CONSUMER_REGISTERS 160
#else
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
#endif

/* A thread's share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16, of every 8 columns 2 (t % 4) and the next. */
struct consumer {
  float scores[HR_COLUMNS / 2], out[HR_V / 2];
  unsigned weights[HR_COLUMNS / 4]; /* scores after the softmax, in pairs of 16 bits */
  float largest[2], sum[2], correction[2];
  int group; /* warpgroup, from 0 */
};

/* What a warpgroup has to do with an item: its first row, tiles that some row sees, tiles that all rows see all of. */
struct span {
  int first_row, first_tile, end_tile, first_whole, end_whole;
  float slope; /* of the head, with HR_MODIFIED */
};

/* ---- between the threads of a warpgroup ---- */

/* One lane of each warp says that the warp has read a stage. */
__device__ inline void release(int barrier)
{
  if (threadIdx.x % 32 == 0)
    barrier_arrive(barrier_of(barrier));
}

/* Named barriers 1 … HR_GROUPS: a warpgroup's turn to issue products. */
__device__ inline void wait_for_turn(const consumer &c)
{
#ifdef HR_TURNS
  named_wait(1 + c.group, 256);
#endif
}

__device__ inline void pass_turn(const consumer &c)
{
#ifdef HR_TURNS
  named_arrive(1 + (c.group + 1) % HR_GROUPS, 256);
#endif
}

/* ---- products ---- */

/* Starts scores = Q Kᵀ. */
__device__ inline void start_scores(consumer &c, unsigned q, unsigned stage)
{
  unsigned k = shared_address(shared) + K_AT + stage * K_BYTES;
#pragma unroll
  for (int step = 0; step < HR_QK / 16; step++) {
    unsigned long long a = describe_operand(q + step / 4 * Q_PANEL + step % 4 * 32, 1024, 0);
    unsigned long long b = describe_operand(k + step / 4 * KV_PANEL + step % 4 * 32, 1024, 0);
    WGMMA_SHARED(HR_COLUMNS, c.scores, a, b, step > 0);
  }
  products_commit();
}

/* Starts out += P V. */
__device__ inline void start_out(consumer &c, unsigned stage)
{
  unsigned v = shared_address(shared) + V_AT + stage * V_BYTES;
#pragma unroll
  for (int step = 0; step < HR_COLUMNS / 16; step++) {
    unsigned long long b = describe_operand(v + step * 16 * PANEL_ROW, 1024, KV_PANEL);
    WGMMA_REGISTERS(HR_V, c.out, c.weights + 4 * step, b);
  }
  products_commit();
}

/* ---- softmax ---- */

__device__ inline int row_of(const span &sp, int half)
{
  return sp.first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* What the warpgroup sees of an item. */
__device__ inline span look_at(const attention_call &call, const consumer &c, const work_item &item)
{
  span sp;
  sp.first_row = item.first_row + c.group * 64;
  tile_range tiles = tiles_of_rows(call, item, sp.first_row, 64);
  head_view view = lengths_of(item);
  sp.first_tile = tiles.first;
  sp.end_tile = tiles.end;
  sp.first_whole = (keys_of_row(call, view, sp.first_row + 63).first + HR_COLUMNS - 1) / HR_COLUMNS;
  sp.end_whole = keys_of_row(call, view, sp.first_row).end / HR_COLUMNS;
#ifdef HR_MODIFIED
  sp.slope = call.slopes ? call.slopes[item.head] : 0;
#endif
  return sp;
}

/* tanh to a relative error of 2^-19; tanhf() has branches, and 64 of it take NVRTC seconds. */
__device__ inline float quick_tanh(float x)
{
  float e = power_of_two(x * (2 * LOG2_E)), square = x * x;
  float inner = x * (1 + square * (-1.0f / 3 + square * (2.0f / 15 - square * (17.0f / 315))));
  return fabsf(x) < 0.125f ? inner : 1 - __fdividef(2, e + 1);
}

/* Caps and biases, as modify_score() has them. */
__device__ inline void modify_scores(const attention_call &call, const work_item &item, const span &sp, consumer &c,
                                     int tile)
{
#ifdef HR_MODIFIED
  int first_key = tile * HR_COLUMNS + threadIdx.x % 4 * 2 - (item.kv_len - item.q_len);
  float cap = call.cap, inverse = 1 / cap;
#pragma unroll
  for (int i = 0; i < HR_COLUMNS / 2; i++) {
    float score = c.scores[i] * call.scale;
    if (cap > 0)
      score = cap * quick_tanh(score * inverse);
    c.scores[i] = score + sp.slope * (float)(first_key + i / 4 * 8 + i % 2 - row_of(sp, i / 2 % 2));
  }
#endif
}

/* −∞ where a row does not see a key; nothing where all rows of the warpgroup see all keys of the tile. */
__device__ inline void mask_scores(const attention_call &call, const work_item &item, const span &sp, consumer &c,
                                   int tile)
{
  if (tile >= sp.first_whole && tile < sp.end_whole)
    return;
  int first_key = tile * HR_COLUMNS;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_row(call, lengths_of(item), row_of(sp, half));
    int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (n * 8 + e < first || n * 8 + e >= end)
          c.scores[n * 4 + half * 2 + e] = minus_infinity();
  }
}

/* Scores become 2^(factor · (score − largest)), sums follow, and `correction` is what earlier weights shrink by. */
__device__ inline void soften(consumer &c, float factor)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float before = c.largest[half], largest = before, sum = 0;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
      largest = fmaxf(largest, fmaxf(c.scores[n * 4 + half * 2], c.scores[n * 4 + half * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
    float base = largest == minus_infinity() ? 0 : largest * factor;
    c.correction[half] = power_of_two(before * factor - base);
    c.largest[half] = largest;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float weight = power_of_two(c.scores[n * 4 + half * 2 + e] * factor - base);
        c.scores[n * 4 + half * 2 + e] = weight;
        sum += weight;
      }
    c.sum[half] = c.sum[half] * c.correction[half] + sum;
  }
}

/* The scores as the first operand of P V. */
__device__ inline void round_weights(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_COLUMNS / 4; i++)
    c.weights[i] = pack_two(c.scores[2 * i], c.scores[2 * i + 1]);
}

__device__ inline void correct_out(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] *= c.correction[i / 2 % 2];
}

/* ---- the end of a row tile ---- */

/* Two results in a word. `inverse` 0, of a row without keys: 0 also where weights of 0 made NaN of NaN in V. */
__device__ inline unsigned divide_two(float low, float high, float inverse)
{
  unsigned both = pack_two(low * inverse, high * inverse);
#if defined(HR_CAUSAL) || defined(HR_VARIABLE) /* otherwise every row has keys */
  both &= inverse == 0 ? 0u : ~0u;
#endif
  return both;
}

#ifdef HR_OUT_APART
/* A warp's 16 rows go through shared memory, from where the copy engine takes them. */
__device__ inline void store_out(const maps &maps, const consumer &c, const work_item &item, const span &sp, unsigned to,
                                 const float (&inverse)[2])
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, row = lane % 16;
  to += warp * 16 * PANEL_ROW;
  if (lane == 0)
    stores_wait(); /* for those of the item before */
  __syncwarp();
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    int chunk = (n % 8 + lane / 16) ^ row % 8;
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      words[i] = divide_two(c.out[n * 4 + 2 * i], c.out[n * 4 + 2 * i + 1], inverse[i % 2]);
    store_matrices(to + n / 8 * Q_PANEL + row * PANEL_ROW + chunk * 16, words[0], words[1], words[2], words[3]);
  }
  writes_publish();
  __syncwarp();
  if (lane == 0) {
    if (sp.first_row + warp * 16 < item.q_len)
      for (int panel = 0; panel < PANELS(HR_V); panel++)
        store_box(maps.o, to + panel * Q_PANEL, panel * 64, item.head, sp.first_row + warp * 16, item.batch);
    stores_commit();
  }
}
#else
/* Neighbouring lanes exchange words of two products' columns, so that a row's four lanes write 32 bytes at once. */
__device__ inline void store_row(const attention_call &call, const head_view &view, const consumer &c, const span &sp,
                                 int half, float inverse)
{
  int row = row_of(sp, half), lane = threadIdx.x % 4;
  element *to = view.o + (int64)row * call.o_at.row + lane % 2 * 8 + lane / 2 * 4;
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    const float *sums = c.out + n * 4 + half * 2;
    unsigned a = divide_two(sums[0], sums[1], inverse), b = divide_two(sums[4], sums[5], inverse);
    unsigned got = __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? a : b, 1);
    if (row < view.q_len && n * 8 + lane % 2 * 8 < call.v_dim)
      *(uint2 *)(to + n * 8) = lane % 2 ? make_uint2(got, b) : make_uint2(a, got);
  }
}
#endif

/* Divides by the sum of weights. A row without keys is 0; one whose every score is −∞ is NaN. */
__device__ inline void finish(const attention_call &call, const maps &maps, const consumer &c, const work_item &item,
                              const span &sp, unsigned out, float factor)
{
  head_view view = view_head(call, item.batch, item.head);
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = c.sum[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    int row = row_of(sp, half);
    key_range keys = keys_of_row(call, view, row);
    inverse[half] = keys.first >= keys.end ? 0.0f : 1.0f / sum;
    if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
      view.lse[row * call.lse_at.row] = (c.largest[half] * factor + log2f(sum)) * LN_2;
#ifndef HR_OUT_APART
    store_row(call, view, c, sp, half, inverse[half]);
#endif
  }
#ifdef HR_OUT_APART
  store_out(maps, c, item, sp, out, inverse);
#endif
}

/* ---- the kernel ---- */

__device__ inline void begin(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] = 0;
  c.largest[0] = c.largest[1] = minus_infinity();
  c.sum[0] = c.sum[1] = 0;
}

/* Tiles that no row of the warpgroup sees; in the first `turns` of them it passes its turn. Lanes wait each for itself: one
 * that comes late must have seen a stage full before its warp releases it, or it waits for ever if the stage is full again. */
__device__ inline void skip_tiles(const consumer &c, tile_turn &t, int count, int turns)
{
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    if (i < turns) {
      wait_for_turn(c);
      pass_turn(c);
    }
    barrier_wait(barrier_of(K_FULL + t.stage), t.parity);
    __syncwarp();
    release(K_EMPTY + t.stage);
    barrier_wait(barrier_of(V_FULL + t.stage), t.parity);
    __syncwarp();
    release(V_EMPTY + t.stage);
    t.next();
  }
}

/* S of a tile beside P V of the one before (`t`), whose softmax is done; then the softmax of the tile. */
template <bool CUT>
__device__ inline void attend_tile(const attention_call &call, const work_item &item, const span &sp, consumer &c,
                                   unsigned q, int q_empty, tile_turn &t, int tile, float factor)
{
  tile_turn next = t, before = t;
  next.next();
  wait_for_turn(c);
  products_begin();
  start_scores(c, q, next.stage);
  barrier_wait(barrier_of(V_FULL + t.stage), t.parity);
  products_begin();
  start_out(c, t.stage);
  pass_turn(c);
  products_wait<1>();
  release(K_EMPTY + next.stage);
  if (tile == sp.first_tile)
    release(q_empty);
  modify_scores(call, item, sp, c, tile);
  if (CUT)
    mask_scores(call, item, sp, c, tile);
  soften(c, factor);
  t = next;
  next.next();
  if (tile > sp.first_tile) /* here, since the compiler moves the next wait up to the last branch before it */
    barrier_wait(barrier_of(K_FULL + next.stage), next.parity);
  products_wait<0>();
  release(V_EMPTY + before.stage);
  correct_out(c);
  round_weights(c);
}

/* All tiles of an item that the warpgroup sees, which are some. */
__device__ inline void attend(const attention_call &call, const work_item &item, const span &sp, consumer &c, unsigned q,
                              int q_empty, tile_turn &t, float factor)
{
  int tile = sp.end_tile - 1;
  barrier_wait(barrier_of(K_FULL + t.stage), t.parity);
  products_begin();
  start_scores(c, q, t.stage);
  products_wait<0>();
  release(K_EMPTY + t.stage);
  if (tile == sp.first_tile)
    release(q_empty);
  modify_scores(call, item, sp, c, tile);
  mask_scores(call, item, sp, c, tile);
  soften(c, factor);
  round_weights(c);
  tile_turn next = t;
  next.next();
  if (tile > sp.first_tile)
    barrier_wait(barrier_of(K_FULL + next.stage), next.parity);
  tile--;
#if defined(HR_WINDOW) || defined(HR_MODIFIED) /* one loop, for less to compile */
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#else
#ifdef HR_CAUSAL
#pragma unroll 1
  for (; tile >= sp.first_tile && tile >= sp.end_whole; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<false>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
  barrier_wait(barrier_of(V_FULL + t.stage), t.parity);
  products_begin();
  start_out(c, t.stage);
  products_wait<0>();
  release(V_EMPTY + t.stage);
  t.next();
}

__device__ inline void consume(const attention_call &call, const maps &maps)
{
  consumer c;
  c.group = uniform(threadIdx.x / 128);
  float factor = softmax_factor(call);
  tile_turn t = {0, 0};
  q_turn q = {0, 0};
  item_turn items = {0, 0};
#ifdef HR_TURNS
  if (c.group == HR_GROUPS - 1)
    pass_turn(c);
#endif
#pragma unroll 1
  for (work_item item = take_item(call, items); item.batch >= 0; item = take_item(call, items)) {
    int at = q.stage * HR_GROUPS + c.group, tiles = item.end_tile - item.first_tile;
    span sp = look_at(call, c, item);
    begin(c);
    barrier_wait(barrier_of(Q_FULL + at), q.parity);
    if (sp.first_tile < sp.end_tile) {
      skip_tiles(c, t, item.end_tile - sp.end_tile, tiles);
      attend(call, item, sp, c, shared_address(shared) + at * Q_PART, Q_EMPTY + at, t, factor);
      skip_tiles(c, t, sp.first_tile - item.first_tile, tiles);
    } else {
      skip_tiles(c, t, tiles, tiles - 1);
      __syncwarp();
      release(Q_EMPTY + at);
    }
    finish(call, maps, c, item, sp, shared_address(shared) + O_AT + c.group * O_PART, factor);
    q.next();
  }
#ifdef HR_OUT_APART
  if (threadIdx.x % 32 == 0)
    stores_wait();
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention(const __grid_constant__ attention_call call,
                                                                   const __grid_constant__ maps maps)
{
  if (threadIdx.x == 0)
    create_barriers();
  __syncthreads();
  if (threadIdx.x < 128 * HR_GROUPS) {
    registers_take<CONSUMER_REGISTERS>();
    consume(call, maps);
  } else {
    registers_give_back<PRODUCER_REGISTERS>();
    produce(call, maps, threadIdx.x / 32 - 4 * HR_GROUPS);
  }
}
