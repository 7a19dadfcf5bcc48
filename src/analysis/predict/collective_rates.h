/* SPDX-License-Identifier: Apache-2.0 */
/* Times of collectives that follow from the rates of a device's file. */
#ifndef HR_ANALYSIS_PREDICT_COLLECTIVE_RATES_H
#define HR_ANALYSIS_PREDICT_COLLECTIVE_RATES_H

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <stdbool.h>

/** Terms of one way that data takes. */
typedef struct hr_path_time {
  double latency_ns, transfer_ns, error_band;
} hr_path_time;

/** Whether the library is DeepEP, in either mode. */
bool hr_is_deepep(hr_collective_library library);

/** Bytes that each device sends to `size` devices, or each to `size` nodes. */
double hr_collective_sent(const hr_collective *part, int64_t size);

/** The time between devices of one node by the library, or by NCCL where that takes less or alone has rates. False:
 *  neither has any. */
bool hr_rates_in_node(const hr_hardware *hardware, const hr_collective *part, hr_path_time *time);

/** The whole time of DeepEP between so many nodes. False: there are no such rates. */
bool hr_rates_of_nodes(const hr_hardware *hardware, const hr_collective *whole, int64_t nodes, hr_path_time *time);

#endif
