/* SPDX-License-Identifier: Apache-2.0 */
/* All layouts of a number of devices, dimension by dimension, as far as a framework accepts them. */
#include "analysis/plan/plan.h"
#include "base/checked.h"
#include "base/error.h"

#include <headroom/experimental/model.h>

#define DEGREE_MAX 4096 /* of t and cp */

/* Values that a dimension may have, ascending. No number up to 2^24 has more divisors. */
#define VALUES_MAX 512

typedef struct values {
  size_t count;
  int64_t items[VALUES_MAX];
} values;

typedef struct enumeration {
  hr_training_state *state;
  hr_training_count *count;
  values tried[HR_TRAINING_DIMENSION_COUNT];
  hr_workload workload;
} enumeration;

static const hr_training_options *options_of(const enumeration *e)
{
  return &e->state->plan->options;
}

static void add_divisors(values *to, int64_t number, int64_t most, int64_t given)
{
  for (int64_t value = 1; value <= hr_min64(number, most) && to->count < VALUES_MAX; value++) {
    if (number % value == 0 && (given == 0 || value == given))
      to->items[to->count++] = value;
  }
}

static void add_bits(values *to, unsigned bits, unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    if (bits == 0 || (bits & (1u << i)) != 0)
      to->items[to->count++] = i;
  }
}

/* ---- values of a dimension ---- */

static void tensor(const enumeration *e, values *to)
{
  add_divisors(to, e->count->devices, DEGREE_MAX, options_of(e)->tensor_parallel);
}

static bool splits_sequences(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &model->groups[i];
    if (layer->scan.heads > 0 || layer->compressed.q_heads > 0 || layer->latent.index_topk > 0 ||
        layer->attention.index_topk > 0)
      return false;
  }
  return true;
}

/* hr_workload has no context parallelism of scans and of chosen or compressed keys. */
static void context(const enumeration *e, values *to)
{
  int64_t most = splits_sequences(e->state->model) ? DEGREE_MAX : 1;
  add_divisors(to, e->count->devices / e->workload.tensor_parallel, most, options_of(e)->context_parallel);
}

static int64_t most_experts(const hr_model *model)
{
  int64_t most = 0;
  for (size_t i = 0; i < model->group_count; i++)
    most = hr_max64(most, model->groups[i].experts.experts);
  return most;
}

/* 1, and multiples of t: tensor-parallel groups share the experts. */
static void experts(const enumeration *e, values *to)
{
  int64_t given = options_of(e)->expert_parallel, t = e->workload.tensor_parallel;
  if (given <= 1)
    to->items[to->count++] = 1;
  values all = {.count = 0};
  add_divisors(&all, most_experts(e->state->model), e->count->devices, given);
  for (size_t i = 0; i < all.count; i++) {
    if (all.items[i] > 1 && all.items[i] % t == 0)
      to->items[to->count++] = all.items[i];
  }
}

static void sequence(const enumeration *e, values *to)
{
  add_bits(to, 0, e->workload.tensor_parallel > 1 ? 2 : 1);
}

/* Fused attention keeps no scores, so that there is nothing to recompute selectively. */
static void recompute(const enumeration *e, values *to)
{
  values all = {.count = 0};
  add_bits(&all, options_of(e)->recomputes, HR_RECOMPUTE_FULL + 1);
  for (size_t i = 0; i < all.count; i++) {
    if (all.items[i] != HR_RECOMPUTE_SELECTIVE || e->workload.attention == HR_ATTENTION_UNFUSED)
      to->items[to->count++] = all.items[i];
  }
}

static void batch(const enumeration *e, values *to)
{
  int64_t given = options_of(e)->batch;
  add_divisors(to, options_of(e)->global_batch, given > 0 ? given : HR_TRAINING_MICROBATCH_MAX, given);
}

static int64_t replicas(const enumeration *e, int64_t stages)
{
  const hr_workload *w = &e->workload;
  return e->count->devices / (w->tensor_parallel * w->context_parallel * stages);
}

/* The replicas divide the global batch, and are divided into the groups that share experts. */
static void stages(const enumeration *e, values *to)
{
  const hr_workload *w = &e->workload;
  values all = {.count = 0};
  int64_t groups = hr_max64(1, w->expert_parallel / w->tensor_parallel);
  add_divisors(&all, replicas(e, 1), hr_model_layers(e->state->model), options_of(e)->pipeline_stages);
  for (size_t i = 0; i < all.count; i++) {
    int64_t dp = replicas(e, all.items[i]);
    if (options_of(e)->global_batch % (dp * w->batch) == 0 && dp % groups == 0)
      to->items[to->count++] = all.items[i];
  }
}

/* hr_workload has equal parts, which run in rounds of p microbatches. */
static void parts(const enumeration *e, values *to)
{
  const hr_workload *w = &e->workload;
  int64_t given = options_of(e)->virtual_stages, layers = hr_model_layers(e->state->model);
  bool even = layers % w->pipeline_stages == 0;
  bool in_rounds = even && w->pipeline_stages > 1 && w->microbatches % w->pipeline_stages == 0;
  add_divisors(to, in_rounds ? layers / w->pipeline_stages : 1, layers, given);
}

/* One device shares with nobody. */
static void zero(const enumeration *e, values *to)
{
  bool alone = e->workload.data_parallel * e->workload.context_parallel == 1;
  add_bits(to, alone ? 1 : options_of(e)->zero_stages, 4);
}

/* ---- the layout ---- */

#define SETTER(name, member)                                                  \
  static void set_##name(const enumeration *e, hr_workload *w, int64_t value) \
  {                                                                           \
    (void)e;                                                                  \
    w->member = value;                                                        \
  }
SETTER(tensor, tensor_parallel)
SETTER(context, context_parallel)
SETTER(experts, expert_parallel)
SETTER(batch, batch)
SETTER(parts, virtual_stages)
SETTER(zero, zero_stage)

static void set_sequence(const enumeration *e, hr_workload *w, int64_t value)
{
  (void)e;
  w->sequence_parallel = value != 0;
}

static void set_recompute(const enumeration *e, hr_workload *w, int64_t value)
{
  (void)e;
  w->recompute = (hr_recompute)value;
}

static void set_stages(const enumeration *e, hr_workload *w, int64_t value)
{
  w->pipeline_stages = value;
  w->data_parallel = replicas(e, value);
  w->microbatches = options_of(e)->global_batch / (w->data_parallel * w->batch);
}

static const struct {
  void (*list)(const enumeration *e, values *to);
  void (*set)(const enumeration *e, hr_workload *workload, int64_t value);
} dimensions[HR_TRAINING_DIMENSION_COUNT] = {
    [HR_TRAINING_TENSOR] = {tensor, set_tensor},
    [HR_TRAINING_CONTEXT] = {context, set_context},
    [HR_TRAINING_EXPERTS] = {experts, set_experts},
    [HR_TRAINING_SEQUENCE] = {sequence, set_sequence},
    [HR_TRAINING_RECOMPUTE] = {recompute, set_recompute},
    [HR_TRAINING_BATCH] = {batch, set_batch},
    [HR_TRAINING_STAGES] = {stages, set_stages},
    [HR_TRAINING_PARTS] = {parts, set_parts},
    [HR_TRAINING_ZERO] = {zero, set_zero},
};

static bool is_accepted(const enumeration *e, unsigned frameworks)
{
  unsigned asked = options_of(e)->accepted_by;
  return frameworks != 0 && (frameworks & asked) == asked;
}

/* The depth is the number of dimensions. */
static hr_status choose(enumeration *e, hr_training_dimension dimension, unsigned frameworks, hr_error *error)
{
  if (dimension == HR_TRAINING_DIMENSION_COUNT)
    return hr_training_add_layout(e->state, e->count, &e->workload, frameworks, error);
  values *tried = &e->tried[dimension];
  tried->count = 0;
  dimensions[dimension].list(e, tried);
  for (size_t i = 0; i < tried->count; i++) {
    dimensions[dimension].set(e, &e->workload, tried->items[i]);
    if (dimension < HR_TRAINING_STAGES)
      e->state->microbatch->sums.operator_count = 0;
    if (dimension < HR_TRAINING_ZERO)
      e->state->knows_memory = false;
    unsigned accepting = hr_training_accepting(frameworks, dimension, e->state->split, &e->workload);
    if (is_accepted(e, accepting))
      HR_TRY(choose(e, dimension + 1, accepting, error));
  }
  return HR_OK;
}

hr_status hr_training_list_layouts(hr_training_state *state, size_t index, hr_error *error)
{
  enumeration e = {.state = state, .count = &state->plan->counts[index], .workload = state->workload};
  return choose(&e, 0, HR_TRAINING_MEGATRON | HR_TRAINING_TORCHTITAN, error);
}
