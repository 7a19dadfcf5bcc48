/* SPDX-License-Identifier: Apache-2.0 */
/* How the times of a microbatch's parts add up to those of a stage and of a step. */
#ifndef HR_ANALYSIS_PREDICT_MICROBATCHES_H
#define HR_ANALYSIS_PREDICT_MICROBATCHES_H

#include <headroom/predict.h>

/** Times of a microbatch: in all layers, at the two ends of the pipeline, and between its stages. Where the stages have
 *  different numbers of layers, `layers` counts that of the largest for all of them. */
typedef struct hr_part_times {
  double layers, before, behind, between;
} hr_part_times;

/** The part that an operator belongs to. */
double *hr_part_of(hr_part_times *times, const hr_operator *op);

/** One microbatch, one stage at a time. */
double hr_microbatch_ns(const hr_part_times *times);

/** The slowest stage and one microbatch. */
double hr_slowest_stage_ns(const hr_part_times *times, const hr_workload *workload);

/** Stage times for which the last stage waits: p − 1, with v parts a v-th of that. */
double hr_first_microbatch_rounds(const hr_workload *workload);

/** All microbatches of a step, without what replicas wait for. It is linear: the step is the sum of that of `layers`
 *  alone and that of the other parts. */
double hr_all_microbatches_ns(const hr_part_times *times, const hr_workload *workload);

#endif
