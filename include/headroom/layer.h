/* One layer of a model, operator by operator: predicted beside measured. Thread safety: one layer at a time for a
 * device. */
#ifndef HEADROOM_LAYER_H
#define HEADROOM_LAYER_H

#include <headroom/measure.h>
#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an operator of a layer is counted under: enumerator, name, in words. */
#define HR_LAYER_PART_LIST(ROW)                               \
  ROW(HR_PART_LINEAR, "linear", "linear maps")                \
  ROW(HR_PART_ATTENTION, "attention", "attention's products") \
  ROW(HR_PART_SOFTMAX, "softmax", "softmax")                  \
  ROW(HR_PART_NORM, "norm", "norms")                          \
  ROW(HR_PART_ROTARY, "rotary", "rotary")                     \
  ROW(HR_PART_ACTIVATION, "activation", "activation")         \
  ROW(HR_PART_RESIDUAL, "residual", "residuals")              \
  ROW(HR_PART_COMMUNICATION, "communication", "exchange between the devices")

typedef enum hr_layer_part {
#define HR_PART_ENUM(enumerator, name, words) enumerator,
  HR_LAYER_PART_LIST(HR_PART_ENUM)
#undef HR_PART_ENUM
      HR_PART_COUNT
} hr_layer_part;

/** "linear", and "linear maps". Static storage. */
HR_API const char *hr_layer_part_name(hr_layer_part part);
HR_API const char *hr_layer_part_words(hr_layer_part part); /* see hr_layer_part_name() */

/** The part that an operator is counted under; a fused attention is HR_PART_ATTENTION. */
HR_API hr_layer_part hr_layer_part_of(const hr_operator *op);

typedef struct hr_layer_options {
  size_t struct_size; /* sizeof(hr_layer_options), set by hr_layer_options_default() */
  double budget_ns;   /* about how long all may take. Default one minute */
  bool warm;          /* as hr_measure_options */
  bool check;         /* as hr_measure_options. Default true */
  uint64_t seed;      /* of the data. Default 1 */
  bool whole_only;    /* for who wants the whole alone: never fewer tokens than asked for; each operator is compared
                         with the reference and timed for one run, and none is once one has no time. Default false */
  hr_progress_fn progress;
  void *context; /* of `progress`, which may be NULL */
} hr_layer_options;

/** The defaults above. */
HR_API hr_layer_options hr_layer_options_default(void);

/** One operator of the layer. Times are of one execution; a layer has one of each. */
typedef struct hr_layer_row {
  hr_operator op;
  hr_layer_part part;
  hr_prediction prediction;
  hr_measurement measurement; /* its status says why there is no time: HR_ERROR_UNSUPPORTED where the device has no
                                 kernel for the operator, HR_ERROR_INTERRUPTED where the caller stopped before it */
  hr_rowwise rows;            /* what was run of an operator without products; rows.struct_size 0: nothing */
  bool tried;                 /* the operator was given to the device; `measurement` is how that ended, time or not */
  bool measured;              /* time_ns is the measured median, else the prediction */
  double time_ns;
  double share; /* of sum_ns */
} hr_layer_row;

typedef struct hr_layer {
  hr_workload workload; /* that was measured */
  bool reduced;         /* smaller than asked for, because of memory or time */
  char note[256];       /* says so in a sentence; empty when nothing was reduced */
  bool complete;        /* false: stopped by the caller */
  size_t count;
  hr_layer_row rows[HR_OPERATORS_MAX]; /* in the order in which the layer runs them */
  double sum_ns;                       /* Σ time_ns */
  double predicted_ns;                 /* Σ prediction.time_ns */
  double measured_ns;                  /* Σ time_ns of the measured rows */
  int64_t measured_count;
  double part_ns[HR_PART_COUNT]; /* Σ time_ns of each part; they add up to sum_ns */
  hr_measurement whole;          /* the measured rows run one after another as one: on a GPU a captured graph */
  int64_t flops;                 /* of the products of the layer */
} hr_layer;

/** Times every operator of one layer alone, then all that have a kernel one after another as one.
 *
 *  Each operator has buffers of its own with fresh values; shapes are those of hr_operators_list(). Where layers
 *  of the model differ (some have a sliding window), it is the kind that most layers are. What the device has no
 *  kernel for enters the sum with its predicted time and says so. `hardware` is what hr_device_detect() or
 *  hr_device_probe() says of `device`; predictions stand on it. `options` NULL: the defaults. Where the asked
 *  size is too large for the budget or for the memory that is free, batch and then sequence are halved. When
 *  `progress` stops the work, the function returns HR_OK with complete = false. The caller owns *layer and gives
 *  it back with hr_layer_free(). Errors of hr_predict_step() and HR_ERROR_OUT_OF_MEMORY; what goes wrong with one
 *  operator is in its row. */
HR_API hr_status hr_layer_measure(hr_device *device, const hr_hardware *hardware, const hr_model *model,
                                  const hr_workload *workload, const hr_layer_options *options, hr_layer **layer,
                                  hr_error *error);

/** Frees a layer; NULL is allowed. */
HR_API void hr_layer_free(hr_layer *layer);

#ifdef __cplusplus
}
#endif
#endif
