/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's share of a model: heads, columns and rows of the vocabulary, or the layers of a stage. It is a model itself,
 * smaller, so that the lowering of operators knows of no ranks. */
#include "run/program.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>

/* What is refused has weights that every rank has, of which each computes a part of the gradient. */
static hr_status check_training(const hr_executor *x, hr_error *error)
{
  const hr_model *m = &x->whole;
  bool biases = false;
  for (size_t i = 0; i < m->group_count; i++) {
    const hr_layer_group *group = &m->groups[i];
    biases = biases || (group->experts.experts > 0 && group->experts.bias);
  }
  const hr_refusal refusals[] = {{biases, "biases of experts on several devices"},
                                 {x->replicas > 1, "replicas of several devices"}};
  return hr_refuse(refusals, sizeof refusals / sizeof *refusals, "trained", error);
}

static hr_status check_experts(const hr_executor *x, hr_error *error)
{
  const int64_t e = hr_run_expert_ranks(x);
  if (e > 1 && e != x->ranks)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "expert_parallel: %" PRId64 " devices share experts and %" PRId64
                   " the rest of a layer, which cannot be run yet",
                   e, x->ranks);
  return HR_OK;
}

/* The rows of each norm would have to be gathered. */
static bool has_two_inputs(const hr_layer_group *group)
{
  return group->parallel_block && hr_has_mixer(group) && hr_has_ffn(group) && group->norms > 1;
}

static hr_status check_rows(const hr_executor *x, hr_error *error)
{
  bool two = false;
  for (size_t i = 0; i < x->whole.group_count; i++)
    two = two || has_two_inputs(&x->whole.groups[i]);
  const hr_refusal refusals[] = {
      {two, "a parallel block with two norms and sequence parallelism"},
      {hr_run_expert_ranks(x) > 1, "whole experts with sequence parallelism"},
      {x->whole.embedding_dim > 0 && x->whole.embedding_dim != x->whole.hidden,
       "projections around the embedding with sequence parallelism"},
  };
  return hr_run_splits_rows(x) ? hr_refuse(refusals, sizeof refusals / sizeof *refusals, "run", error) : HR_OK;
}

static hr_status check_share(const hr_executor *x, hr_error *error)
{
  const hr_split split = hr_split_of(&x->whole, x->ranks, hr_run_expert_ranks(x), HR_SPLIT_HEADS | HR_SPLIT_FFN);
  bool over_heads = false;
  for (size_t i = 0; i < x->whole.group_count; i++)
    over_heads = over_heads || x->whole.groups[i].attention.qk_norm == HR_QK_NORM_FULL;
  const hr_refusal refusals[] = {
      {over_heads, "norms over all heads of several devices"},
      {hr_run_has_q8(&x->whole), "weights in q8_0 on several devices"},
  };
  if (!split.whole)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s", split.words);
  HR_TRY(hr_refuse(refusals, sizeof refusals / sizeof *refusals, "run", error));
  HR_TRY(check_rows(x, error));
  return x->options.trains ? check_training(x, error) : HR_OK;
}

/* ---- stages ---- */

static hr_status check_stages(const hr_executor *x, int64_t layers, hr_error *error)
{
  const hr_refusal refusals[] = {{x->ranks > 1, "stages of several devices"},
                                 {x->replicas > 1, "replicas of several stages"},
                                 {x->options.trains && x->options.max_norm > 0, "clipped gradients of several stages"}};
  if (x->stages > layers)
    return hr_fail(error, HR_ERROR_INVALID, "stages: %" PRId64 " need as many layers, the model has %" PRId64,
                   x->stages, layers);
  return hr_refuse(refusals, sizeof refusals / sizeof *refusals, "run", error);
}

/* The first stages have one layer more where they do not divide: the last has the logits. */
static hr_status take_stage(hr_executor *x, hr_error *error)
{
  const int64_t layers = hr_model_layers(&x->whole);
  HR_TRY(check_stages(x, layers, error));
  const int64_t each = layers / x->stages, longer = layers % x->stages;
  const int64_t first = x->stage * each + hr_min64(x->stage, longer), count = each + (x->stage < longer);
  for (size_t i = 0; i < x->whole.group_count; i++)
    x->model.groups[i].count = x->whole.group_count > 1 ? 0 : count;
  for (int64_t i = 0; i < count && x->whole.group_count > 1; i++) {
    x->model.order[i] = x->whole.order[first + i];
    x->model.groups[x->model.order[i]].count++;
  }
  x->weights.first_layer = first;
  x->weights.begins = x->stage == 0;
  x->weights.ends = hr_run_is_last(x);
  return HR_OK;
}

hr_status hr_run_take_share(hr_executor *x, hr_error *error)
{
  x->model = x->whole;
  HR_TRY(check_experts(x, error));
  x->weights.begins = x->weights.ends = true;
  if (x->stages > 1)
    return take_stage(x, error);
  if (x->ranks == 1)
    return HR_OK;
  HR_TRY(check_share(x, error));
  hr_workload workload = hr_workload_default(&x->whole);
  workload.tensor_parallel = x->ranks;
  workload.expert_parallel = hr_run_expert_ranks(x);
  for (size_t i = 0; i < x->whole.group_count; i++)
    x->model.groups[i] = hr_shard_layer(&x->whole, &x->whole.groups[i], &workload);
  x->model.vocabulary = hr_ceil_div(x->whole.vocabulary, x->ranks);
  return HR_OK;
}
