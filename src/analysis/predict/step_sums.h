/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the operators of a step, and what follows from them: how the times of a microbatch's parts add up to those
 * of a stage and of a step. */
#ifndef HR_ANALYSIS_PREDICT_STEP_SUMS_H
#define HR_ANALYSIS_PREDICT_STEP_SUMS_H

#include <headroom/predict.h>

/** Times of a microbatch: in all layers, at the two ends of the pipeline, and between its stages. Where the stages have
 *  different numbers of layers, `layers` counts that of the largest for all of them. */
typedef struct hr_part_times {
  double layers, before, behind, between;
} hr_part_times;

/** The part that an operator belongs to. */
double *hr_part_of(hr_part_times *times, const hr_operator *op);

/** All microbatches of a step, without what replicas wait for. It is linear: the step is the sum of that of `layers`
 *  alone and that of the other parts. */
double hr_all_microbatches_ns(const hr_part_times *times, const hr_workload *workload);

/** Times of a prediction: the expected one and the ends of its band. */
typedef enum hr_step_figure { HR_STEP_EXPECTED, HR_STEP_LOWEST, HR_STEP_HIGHEST, HR_STEP_FIGURES } hr_step_figure;

/** Regions of a step in their order: before the layers, the layers, behind them, and the same backward. */
#define HR_STEP_REGIONS 6

/** What the host launches of a region for a microbatch. */
typedef struct hr_launched_region {
  double device_ns[HR_STEP_FIGURES], kernels;
} hr_launched_region;

/** What a device sends to replicas during a pass, and the weights' update; by figure. */
typedef struct hr_replica_times {
  double gathered_forward[HR_STEP_FIGURES], gathered_backward[HR_STEP_FIGURES], reduced[HR_STEP_FIGURES];
  double optimizer[HR_STEP_FIGURES];
  double sent; /* of all microbatches of the step */
} hr_replica_times;

/** Sums of one microbatch in all layers and stages; zeros are those of no operator. */
typedef struct hr_step_sums {
  size_t operator_count;
  hr_part_times parts[HR_STEP_FIGURES], communication;
  hr_launched_region regions[HR_STEP_REGIONS];
  hr_replica_times replicas;
  double forward_ns, backward_ns; /* without what replicas send */
  double peak_seconds;            /* of the FLOPs at the peak rates; recomputed ones are not the model's */
  int64_t kernels;
} hr_step_sums;

/** Adds an operator of the step. */
void hr_add_to_step(const hr_subject *subject, const hr_operator *op, const hr_prediction *prediction,
                    hr_step_sums *sums);

/** Sets *about to what follows from the sums. */
void hr_describe_step(const hr_subject *subject, const hr_step_sums *sums, hr_step_about *about);

#endif
