/* SPDX-License-Identifier: Apache-2.0 */
/* A block finds its copies where only the device knows how many each expert has: those of all experts are cut into
 * tiles of up to TILE copies of one expert, in order. */

struct expert_tile {
  int expert;
  int first, count; /* copies; 0: there is no such tile */
};

/* Tile `index`. All lanes of a warp ask for the same. */
template <int TILE> __device__ inline expert_tile tile_of_experts(const int *offsets, int experts, int index)
{
  const int lane = threadIdx.x % 32;
  for (int first = 0; first < experts; first += 32) {
    const int expert = first + lane;
    const int begin = expert < experts ? offsets[expert] : 0, end = expert < experts ? offsets[expert + 1] : 0;
    const int tiles = (end - begin + TILE - 1) / TILE;
    int before = tiles;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      int other = __shfl_up_sync(0xFFFFFFFFu, before, step);
      before += lane >= step ? other : 0;
    }
    const int all = __shfl_sync(0xFFFFFFFFu, before, 31);
    if (index < all) {
      const int owner = __ffs((int)__ballot_sync(0xFFFFFFFFu, index < before)) - 1;
      const int within = index - __shfl_sync(0xFFFFFFFFu, before - tiles, owner);
      const int from = __shfl_sync(0xFFFFFFFFu, begin, owner) + within * TILE;
      const int left = __shfl_sync(0xFFFFFFFFu, end, owner) - from;
      return {first + owner, from, left < TILE ? left : TILE};
    }
    index -= all;
  }
  return {0, 0, 0};
}

/* The same of few tokens, where no expert has more than TILE copies: each expert with copies is a tile. `experts_of` of
 * each copy is in order: one load finds the tile where offsets of many experts take several. */
template <int TILE> __device__ inline expert_tile tile_of_copies(const int *experts_of, int copies, int index)
{
  const int lane = threadIdx.x % 32;
  for (int first = 0; first < copies; first += 32) {
    const int at = first + lane, expert = at < copies ? experts_of[at] : -1;
    const int before = at > 0 && at < copies ? experts_of[at - 1] : -1;
    unsigned heads = __ballot_sync(0xFFFFFFFFu, expert != before && expert >= 0);
    if (index < __popc(heads)) {
      for (; index > 0; index--)
        heads &= heads - 1u;
      const int owner = __ffs((int)heads) - 1, begin = first + owner, mine = __shfl_sync(0xFFFFFFFFu, expert, owner);
      const bool same = lane < TILE && begin + lane < copies && experts_of[begin + lane] == mine;
      return {mine, begin, __popc(__ballot_sync(0xFFFFFFFFu, same))};
    }
    index -= __popc(heads);
  }
  return {0, 0, 0};
}
