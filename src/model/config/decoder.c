/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a decoder by its family's row. */
#include "model/config/config_experts.h"
#include "model/config/families.h"

static const char *name_or(const char *name, const char *usual)
{
  return name ? name : usual;
}

/* The names of the sizes, with the base class's where the row has none. */
static hr_config_names names_of(const hr_family *family)
{
  const hr_config_names *usual = &hr_config_standard_names;
  return (hr_config_names){.layers = name_or(family->names.layers, usual->layers),
                           .hidden = name_or(family->names.hidden, usual->hidden),
                           .heads = name_or(family->names.heads, usual->heads),
                           .positions = name_or(family->names.positions, usual->positions)};
}

static hr_status read_choice(hr_config *config, const hr_choice_field *choice, bool *value)
{
  *value = choice->value;
  return choice->field ? hr_config_flag(config, choice->field, choice->value, value) : HR_OK;
}

static hr_status read_attention(hr_config *config, const hr_family *family, const hr_config_names *names,
                                hr_model *model)
{
  const char *kv_heads = family->equal_heads ? NULL : name_or(family->kv_heads.field, "num_key_value_heads");
  const char *head_dim = family->derived_head_dim ? NULL : name_or(family->head_dim.field, "head_dim");
  bool qkv, output, norm;
  if (hr_has_latent(family))
    return hr_config_latent(config, &family->latent, model);
  HR_TRY(hr_config_kv_heads(config, names, kv_heads, family->kv_heads.value, model));
  HR_TRY(hr_config_head_dim(config, names, head_dim, family->head_dim.value, model));
  HR_TRY(read_choice(config, &family->qkv_bias, &qkv));
  HR_TRY(read_choice(config, &family->output_bias, &output));
  HR_TRY(read_choice(config, &family->qk_norm, &norm));
  hr_config_attention_bias(model, qkv, output);
  model->groups[0].attention.sinks = family->sinks;
  model->groups[0].attention.output_gate = family->output_gate;
  model->groups[0].attention.gate_per_head = family->gate_per_head;
  model->groups[0].attention.gate_unbiased = family->gate_unbiased;
  model->groups[0].attention.qk_norm = norm ? family->qk_norm_kind : HR_QK_NORM_NONE;
  return HR_OK;
}

static hr_status read_mlp(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_ffn_dense *dense = &model->groups[0].dense;
  const char *activation = name_or(family->activation, "hidden_act");
  const char *usual = name_or(family->activation_default, "silu");
  if (family->experts.count.field)
    HR_TRY(hr_config_experts(config, &family->experts, model));
  if (family->experts.count.field && hr_experts_everywhere(&family->experts))
    return hr_config_activation(config, activation, usual, model);
  HR_TRY(hr_config_mlp(config, name_or(family->mlp_width.field, "intermediate_size"),
                       family->mlp_width.value * model->hidden, activation, usual, model));
  dense->gated = !family->plain_mlp;
  return read_choice(config, &family->mlp_bias, &dense->bias);
}

static hr_status read_block(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_layer_group *layer = &model->groups[0];
  HR_TRY(read_choice(config, &family->parallel, &layer->parallel_block));
  layer->norms = family->norms > 0 ? family->norms : 2;
  layer->norms_behind = family->norms_behind;
  if (layer->parallel_block && family->parallel_norms > 0)
    layer->norms = family->parallel_norms;
  if (!family->layer_norm)
    hr_config_rms_norm(model);
  else if (family->norm_without_bias)
    model->norm_bias = false;
  return HR_OK;
}

static hr_status read_positions(hr_config *config, const hr_family *family, hr_model *model)
{
  switch (family->position_kind) {
  case HR_POSITIONS_LEARNED: hr_config_learned(model, 0); return HR_OK;
  case HR_POSITIONS_ALIBI: model->positions = HR_POSITIONS_ALIBI; return HR_OK;
  case HR_POSITIONS_NONE:
  case HR_POSITIONS_ROTARY: break;
  }
  return hr_config_rotary(config, family->rotary_fraction, family->rotary_default > 0 ? family->rotary_default : 1.0,
                          model);
}

/* ---- windows ---- */

/* Which layers have the window: see hr_family. */
typedef struct window_rule {
  int64_t period, full, from;
} window_rule;

static size_t type_by_rule(const void *context, int64_t index)
{
  const window_rule *rule = context;
  return index >= rule->from && (rule->period == 0 || index % rule->period != rule->full);
}

static hr_status read_window_rule(hr_config *config, const hr_family *family, window_rule *rule)
{
  *rule = (window_rule){.period = family->full_every.value};
  if (family->full_every.field && hr_json_has(&config->json, "layer_types"))
    hr_config_mark(config, family->full_every.field); /* the list says the same */
  else if (family->full_every.field)
    HR_TRY(hr_config_size_derived(config, family->full_every.field, rule->period, &rule->period));
  rule->full = family->full_first || rule->period == 0 ? 0 : rule->period - 1;
  if (!family->window_from.field)
    return HR_OK;
  hr_config_mark(config, family->window_from.field);
  return hr_json_integer_or(&config->json, family->window_from.field, 0, INT64_MAX, family->window_from.value,
                            &rule->from);
}

static hr_status read_layers(hr_config *config, const hr_family *family, hr_model *model)
{
  window_rule rule;
  hr_layer_pattern pattern = {.layers = model->groups[0].count, .type_count = 1, .types = {{"", model->groups[0]}}};
  if (!family->window.field)
    return hr_config_apply(config, family, &pattern, hr_config_layers, model);
  HR_TRY(hr_config_window(config, family->window.field, family->window.value, model));
  HR_TRY(read_window_rule(config, family, &rule));
  pattern = hr_window_pattern(model);
  if (family->full_unrotated && model->groups[0].attention.window > 0)
    pattern.types[0].layer.attention.rotary_dim = 0;
  pattern.type_of = rule.period > 0 || rule.from > 0 ? type_by_rule : NULL;
  pattern.context = &rule;
  return hr_config_apply(config, family, &pattern, hr_config_windows, model);
}

hr_status hr_read_decoder(hr_config *config, const hr_family *family, hr_model *model)
{
  const hr_config_names names = names_of(family);
  HR_TRY(hr_config_sizes(config, &names, family->positions.value > 0 ? family->positions.value : 2048, model));
  HR_TRY(read_attention(config, family, &names, model));
  HR_TRY(read_mlp(config, family, model));
  HR_TRY(read_block(config, family, model));
  HR_TRY(read_positions(config, family, model));
  HR_TRY(hr_config_tied(config, family->tied.value, model));
  model->logit_bias = family->logit_bias;
  if (family->finish)
    HR_TRY(family->finish(config, family, model));
  return family->own_layers ? HR_OK : read_layers(config, family, model);
}
