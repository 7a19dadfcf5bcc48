/* SPDX-License-Identifier: Apache-2.0 */
/* The epilogue of attention_flash_sm90.cu: divides O by the row sums and stores it. */

/* Two elements of O in a word. `inverse` 0 (a row without keys) gives 0 even where 0 · NaN of V made NaN. */
__device__ inline unsigned scale_pair(float low, float high, float inverse)
{
  unsigned both = pack_pair(low * inverse, high * inverse);
#if defined(HR_CAUSAL) || defined(HR_VARLEN) /* otherwise every row has keys */
  both &= inverse == 0 ? 0u : ~0u;
#endif
  return both;
}

#ifdef HR_STAGE_O
/* A warp's 16 rows go through shared memory to a TMA store. */
__device__ inline void store_o(const tensor_maps &tensor_maps, const consumer_state &c, const work_item &item,
                               const row_span &sp, unsigned to, const float (&inverse)[2])
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, row = lane % 16;
  to += warp * 16 * PANEL_ROW;
  if (lane == 0)
    tma_store_wait(); /* of the work item before */
  __syncwarp();
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    int chunk = (n % 8 + lane / 16) ^ row % 8;
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      words[i] = scale_pair(c.out[n * 4 + 2 * i], c.out[n * 4 + 2 * i + 1], inverse[i % 2]);
    stmatrix_x4(to + n / 8 * Q_PANEL + row * PANEL_ROW + chunk * 16, words[0], words[1], words[2], words[3]);
  }
  fence_proxy_async();
  __syncwarp();
  if (lane == 0) {
    if (sp.first_row + warp * 16 < item.q_len)
      for (int panel = 0; panel < O_PANELS; panel++)
        tma_store(tensor_maps.o, to + panel * Q_PANEL, panel * 64, item.head, sp.first_row + warp * 16, item.batch);
    tma_store_commit();
  }
}
#else
/* Neighbouring lanes exchange words of two 8-column tiles, so that a row's four lanes write 32 bytes at once. */
__device__ inline void store_o_row(const attention_call &call, const head_view &view, const consumer_state &c,
                                   const row_span &sp, int half, float inverse)
{
  int row = row_of(sp, half), lane = threadIdx.x % 4;
  out_element *to = view.o + (int64)row * call.o_at.row + lane % 2 * 8 + lane / 2 * 4;
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    const float *o = c.out + n * 4 + half * 2;
    unsigned a = scale_pair(o[0], o[1], inverse), b = scale_pair(o[4], o[5], inverse);
    unsigned got = __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? a : b, 1);
    if (row < view.q_len && n * 8 + lane % 2 * 8 < call.v_dim)
      *(uint2 *)(to + n * 8) = lane % 2 ? make_uint2(got, b) : make_uint2(a, got);
  }
}
#endif

/* Divides O by the row sum and stores it. A row without keys is 0; one whose every score is −∞ is NaN. */
__device__ inline void epilogue(const attention_call &call, const tensor_maps &tensor_maps, const consumer_state &c,
                                const work_item &item, const row_span &sp, unsigned out)
{
  head_view view = view_head(call, item.batch, item.head);
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = c.row_sum[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    int row = row_of(sp, half);
    key_range keys = keys_of_row(call, view, row);
    inverse[half] = keys.first >= keys.end ? 0.0f : sp.out_scale / sum;
    if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
      view.lse[row * call.lse_at.row] =
          (exponent_of_base(c.base[half], softmax_factor(call, sp.score_scale)) + log2f(sum)) * LN_2;
#ifndef HR_STAGE_O
    store_o_row(call, view, c, sp, half, inverse[half]);
#endif
  }
#ifdef HR_STAGE_O
  store_o(tensor_maps, c, item, sp, out, inverse);
#endif
}
