/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/memory_remedy.h"
#include "model/layers/split.h"

#include "base/checked.h"
#include "base/text.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>
#include <headroom/memory.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A rate has to be higher by so much to replace one that changes less. */
#define CLEARLY_FASTER 1.001
#define STAGES_MAX 64

typedef struct remedy_search {
  hr_advice_context *context;
  int64_t capacity_bytes;
  hr_memory_remedy best;
  double best_rate; /* tokens per second and device */
} remedy_search;

/* Whether the workload fits; then keeps it if it is the fastest so far. */
static bool try_workload(remedy_search *search, const hr_workload *workload)
{
  hr_memory memory;
  hr_trial trial;
  if (hr_memory_estimate(&search->context->advice->model, workload, &memory, NULL) != HR_OK ||
      memory.total_bytes > search->capacity_bytes)
    return false;
  if (!hr_evaluate(search->context, NULL, workload, &trial))
    return true;
  double rate = search->context->after.about.tokens_per_s_per_device;
  if (search->best.trial.time_ns == 0 || rate > search->best_rate * CLEARLY_FASTER) {
    search->best.trial = trial;
    search->best.bytes = memory.total_bytes;
    search->best_rate = rate;
  }
  return true;
}

/* The lowest ZeRO stage that fits; higher ones send as much or more. */
static bool try_stages_of_zero(remedy_search *search, hr_workload changed)
{
  bool replicas = changed.data_parallel > 1 || changed.context_parallel > 1;
  bool shared = changed.phase == HR_PHASE_TRAIN && replicas;
  for (;; changed.zero_stage++) {
    if (try_workload(search, &changed))
      return true;
    if (!shared || changed.zero_stage == 3)
      return false;
  }
}

/* What needs neither other devices nor another batch. Returns whether it fits without recomputing more than asked. */
static bool try_same_batch(remedy_search *search, hr_workload changed)
{
  const hr_workload asked = changed;
  bool fits_as_asked = false;
  for (int level = (int)asked.recompute; level <= HR_RECOMPUTE_FULL; level++) {
    changed = asked;
    changed.recompute = (hr_recompute)level;
    bool fits = try_stages_of_zero(search, changed);
    if (asked.phase == HR_PHASE_TRAIN && asked.tensor_parallel > 1 && !asked.sequence_parallel) {
      changed.sequence_parallel = true;
      fits = try_stages_of_zero(search, changed) || fits;
    }
    fits_as_asked = fits_as_asked || (fits && level == (int)asked.recompute);
    if (asked.phase != HR_PHASE_TRAIN || fits_as_asked)
      break;
  }
  return fits_as_asked;
}

/* Smaller microbatches, as many more of them. */
static void try_smaller_microbatches(remedy_search *search)
{
  hr_workload changed = search->context->advice->workload;
  int64_t microbatches = hr_workload_microbatches(&changed);
  bool fits = false;
  while (!fits && changed.batch > 1 && microbatches <= HR_WORKLOAD_SIZE_MAX / changed.batch) {
    int64_t times = changed.batch % 2 == 0 ? 2 : changed.batch;
    changed.batch /= times;
    changed.microbatches = microbatches *= times;
    fits = try_same_batch(search, changed);
  }
}

/* The next larger t of a node over which the model splits, and that the experts' devices are a multiple of; else 0. */
static int64_t next_degree(const hr_advice *advice, int64_t t)
{
  int64_t node = advice->hardware.devices_per_node, e = advice->workload.expert_parallel;
  hr_workload changed = advice->workload;
  for (int64_t degree = t * 2; degree <= node; degree *= 2) {
    changed.tensor_parallel = degree;
    if ((e == 1 || e % degree == 0) && hr_split_of_workload(&advice->model, &changed).whole)
      return degree;
  }
  return 0;
}

/* The next larger number of stages that divides the layers; else 0. */
static int64_t next_stages(const hr_advice *advice, int64_t p)
{
  int64_t layers = hr_model_layers(&advice->model);
  for (int64_t stages = p + 1; stages <= hr_min64(layers, STAGES_MAX); stages++) {
    if (layers % stages == 0)
      return stages;
  }
  return 0;
}

/* The fewest devices on which it fits. */
static void try_more_devices(remedy_search *search)
{
  const hr_advice *advice = search->context->advice;
  const hr_workload *asked = &advice->workload;
  remedy_search fewest = *search;
  double devices = 0;
  for (int64_t t = asked->tensor_parallel; t > 0; t = next_degree(advice, t)) {
    for (int64_t p = asked->pipeline_stages; p > 0; p = next_stages(advice, p)) {
      const double here_devices = (double)t * (double)p;
      if (devices > 0 && here_devices > devices)
        break;
      hr_workload changed = *asked;
      changed.tensor_parallel = t, changed.pipeline_stages = p;
      if (p != asked->pipeline_stages)
        changed.virtual_stages = 1;
      remedy_search here = *search;
      if (devices == here_devices)
        here = fewest;
      try_same_batch(&here, changed);
      if (here.best.trial.time_ns > 0) {
        fewest = here;
        devices = here_devices;
        break;
      }
    }
  }
  *search = fewest;
}

/* ---- words ---- */

static void append(hr_text192 *list, const char *format, ...) HR_PRINTF(2, 3);
static void append(hr_text192 *list, const char *format, ...)
{
  size_t used = strlen(list->text);
  va_list arguments;
  if (used > 0 && used + 2 < sizeof list->text)
    used += (size_t)snprintf(list->text + used, sizeof list->text - used, ", ");
  va_start(arguments, format);
  hr_write_text_v(list->text + used, sizeof list->text - used, format, arguments);
  va_end(arguments);
}

static hr_text192 name_changes(const hr_workload *before, const hr_workload *after)
{
  hr_text192 list = {""};
  if (after->tensor_parallel != before->tensor_parallel)
    append(&list, "t = %" PRId64, after->tensor_parallel);
  if (after->pipeline_stages != before->pipeline_stages)
    append(&list, "p = %" PRId64, after->pipeline_stages);
  if (after->batch != before->batch)
    append(&list, "b = %" PRId64, after->batch);
  if (hr_workload_microbatches(after) != hr_workload_microbatches(before))
    append(&list, "%" PRId64 " microbatches", hr_workload_microbatches(after));
  if (after->sequence_parallel != before->sequence_parallel)
    append(&list, "sequence parallelism");
  if (after->zero_stage != before->zero_stage)
    append(&list, "ZeRO stage %" PRId64, after->zero_stage);
  if (after->recompute != before->recompute)
    append(&list, "%s recomputation", hr_recompute_name(after->recompute));
  return list;
}

hr_memory_remedy hr_find_memory_remedy(hr_advice_context *context, int64_t largest, int64_t capacity_bytes)
{
  const hr_workload *asked = &context->advice->workload;
  remedy_search search = {.context = context, .capacity_bytes = capacity_bytes, .best = {.trial = {.time_ns = 0}}};
  bool train = asked->phase == HR_PHASE_TRAIN;
  if (!try_same_batch(&search, *asked) && train)
    try_smaller_microbatches(&search);
  if (search.best.trial.time_ns == 0 && largest > 0) {
    hr_workload changed = *asked;
    changed.batch = largest;
    try_workload(&search, &changed);
  }
  if (search.best.trial.time_ns == 0)
    try_more_devices(&search);
  if (search.best.trial.time_ns > 0)
    search.best.changes = name_changes(asked, &search.best.trial.workload);
  return search.best;
}
