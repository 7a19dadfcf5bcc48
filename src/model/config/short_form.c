/* SPDX-License-Identifier: Apache-2.0 */
/* Headroom's short form: a shape in one line, with the letters of Anthony et al. 2024 (arXiv 2401.14489), Table I.
 *
 * Without further fields it describes the paper's model: learned positions of s rows, tied embeddings, LayerNorm before
 * attention and MLP, a bias on every linear layer and no final norm, so that P = 12h²L + 13hL + (v + s)h exactly. */
#include "base/names.h"
#include "model/config/families.h"
#include "model/layers/sizes.h"
#include "suggest/suggest.h"

#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All fields. A short form is written by hand: a name that is not here is a mistake. */
static const char *const fields[] = {
    "name",         "h",        "a",        "L",        "v",          "s",         "b",      "t",        "p",
    "mlp",          "d_ff",     "kv_heads", "k_heads",  "v_heads",    "head_dim",  "qk_dim", "v_dim",    "q_rank",
    "window",       "tied",     "norm",     "norms",    "final_norm", "positions", "rotary", "parallel", "qk_norm",
    "bias",         "qkv_bias", "o_bias",   "mlp_bias", "activation", "experts",   "active", "d_expert", "d_shared",
    "dense_layers",
};

static hr_status check_names(const hr_config *config)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)config->json.object, name, value)
  {
    bool known = name[0] == '_';
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !known; i++)
      known = strcmp(fields[i], name) == 0;
    if (known)
      continue;
    char similar[120], found[80];
    json_t *as_text = json_string(name); /* prints the name short and on one line */
    hr_json_found(as_text, found, sizeof found);
    json_decref(as_text);
    hr_suggest_names(name, fields, sizeof fields / sizeof *fields, similar, sizeof similar);
    return hr_fail(config->json.error, HR_ERROR_INVALID, "%s: %s is not a field of the short form%s",
                   config->json.input, found, similar);
  }
  return HR_OK;
}

bool hr_is_short_form(const hr_config *config)
{
  return hr_config_present(config, "h") && hr_config_present(config, "a");
}

/* A choice by name. */
static hr_status read_name(hr_config *config, const char *field, const char *const *names, size_t count, int fallback,
                           int *value)
{
  hr_config_mark(config, field);
  return hr_json_choice_or(&config->json, field, names, count, names[fallback], value);
}

static hr_status check_divides_a(const hr_config *config, const char *field, int64_t heads, int64_t q_heads)
{
  if (q_heads % heads == 0)
    return HR_OK;
  const char *given = hr_json_has(&config->json, field) ? field : "kv_heads";
  return hr_json_fail(&config->json, given, HR_ERROR_INVALID, "%" PRId64 " does not divide a, %" PRId64, heads,
                      q_heads);
}

static hr_status read_head_sizes(hr_config *config, int64_t hidden, hr_mixer_attention *m)
{
  int64_t head_dim = 0;
  HR_TRY(hr_config_size_derived(config, "head_dim", 0, &head_dim));
  HR_TRY(hr_config_size_derived(config, "qk_dim", head_dim, &m->qk_dim));
  HR_TRY(hr_config_size_derived(config, "v_dim", head_dim, &m->v_dim));
  if ((m->qk_dim == 0 || m->v_dim == 0) && hidden % m->q_heads != 0)
    return hr_json_fail(&config->json, "h", HR_ERROR_INVALID,
                        "%" PRId64 " is not a multiple of a, %" PRId64 "; give head_dim if this is intended", hidden,
                        m->q_heads);
  m->qk_dim = m->qk_dim > 0 ? m->qk_dim : hidden / m->q_heads;
  m->v_dim = m->v_dim > 0 ? m->v_dim : hidden / m->q_heads;
  return HR_OK;
}

static hr_status read_attention(hr_config *config, int64_t hidden, bool bias, hr_mixer_attention *m)
{
  static const char *const norms[] = {"none", "shared", "per_head", "full", "rotated"};
  int64_t kv_heads;
  int norm;
  HR_TRY(hr_config_size(config, "a", NULL, &m->q_heads));
  HR_TRY(hr_config_size_derived(config, "kv_heads", m->q_heads, &kv_heads));
  HR_TRY(hr_config_size_derived(config, "k_heads", kv_heads, &m->k_heads));
  HR_TRY(hr_config_size_derived(config, "v_heads", kv_heads, &m->v_heads));
  HR_TRY(check_divides_a(config, "k_heads", m->k_heads, m->q_heads));
  HR_TRY(check_divides_a(config, "v_heads", m->v_heads, m->q_heads));
  HR_TRY(read_head_sizes(config, hidden, m));
  HR_TRY(hr_config_size_derived(config, "q_rank", 0, &m->q_rank));
  HR_TRY(hr_config_size_derived(config, "window", 0, &m->window));
  HR_TRY(read_name(config, "qk_norm", norms, sizeof norms / sizeof *norms, HR_QK_NORM_NONE, &norm));
  m->qk_norm = (hr_qk_norm)norm;
  HR_TRY(hr_config_flag(config, "qkv_bias", bias, &m->q_bias));
  m->k_bias = m->v_bias = m->q_bias;
  return hr_config_flag(config, "o_bias", bias, &m->output_bias);
}

static hr_status read_mlp(hr_config *config, const bool *bias, hr_model *model)
{
  static const char *const kinds[] = {"gelu", "swiglu"};
  hr_ffn_dense *m = &model->groups[0].dense;
  const char *activation;
  int kind;
  HR_TRY(read_name(config, "mlp", kinds, sizeof kinds / sizeof *kinds, 0, &kind));
  m->gated = kind == 1;
  HR_TRY(hr_config_text(config, "activation", m->gated ? "silu" : "gelu", &activation));
  hr_copy_text(model->activation, sizeof model->activation, activation);
  HR_TRY(hr_config_flag(config, "mlp_bias", bias ? *bias : !m->gated, &m->bias));
  /* 8h/3 literally, even where it is a slow width: the rule mlp_width reports that. */
  int64_t width = m->gated ? model->hidden * 8 / 3 : model->hidden * 4;
  HR_TRY(hr_config_size_derived(config, "d_ff", width, &m->width));
  if (m->width > HR_MODEL_SIZE_MAX)
    return hr_json_fail(&config->json, "h", HR_ERROR_INVALID, "%" PRId64 " is too large", model->hidden);
  return HR_OK;
}

static hr_status refuse_without_experts(const hr_config *config)
{
  static const char *const needing[] = {"active", "d_expert", "d_shared", "dense_layers"};
  for (size_t i = 0; i < sizeof needing / sizeof *needing; i++) {
    if (hr_json_has(&config->json, needing[i]))
      return hr_json_fail(&config->json, needing[i], HR_ERROR_INVALID, "needs experts");
  }
  return HR_OK;
}

/* Experts in all layers but the first `dense_layers`, gated and with biases as the MLP. */
static hr_status read_experts(hr_config *config, hr_model *model)
{
  hr_layer_group dense = model->groups[0], *routed = &model->groups[0];
  hr_ffn_experts *m = &routed->experts;
  HR_TRY(hr_config_size_derived(config, "experts", 0, &m->experts));
  if (m->experts == 0)
    return refuse_without_experts(config);
  HR_TRY(hr_config_size(config, "active", NULL, &m->active));
  if (m->active > m->experts)
    return hr_json_fail(&config->json, "active", HR_ERROR_INVALID, "%" PRId64 " is more than experts, %" PRId64,
                        m->active, m->experts);
  HR_TRY(hr_config_size_derived(config, "d_expert", dense.dense.width, &m->width));
  HR_TRY(hr_config_size_derived(config, "d_shared", 0, &m->shared_width));
  HR_TRY(hr_config_size_derived(config, "dense_layers", 0, &dense.count));
  m->gated = dense.dense.gated;
  m->bias = m->shared_bias = dense.dense.bias;
  if (dense.count >= routed->count)
    return hr_json_fail(&config->json, "dense_layers", HR_ERROR_INVALID, "%" PRId64 " leaves no layer with experts",
                        dense.count);
  routed->dense = (hr_ffn_dense){0};
  routed->count -= dense.count;
  if (dense.count > 0) {
    model->groups[1] = *routed;
    model->groups[0] = dense;
    model->group_count = 2;
  }
  return HR_OK;
}

static hr_status read_positions(hr_config *config, hr_model *model)
{
  static const char *const kinds[] = {"none", "learned", "rotary", "alibi"};
  hr_mixer_attention *m = &model->groups[0].attention;
  int kind;
  HR_TRY(read_name(config, "positions", kinds, sizeof kinds / sizeof *kinds, HR_POSITIONS_LEARNED, &kind));
  model->positions = (hr_positions)kind;
  if (model->default_sequence == 0)
    hr_config_note(config, "s: is missing, %s of 2048 is assumed",
                   kind == HR_POSITIONS_LEARNED ? "a position table" : "a sequence");
  model->max_positions = model->default_sequence > 0 ? model->default_sequence : 2048;
  if (kind == HR_POSITIONS_LEARNED)
    hr_config_learned(model, 0);
  if (kind == HR_POSITIONS_ROTARY)
    HR_TRY(hr_config_size_derived(config, "rotary", m->qk_dim, &m->rotary_dim));
  if (m->rotary_dim > m->qk_dim)
    return hr_json_fail(&config->json, "rotary", HR_ERROR_INVALID, "%" PRId64 " is more than the head size, %" PRId64,
                        m->rotary_dim, m->qk_dim);
  return HR_OK;
}

static hr_status read_norms(hr_config *config, hr_model *model)
{
  static const char *const kinds[] = {"layer", "rms"};
  hr_layer_group *layer = &model->groups[0];
  int kind;
  HR_TRY(read_name(config, "norm", kinds, sizeof kinds / sizeof *kinds, HR_NORM_LAYER, &kind));
  model->norm = (hr_norm)kind;
  model->norm_bias = model->norm == HR_NORM_LAYER;
  HR_TRY(hr_config_flag(config, "parallel", false, &layer->parallel_block));
  HR_TRY(hr_config_size_derived(config, "norms", layer->parallel_block ? 1 : 2, &layer->norms));
  return hr_config_flag(config, "final_norm", false, &model->final_norm);
}

hr_status hr_read_short_form(hr_config *config, hr_model *model)
{
  const char *name;
  bool bias = true, has_bias = hr_json_has(&config->json, "bias");
  HR_TRY(check_names(config));
  HR_TRY(hr_config_text(config, "name", model->name, &name));
  if (name != model->name)
    hr_copy_text(model->name, sizeof model->name, name);
  HR_TRY(hr_config_size(config, "h", NULL, &model->hidden));
  HR_TRY(hr_config_size(config, "L", NULL, &model->groups[0].count));
  HR_TRY(hr_config_size(config, "v", NULL, &model->vocabulary));
  HR_TRY(hr_config_flag(config, "bias", true, &bias));
  HR_TRY(read_attention(config, model->hidden, bias, &model->groups[0].attention));
  HR_TRY(read_mlp(config, has_bias ? &bias : NULL, model));
  HR_TRY(hr_config_size_derived(config, "s", 0, &model->default_sequence));
  HR_TRY(hr_config_size_derived(config, "b", 0, &model->default_batch));
  HR_TRY(hr_config_size_derived(config, "t", 0, &model->default_tensor_parallel));
  HR_TRY(hr_config_size_derived(config, "p", 0, &model->default_pipeline_stages));
  HR_TRY(read_positions(config, model));
  HR_TRY(read_norms(config, model));
  HR_TRY(hr_config_flag(config, "tied", true, &model->tied_embeddings));
  return read_experts(config, model);
}
