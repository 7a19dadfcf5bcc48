/* SPDX-License-Identifier: Apache-2.0 */
/* Selection in decode_topk.cu, which includes this file behind its sequences: a query row, its scores as integers, and
 * which of them are the k largest, found by a block of HR_TOPK_THREADS threads. */

/* ---- a query row ---- */

extern __shared__ __align__(16) unsigned shared[];

/* Shared memory behind the histogram. */
__device__ inline unsigned *words()
{
  return shared + hr_topk_fixed_bytes(HR_V) / 4 - 64;
}

struct row_work {
  int row, split;
  int sequence, head, query;
  int first, count;     /* keys that it sees */
  int chosen;           /* of them */
  const unsigned *keys; /* [count], in memory */
  int skip;             /* keys from a multiple of 16 bytes to them */
};

__device__ inline row_work find_row(const topk_call &call)
{
  row_work w;
  w.split = blockIdx.x % call.splits;
  w.row = blockIdx.x / call.splits;
  w.query = w.row % call.q_len;
  w.head = w.row / call.q_len % call.q_heads;
  w.sequence = w.row / call.q_len / call.q_heads;
  int length = length_of(call, w.sequence);
  w.first = first_key(call, length, w.query);
  w.count = max(0, length - call.q_len + w.query + 1 - w.first);
  w.chosen = min(w.count, call.top_k);
  int before = w.first - first_key(call, length, 0); /* keys that another query of the sequence sees */
  w.keys = call.keys + (int64)w.row * call.pitch + before;
  w.skip = before % 4;
  return w;
}

/* Integers in the order of the scores; NaN is the largest, and −0 is 0. */
__device__ inline unsigned key_of(float score)
{
  unsigned bits = __float_as_uint(score + 0.0f);
  if (score != score)
    return 0xFFFFFFFFu;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ inline float score_of(unsigned key)
{
  return __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/* Copies the row's keys to shared memory, with HR_IN_SHARED. */
__device__ inline void load_keys(const row_work &w)
{
#ifdef HR_IN_SHARED
  for (int i = 4 * threadIdx.x; i < w.skip + w.count; i += 4 * HR_TOPK_THREADS)
    cp_async_16(shared_address(words() + 64 + i), w.keys - w.skip + i, true);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
#endif
}

__device__ inline unsigned key_at(const row_work &w, int i)
{
#ifdef HR_IN_SHARED
  return (words() + 64 + w.skip)[i];
#else
  return w.keys[i];
#endif
}

__device__ inline unsigned block_max(unsigned value)
{
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(ALL_LANES, value, distance));
  if (threadIdx.x % 32 == 0)
    words()[threadIdx.x / 32] = value;
  __syncthreads();
  value = words()[threadIdx.x % 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(ALL_LANES, value, distance));
  __syncthreads();
  return value;
}

/* ---- selection ---- */

/* Sum over the threads before this one, and over all in *total. */
__device__ inline int sum_before(int value, int *total)
{
  int lane = threadIdx.x % 32, sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    int below = __shfl_up_sync(ALL_LANES, sum, distance);
    sum += lane >= distance ? below : 0;
  }
  if (lane == 31)
    words()[threadIdx.x / 32] = sum;
  __syncthreads();
  int warps = words()[lane];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    int below = __shfl_up_sync(ALL_LANES, warps, distance);
    warps += lane >= distance ? below : 0;
  }
  int before = __shfl_sync(ALL_LANES, warps, max(0, (int)threadIdx.x / 32 - 1));
  *total = __shfl_sync(ALL_LANES, warps, 31);
  __syncthreads();
  return sum - value + (threadIdx.x >= 32 ? before : 0);
}

/* Values of at least `bound` are chosen; if `wanted` is less than `equal`, that many of those that are equal to it. */
struct threshold {
  unsigned bound;
  int wanted, equal;
};

/* The digit from `shift` on of the wanted-th largest of the values in the histogram; false if it has fewer. */
__device__ inline bool find_digit(threshold &t, int shift)
{
  int bin = BINS - 1 - 2 * threadIdx.x, total; /* two bins each, the largest first */
  int high = shared[bin], low = shared[bin - 1], above = sum_before(high + low, &total);
  if (total < t.wanted)
    return false;
  if (above < t.wanted && above + high + low >= t.wanted) {
    bool first = above + high >= t.wanted;
    words()[32] = first ? bin : bin - 1;
    words()[33] = t.wanted - above - (first ? 0 : high);
    words()[34] = first ? high : low;
  }
  __syncthreads();
  t.bound |= words()[32] << shift;
  t.wanted = words()[33];
  t.equal = words()[34];
  __syncthreads();
  return true;
}

/* The k-th largest of value(0) … value(count − 1), of those that are at least `lower` ≥ 1; if they are fewer than k,
 * nothing is wanted. It is known as soon as all values with its first digits are chosen. */
template <class Function> __device__ inline threshold select(int count, int k, unsigned lower, Function value)
{
  threshold t = {0, k, 0};
#pragma unroll 1
  for (int shift = 32 - HR_TOPK_DIGIT_BITS;; shift = max(0, shift - HR_TOPK_DIGIT_BITS)) {
    int digit_end =
        shift == 0 ? 32 - 2 * HR_TOPK_DIGIT_BITS : shift + HR_TOPK_DIGIT_BITS; /* the last digit has fewer bits */
    unsigned least = max(t.bound, lower),
             most = t.bound | 0xFFFFFFFFu >> (32 - digit_end); /* with the digits found so far */
    for (int bin = threadIdx.x; bin < BINS; bin += HR_TOPK_THREADS)
      shared[bin] = 0;
    __syncthreads();
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += HR_TOPK_THREADS) {
      unsigned found = value(i);
      if (found - least <= most - least)
        atomicAdd(&shared[(found - t.bound) >> shift], 1u);
    }
    __syncthreads();
    if (!find_digit(t, shift))
      return {0, 0, 0};
    if (t.equal == t.wanted || shift == 0) {
      t.bound = max(t.bound, lower);
      return t;
    }
  }
}

/* A key that at least w.chosen keys reach, very likely, and not many more: atomic additions to a histogram are slow,
 * and these others need none. It is one of a sample of keys; each thread ranks an eighth of the sample against one of
 * them. */
__device__ inline unsigned guess_bound(const row_work &w)
{
  constexpr int SAMPLE = HR_TOPK_THREADS / 8;
  float rank = (float)w.chosen / w.count * SAMPLE;
  int wanted = (int)(rank + 3 * sqrtf(rank * (1 - rank / SAMPLE)) + 2);
  if (w.count < 16 * SAMPLE || wanted >= SAMPLE)
    return 1;
  if (threadIdx.x < SAMPLE)
    shared[threadIdx.x] = key_at(w, w.count / SAMPLE * threadIdx.x);
  if (threadIdx.x == SAMPLE)
    words()[35] = 1;
  __syncthreads();
  int above = 0;
  unsigned key = shared[threadIdx.x / 8];
#pragma unroll
  for (int i = 0; i < SAMPLE / 32; i++) {
    uint4 others = *(const uint4 *)(shared + (i * 8 + threadIdx.x % 8) * 4);
    above += (others.x > key) + (others.y > key) + (others.z > key) + (others.w > key);
  }
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2)
    above += __shfl_xor_sync(ALL_LANES, above, distance);
  if (above >= wanted && threadIdx.x % 8 == 0)
    atomicMax(&words()[35], key);
  __syncthreads();
  return words()[35];
}

struct choice {
  unsigned key,
      place; /* chosen: larger keys, and of equal ones those whose ~place is at least `place`; if that is 0, all */
};

/* `largest` becomes the largest key that this thread sees. */
__device__ inline choice choose(const row_work &w, unsigned &largest)
{
  auto key = [&](int i) {
    unsigned found = key_at(w, i);
    largest = max(largest, found);
    return found;
  };
  if (w.chosen == w.count) {
    for (int i = threadIdx.x; i < w.count; i += HR_TOPK_THREADS)
      key(i);
    return {1, 0};
  }
  threshold t = {};
  for (unsigned lower = guess_bound(w); t.wanted == 0; lower = 1) /* again if the sample misled */
    t = select(w.count, w.chosen, lower, key);
  if (t.equal == t.wanted)
    return {t.bound, 0};
  unsigned kth = t.bound;
  t = select(w.count, t.wanted, 1, [&](int i) { return key_at(w, i) == kth ? ~(unsigned)i : 0; });
  return {kth, t.bound};
}

template <bool TIES> __device__ inline bool is_chosen(const row_work &w, const choice &c, int i)
{
  unsigned key = i < w.count ? key_at(w, i) : 0;
  return TIES ? key > c.key || (key == c.key && ~(unsigned)i >= c.place) : key >= c.key;
}

/* Bits of the chosen ones of a warp's keys, `of_lane` · 32 from `first` on: lane n < of_lane gets those of key first +
 * 32 · n and on. */
template <bool TIES> __device__ inline unsigned chosen_bits(const row_work &w, const choice &c, int first, int of_lane)
{
  unsigned own = 0;
#pragma unroll 8
  for (int i = 0; i < of_lane; i++) {
    unsigned votes = __ballot_sync(ALL_LANES, is_chosen<TIES>(w, c, first + i * 32 + threadIdx.x % 32));
    own = threadIdx.x % 32 == i ? votes : own;
  }
  return own;
}

/* Writes places first … end − 1 of the row's list, in the order of the keys. */
__device__ inline void list_chosen(const topk_call &call, const row_work &w, const choice &c, int first, int end)
{
  int *list = call.places + (int64)w.row * call.top_k, before = 0; /* chosen keys of the parts before */
  int of_lane = min(32, (w.count + HR_TOPK_THREADS - 1) / HR_TOPK_THREADS), of_warp = of_lane * 32;
#pragma unroll 1
  for (int part = 0; part < w.count && before < end; part += WARPS * of_warp) {
    int from = part + threadIdx.x / 32 * of_warp, total;
    unsigned left = c.place == 0 ? chosen_bits<false>(w, c, from, of_lane) : chosen_bits<true>(w, c, from, of_lane);
    int place = before + sum_before(__popc(left), &total);
    for (from += threadIdx.x % 32 * 32; left != 0; left &= left - 1, place++)
      if (place >= first && place < end)
        list[place] = from + __ffs(left) - 1;
    before += total;
  }
}
