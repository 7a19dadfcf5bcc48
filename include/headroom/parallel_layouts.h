/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to spread one workload over devices, side by side. Thread safety: values; pure functions. */
#ifndef HEADROOM_PARALLEL_LAYOUTS_H
#define HEADROOM_PARALLEL_LAYOUTS_H

#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The workload with another tensor-parallel degree t or number of pipeline stages p. */
typedef struct hr_parallel_layout {
  hr_workload workload;
  int64_t devices, nodes;
  int64_t memory_bytes;  /* of the most loaded device */
  int64_t largest_batch; /* that fits; 0: none, or the memory of the device is unknown */
  bool fits;             /* into hr_hardware_usable_memory_bytes(); true if that is unknown */
  double time_ns;        /* of the step; predicted also if it does not fit */
  double low_ns, high_ns;
  double tokens_per_s; /* of all devices */
  double tokens_per_s_per_device;
  double communication_share; /* of time_ns */
  double bubble;              /* as hr_step_about.bubble */
  bool heads_split;           /* all heads split over t; false only with the t of the workload that was passed */
  bool splits;                /* and so do all widths, and blocks of quantized weights */
  char split[160];            /* why not, or what is padded so that they do; else "" */
} hr_parallel_layout;

#define HR_PARALLEL_LAYOUTS_MAX 32

/** Layouts by ascending p, then t. Places in `items`. The best are among those that fit and split, since frameworks
 *  refuse the others; −1 if there are none. */
typedef struct hr_parallel_layouts {
  size_t count;
  int current;        /* the workload itself */
  int fastest;        /* the least time of a step */
  int max_per_device; /* the most tokens per second and device */
  int fewest_devices; /* among equals the fastest */
  int64_t nodes;      /* that the layouts may take up */
  hr_parallel_layout items[HR_PARALLEL_LAYOUTS_MAX];
} hr_parallel_layouts;

#ifdef __cplusplus
}
#endif
#endif
