/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be run yet, by name. */
#include "run/program.h"
#include "runtime/device/experts.h"

#include "base/error.h"
#include "model/layers/layer_kinds.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <string.h>

/* Activations by the names that configurations give them. */
static const struct {
  const char *name;
  hr_rowwise_operation plain, gated; /* HR_ROWWISE_COUNT: no kernel */
} activations[] = {
    {"silu", HR_ROWWISE_COUNT, HR_ROWWISE_SWIGLU},
    {"swish", HR_ROWWISE_COUNT, HR_ROWWISE_SWIGLU},
    {"gelu", HR_ROWWISE_GELU, HR_ROWWISE_GEGLU},
    {"gelu_new", HR_ROWWISE_GELU_TANH, HR_ROWWISE_GEGLU_TANH},
    {"gelu_fast", HR_ROWWISE_GELU_TANH, HR_ROWWISE_GEGLU_TANH},
    {"gelu_pytorch_tanh", HR_ROWWISE_GELU_TANH, HR_ROWWISE_GEGLU_TANH},
    {"relu", HR_ROWWISE_RELU, HR_ROWWISE_COUNT},
    {"relu2", HR_ROWWISE_RELU2, HR_ROWWISE_COUNT},
};

bool hr_run_activation(const hr_model *model, bool gated, hr_rowwise_operation *operation)
{
  const char *name = model->numerics.gelu_tanh ? "gelu_new" : model->activation;
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
    if (strcmp(activations[i].name, name) == 0)
      *operation = gated ? activations[i].gated : activations[i].plain;
  }
  if (gated && model->numerics.swiglu_limit > 0)
    *operation = HR_ROWWISE_SWIGLU_CLAMPED;
  return *operation != HR_ROWWISE_COUNT;
}

hr_status hr_refuse(const hr_refusal *refusals, size_t count, const char *what_for, hr_error *error)
{
  for (size_t i = 0; i < count; i++) {
    if (refusals[i].applies)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s cannot be %s yet", refusals[i].what, what_for);
  }
  return HR_OK;
}

static bool in_chunks(const hr_mixer_attention *m)
{
  return m->q_heads > 0 && m->window > 0 && m->window_kind == HR_WINDOW_CHUNKED;
}

int64_t hr_run_chunk(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (in_chunks(&model->groups[i].attention))
      return model->groups[i].attention.window;
  }
  return 0;
}

int hr_run_number_count(const hr_executor *x)
{
  const hr_numerics *n = &x->model.numerics;
  if (x->ranks > 1 || hr_run_chunk(&x->model) > 0 || n->query_growth != 0 || n->router.weighs_inputs)
    return HR_NUMBER_COUNT;
  return x->options.trains ? HR_NUMBER_TARGET + 1 : HR_NUMBER_POSITION + 1;
}

static hr_status check_layer(const hr_model *model, const hr_layer_group *layer, hr_error *error)
{
  const hr_mixer_attention *m = &layer->attention;
  hr_rowwise_operation operation = HR_ROWWISE_COUNT;
  const hr_refusal refusals[] = {
      {layer->latent.q_heads > 0 && layer->latent.rope_dim == 0, "latent attention without rotary positions"},
      {layer->latent.index_topk > 0 || m->index_topk > 0, "attention over keys that an indexer chooses"},
      {layer->compressed.q_heads > 0, "attention over compressed entries"},
      {model->residual_streams > 0, "several residual streams"},
      {layer->scan.heads > 0, "a recurrent mixer"},
      {hr_run_has_q8(model) && layer->latent.q_heads > 0, "latent attention with weights in q8_0"},
      {hr_run_has_q8(model) && layer->experts.experts > 0, "experts with weights in q8_0"},
      {m->q_heads == 0 && layer->latent.q_heads == 0, "a layer without attention"},
      {layer->experts.experts > HR_EXPERTS_MAX, "a layer of more than 1024 experts"},
      {layer->experts.active > HR_ROWWISE_TERMS_MAX, "a layer of more than 64 experts of a token"},
      {layer->experts.latent > 0, "experts of another width than the stream's"},
      {layer->experts.experts > 0 && layer->dense.width > 0, "a layer of experts beside another network"},
      {layer->experts.experts == 0 && layer->dense.width == 0, "a layer without a feed-forward network"},
      {in_chunks(m) && m->window % HR_RUN_PAGE_TOKENS != 0, "attention in chunks of no multiple of 16 tokens"},
      {in_chunks(m) && m->window != hr_run_chunk(model), "attention in chunks of several sizes"},
      {in_chunks(m) && m->sinks, "attention in chunks with sinks"},
      {model->numerics.router.weighs_inputs && layer->experts.active > 1, "several experts with weighted inputs"},
      {m->output_gate, "a gate of attention's result"},
      {m->shared_kv || m->v_is_k, "attention with K and V of others"},
  };
  HR_TRY(hr_refuse(refusals, sizeof refusals / sizeof *refusals, "run", error));
  const bool gated = layer->experts.experts > 0 ? layer->experts.gated : layer->dense.gated;
  if (!hr_run_activation(model, gated, &operation))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "the activation %s%s cannot be run yet", model->activation,
                   gated ? " with a gate" : "");
  return HR_OK;
}

/* The order of layers is that of the configuration, from which a changed model may have gone. */
static hr_status check_order(const hr_model *model, hr_error *error)
{
  int64_t counts[HR_LAYER_GROUPS_MAX] = {0}, layers = hr_model_layers(model);
  if (model->group_count == 1)
    return HR_OK;
  for (int64_t i = 0; i < layers && i < HR_LAYER_ORDER_MAX; i++)
    counts[model->order[i] % HR_LAYER_GROUPS_MAX]++;
  for (size_t g = 0; g < model->group_count; g++) {
    if (counts[g] != model->groups[g].count)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "the order of %" PRId64 " layers of %zu kinds is not known", layers,
                     model->group_count);
  }
  return HR_OK;
}

bool hr_run_widens(const hr_model *model)
{
  bool all = true;
  for (size_t i = 0; i < model->quantization.format_count; i++)
    all = all && strcmp(model->quantization.formats[i].name, "fp8") == 0;
  return all;
}

bool hr_run_has_q8(const hr_model *model)
{
  return model->quantization.format_count == 1 && strcmp(model->quantization.formats[0].name, "q8_0") == 0;
}

static hr_status check_whole(const hr_model *model, hr_error *error)
{
  const hr_refusal refusals[] = {
      {!hr_run_widens(model) && !hr_run_has_q8(model), "weights in formats other than fp8 and q8_0"},
      {model->head != HR_HEAD_LANGUAGE, "a model without logits"},
      {model->positions == HR_POSITIONS_NONE, "a model without positions"},
  };
  if (!model->numerics.known)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "models of the family %s cannot be run yet", model->family);
  if (model->numerics.refusal[0])
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: cannot be run yet", model->numerics.refusal);
  return hr_refuse(refusals, sizeof refusals / sizeof *refusals, "run", error);
}

hr_status hr_run_check_model(const hr_model *model, hr_error *error)
{
  HR_TRY(check_whole(model, error));
  for (size_t i = 0; i < model->group_count; i++)
    HR_TRY(check_layer(model, &model->groups[i], error));
  return check_order(model, error);
}

const hr_layer_group *hr_run_group(const hr_executor *x, int64_t layer)
{
  return hr_group_of_layer(&x->model, layer);
}
