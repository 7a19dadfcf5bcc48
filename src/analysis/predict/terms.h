/* What the parts of the prediction share. */
#ifndef HR_ANALYSIS_PREDICT_TERMS_H
#define HR_ANALYSIS_PREDICT_TERMS_H

#include <headroom/predict.h>

/** The members that every prediction divides by; much cheaper than hr_hardware_check(), which a step runs once. */
hr_status hr_predict_check_hardware(const hr_hardware *hardware, hr_error *error);

/** Rate of the library's best product, or HR_ERROR_UNSUPPORTED if the device has no units for the format. */
hr_status hr_predict_rate(const hr_hardware *hardware, hr_dtype dtype, double *flops_per_s, hr_error *error);

/** What efficiencies are shares of: the dense rate, or the library's best product where a probed CPU is faster than its
 *  dense rate promises. */
double hr_predict_peak(const hr_hardware *hardware, hr_dtype dtype);

/** Time of two things that run at once and get in each other's way the more, the closer they are: (a³ + b³)^⅓, which
 *  is a quarter over the larger when both are equal and next to nothing over it when one is small. The exponent was
 *  fitted to measurements (docs/prediction.md). */
double hr_overlap(double a_ns, double b_ns);

/** ns to move bytes at a share of the device's bandwidth; a share of 0 stands for the streaming share. */
double hr_transfer_ns(const hr_hardware *hardware, double bytes, double share);

/** Fills time, error band, efficiency and what binds, from the parts. `busy_ns` is the time without the launch,
 *  `useful_per_s` what the device promises of the `useful` operations or bytes. */
void hr_prediction_finish(const hr_hardware *hardware, double busy_ns, double useful, double useful_per_s,
                          hr_prediction *prediction);

/** A product; `batched` picks the alignment shares. `loaded_bytes` are those of the operands, each counted as often as
 *  it must be read. `gemm` has passed hr_gemm_check(). */
hr_status hr_predict_gemm_loading(const hr_hardware *hardware, const hr_gemm *gemm, bool batched, double loaded_bytes,
                                  hr_prediction *prediction, hr_error *error);

/** The backward pass of a fused attention of `flops` operations and `bytes` of traffic. */
hr_status hr_predict_attention_backward(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                        hr_error *error);

#endif
