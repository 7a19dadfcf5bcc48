/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a decode call by the decode kernels, which read each K and V head once, but for some with windows. */
#include "analysis/predict/terms.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "hardware/hardware.h"
#include "schedule/decode_tiles.h"
#include "shape/kv_format.h"

#include <headroom/experimental/decode.h>
#include <math.h>

#define INSTRUCTION_ROWS 16 /* of mma.sync: fewer queries of a K or V head take as long, but with 8 bits */
/* This library's kernels reach this share of a CPU's fp32 rate with many query heads per K head (docs/notes/decode.md).
 * Formats of 16 bits are widened, and every row is computed by itself. */
#define CPU_SHARE 0.5

/* The call's FLOPs with the rows of each K and V head padded to a multiple of `granule`. */
static double padded_flops(const hr_decode *d, int64_t granule, double flops)
{
  int64_t k_rows = d->q_heads / d->k_heads * d->q_len, v_rows = d->q_heads / d->v_heads * d->q_len;
  double k_share = (double)d->qk_dim / (double)(d->qk_dim + d->v_dim);
  double k_padding = (double)hr_round_up(k_rows, granule) / (double)k_rows;
  double v_padding = (double)hr_round_up(v_rows, granule) / (double)v_rows;
  return flops * (k_share * k_padding + (1 - k_share) * v_padding);
}

/* Time of the arithmetic, where `rate` is that of the library's best GEMM. */
static double busy_ns(const hr_hardware *hardware, const hr_decode *d, const hr_decode_cost *cost, double flops,
                      double rate, hr_prediction *p)
{
  double fp32_rate = 0, padded;
  int64_t granule = cost == &hardware->decode_fp8 ? 1 : INSTRUCTION_ROWS, rows = d->q_heads / d->k_heads * d->q_len;
  if (hardware->about.kind == HR_HARDWARE_CPU && hr_predict_rate(hardware, HR_FP32, &fp32_rate, NULL) == HR_OK) {
    rate = fp32_rate * CPU_SHARE;
    granule = 1;
  } else if (cost->compute_share > 0) {
    if (cost == &hardware->decode_fp8 && hardware->dense_flops_per_s[HR_FP8_E4M3] > 0)
      rate = hr_hardware_library_flops_per_s(hardware, HR_FP8_E4M3); /* whatever Q is */
    rate *= cost->compute_share;
  } else {
    rate *= hr_predict_attention_share(hardware, hr_max64(d->qk_dim, d->v_dim)).forward_share;
  }
  padded = padded_flops(d, granule, flops);
  p->tile_m = hr_round_up(rows, granule);
  p->tile_waste = 1 - flops / padded;
  return fmax(padded / rate * 1e9, p->matrix_ns);
}

/* Each query head of a call with a window reads K and V for itself, by kernels that have a cost of it. */
static const hr_decode_cost *take_windowed(const hr_decode *d, const hr_decode_cost *cost, hr_split_kv *call,
                                           hr_decode_cost *windowed)
{
  if (d->window == 0 || !(cost->window_head_ns > 0))
    return cost;
  const double k_group = (double)d->q_heads / (double)d->k_heads, v_group = (double)d->q_heads / (double)d->v_heads;
  const double more =
      (k_group - 1) * (double)(d->k_heads * d->qk_dim) + (v_group - 1) * (double)(d->v_heads * d->v_dim);
  call->bytes += more * call->keys * (double)(d->batch * (int64_t)hr_decode_cache_bytes(d));
  call->pairs = (double)d->batch * (double)d->q_heads, call->rows = 1;
  *windowed = *cost;
  windowed->pair_ns = cost->window_head_ns, windowed->element_ns = 0;
  return windowed;
}

hr_status hr_predict_decode_by(const hr_hardware *hardware, const hr_decode *decode, hr_framework framework,
                               hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, decode, prediction);
  HR_TAKE(hr_decode, decode, error);
  HR_TRY(hr_decode_check(decode, error));
  HR_TRY(hr_predict_check_framework(framework, error));
  if (framework == HR_FRAMEWORK_HEADROOM)
    HR_TRY(hr_kv_readable_check("cache_format", decode->cache_format, error));
  if (decode->kv_len == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "kv_len 0 gives nothing to predict");
  double rate = 0;
  int64_t flops = 0, bytes = 0, keys = hr_decode_keys_read(decode);
  int64_t rows = decode->q_heads / decode->k_heads * decode->q_len;
  HR_TRY(hr_predict_rate(hardware, decode->dtype, &rate, error));
  HR_TRY(hr_decode_flops(decode, &flops));
  HR_TRY(hr_decode_bytes(decode, &bytes));
  hr_prediction p = {.matrix_ns = (double)flops / rate * 1e9};
  bool bits_8 = decode->cache_format != HR_KV_UNQUANTIZED || hr_dtype_bytes(decode->dtype) == 1;
  const hr_decode_cost *cost = hr_predict_decode_cost(hardware, framework, decode->latent, bits_8);
  hr_split_kv call = {.compute_ns = busy_ns(hardware, decode, cost, (double)flops, rate, &p),
                      .bytes = (double)bytes,
                      .pairs = (double)decode->batch * (double)hr_max64(decode->k_heads, decode->v_heads),
                      .keys = (double)keys,
                      .head_dim = (double)hr_max64(decode->qk_dim, decode->v_dim),
                      .rows = (double)rows};
  p.tile_ns = call.compute_ns - p.matrix_ns;
  if (framework == HR_FRAMEWORK_HEADROOM)
    call.decode = hr_predict_split_decode(decode);
  hr_decode_cost windowed;
  cost = take_windowed(decode, cost, &call, &windowed);
  double time_ns = hr_predict_split_kv(hardware, cost, &call, &p);
  hr_prediction_finish(hardware, time_ns, (double)flops, hr_predict_peak(hardware, decode->dtype), &p);
  if (framework != HR_FRAMEWORK_HEADROOM)
    hr_prediction_set_interval(hardware, decode->latent ? HR_INTERVAL_LATENT : HR_INTERVAL_DECODE, HR_DTYPE_COUNT, &p);
  else if (call.decode)
    hr_prediction_set_interval(hardware, HR_INTERVAL_OWN_DECODE, HR_DTYPE_COUNT, &p);
  *prediction = p;
  return HR_OK;
}

hr_status hr_predict_decode(const hr_hardware *hardware, const hr_decode *decode, hr_prediction *prediction,
                            hr_error *error)
{
  HR_NEED(error, hardware, decode, prediction);
  return hr_predict_decode_by(hardware, decode, HR_FRAMEWORK_HEADROOM, prediction, error);
}
