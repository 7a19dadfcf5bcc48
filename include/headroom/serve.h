/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for serving a model: latency, throughput and cost over tensor parallelism and batch. docs/serving.md derives
 * the formulas. Thread safety: an hr_serve_result belongs to one caller. */
#ifndef HEADROOM_SERVE_H
#define HEADROOM_SERVE_H

#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_SERVE_TOKENS_MAX ((int64_t)1 << 38)  /* of a prompt, and of an output */
#define HR_SERVE_BATCH_MAX HR_WORKLOAD_SIZE_MAX /* sequences in flight */
#define HR_SERVE_DEVICES_MAX ((int64_t)4096)    /* devices of a plan */
#define HR_SERVE_PREFILL_MAX ((int64_t)1 << 40) /* tokens of a prefill step */
#define HR_SERVE_PAGE_MAX ((int64_t)1 << 20)    /* tokens of a page */
#define HR_SERVE_RATE_MAX ((int64_t)1000000000) /* requests per second */
#define HR_SERVE_RESERVE_MAX ((int64_t)1 << 50) /* bytes of a device that are kept free */

/** Servers whose rules say what K and V may take of a device's memory. Enumerator, name. */
#define HR_SERVE_ENGINE_LIST(ROW)                                                                                 \
  ROW(HR_SERVE_VLLM, "vllm")     /* memory_share of the device holds all: weights, step, reserve, K and V */      \
  ROW(HR_SERVE_SGLANG, "sglang") /* memory_share of the device holds weights, reserve, K and V; steps the rest */ \
  ROW(HR_SERVE_TRTLLM, "trtllm") /* K and V have memory_share of what weights, largest step and reserve leave */  \
  ROW(HR_SERVE_TURBOMIND, "turbomind") /* K and V have memory_share of what weights and reserve leave */          \
  ROW(HR_SERVE_NONE, "none") /* no server: the whole device holds all, and steps take the predicted time alone */

typedef enum hr_serve_engine {
#define HR_SERVE_ENGINE_ENUM(enumerator, name) enumerator,
  HR_SERVE_ENGINE_LIST(HR_SERVE_ENGINE_ENUM)
#undef HR_SERVE_ENGINE_ENUM
      HR_SERVE_ENGINE_COUNT
} hr_serve_engine;

/** Requests, limits, and what may be tried. All requests have the same lengths. */
typedef struct hr_serve_options {
  size_t struct_size;           /* sizeof(hr_serve_options), set by hr_serve_options_default() */
  int64_t prompt_tokens;        /* default 2048 */
  int64_t output_tokens;        /* default 256. The prefill gives the first one */
  double ttft_limit_ns;         /* most time to first token; 0: none */
  double tpot_limit_ns;         /* most time per output token; 0: none */
  double price_per_device_hour; /* in any currency; 0: not given */
  double memory_share;          /* of a device's memory that the server may use. Default 0.9, as vLLM's */
  int64_t batch;                /* sequences in flight in a tensor-parallel group; 0: powers of two, the
                                   largest that fits, and the largest that meets the limits */
  int64_t batch_max;            /* largest batch tried. Default 1024 */
  int64_t devices_max;          /* most devices of a plan; 0: those of a node, at least 1 */
  int64_t tensor_parallel;      /* 0: powers of two */
  int64_t expert_parallel;      /* 0: 1 and, of models with experts, powers of two that divide the experts */
  int64_t prefill_tokens;       /* of the prompts that are prefilled together. Default 8192 */
  int64_t page_tokens;          /* of a page of the KV cache. Default 16 */
  bool disaggregated;           /* prompts are prefilled on devices of their own */
  int64_t reserve_bytes;        /* of a device, for the driver's context, libraries' workspaces and CUDA graphs. Default
                                   1 GiB (docs/serving.md) */
  hr_serve_engine engine;       /* what memory_share is a share of. Default vllm */
  bool uniform_pages; /* a page has all layers: those with a window keep all tokens. Default false: they release
                                   pages behind it */
  int64_t sure;     /* 90: the limits hold at the high ends of the bands, in which nine of ten times lie. Default 0: the
                         predicted times alone count */
  double recommend; /* requests per second for which fleets are recommended; 0: none */
  int64_t pipeline_stages;              /* that the layers are divided into; 0: 1 */
  const hr_hardware *prefill_hardware;  /* disaggregated: of the devices that prefill; NULL: the same. Results refer to
                                          it */
  int64_t prefill_tensor_parallel;      /* disaggregated: their t; 0: with hardware of their own the one of a node that
                                          takes the least of their time within the limit of TTFT, else as the others */
  double prefill_price_per_device_hour; /* disaggregated; 0: price_per_device_hour */
} hr_serve_options;

/** The defaults above, without limits and price. */
HR_API void hr_serve_options_init(hr_serve_options *options, size_t size);
HR_DEFAULT(hr_serve_options)

/** A way to spread the model over devices. */
typedef struct hr_serve_layout {
  int64_t tensor_parallel, expert_parallel; /* as in hr_workload */
  int64_t devices;                          /* of one copy of the model: the larger of the two, times the stages */
  int64_t weight_bytes;                     /* on one device */
  int64_t sequence_bytes;                   /* KV cache and states of one sequence at its end, on one device */
  int64_t largest_batch;                    /* of a tensor-parallel group, as the memory allows; 0: does not fit */
  int64_t step_bytes;                       /* activations of the largest step of one sequence, on one device */
  int64_t cache_tokens;                     /* of a tensor-parallel group that fit beside the weights, the largest step
                                               and the reserve, in sequences of that length; 0: none, or no cache */
  bool splits; /* each device gets whole heads, columns and blocks of quantized weights; servers refuse others, of which
                      there is no point */
  char split[160];         /* why it does not, or what is padded so that it does; else "" */
  int64_t pipeline_stages; /* as in hr_workload; figures of a device are those of the fullest stage */
} hr_serve_layout;

/** A layout with a batch: steady state of continuous batching, one copy of the model. */
typedef struct hr_serve_point {
  int64_t tensor_parallel, expert_parallel, devices; /* of its layout */
  int64_t batch;                                     /* sequences in flight in a tensor-parallel group */
  int64_t sequences;                                 /* in flight on all devices of the copy */
  int64_t prefill_batch;                             /* prompts that are prefilled together */
  double ttft_ns, ttft_low_ns, ttft_high_ns;         /* time to first token, without waiting for a turn */
  double tpot_ns, tpot_low_ns, tpot_high_ns;         /* mean time per output token after the first, interruptions by the
                                                prefill of others included; 0 where there is but one */
  double decode_step_ns;                             /* mean over the contexts, without interruptions */
  double request_ns; /* of a whole request: ttft_ns + (output_tokens − 1) · tpot_ns */
  double requests_per_s, requests_per_s_low, requests_per_s_high;
  double output_tokens_per_s;
  double tokens_per_s;                   /* prompts and outputs */
  double prefill_devices;                /* disaggregated: further devices that prefill, on average; else 0 */
  double prefill_share;                  /* of the devices' time that prompts take; 0 … 1 */
  double output_tokens_per_s_per_device; /* prefill_devices included */
  int64_t memory_bytes;                  /* on one device, all sequences at their end */
  double cost_per_million_output_tokens; /* NAN without a price */
  double cost_per_million_tokens;        /* of prompts and outputs together; NAN without a price */
  bool meets_ttft, meets_tpot;           /* the predicted time is within the limit, or there is none */
  bool band_meets_ttft, band_meets_tpot; /* so is the high end of its band */
  bool pareto; /* no other point has both a shorter TPOT (with one output token: TTFT) and more output tokens/s per
                  device, or one of them and the other equal. Among the points that meet both limits, or if none does
                  among all */
  bool meets_limits;               /* both, as options.sure asks */
  int64_t pipeline_stages;         /* of its layout; each has a part of the batch, and parts take turns */
  int64_t prefill_tensor_parallel; /* of the devices that prefill, where they have a layout of their own; else 0 */
} hr_serve_point;

/** Copies of the model that together carry a load, all alike. */
typedef struct hr_serve_fleet {
  const hr_serve_point *point; /* of a copy; one of the result's */
  int64_t instances;
  int64_t prefill_instances; /* disaggregated: further copies, which prefill; else 0 */
  int64_t devices;           /* of all */
  double load_share;         /* the load over what the copies carry at most; 0 … 1. Near 1 requests queue */
  double cost_per_hour;      /* NAN without a price */
  double cost_per_million_output_tokens; /* under the load; NAN without a price */
} hr_serve_fleet;

typedef struct hr_serve_result {
  hr_serve_options options; /* with devices_max filled in */
  int64_t capacity_bytes;   /* of a device, memory_share applied where it is a share of the device */
  int64_t cached_tokens;    /* of a sequence at its end, in whole pages */
  size_t layout_count;
  hr_serve_layout *layouts; /* ascending devices, then t, then e; owned by the result */
  size_t count;
  hr_serve_point *points; /* of each layout that fits, ascending batch; owned by the result */

  /* Among the points that meet both limits, NULL if none does. Ties go to fewer devices, then to the smaller batch. */
  const hr_serve_point *latency;    /* shortest request_ns */
  const hr_serve_point *throughput; /* most output_tokens_per_s of one copy */
  const hr_serve_point *cheapest;   /* most output_tokens_per_s_per_device */
  const hr_serve_point *nearest;    /* none meets both limits: the least excess over the limit that is exceeded most */

  /* No layout fits. */
  int64_t devices_needed;  /* fewest devices beyond devices_max that do; 0: none found, or layouts fit */
  char weights_needed[16]; /* widest format of weights with which one fits within devices_max; "": none */

  size_t fleet_count;     /* 0 without options.recommend, or if no point meets the limits */
  hr_serve_fleet *fleets; /* the best of each layout: fewest devices, then the shortest request; owned by the result */
} hr_serve_result;

/** Predicts all plans. `workload` gives dtype, kv_cache, attention, expert_imbalance and framework; phase, sizes and
 *  parallelism follow from the options. That nothing fits or meets the limits is
 *  a result, not an error. On HR_OK the caller owns *result and frees it with hr_serve_result_free(). Errors:
 *  HR_ERROR_INVALID naming the member of the options, HR_ERROR_UNSUPPORTED for a device whose memory or whose
 *  interconnect is not known, those of hr_predict_step(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_serve_plan(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                               const hr_serve_options *options, hr_serve_result **result, hr_error *error);

/** Frees a result; NULL is allowed. */
HR_API void hr_serve_result_free(hr_serve_result *result);

#ifdef __cplusplus
}
#endif
#endif
