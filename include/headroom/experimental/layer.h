/* SPDX-License-Identifier: Apache-2.0 */
/* One layer of a model, operator by operator: predicted and measured. Thread safety: one layer at a time per device. */
#ifndef HEADROOM_EXPERIMENTAL_LAYER_H
#define HEADROOM_EXPERIMENTAL_LAYER_H

#include <headroom/experimental/measure.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a layer that operators are grouped in: enumerator, name, words. */
#define HR_LAYER_PART_LIST(ROW)                                \
  ROW(HR_PART_LINEAR, "linear", "linear layers")               \
  ROW(HR_PART_ATTENTION, "attention", "attention")             \
  ROW(HR_PART_SOFTMAX, "softmax", "softmax")                   \
  ROW(HR_PART_SCAN, "scan", "scans")                           \
  ROW(HR_PART_NORM, "norm", "norms")                           \
  ROW(HR_PART_ROTARY, "rotary", "rotary")                      \
  ROW(HR_PART_ACTIVATION, "activation", "activation")          \
  ROW(HR_PART_DROPOUT, "dropout", "dropout")                   \
  ROW(HR_PART_RESIDUAL, "residual", "residuals")               \
  ROW(HR_PART_ROUTING, "routing", "routing")                   \
  ROW(HR_PART_COMMUNICATION, "communication", "communication") \
  ROW(HR_PART_LOSS, "loss", "loss")                            \
  ROW(HR_PART_OPTIMIZER, "optimizer", "optimizer")

typedef enum hr_layer_part {
#define HR_PART_ENUM(enumerator, name, words) enumerator,
  HR_LAYER_PART_LIST(HR_PART_ENUM)
#undef HR_PART_ENUM
      HR_PART_COUNT
} hr_layer_part;

/** The name of a part in JSON and CSV: "linear"; "unknown" for another value. Static storage. */
HR_API const char *hr_layer_part_name(hr_layer_part part);

/** The same for people: "linear layers"; "unknown" for another value. Static storage. */
HR_API const char *hr_layer_part_words(hr_layer_part part);

/** The part of an operator; fused attention is HR_PART_ATTENTION. */
HR_API hr_layer_part hr_layer_part_of(const hr_operator *op);

/** Stands for the group of hr_model_main_group(). */
#define HR_LAYER_MAIN_GROUP SIZE_MAX

typedef struct hr_layer_options {
  size_t struct_size;  /* sizeof(hr_layer_options), set by hr_layer_options_default() */
  size_t group;        /* index in model->groups of the layer that is measured. Default HR_LAYER_MAIN_GROUP */
  double budget_ns;    /* approximate total time. Default one minute */
  bool warm;           /* as hr_measure_options */
  bool check;          /* as hr_measure_options. Default true */
  uint64_t seed;       /* of the data. Default 1 */
  bool whole_only;     /* only `whole` is needed: never fewer tokens than requested; each operator is checked against
                         the reference and timed once, until one fails. Default false */
  bool operator_times; /* with whole_only: time the operators as without it. Default false */
  hr_progress_fn progress;
  void *context; /* of `progress`, which may be NULL */
} hr_layer_options;

/** The defaults above. */
HR_API void hr_layer_options_init(hr_layer_options *options, size_t size);
HR_DEFAULT(hr_layer_options)

/** One operator of the layer, which executes it once. */
typedef struct hr_layer_row {
  hr_operator op;
  hr_layer_part part;
  hr_prediction prediction;
  hr_measurement measurement; /* status, if there is no time: HR_ERROR_UNSUPPORTED if the device has no kernel for
                                 the operator, HR_ERROR_INTERRUPTED if the caller stopped before it */
  hr_rowwise rows;            /* the row-wise operation that was run; rows.struct_size 0: none */
  hr_decode decode;           /* the decode call that was run for fused attention; decode.struct_size 0: none */
  bool tried;                 /* the operator ran on the device; `measurement` has the outcome */
  bool measured;              /* time_ns is the measured median, otherwise the prediction */
  double time_ns;
  double share; /* of sum_ns */
} hr_layer_row;

/* Most operators of hr_layer.beside. */
#define HR_LAYER_BESIDE_MAX 4

typedef struct hr_layer {
  size_t group;         /* index in model->groups */
  hr_workload workload; /* as measured */
  bool reduced;         /* smaller than requested, because of memory or time */
  char note[256];       /* the reduction in a sentence; "" if not reduced */
  bool complete;        /* false: stopped by the caller */
  size_t count;
  hr_layer_row rows[HR_OPERATORS_MAX]; /* in the order in which the layer runs them */
  double sum_ns;                       /* Σ time_ns */
  double predicted_ns;                 /* Σ prediction.time_ns */
  double measured_ns;                  /* Σ time_ns of the measured rows */
  int64_t measured_count;
  double part_ns[HR_PART_COUNT]; /* Σ time_ns of each part; their sum is sum_ns */
  hr_measurement whole;          /* all measured rows in sequence, timed as one: on a GPU a CUDA graph */
  int64_t flops;                 /* of the layer's GEMMs, attention and scans */
  /* A training step has the loss and its backward pass once for each microbatch, and once the optimizer: the last row
     is its update of this layer's parameters. These rows are in no sum above; their `share` is NaN. */
  size_t beside_count;
  hr_layer_row beside[HR_LAYER_BESIDE_MAX];
} hr_layer;

/** Times every operator of one layer alone, then all operators with a kernel in sequence as one.
 *
 *  Each operator has its own buffers with fresh values; shapes are those of hr_operators_list() for a model all of
 *  whose layers are of options->group. An operator without a kernel enters the sum with its predicted time; its row
 *  says so. Fused attention of a decode step is a decode call against pages of 16 tokens where the device has such
 *  kernels. Last, loss and optimizer are measured alone. `hardware` is the result of hr_device_detect() or
 *  hr_device_probe() for `device`, the input of the predictions. `options` NULL: the defaults. If the requested size
 *  exceeds the budget or the free memory, batch and then sequence are halved. If `progress` stops the work, the
 *  function returns HR_OK with complete = false. The caller owns *layer and frees it with hr_layer_free().
 *  HR_ERROR_INVALID for a group that the model lacks; errors of hr_predict_step() and HR_ERROR_OUT_OF_MEMORY; errors of
 *  one operator are in its row. */
HR_API hr_status hr_layer_measure(hr_device *device, const hr_subject *subject, const hr_layer_options *options,
                                  hr_layer **layer, hr_error *error);

/** Frees a layer; NULL is allowed. */
HR_API void hr_layer_free(hr_layer *layer);

#ifdef __cplusplus
}
#endif
#endif
