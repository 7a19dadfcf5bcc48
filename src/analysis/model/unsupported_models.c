/* SPDX-License-Identifier: Apache-2.0 */
/* Models that Headroom does not cover, recognised by their fields and model types. */
#include "analysis/model/families.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char mixture_of_experts[] = "a mixture of experts";
static const char latent_attention[] = "latent attention (MLA)";
static const char state_space[] = "a state-space model";
static const char hybrid[] = "a hybrid of attention and recurrent layers";
static const char encoder_decoder[] = "an encoder-decoder";
static const char encoder_only[] = "an encoder without a decoder";
static const char own_fields[] = "fields of a layer's own";
static const char recurrent[] = "a recurrent model";
static const char multimodal[] = "a multimodal wrapper around a language model";

/* A field counts as set when its value is true, a number above `above`, or a text, list or object that is not empty. */
typedef struct field_row {
  const char *field;
  double above;
  const char *what;
} field_row;

static const field_row field_rows[] = {
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
    {"attn_layer_period", 1, hybrid},
    {"layers_block_type", 0, hybrid},
    {"block_types", 0, hybrid},
    {"hybrid_override_pattern", 0, hybrid},
    {"hybrid_layer_ids", 0, hybrid},
    {"linear_num_key_heads", 0, hybrid},
    {"mamba_d_state", 0, hybrid},
    {"ssm_cfg", 0, state_space},
    {"ssm_state_size", 0, state_space},
    {"state_size", 0, state_space},
    {"d_state", 0, state_space},
    {"is_encoder_decoder", 0, encoder_decoder},
    {"add_cross_attention", 0, encoder_decoder},
    {"encoder_layers", 0, encoder_decoder},
    {"use_bidirectional_attention", 0, encoder_only},
    {"per_layer_config", 0, own_fields},
    {"text_config", 0, multimodal},
    {"vision_config", 0, multimodal},
};

typedef struct type_row {
  const char *model_type, *what;
} type_row;

static const type_row type_rows[] = {
    {"dbrx", mixture_of_experts},
    {"olmoe", mixture_of_experts},
    {"phimoe", mixture_of_experts},
    {"gpt_oss", mixture_of_experts},
    {"grok-1", mixture_of_experts},
    {"switch_transformers", mixture_of_experts},
    {"deepseek_v2", latent_attention},
    {"deepseek_v3", latent_attention},
    {"mamba", state_space},
    {"mamba2", state_space},
    {"falcon_mamba", state_space},
    {"jamba", hybrid},
    {"bamba", hybrid},
    {"zamba", hybrid},
    {"zamba2", hybrid},
    {"recurrent_gemma", hybrid},
    {"nemotron_h", hybrid},
    {"falcon_h1", hybrid},
    {"qwen3_next", hybrid},
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
    {"llava", multimodal},
    {"gemma3", multimodal},
    {"mllama", multimodal},
    {"llama4", multimodal},
    {"qwen2_vl", multimodal},
    {"qwen2_5_vl", multimodal},
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
  return hr_json_fail(&config->json, field, HR_ERROR_UNSUPPORTED, "%s means %s; docs/models.md says what is covered",
                      found, what);
}

bool hr_has_experts(const hr_family *family)
{
  return family && (family->moe || family->experts.count.field);
}

static bool is_covered(const field_row *row, const hr_family *family)
{
  return (row->what == mixture_of_experts && hr_has_experts(family)) ||
         (row->what == latent_attention && family && hr_has_latent(family));
}

hr_status hr_refuse_by_field(hr_config *config, const hr_family *family)
{
  for (size_t i = 0; i < sizeof field_rows / sizeof *field_rows; i++) {
    const field_row *row = &field_rows[i];
    if (is_covered(row, family))
      continue;
    hr_config_mark(config, row->field);
    const json_t *value = json_object_get(config->json.object, row->field);
    if (is_set(value, row->above)) {
      char found[64];
      hr_json_found(value, found, sizeof found);
      return refuse(config, row->field, found, row->what);
    }
  }
  return HR_OK;
}

/* "gpt2, gpt_neo, …" */
static void list_families(char *text, size_t size)
{
  size_t count, used = 0;
  const hr_family *families = hr_families(&count);
  text[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(families[i].model_type) + (i > 0 ? 2 : 0);
    if (used + length >= size)
      return;
    snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", families[i].model_type);
    used += length;
  }
}

/* The first of the named fields that is a positive integer; 0 if none is. */
static int64_t find_size(const hr_config *config, const char *const names[3])
{
  for (size_t i = 0; i < 3 && names[i]; i++) {
    int64_t size = json_integer_value(json_object_get(config->json.object, names[i]));
    if (size > 0)
      return size;
  }
  return 0;
}

/* {"h":64,"a":8,"L":12,"v":1000,"d_ff":256} from fields that most families have; "" if h, a, L or v is missing. */
static void suggest_short_form(const hr_config *config, char *text, size_t size)
{
  static const struct {
    const char *letter;
    bool needed;
    const char *names[3];
  } sizes[] = {{"h", true, {"hidden_size", "d_model", "n_embd"}},
               {"a", true, {"num_attention_heads", "n_heads", "n_head"}},
               {"L", true, {"num_hidden_layers", "n_layers", "n_layer"}},
               {"v", true, {"vocab_size"}},
               {"d_ff", false, {"intermediate_size", "ffn_dim", "n_inner"}},
               {"kv_heads", false, {"num_key_value_heads"}},
               {"head_dim", false, {"head_dim"}}};
  size_t used = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t found = find_size(config, sizes[i].names);
    if (found > 0 && used < size) /* all seven fit */
      used +=
          (size_t)snprintf(text + used, size - used, "%s\"%s\":%" PRId64, used > 0 ? "," : "{", sizes[i].letter, found);
    if (found == 0 && sizes[i].needed) {
      text[0] = '\0';
      return;
    }
  }
  snprintf(text + used, size - used, "}");
}

hr_status hr_refuse_model_type(const hr_config *config, const char *field, const char *model_type)
{
  char found[64];
  json_t *as_text = json_string(model_type);
  hr_json_found(as_text, found, sizeof found);
  json_decref(as_text);
  for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
    if (strcmp(type_rows[i].model_type, model_type) == 0)
      return refuse(config, field, found, type_rows[i].what);
  }
  char known[220], form[200];
  list_families(known, sizeof known);
  suggest_short_form(config, form, sizeof form);
  return hr_fail(
      config->json.error, HR_ERROR_UNSUPPORTED,
      "%s: %s: %s is not a family that Headroom reads; for a dense decoder, give the short form (docs/models.md)"
      "%s%s%s; families: %s",
      config->json.input, field, found, form[0] ? ", here " : "", form,
      form[0] ? " and \"mlp\":\"swiglu\" if its MLP is gated" : "", known);
}
