/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's engine and stream of an opened device. */
#ifndef HR_RUNTIME_CPU_ONEDNN_ENGINE_H
#define HR_RUNTIME_CPU_ONEDNN_ENGINE_H

#include "runtime/cpu/host/affinity.h"
#include "runtime/cpu/host/isa.h"
#include "runtime/cpu/onednn/loader.h"
#include "runtime/device/device.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct hr_onednn {
  hr_onednn_api api;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  const hr_affinity *affinity; /* NULL: this OpenMP library offers no regions, which binding needs */
  atomic_bool bound;           /* OpenMP's threads have been bound */
} hr_onednn;

/** The CPU's oneDNN, which the first call loads, with its engine and stream. Runs use no instructions that the device
 *  lacks; OpenMP's threads are bound as the device's own. Without oneDNN *onednn becomes NULL and HR_OK is returned,
 *  unless HEADROOM_ONEDNN names a file: then HR_ERROR_UNAVAILABLE. HR_ERROR_BACKEND if oneDNN refuses,
 *  HR_ERROR_OUT_OF_MEMORY. Thread-safe. */
hr_status hr_onednn_of(const hr_device *device, hr_onednn **onednn, hr_error *error);
void hr_onednn_close(hr_onednn *onednn); /* NULL is allowed */

/** A status of oneDNN's as Headroom's; `what` names the object in the message. */
hr_status hr_onednn_check(dnnl_status_t status, const char *what, hr_error *error);

#endif
