/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/predict.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_PREDICT_H
#define HEADROOM_EXPERIMENTAL_PREDICT_H

#include <headroom/experimental/collective.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whose grouped GEMMs a server runs: those that it has chosen itself, or these. */
typedef enum hr_expert_kernels { HR_EXPERTS_USUAL, HR_EXPERTS_CUTLASS, HR_EXPERTS_TRITON } hr_expert_kernels;

/** The routed experts of one layer on one device. */
typedef struct hr_expert_call {
  size_t struct_size; /* sizeof(hr_expert_call), set by hr_expert_call_default() */
  hr_dtype dtype;
  int64_t tokens;            /* of this device */
  int64_t rows;              /* tokens of all experts of this device together */
  int64_t hidden, width;     /* of an expert, on this device */
  int64_t experts;           /* on this device; each has rows, or as many as there are rows */
  bool gated;                /* gate, up and down matrices instead of up and down alone */
  int64_t top_k;             /* experts of a token, on all devices; 0: rows / tokens */
  hr_expert_kernels kernels; /* of a server; where the device's file has no cost of these, the usual ones */
} hr_expert_call;

/** bf16, gated, all sizes 0. */
HR_API void hr_expert_call_init(hr_expert_call *call, size_t size);
HR_DEFAULT(hr_expert_call)

/** Time of choosing, copying to and computing the routed experts, and of adding up their results: the sum of the
 *  operators dispatch, expert_up, expert_gate, expert_activation, expert_down and combine of a step with equal loads;
 *  no router, no shared expert, no communication. With HR_FRAMEWORK_COMPILED and the device's `experts` these are an
 *  inference server's kernels. HR_ERROR_INVALID for a size below 1; errors of hr_predict_operator(). */
HR_API hr_status hr_predict_experts(const hr_hardware *hardware, const hr_expert_call *call, hr_framework framework,
                                    hr_prediction *prediction, hr_error *error);

/** A scan or a short convolution of a recurrent mixer, on one device: sizes as in hr_mixer_scan. */
typedef struct hr_scan_call {
  size_t struct_size; /* sizeof(hr_scan_call), set by hr_scan_call_default() */
  hr_dtype dtype;
  hr_recurrence recurrence; /* HR_RECURRENCE_CONVOLUTION: a convolution without gates, as before a scan */
  bool updates;             /* a decode step: a token of each sequence, whose state is read and written */
  int64_t batch, tokens;    /* sequences; tokens of each, 1 in decode */
  int64_t heads, head_dim;  /* of values */
  int64_t groups, state;    /* heads and size of keys; of a convolution `state` is the width of its kernel */
  int64_t chunk;            /* tokens that are processed together; 0: token by token */
} hr_scan_call;

/** bf16, Mamba-2, one sequence, all other sizes 0. */
HR_API void hr_scan_call_init(hr_scan_call *call, size_t size);
HR_DEFAULT(hr_scan_call)

/** Time of a scan without its gate, if an operator of its own applies that: launch + memory + FLOPs by the device's
 *  figures of scans. Without these the time is the longer of bytes at the rate of a copy and FLOPs at that of the best
 *  GEMM, a lower bound, and high_ns ten times that. HR_ERROR_INVALID for a size that the recurrence needs below 1,
 *  HR_ERROR_OVERFLOW; errors of hr_predict_operator(). */
HR_API hr_status hr_predict_scan(const hr_hardware *hardware, const hr_scan_call *call, hr_prediction *prediction,
                                 hr_error *error);

/** Time of a collective: latency (launch_ns) + transfer (memory_ns).
 *
 *  Within a node it follows from the device's fitted rates (`collectives`) of its library, or of NCCL where those take
 *  less or the library has none; without them each device sends bytes ×
 *  hr_collective_bus_share() at interconnect_bytes_per_s, as in a ring. Devices that do not fit into
 *  devices_per_node are on several nodes: the devices of a node do the same collective, then the n-th
 *  devices of all nodes their share of it over the network; the latencies add up, and of the transfers, which libraries
 *  overlap piece by piece, the longer counts. DeepEP between nodes has rates of its own. The band is that of the
 *  fit. Errors: those of hr_collective_check();
 *  HR_ERROR_UNSUPPORTED if the device has no link. */
HR_API hr_status hr_predict_collective(const hr_hardware *hardware, const hr_collective *collective,
                                       hr_prediction *prediction, hr_error *error);

/** The library of a framework's collectives: an inference server's own, HR_LIBRARY_HEADROOM for this library, else
 *  HR_LIBRARY_NCCL. */
HR_API hr_collective_library hr_predict_library(hr_framework framework);

/** The collective of an operator of HR_KIND_COMMUNICATION, by the library that its framework uses, and its time. An
 *  inference server has DeepEP for its experts, in the mode that takes less, and HR_FRAMEWORK_COMPILED in prefill and
 *  decode HR_LIBRARY_SERVERS; all else is by hr_predict_library(). Where NCCL's time is taken, *collective names NCCL.
 *  Errors of hr_predict_collective(). */
HR_API hr_status hr_predict_communication(const hr_hardware *hardware, const hr_operator *op, hr_collective *collective,
                                          hr_prediction *prediction, hr_error *error);

/** Predicts the gradients of one attention call by a fused kernel, with the defaults of hr_attention_backward. Has the
 *  errors of hr_predict_attention_by() and of hr_attention_backward_check(). */
HR_API hr_status hr_predict_attention_backward(const hr_hardware *hardware, const hr_attention *forward,
                                               hr_prediction *prediction, hr_error *error);

/** Time of one execution of any operator. Errors as hr_predict_gemm() and hr_predict_collective(). */
HR_API hr_status hr_predict_operator(const hr_hardware *hardware, const hr_operator *op, hr_prediction *prediction,
                                     hr_error *error);

/** The kind whose interval a GEMM has, from its batch size and the alignment that its prediction has found. */
HR_API hr_interval_kind hr_interval_kind_of(const hr_gemm *gemm, const hr_prediction *prediction);

/** The version of an inference server, of HR_FRAMEWORK_TRTLLM, _VLLM or _SGLANG, to whose kernels the device's figures
 *  of that framework are fitted: "0.24.0"; "" of another framework, and where the device has none. Valid as long as the
 *  device. */
HR_API const char *hr_predict_server_version(const hr_hardware *hardware, hr_framework framework);

#ifdef __cplusplus
}
#endif
#endif
