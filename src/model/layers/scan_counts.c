/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs and bytes of scans and short convolutions. FLOPs of the scans, with P channels and N state elements of a head:
 *
 *   token by token   state ← decay · state + input · key, output = state · query
 *   in chunks        a chunk of C tokens: C × C products within it, state in and out as GEMMs
 *
 * Derivations and sources: docs/operators.md. */
#include "model/layers/scan_counts.h"

#include "model/layers/scan_widths.h"

#include <headroom/dtype.h>

/* ---- FLOPs of a scan, all heads, per token ---- */

/* Counts the FLOPs of an element of the state. Mamba-1 multiplies A by the step size and takes the exponential (2); all
 * multiply by the decay, multiply input and key and add (3), multiply by the query and add (2). A delta net also reads
 * its old value (2). An RG-LRU has no query. */
static int64_t flops_of_element(hr_recurrence recurrence)
{
  switch (recurrence) {
  case HR_RECURRENCE_SELECTIVE:
  case HR_RECURRENCE_GATED_DELTA:
  case HR_RECURRENCE_KIMI_DELTA: return 7;
  case HR_RECURRENCE_RG_LRU: return 3;
  case HR_RECURRENCE_SSD:
  case HR_RECURRENCE_LIGHTNING:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return 5;
}

static hr_checked64 recurrent_flops(const hr_mixer_scan *m)
{
  return hr_times(hr_scan_state(m), flops_of_element(m->recurrence));
}

/* Within the chunk 2CN for the scores of each group and 2CP to apply them in each head; 2PN to read the state and 2PN
 * to write it. Source: Dao & Gu 2024 (arXiv 2405.21060), section 6. */
static hr_checked64 ssd_flops(const hr_mixer_scan *m, int64_t chunk)
{
  hr_checked64 scores = hr_times(hr_times(hr_scan_keys(m), 2), chunk);
  hr_checked64 applied = hr_times(hr_times(hr_scan_channels(m), 2), chunk);
  return hr_plus(hr_plus(scores, applied), hr_times(hr_scan_state(m), 4));
}

/* Each head takes 2C(3N + 2P) for K Kᵀ, its inverse times K and V, Q Kᵀ and its product with the new values, C²/3 for
 * the triangular inverse, 6PN to correct the values by the state, to read the state and to write it. Source: Yang et
 * al. 2024 (arXiv 2412.06464), section 3.3. Decays of each element of a key multiply K and Q before the same GEMMs
 * (Kimi Linear, arXiv 2510.26692, section 3.2). */
static hr_checked64 delta_flops(const hr_mixer_scan *m, int64_t chunk)
{
  hr_checked64 widths = hr_plus(hr_times(hr_checked(m->state), 3), hr_times(hr_checked(m->head_dim), 2));
  hr_checked64 products = hr_times(hr_times(widths, 2), chunk);
  hr_checked64 inverse = hr_times(hr_checked(chunk), chunk);
  inverse.value /= 3;
  return hr_plus(hr_times(hr_plus(products, inverse), m->heads), hr_times(hr_scan_state(m), 6));
}

static hr_checked64 scan_flops(const hr_mixer_scan *m, int64_t length, bool updates)
{
  int64_t chunk = hr_min64(m->chunk, length);
  if (updates || m->chunk == 0)
    return recurrent_flops(m);
  bool delta = m->recurrence == HR_RECURRENCE_GATED_DELTA || m->recurrence == HR_RECURRENCE_KIMI_DELTA;
  return delta ? delta_flops(m, chunk) : ssd_flops(m, chunk);
}

/* ---- bytes of a scan, per token ---- */

/* What it reads: x, B and C, queries and keys, step sizes and gates. */
static hr_checked64 scan_inputs(const hr_mixer_scan *m)
{
  hr_checked64 keys = hr_times(hr_scan_keys(m), 2), channels = hr_scan_channels(m);
  switch (m->recurrence) {
  case HR_RECURRENCE_SELECTIVE: return hr_plus(hr_times(channels, 3), keys); /* x, step sizes, gate */
  case HR_RECURRENCE_SSD:                                                    /* x, step sizes, perhaps the gate */
    return hr_plus(hr_plus(hr_times(channels, hr_scan_has_gate(m) ? 1 : 2), keys), hr_checked(m->heads));
  case HR_RECURRENCE_GATED_DELTA: /* values, decays, learning rates */
    return hr_plus(hr_plus(channels, keys), hr_times(hr_checked(m->heads), 2));
  case HR_RECURRENCE_KIMI_DELTA: /* values, decays, learning rates */
    return hr_plus(hr_plus(channels, hr_plus(keys, hr_scan_keys(m))), hr_checked(m->heads));
  case HR_RECURRENCE_RG_LRU: return hr_times(channels, 3); /* x and two gates */
  case HR_RECURRENCE_LIGHTNING:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return hr_plus(channels, keys);
}

/* Kernels write the state of each chunk and read it for the chunk's outputs. Those of Mamba-2 write it in fp32, read
 * it to form the states before the chunks, write these in 16 bits and read them (mamba_ssm 2.3.2, ssd_combined.py);
 * the others have it in 16 bits (flash-linear-attention 0.6.0, chunk_fwd_h). */
static int64_t chunk_bytes_of_element(hr_recurrence recurrence)
{
  switch (recurrence) {
  case HR_RECURRENCE_SSD: return 12;
  case HR_RECURRENCE_GATED_DELTA:
  case HR_RECURRENCE_KIMI_DELTA:
  case HR_RECURRENCE_LIGHTNING: return 4;
  case HR_RECURRENCE_SELECTIVE:
  case HR_RECURRENCE_RG_LRU:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return 0;
}

int64_t hr_scan_chunks(const hr_mixer_scan *m, int64_t length, bool updates)
{
  return updates || m->chunk == 0 ? 0 : hr_ceil_div(length, m->chunk);
}

hr_scan_totals hr_total_scan(const hr_scan_counts *counts, hr_dtype dtype, int64_t tokens, int64_t sequences,
                             int64_t state_moves, int64_t chunks)
{
  hr_checked64 elements = hr_times(hr_plus(counts->inputs, counts->outputs), tokens);
  hr_checked64 states = hr_times(hr_times(counts->state_bytes, sequences), state_moves);
  hr_checked64 bytes = hr_plus(hr_times(elements, (int64_t)hr_dtype_bytes(dtype)), states);
  hr_checked64 between = hr_times(hr_times(counts->chunk_bytes, sequences), chunks);
  return (hr_scan_totals){hr_times(counts->flops, tokens), bytes, hr_plus(bytes, between)};
}

hr_scan_counts hr_count_scan(const hr_mixer_scan *m, int64_t length, bool updates)
{
  return (hr_scan_counts){.flops = scan_flops(m, length, updates),
                          .inputs = scan_inputs(m),
                          .outputs = hr_scan_channels(m),
                          .state_bytes = hr_scan_state_bytes(m),
                          .chunk_bytes = hr_times(hr_scan_state(m), chunk_bytes_of_element(m->recurrence))};
}

/* A mixer that is a convolution is multiplied by a gate before and behind it. */
hr_scan_counts hr_count_convolution(const hr_mixer_scan *m, hr_dtype dtype)
{
  hr_checked64 channels = hr_scan_convolved(m);
  bool gated = m->recurrence == HR_RECURRENCE_CONVOLUTION;
  hr_checked64 products = hr_times(hr_times(channels, m->kernel), 2);
  return (hr_scan_counts){
      .flops = hr_plus(products, hr_times(channels, gated ? 2 : 0)),
      .inputs = hr_times(channels, gated ? 3 : 1),
      .outputs = channels,
      .state_bytes = hr_times(hr_times(channels, m->kernel), (int64_t)hr_dtype_bytes(dtype)),
  };
}
