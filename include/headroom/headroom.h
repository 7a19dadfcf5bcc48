/* SPDX-License-Identifier: Apache-2.0 */
/* All of Headroom's public interface. */
#ifndef HEADROOM_HEADROOM_H
#define HEADROOM_HEADROOM_H

#include <headroom/advise.h>
#include <headroom/attention.h>
#include <headroom/buffer.h>
#include <headroom/calibrate.h>
#include <headroom/catalog.h>
#include <headroom/change.h>
#include <headroom/checkpoint.h>
#include <headroom/collective.h>
#include <headroom/compare.h>
#include <headroom/confirm.h>
#include <headroom/decode.h>
#include <headroom/device.h>
#include <headroom/device_file.h>
#include <headroom/dtype.h>
#include <headroom/export.h>
#include <headroom/figure.h>
#include <headroom/gemm.h>
#include <headroom/hardware.h>
#include <headroom/input.h>
#include <headroom/kv_cache.h>
#include <headroom/layer.h>
#include <headroom/measure.h>
#include <headroom/memory.h>
#include <headroom/model.h>
#include <headroom/operators.h>
#include <headroom/parallel_layouts.h>
#include <headroom/plan.h>
#include <headroom/plans.h>
#include <headroom/plot.h>
#include <headroom/points.h>
#include <headroom/predict.h>
#include <headroom/quantization.h>
#include <headroom/report.h>
#include <headroom/resolve.h>
#include <headroom/rowwise.h>
#include <headroom/search.h>
#include <headroom/serve.h>
#include <headroom/status.h>
#include <headroom/store.h>
#include <headroom/sweep.h>
#include <headroom/validate.h>
#include <headroom/version.h>
#include <headroom/workload.h>

#endif
