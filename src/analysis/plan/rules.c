/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/plan/rules.h"

#include "base/checked.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"

#include <headroom/experimental/model.h>

bool hr_training_stage_ends(int64_t layers, int64_t stages, int64_t *first, int64_t *last)
{
  int64_t fullest = hr_ceil_div(layers, stages), left = layers - fullest * (stages - 2);
  *first = *last = 0;
  if (layers % stages == 0)
    return true;
  *last = left > fullest ? left - fullest : left / 2;
  *first = left > fullest ? 0 : left - *last;
  return *last >= 1;
}

static bool has_experts(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].experts.experts > 0)
      return true;
  }
  return false;
}

static bool heads_divide_by_t(const hr_model *model, const hr_workload *w)
{
  return hr_split_of(model, w->tensor_parallel, 1, HR_SPLIT_HEADS | HR_SPLIT_SCANS).whole;
}

/* K and V heads are not copied. */
static bool kv_heads_divide_by_t(const hr_model *model, const hr_workload *w)
{
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention heads = hr_heads_of(&model->groups[i]);
    if (heads.k_heads % w->tensor_parallel != 0 || heads.v_heads % w->tensor_parallel != 0)
      return false;
  }
  return true;
}

static bool sequence_divides_by_2_cp(const hr_model *model, const hr_workload *w)
{
  (void)model;
  return w->context_parallel == 1 || w->sequence % (2 * w->context_parallel) == 0;
}

/* Experts are split over t unless they are whole on a device. */
static bool widths_divide_by_t_and_experts_by_e(const hr_model *model, const hr_workload *w)
{
  return hr_split_of(model, w->tensor_parallel, w->expert_parallel, HR_SPLIT_FFN).whole;
}

static bool experts_borrow_context_parallel_devices(const hr_model *model, const hr_workload *w)
{
  (void)model;
  return w->expert_parallel == 1 || w->expert_parallel % (w->context_parallel * w->tensor_parallel) == 0;
}

static bool tokens_divide_by_t(const hr_model *model, const hr_workload *w)
{
  (void)model;
  return !w->sequence_parallel || w->sequence % (w->tensor_parallel * w->context_parallel) == 0;
}

static bool experts_over_t_need_sequence_parallelism(const hr_model *model, const hr_workload *w)
{
  return w->sequence_parallel || w->tensor_parallel == 1 || !has_experts(model);
}

static bool t_has_sequence_parallelism(const hr_model *model, const hr_workload *w)
{
  (void)model;
  bool divides = w->sequence % (w->tensor_parallel * 2 * w->context_parallel) == 0;
  return w->tensor_parallel == 1 || (w->sequence_parallel && divides);
}

static bool layers_divide_by_p(const hr_model *model, const hr_workload *w)
{
  return hr_model_layers(model) % w->pipeline_stages == 0;
}

static bool stages_between_the_ends_are_equal(const hr_model *model, const hr_workload *w)
{
  int64_t first, last;
  return hr_training_stage_ends(hr_model_layers(model), w->pipeline_stages, &first, &last);
}

static bool replicas_are_ddp_or_fsdp(const hr_model *model, const hr_workload *w)
{
  (void)model;
  bool alone = w->tensor_parallel == 1 && w->pipeline_stages == 1 && w->context_parallel == 1;
  bool shared = w->data_parallel * w->context_parallel > 1;
  return !shared || w->zero_stage == 3 || (w->zero_stage == 0 && alone && w->expert_parallel == 1);
}

static const struct {
  bool (*holds)(const hr_model *model, const hr_workload *workload);
  hr_training_dimension dimension;
  unsigned frameworks;
} rules[] = {
#define HR_TRAINING_RULE(function, dimension, frameworks) {function, dimension, frameworks},
#include "analysis/plan/rules.inc"
#undef HR_TRAINING_RULE
};

unsigned hr_training_accepting(unsigned frameworks, hr_training_dimension dimension, const hr_model *model,
                               const hr_workload *workload)
{
  for (size_t i = 0; i < sizeof rules / sizeof *rules && frameworks != 0; i++) {
    if (rules[i].dimension == dimension && (rules[i].frameworks & frameworks) != 0 && !rules[i].holds(model, workload))
      frameworks &= ~rules[i].frameworks;
  }
  return frameworks;
}
