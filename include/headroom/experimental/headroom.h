/* SPDX-License-Identifier: Apache-2.0 */
/* All of Headroom's public interface: the stable one, and what may change with each release. */
#ifndef HEADROOM_EXPERIMENTAL_HEADROOM_H
#define HEADROOM_EXPERIMENTAL_HEADROOM_H

#include <headroom/experimental/advise.h>
#include <headroom/experimental/attention_backward.h>
#include <headroom/experimental/calibrate.h>
#include <headroom/experimental/catalog.h>
#include <headroom/experimental/change.h>
#include <headroom/experimental/checkpoint.h>
#include <headroom/experimental/collective.h>
#include <headroom/experimental/communicator.h>
#include <headroom/experimental/compare.h>
#include <headroom/experimental/confirm.h>
#include <headroom/experimental/decode.h>
#include <headroom/experimental/device.h>
#include <headroom/experimental/device_file.h>
#include <headroom/experimental/figure.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/layer.h>
#include <headroom/experimental/load.h>
#include <headroom/experimental/measure.h>
#include <headroom/experimental/memory.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/offer.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/parallel_layouts.h>
#include <headroom/experimental/plan.h>
#include <headroom/experimental/plot.h>
#include <headroom/experimental/points.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/quantization.h>
#include <headroom/experimental/report.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/run.h>
#include <headroom/experimental/serve.h>
#include <headroom/experimental/step.h>
#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <headroom/experimental/training.h>
#include <headroom/experimental/validate.h>
#include <headroom/experimental/weights.h>
#include <headroom/experimental/workload.h>
#include <headroom/headroom.h>

#endif
