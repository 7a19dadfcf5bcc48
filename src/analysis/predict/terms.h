/* SPDX-License-Identifier: Apache-2.0 */
/* Terms that the predictions of GEMMs, attention and other operators share. */
#ifndef HR_ANALYSIS_PREDICT_TERMS_H
#define HR_ANALYSIS_PREDICT_TERMS_H

#include "hardware/hardware.h"

#include <headroom/predict.h>

/** Checks only the members that a prediction divides by; much cheaper than hr_hardware_check(), which a step runs
 *  once. */
hr_status hr_predict_check_hardware(const hr_hardware *hardware, hr_error *error);

/** Rate of the library's best GEMM; HR_ERROR_UNSUPPORTED if the device has no units for the format, errors of
 *  hr_predict_check_hardware(). */
hr_status hr_predict_rate(const hr_hardware *hardware, hr_dtype dtype, double *flops_per_s, hr_error *error);

/** The device on which GEMMs reach `matrix_share` of the library's rate and read at `load_share` of the bandwidth;
 *  0: as before. */
hr_hardware hr_predict_scaled_device(const hr_hardware *hardware, hr_dtype dtype, double matrix_share,
                                     double load_share);

/** The rate that efficiencies are relative to: the dense rate, or the library's best GEMM if that is faster, as on a
 *  probed CPU. */
double hr_predict_peak(const hr_hardware *hardware, hr_dtype dtype);

/** Time of two overlapping terms, (a³ + b³)^⅓: 26% more than the larger if both are equal, hardly more if one is small.
 *  The exponent was fitted to measurements (docs/notes/prediction.md). */
double hr_overlap(double a_ns, double b_ns);

/** Time to move bytes at a share of the device's bandwidth, ns; share 0: the streaming share. */
double hr_transfer_ns(const hr_hardware *hardware, double bytes, double share);

/** Rate of reading operands from the last-level cache, bytes per second. */
double hr_cache_rate(const hr_hardware *hardware);

/** Whether an operator of so many bytes finds them in the last-level cache. */
bool hr_is_cached(const hr_hardware *hardware, double bytes);

/** Time to move bytes that the kernels before have just moved: as much as the last-level cache holds comes from it, and
 *  from twice as much on nothing. */
double hr_recent_ns(const hr_hardware *hardware, double bytes, double share);

/** The same where the caches are warm; where they are cold all comes from memory. */
double hr_reread_ns(const hr_hardware *hardware, double bytes, double share);

/** Sets time, error band, efficiency and bound_by from the terms. `busy_ns` is the time without the launch; `useful` is
 *  FLOPs or bytes, `useful_per_s` the device's peak rate of them. */
void hr_prediction_finish(const hr_hardware *hardware, double busy_ns, double useful, double useful_per_s,
                          hr_prediction *prediction);

/** The device's interval for a kind and a predicted time: that of the number format, else that of all formats; NULL
 *  where there is none. `dtype` is HR_DTYPE_COUNT but for GEMMs. */
const hr_interval *hr_interval_for(const hr_hardware *hardware, hr_interval_kind kind, hr_dtype dtype, double time_ns);

/** Sets low_ns and high_ns by hr_interval_for(); leaves the band where there is none. */
void hr_prediction_set_interval(const hr_hardware *hardware, hr_interval_kind kind, hr_dtype dtype,
                                hr_prediction *prediction);

/** A GEMM; `batched` selects the alignment shares. `loaded_bytes` counts the operands, each as often as it must be
 *  read. `gemm` has passed hr_gemm_check(). */
hr_status hr_predict_gemm_loading(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double loaded_bytes,
                                  hr_prediction *prediction, hr_error *error);

/** A plain, batched or grouped GEMM with the kernels that its framework runs around it. */
hr_status hr_predict_gemm_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                   hr_error *error);

/** Whether a GEMM's weights have fewer bytes than its elements: they have kernels of their own. */
bool hr_has_quantized_weights(const hr_operator *op, const hr_gemm *gemm);

/** What the matrix units multiply by: fp4 and fp8 are widened, with their weights, where a device has no units for
 *  them, as vLLM's Marlin kernels do; fp8 neither in training nor by this library, which would widen weights before. */
hr_activations hr_predict_activations(const hr_hardware *hardware, const hr_operator *op);

/** A scan or a short convolution of a recurrent mixer. */
hr_status hr_predict_scan_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                   hr_error *error);

/** Gives a GPU the costs of scans that predictions assume where it has none of its own. */
void hr_scan_costs_assume(hr_hardware *hardware);

/** HR_ERROR_INVALID for a framework that is not in the list. */
hr_status hr_predict_check_framework(hr_framework framework, hr_error *error);

/** A call of attention whose keys may be split. `pairs`: K or V heads of all sequences. */
typedef struct hr_split_kv {
  double compute_ns, bytes, pairs, keys, head_dim;
  double rows; /* query heads of a pair, times queries */

  const hr_decode *decode; /* by Headroom's kernel for GPUs; NULL: by another */
} hr_split_kv;

/** The call, if Headroom's kernel for split keys on GPUs has it: K and V apart, all of them read; otherwise NULL. */
const hr_decode *hr_predict_split_decode(const hr_decode *decode);

/** The cost of decode by the kernels of a framework; `latent`: of latent attention in its absorbed form; `fp8`: over a
 *  cache of 8 bits. */
const hr_decode_cost *hr_predict_decode_cost(const hr_hardware *hardware, hr_framework framework, bool latent,
                                             bool fp8);

/** Time of such a call without its launch; sets the terms but those of compute. See hr_predict_decode(). */
double hr_predict_split_kv(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                           hr_prediction *prediction);

/** hr_predict_attention_by() whose arguments are checked; `server`: it also writes a KV cache of pages. */
hr_status hr_predict_prefill(const hr_hardware *hardware, const hr_attention *attention, hr_framework framework,
                             bool server, hr_prediction *prediction, hr_error *error);

/** The kind whose interval a call of fused attention by the kernels of a framework has. */
hr_interval_kind hr_predict_attention_kind(const hr_attention *attention, hr_framework framework);

/** Shares of fused attention for heads up to `head_dim`; estimates if the device has none. */
hr_attention_share hr_predict_attention_share(const hr_hardware *hardware, int64_t head_dim);

/** The device with the rates of the operator's FlashAttention: `hardware` itself, or `older`, which is then filled. */
const hr_hardware *hr_predict_flash_device(const hr_hardware *hardware, const hr_operator *op, hr_hardware *older);

/** The backward pass of fused attention, with the FLOPs and bytes of `op`. */
hr_status hr_predict_gradients(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                               hr_error *error);

#endif
