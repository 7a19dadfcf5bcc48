/* SPDX-License-Identifier: Apache-2.0 */
/* persistent.cu's routed experts of one token. Each block chooses them for itself from the router's logits: the warp
 * that copies, which has to know where weights are, and one that computes, for the experts' shares. An expert's share
 * is in what its activation puts out, so that the down projections of all are one product whose columns follow each
 * other. */

#define EXPERTS HR_EXPERTS
#define ACTIVE HR_ACTIVE /* of a token, which a lane each has */
#define CHUNKS ((EXPERTS + WARP * CHUNK - 1) / (WARP * CHUNK))
#define OF_LANE (CHUNKS * CHUNK) /* experts of a lane */

/* The lane's n-th expert. */
__device__ inline int expert_at(int n)
{
  return (n / CHUNK * WARP + lane_of()) * CHUNK + n % CHUNK;
}

/* Numbers in the order of floats; a NaN is chosen last, as minus infinity is, and 0 never. */
__device__ inline unsigned order_of(float value)
{
  const unsigned bits = __float_as_uint(value == value ? value + 0.0f : NOTHING); /* -0 is 0 */
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The router's logits, once they are there. */
__device__ inline void take_logits(const linear &l, const post &p, float (&logits)[OF_LANE])
{
  bool missing;
  do {
    missing = false;
#pragma unroll
    for (int n = 0; n < OF_LANE; n += CHUNK) {
      uint4 chunk = make_uint4(0, 0, 0, 0);
      if (expert_at(n) < EXPERTS)
        chunk = read_chunk(l.logits + p.here + expert_at(n));
      const unsigned words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
      for (int j = 0; j < CHUNK; j++) {
        const unsigned bits = words[j / 2] >> j % 2 * 16 & 0xFFFF;
        missing |= bits == HR_PERSISTENT_ABSENT && expert_at(n + j) < EXPERTS;
        logits[n + j] = to_float((element)bits);
      }
    }
  } while (missing);
  __syncwarp();
}

/* Lane i has the expert with the i-th largest logit, the first of equal ones. */
__device__ inline int choose_experts(const float (&logits)[OF_LANE])
{
  unsigned order[OF_LANE];
  int mine = 0;
#pragma unroll
  for (int n = 0; n < OF_LANE; n++)
    order[n] = expert_at(n) < EXPERTS ? order_of(logits[n]) : 0;
#pragma unroll 1
  for (int i = 0; i < ACTIVE; i++) {
    unsigned most = 0;
    int at = EXPERTS;
#pragma unroll
    for (int n = 0; n < OF_LANE; n++)
      if (order[n] > most)
        most = order[n], at = expert_at(n);
    const unsigned largest = __reduce_max_sync(0xFFFFFFFFu, most);
    const int chosen = (int)__reduce_min_sync(0xFFFFFFFFu, (unsigned)(most == largest ? at : EXPERTS));
    mine = lane_of() == i ? chosen : mine;
#pragma unroll
    for (int n = 0; n < OF_LANE; n++)
      if (expert_at(n) == chosen)
        order[n] = 0;
  }
  return mine;
}

/* ---- shares ---- */

/* The value that an expert has in another lane. */
__device__ inline float of_expert(const float (&values)[OF_LANE], int expert)
{
  float value = 0;
#pragma unroll
  for (int n = 0; n < OF_LANE; n++) {
    const float other = __shfl_sync(0xFFFFFFFFu, values[n], expert / CHUNK % WARP);
    value = expert / (WARP * CHUNK) * CHUNK + expert % CHUNK == n ? other : value;
  }
  return value;
}

/* The shares of the chosen experts: of the softmax of all logits, or of their own. By the warp that copies, which would
 * choose once for both, a step of Qwen3-30B-A3B took 6% longer. */
__device__ inline void put_shares(const linear &l, const post &p, float *shares)
{
  float logits[OF_LANE], most = NOTHING, sum = 0;
  take_logits(l, p, logits);
  const int chosen = choose_experts(logits);
#pragma unroll
  for (int n = 0; n < OF_LANE; n++)
    most = fmaxf(most, expert_at(n) < EXPERTS ? logits[n] : NOTHING);
  most = most_of_lanes(most);
#pragma unroll
  for (int n = 0; n < OF_LANE; n++)
    sum += expert_at(n) < EXPERTS ? exp2f((logits[n] - most) * LOG2_E) : 0;
  const float share = exp2f((of_expert(logits, chosen) - most) * LOG2_E) / sum_of_lanes(sum);
  const float all = sum_of_lanes(lane_of() < ACTIVE ? share : 0);
  if (lane_of() < ACTIVE)
    shares[lane_of()] = share / (l.normalized ? all : 1.0f) * l.share_scale;
}

/* ---- weights ---- */

/* Copies the block's rows of the experts; a layer with logits chooses them for itself and the next. */
__device__ inline void copy_experts(const linear &l, const rooms &r, ring &at, int &chosen, const post &p)
{
  const row_range mine(l);
  const element *const w = l.w, *const gate = l.gate;
  const int k = (int)l.k, columns = columns_of_matrix(l);
  const bool whole = has_whole_rows(l);
  if (l.logits) {
    float logits[OF_LANE];
    take_logits(l, p, logits);
    chosen = choose_experts(logits);
    r.cycles.note(HR_CYCLES_CHOSEN);
  }
#pragma unroll 1
  for (int first = mine.first; first < mine.end; first += TILE)
    for (const element *matrix = w; matrix; matrix = matrix == w ? gate : nullptr)
#pragma unroll 1
      for (int begin = 0; begin < k; begin += columns) {
        const int row = first + lane_of(), which = l.logits ? min(row / l.width, ACTIVE - 1) : begin / columns;
        const int64 expert = __shfl_sync(0xFFFFFFFFu, chosen, which);
        const element *const from =
            matrix + (expert * l.matrix_rows + (l.logits ? row - which * l.width : row)) * columns;
        const int rows = min(TILE, mine.end - first);
#pragma unroll 1
        for (int column = 0; column < columns; column += ELEMENTS_OF_SLOT)
          copy_part(r, at, from + column, whole ? 1 : rows,
                    whole ? rows * columns : min(ELEMENTS_OF_SLOT, columns - column), {nullptr, 0, 0, 0});
      }
}
