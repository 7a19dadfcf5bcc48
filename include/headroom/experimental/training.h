/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of a training run over a number of devices, ranked. docs/parallelism.md explains what is tried and which
 * rules of frameworks hold. Thread safety: an hr_training_plan belongs to one caller. */
#ifndef HEADROOM_EXPERIMENTAL_TRAINING_H
#define HEADROOM_EXPERIMENTAL_TRAINING_H

#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_TRAINING_COUNTS_MAX 16
#define HR_TRAINING_DEVICES_MAX ((int64_t)1 << 20)
#define HR_TRAINING_GLOBAL_BATCH_MAX ((int64_t)1 << 24)
#define HR_TRAINING_MICROBATCH_MAX ((int64_t)1024)

/** Programs whose rules a layout may keep; bits of a mask. */
typedef enum hr_training_framework { HR_TRAINING_MEGATRON = 1, HR_TRAINING_TORCHTITAN = 2 } hr_training_framework;

/** The run, and what may be tried: 0 is everything that the rules allow. */
typedef struct hr_training_options {
  size_t struct_size; /* sizeof(hr_training_options), set by hr_training_options_default() */
  size_t device_counts;
  int64_t devices[HR_TRAINING_COUNTS_MAX]; /* numbers of devices to plan for; at least one */
  int64_t global_batch;                    /* sequences of a step of all replicas. Default 256 */
  double tokens;                           /* of the run; 0: not given */
  double price_per_device_hour;            /* in any currency; 0: not given */
  double power_w;                          /* mean of a device; 0: not given */
  int64_t tensor_parallel, pipeline_stages, virtual_stages, context_parallel, expert_parallel;
  int64_t batch; /* sequences in a microbatch; 0: divisors of the global batch up to HR_TRAINING_MICROBATCH_MAX */
  unsigned zero_stages; /* bit i: stage i; 0: all */
  unsigned recomputes;  /* bit i: hr_recompute i; 0: all */
  unsigned accepted_by; /* mask of hr_training_framework: all of them accept a layout; 0: at least one does */
} hr_training_options;

/** A global batch of 256 and no devices. */
HR_API void hr_training_options_init(hr_training_options *options, size_t size);
HR_DEFAULT(hr_training_options)

/** A layout that fits and that a framework accepts. */
typedef struct hr_training_layout {
  hr_workload workload;            /* with microbatches × batch × data_parallel = global_batch */
  int64_t devices;                 /* tensor_parallel × context_parallel × pipeline_stages × data_parallel */
  unsigned accepted_by;            /* mask of hr_training_framework; never 0 */
  int64_t memory_bytes;            /* of the most loaded device */
  double time_ns, low_ns, high_ns; /* of a step */
  double tokens_per_s, tokens_per_s_low, tokens_per_s_high;
  double communication_share;                    /* of time_ns in which a device waits for communication */
  double bubble;                                 /* as hr_step_about.bubble */
  double model_efficiency;                       /* as hr_step_about.model_efficiency: MFU */
  double days, device_hours;                     /* of the run; NAN without tokens */
  double cost, energy_joules;                    /* NAN without tokens and price or power */
  bool best_of_degrees;                          /* fastest with its t, p, cp and e on as many devices */
  bool pareto;                                   /* fastest on as many devices, and faster than all on fewer */
  int64_t first_stage_layers, last_stage_layers; /* where fewer than ⌈layers / pipeline_stages⌉; else 0 */
} hr_training_layout;

/** What was tried on a number of devices. */
typedef struct hr_training_count {
  int64_t devices;
  size_t tried;               /* layouts that a framework accepts */
  size_t first, fitting;      /* of these in hr_training_plan.layouts */
  int64_t least_memory_bytes; /* of those that do not fit, most loaded device; 0: there are none */
} hr_training_count;

typedef struct hr_training_plan {
  hr_training_options options; /* devices ascending, each once */
  int64_t capacity_bytes;      /* of a device */
  size_t count_of_devices;
  hr_training_count counts[HR_TRAINING_COUNTS_MAX]; /* ascending devices */
  size_t layout_count;
  hr_training_layout
      *layouts; /* ascending devices, then descending tokens/s, then ascending memory; owned by the plan */
} hr_training_plan;

/** Predicts every layout: t, p, cp and dp whose product is the number of devices, e, ZeRO stage, sequence parallelism,
 *  microbatch, recomputation and virtual stages. `workload` gives sequence, dtype, attention, dropout, framework,
 *  flash, overlap and expert_imbalance. That nothing fits is a result, not an error. On HR_OK the caller owns *plan and
 *  frees it with hr_training_plan_free(). Errors: HR_ERROR_INVALID naming the member of the options,
 *  HR_ERROR_UNSUPPORTED for a device whose memory is not known, those of hr_predict_step(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_plan_training(const hr_subject *subject, const hr_training_options *options,
                                  hr_training_plan **plan, hr_error *error);

/** The fastest of all layouts; of equally fast ones that on fewer devices. NULL if none fits. */
HR_API const hr_training_layout *hr_training_plan_best(const hr_training_plan *plan);

/** Frees a plan; NULL is allowed. */
HR_API void hr_training_plan_free(hr_training_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
