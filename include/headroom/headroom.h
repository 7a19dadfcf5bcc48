/* SPDX-License-Identifier: Apache-2.0 */
/* Headroom's stable interface: within 0.3 functions are added, and structs with a struct_size grow at their ends. What
 * may change with each release is in <headroom/experimental/headroom.h>. */
#ifndef HEADROOM_HEADROOM_H
#define HEADROOM_HEADROOM_H

#include <headroom/advise.h>
#include <headroom/attention.h>
#include <headroom/buffer.h>
#include <headroom/change.h>
#include <headroom/collective.h>
#include <headroom/decode.h>
#include <headroom/device.h>
#include <headroom/device_file.h>
#include <headroom/dtype.h>
#include <headroom/export.h>
#include <headroom/gemm.h>
#include <headroom/hardware.h>
#include <headroom/input.h>
#include <headroom/kv_cache.h>
#include <headroom/memory.h>
#include <headroom/model.h>
#include <headroom/operators.h>
#include <headroom/parallel_layouts.h>
#include <headroom/plan.h>
#include <headroom/plans.h>
#include <headroom/predict.h>
#include <headroom/quantization.h>
#include <headroom/resolve.h>
#include <headroom/rowwise.h>
#include <headroom/search.h>
#include <headroom/serve.h>
#include <headroom/status.h>
#include <headroom/version.h>
#include <headroom/workload.h>

#endif
