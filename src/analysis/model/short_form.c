/* SPDX-License-Identifier: Apache-2.0 */
/* Headroom's short form: a shape in one line, with the letters of Anthony et al. 2024 (arXiv 2401.14489), Table I.
 *
 * It describes the paper's model: learned positions of s rows, tied embeddings, LayerNorm before attention and MLP, a
 * bias on every linear layer and no final norm, so that P = 12h²L + 13hL + (v + s)h exactly. */
#include "analysis/model/families.h"
#include "analysis/model/sizes.h"
#include "base/names.h"

#include <inttypes.h>
#include <string.h>

bool hr_is_short_form(const hr_config *config)
{
  return hr_config_present(config, "h") && hr_config_present(config, "a");
}

static hr_status read_heads(hr_config *config, hr_model *model)
{
  int64_t kv_heads, head_dim = 0;
  HR_TRY(hr_config_size(config, "a", NULL, &model->groups[0].attention.q_heads));
  HR_TRY(hr_config_size_derived(config, "kv_heads", model->groups[0].attention.q_heads, &kv_heads));
  HR_TRY(hr_config_size_derived(config, "k_heads", kv_heads, &model->groups[0].attention.k_heads));
  HR_TRY(hr_config_size_derived(config, "v_heads", kv_heads, &model->groups[0].attention.v_heads));
  HR_TRY(hr_config_size_derived(config, "head_dim", 0, &head_dim));
  const char *k_field = hr_json_has(&config->json, "k_heads") ? "k_heads" : "kv_heads";
  const char *v_field = hr_json_has(&config->json, "v_heads") ? "v_heads" : "kv_heads";
  if (model->groups[0].attention.q_heads % model->groups[0].attention.k_heads != 0)
    return hr_json_fail(&config->json, k_field, HR_ERROR_INVALID, "%" PRId64 " does not divide a, %" PRId64,
                        model->groups[0].attention.k_heads, model->groups[0].attention.q_heads);
  if (model->groups[0].attention.q_heads % model->groups[0].attention.v_heads != 0)
    return hr_json_fail(&config->json, v_field, HR_ERROR_INVALID, "%" PRId64 " does not divide a, %" PRId64,
                        model->groups[0].attention.v_heads, model->groups[0].attention.q_heads);
  if (head_dim == 0 && model->hidden % model->groups[0].attention.q_heads != 0)
    return hr_json_fail(&config->json, "h", HR_ERROR_INVALID,
                        "%" PRId64 " is not a multiple of a, %" PRId64 "; give head_dim if this is intended",
                        model->hidden, model->groups[0].attention.q_heads);
  model->groups[0].attention.qk_dim = model->groups[0].attention.v_dim =
      head_dim > 0 ? head_dim : model->hidden / model->groups[0].attention.q_heads;
  return HR_OK;
}

static hr_status read_mlp(hr_config *config, hr_model *model)
{
  const char *kind;
  HR_TRY(hr_config_text(config, "mlp", "gelu", &kind));
  model->groups[0].dense.gated = strcmp(kind, "swiglu") == 0;
  if (!model->groups[0].dense.gated && strcmp(kind, "gelu") != 0)
    return hr_json_fail(&config->json, "mlp", HR_ERROR_INVALID, "expected \"gelu\" or \"swiglu\", found \"%.40s\"",
                        kind);
  hr_copy_text(model->activation, sizeof model->activation, model->groups[0].dense.gated ? "silu" : "gelu");
  model->groups[0].dense.bias = !model->groups[0].dense.gated;
  /* 8h/3 literally, even where it is a slow width: the rule mlp_width reports that. */
  int64_t width = model->groups[0].dense.gated ? model->hidden * 8 / 3 : model->hidden * 4;
  HR_TRY(hr_config_size_derived(config, "d_ff", width, &model->groups[0].dense.width));
  if (model->groups[0].dense.width > HR_MODEL_SIZE_MAX)
    return hr_json_fail(&config->json, "h", HR_ERROR_INVALID, "%" PRId64 " is too large", model->hidden);
  return HR_OK;
}

hr_status hr_read_short_form(hr_config *config, hr_model *model)
{
  const char *name;
  HR_TRY(hr_config_text(config, "name", model->name, &name));
  if (name != model->name)
    hr_copy_text(model->name, sizeof model->name, name);
  HR_TRY(hr_config_size(config, "h", NULL, &model->hidden));
  HR_TRY(hr_config_size(config, "L", NULL, &model->groups[0].count));
  HR_TRY(hr_config_size(config, "v", NULL, &model->vocabulary));
  HR_TRY(read_heads(config, model));
  HR_TRY(read_mlp(config, model));
  HR_TRY(hr_config_size_derived(config, "s", 0, &model->default_sequence));
  HR_TRY(hr_config_size_derived(config, "b", 0, &model->default_batch));
  HR_TRY(hr_config_size_derived(config, "t", 0, &model->default_tensor_parallel));
  HR_TRY(hr_config_size_derived(config, "p", 0, &model->default_pipeline_stages));
  if (model->default_sequence == 0)
    hr_config_note(config, "s: is missing, a position table of 2048 rows is assumed");
  model->max_positions = model->default_sequence > 0 ? model->default_sequence : 2048;
  hr_config_learned(model, 0);
  hr_config_attention_bias(model, true, true);
  model->final_norm = false;
  model->tied_embeddings = true;
  return HR_OK;
}
