/* SPDX-License-Identifier: Apache-2.0 */
/* Models that Headroom does not cover, recognised by their fields and model types. */
#include "model/config/families.h"

#include <string.h>

static const char mixture_of_experts[] = "mixture-of-experts layers";
static const char latent_attention[] = "latent attention (MLA) layers";
static const char state_space[] = "state-space models";
static const char mamba_ssm[] = "state-space models in mamba_ssm's format";
static const char kimi_delta[] = "Kimi delta attention layers";
static const char hybrid[] = "hybrids of attention and recurrent layers";
static const char encoder_decoder[] = "encoder-decoder models";
static const char encoder_only[] = "encoder-only models";
static const char own_fields[] = "fields that override single layers";
static const char indexer[] = "sparse attention indexers";
static const char hyper_connections[] = "hyper-connections";
static const char identity_experts[] = "identity experts";
static const char recurrent[] = "recurrent models";
static const char multimodal[] = "vision-language models without a decoder";

/* A field counts as set when its value is true, a number above `above`, or a text, list or object that is not empty. */
typedef struct field_row {
  const char *field;
  double above;
  const char *what;
} field_row;

/* Single mechanisms first, so that the reason is the rarest one that a model has. */
static const field_row field_rows[] = {
    {"attn_layer_period", 1, hybrid},
    {"layers_block_type", 0, hybrid},
    {"block_types", 0, hybrid},
    {"hybrid_override_pattern", 0, hybrid},
    {"hybrid_layer_ids", 0, hybrid},
    {"linear_num_key_heads", 0, hybrid},
    {"mamba_d_state", 0, hybrid},
    {"ssm_cfg", 0, mamba_ssm},
    {"ssm_state_size", 0, state_space},
    {"state_size", 0, state_space},
    {"d_state", 0, state_space},
    {"is_encoder_decoder", 0, encoder_decoder},
    {"add_cross_attention", 0, encoder_decoder},
    {"encoder_layers", 0, encoder_decoder},
    {"index_topk", 0, indexer},
    {"index_n_heads", 0, indexer},
    {"index_head_dim", 0, indexer},
    {"sparse_attention_config", 0, "sparse attention layers"},
    {"altup_num_inputs", 1, "alternating updates (AltUp)"},
    {"laurel_rank", 0, "learned augmented residual layers (LAuReL)"},
    {"hidden_size_per_layer_input", 0, "per-layer embeddings"},
    {"hc_mult", 0, hyper_connections},
    {"attn_res_block_size", 0, "attention residuals"},
    {"mla_use_output_gate", 0, "gates of latent attention's outputs"},
    {"routed_expert_hidden_size", 0, "experts of another width than the stream's"},
    {"moe_latent_size", 0, "experts of another width than the stream's"},
    {"gated_norm_rank", 0, "gated norms"},
    {"zero_expert_num", 0, identity_experts},
    {"medusa_num_heads", 0, "Medusa heads"},
    {"peft_type", 0, "adapters"},
    {"adapter_config", 0, "adapters"},
    {"use_cla", 0, "cross-layer attention layers"},
    {"cla_share_factor", 1, "cross-layer attention layers"},
    {"num_kv_shared_layers", 0, "K/V heads shared between layers"},
    {"per_layer_config", 0, own_fields},
    {"block_configs", 0, "blocks that differ from layer to layer"},
    {"attention_chunk_size", 0, "chunked attention layers"},
    {"use_bidirectional_attention", 0, encoder_only},
    {"cross_attention_layers", 0, "cross-attention layers"},
    {"num_mem_blocks", 0, "weights shared between layers"},
    {"pruned_heads", 0, "pruned heads"},
    {"num_local_experts", 1, mixture_of_experts},
    {"num_experts", 1, mixture_of_experts},
    {"n_routed_experts", 1, mixture_of_experts},
    {"moe_num_experts", 1, mixture_of_experts},
    {"num_moe_experts", 1, mixture_of_experts},
    {"n_experts", 1, mixture_of_experts},
    {"moe_intermediate_size", 0, mixture_of_experts},
    {"moe_ffn_hidden_size", 0, mixture_of_experts},
    {"moe_layer_freq", 0, mixture_of_experts},
    {"moe_top_k", 1, mixture_of_experts},
    {"moe", 0, mixture_of_experts},
    {"num_experts_per_tok", 1, mixture_of_experts},
    {"kv_lora_rank", 0, latent_attention},
    {"q_lora_rank", 0, latent_attention},
};

typedef struct type_row {
  const char *model_type, *what;
} type_row;

static const type_row type_rows[] = {
    {"axk2", indexer},
    {"dots3_note", indexer},
    {"dots3_note_text", indexer},
    {"mistral_large4_text", indexer},
    {"hy_v4", hyper_connections},
    {"glm5_next_text", hyper_connections},
    {"longcat_flash", identity_experts},
    {"switch_transformers", mixture_of_experts},
    {"bailing_hybrid", kimi_delta},
    {"xlstm", recurrent},
    {"zamba", hybrid},
    {"zamba2", hybrid},
    {"rwkv", recurrent},
    {"t5", encoder_decoder},
    {"mt5", encoder_decoder},
    {"umt5", encoder_decoder},
    {"longt5", encoder_decoder},
    {"bart", encoder_decoder},
    {"mbart", encoder_decoder},
    {"pegasus", encoder_decoder},
    {"marian", encoder_decoder},
    {"m2m_100", encoder_decoder},
    {"blenderbot", encoder_decoder},
    {"led", encoder_decoder},
    {"whisper", encoder_decoder},
    {"encoder-decoder", encoder_decoder},
    {"bert", encoder_only},
    {"roberta", encoder_only},
    {"xlm-roberta", encoder_only},
    {"distilbert", encoder_only},
    {"albert", encoder_only},
    {"electra", encoder_only},
    {"deberta", encoder_only},
    {"deberta-v2", encoder_only},
    {"modernbert", encoder_only},
    {"longformer", encoder_only},
    {"big_bird", encoder_only},
    {"vit", encoder_only},
    {"clip", multimodal},
    {"bitnet", "norms within attention and MLP"},
    {"diffllama", "differential attention layers"},
    {"doge", "dynamic mask attention layers"},
    {"gemma3n_text", "alternating updates (AltUp) and per-layer embeddings"},
    {"hrm_text", "layers that run several times"},
    {"blt", "patches of bytes"},
    {"modernbert-decoder", "a linear layer and a norm before the LM head"},
    {"molmo2_text", "embeddings with more rows than logits"},
    {"mllama", "decoders with cross-attention to images"},
};

static bool is_set(const json_t *value, double above)
{
  switch (value ? json_typeof(value) : JSON_NULL) {
  case JSON_INTEGER:
  case JSON_REAL: return json_number_value(value) > above;
  case JSON_STRING: return json_string_length(value) > 0;
  case JSON_ARRAY: return json_array_size(value) > 0;
  case JSON_OBJECT: return json_object_size(value) > 0;
  case JSON_TRUE: return true;
  case JSON_FALSE:
  case JSON_NULL: break;
  }
  return false;
}

static hr_status refuse(const hr_config *config, const char *field, const char *found, const char *what)
{
  return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                      "%s means %s, which are not supported for this family (docs/models.md)", found, what);
}

/* Kinds of layers that the family has not read. */
static hr_status refuse_layer_types(const hr_config *config)
{
  static const char field[] = "layer_types";
  const json_t *list = json_object_get(config->json.object, field);
  for (size_t i = 0; i < json_array_size(list) && !hr_config_was_read(config, field); i++) {
    const char *kind = json_string_value(json_array_get(list, i));
    if (kind && strcmp(kind, "full_attention") == 0)
      continue;
    char found[64];
    hr_json_found(json_array_get(list, i), found, sizeof found);
    return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED,
                        "has a layer of type %s, which is not supported for this family (docs/models.md)", found);
  }
  return HR_OK;
}

/* Other families have it and are read: a model_type that names a single mechanism says more. */
static bool is_common(const char *what)
{
  return what == mixture_of_experts || what == latent_attention;
}

static hr_status refuse_by_row(hr_config *config, bool common)
{
  for (size_t i = 0; i < sizeof field_rows / sizeof *field_rows; i++) {
    const field_row *row = &field_rows[i];
    const json_t *value = json_object_get(config->json.object, row->field);
    if (is_common(row->what) != common || hr_config_was_read(config, row->field))
      continue;
    hr_config_mark(config, row->field);
    if (is_set(value, row->above)) {
      char found[64];
      hr_json_found(value, found, sizeof found);
      return refuse(config, row->field, found, row->what);
    }
  }
  return HR_OK;
}

hr_status hr_refuse_by_field(hr_config *config)
{
  HR_TRY(refuse_layer_types(config));
  hr_config_mark(config, "layer_types");
  HR_TRY(refuse_by_row(config, false));
  return refuse_by_row(config, true);
}

hr_status hr_refuse_by_type(hr_config *config, const char *field, const char *model_type, const char *found)
{
  HR_TRY(refuse_by_row(config, false)); /* names the mechanism */
  for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
    if (strcmp(type_rows[i].model_type, model_type) == 0)
      return refuse(config, field, found, type_rows[i].what);
  }
  return HR_OK;
}
