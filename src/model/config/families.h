/* SPDX-License-Identifier: Apache-2.0 */
/* The model families: one row of families.inc each. A row gives the names of the fields of config.json and what is
 * usual where one is missing; hr_read_decoder() reads by it. What a row cannot say is a function of its own. */
#ifndef HR_MODEL_CONFIG_FAMILIES_H
#define HR_MODEL_CONFIG_FAMILIES_H

#include "model/config/config.h"

typedef struct hr_family hr_family;

/** Sets the members of *model that differ from hr_model_default(), except name and family. */
typedef hr_status (*hr_family_reader)(hr_config *config, const hr_family *family, hr_model *model);

/** A choice: the field, if the row names one, else the value; the value is also that of a missing field. */
typedef struct hr_choice_field {
  const char *field;
  bool value;
} hr_choice_field;

/** A size: the field's name (NULL: the base class's), and the value of a missing field (0: see the member). */
typedef struct hr_size_field {
  const char *field;
  int64_t value;
} hr_size_field;

/** The fields of a family's experts. NULL and 0 mean: no such field. */
typedef struct hr_expert_fields {
  hr_size_field count;      /* routed experts of a layer; field NULL: the family has none. Value 0: required */
  const char *count_alias;  /* another name of the same field */
  hr_size_field active;     /* those of a token: "num_experts_per_tok"; value 0: required */
  const char *active_alias; /* another name of the same field */
  hr_size_field width;      /* "moe_intermediate_size"; value 0: required */

  hr_size_field shared;       /* shared experts; the values are those of a missing field */
  const char *shared_alias;   /* another name of the same field */
  hr_size_field shared_width; /* of one of them, of all if `shared` has no field; field NULL: the routed one's */
  bool shared_gate;

  hr_choice_field shared_bias;

  bool plain;             /* up and down; else gate, up and down */
  bool bias, router_bias; /* of the routed experts and the router */
  bool output_norm;       /* of the sum of all experts' outputs */
  bool may_be_none;       /* a count of 0 means that every layer is dense; else it is invalid */
  bool grouped;           /* "n_group" and "topk_group" limit a token to some groups of experts */

  /* Which layers have experts; those without have the dense network. All of them if there is no such field. */
  const char *kinds;         /* a list of "dense" and "sparse" */
  const char *expert_layers; /* a list of the numbers of layers with experts */
  hr_size_field first;       /* else layers from this number on … */
  const char *last;          /* … to this number, or to the last one if it is missing or −1 … */
  hr_size_field step;        /* … of which every n-th: those with the numbers n − 1, 2n − 1, … */
  bool step_from_first;      /* … or 0, n, 2n, … */
  const char *dense_layers;  /* … without those of this list */
} hr_expert_fields;

/** The sizes of latent attention where their fields are missing ("kv_lora_rank", …). */
typedef struct hr_latent_sizes {
  int64_t q_rank, kv_rank, nope_dim, rope_dim;
  int64_t v_dim; /* 0: hidden / q_heads */
  bool head_dim; /* "head_dim" is another name of "qk_rope_head_dim"; else it says nothing */
} hr_latent_sizes;

/** Sizes of the base class, which the inner configuration of a wrapper may leave out (LLaVA). 0: required there. */
typedef struct hr_class_sizes {
  int64_t layers, hidden, heads, mlp_width, vocabulary;
} hr_class_sizes;

/** The fields of a family's recurrent mixers. A size without a field is its value. */
typedef struct hr_scan_fields {
  hr_recurrence recurrence; /* HR_RECURRENCE_NONE: the family has none, or `finish` reads them */
  hr_size_field inner;      /* channels of all heads; value 0 and missing: `expand` times hidden */
  hr_size_field expand;
  hr_size_field heads;    /* field NULL: a head for each channel */
  hr_size_field head_dim; /* value 0 and missing or "auto": all channels / heads */
  hr_size_field groups, state, kernel, chunk;
  hr_size_field rank;                        /* missing or "auto": hidden / 16, rounded up */
  hr_choice_field bias, out_bias, conv_bias; /* out_bias without field: as bias */
  hr_choice_field norm;
  bool norm_without_weight;
} hr_scan_fields;

/** Members that a row leaves out are zero: they mean what the comment says of 0 or NULL. */
struct hr_family {
  const char *model_type;   /* the value of config.json's "model_type" */
  const char *architecture; /* the value in "architectures" that means the same */
  const char *description;

  hr_family_reader read;   /* NULL: hr_read_decoder() */
  hr_family_reader finish; /* called at the end of hr_read_decoder(), before its layers become groups; NULL: nothing */

  hr_class_sizes sizes;
  hr_config_names names;   /* of the sizes that every family has; NULL members: the base class's */
  hr_size_field positions; /* of max_positions; only the value is used (0: 2048) */

  hr_size_field kv_heads; /* "num_key_value_heads"; value 0: as many as query heads */
  bool equal_heads;       /* there is no such field: as many as query heads */
  hr_size_field head_dim; /* "head_dim"; value 0: hidden / q_heads */
  bool derived_head_dim;  /* there is no such field: always hidden / q_heads */
  bool free_head_dim;     /* published models have it, with heads * size other than hidden (Mistral NeMo) */
  hr_choice_field qkv_bias, output_bias;
  hr_choice_field qk_norm; /* whether Q and K are normalized; how: qk_norm_kind */
  hr_qk_norm qk_norm_kind;
  bool sinks, output_gate, gate_per_head, gate_unbiased; /* of attention */

  hr_latent_sizes latent; /* kv_rank 0: other attention, as the members above say */

  hr_size_field mlp_width; /* "intermediate_size"; value 0: required, else the factor of hidden if it is missing */
  const char *activation;  /* "hidden_act" */
  const char *activation_default; /* "silu" */
  bool plain_mlp;                 /* up and down; else gate, up and down */
  hr_choice_field mlp_bias;
  hr_expert_fields experts;
  hr_scan_fields scan;

  hr_choice_field parallel; /* attention and MLP in parallel */
  int64_t norms;            /* norms of a layer; 0: 2 */
  bool norms_behind;        /* see hr_layer_group */
  int64_t parallel_norms;   /* those of a parallel layer; 0: as `norms` */
  bool layer_norm;          /* LayerNorm instead of RMS norms */
  bool norm_without_bias;   /* of LayerNorm */

  hr_positions position_kind;  /* HR_POSITIONS_NONE: rotary */
  const char *rotary_fraction; /* the field with the rotated fraction of a head; NULL: the whole head */
  double rotary_default;       /* its value if missing; 0: 1 */

  hr_choice_field tied; /* "tie_word_embeddings" */
  bool logit_bias;

  hr_size_field window;      /* field NULL: the family has no windows; value: if missing (0: none) */
  bool own_layers;           /* `finish` makes the groups of layers */
  hr_size_field full_every;  /* every n-th layer has no window if there is no list of types; value 0: all have it */
  bool full_first;           /* the first layer of each n instead of the last one */
  hr_size_field window_from; /* or only layers from this number on have it */
  bool full_unrotated;       /* where other layers have a window, those without one have no positions */
};

/** Reads a decoder as its row says. */
hr_status hr_read_decoder(hr_config *config, const hr_family *family, hr_model *model);

/** Reads latent attention in place of the heads that hr_config_sizes() has read. */
hr_status hr_config_latent(hr_config *config, const hr_latent_sizes *missing, hr_model *model);

hr_status hr_read_bloom(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_chatglm(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_dbrx(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_falcon(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_nemotron_h(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_mamba(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_gpt_neo(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_openelm(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_opt(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_refined_web(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_read_sigma(hr_config *config, const hr_family *family, hr_model *model);

hr_status hr_finish_apertus(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_baichuan(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_biogpt(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_cohere(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_deci(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_deepseek(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_deepseek_v2(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_deepseek_v32(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_deepseek_v4(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_glm_dsa(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_glm_lite(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_cohere2_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_ernie_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_flint(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gemma4(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_bamba(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_falcon_h1(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_granite_hybrid(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_jamba(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_lfm2(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_lfm2_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_minimax(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_olmo_hybrid(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_qwen3_next(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_recurrent_gemma(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gemma(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gpt2(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gpt_bigcode(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gpt_neox_japanese(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_gptj(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_granite_swa(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_helium(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_hunyuan_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_hunyuan_large(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_kimi_linear(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_hunyuan(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_hyperclovax(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_internlm3(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_laguna(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_step(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_llama4(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_mimo_7b(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_mimo(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_minicpm(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_minimax_m2(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_minimax_m3(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_mpt(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_nanochat(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_olmo(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_openai_gpt(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_phi(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_qwen(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_phimoe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_qwen1(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_qwen2_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_qwen3_moe(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_sinusoidal(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_smollm3(hr_config *config, const hr_family *family, hr_model *model);
hr_status hr_finish_stablelm(hr_config *config, const hr_family *family, hr_model *model);

/** All families, in the order of families.inc; *count is their number. */
const hr_family *hr_families(size_t *count);

/** The family with this "model_type", or with this class in "architectures"; NULL if there is none. */
const hr_family *hr_family_of_type(const char *model_type);
const hr_family *hr_family_of_architecture(const char *architecture);

/** Whether all heads together may have another width than hidden, in training and in serving: the model's own have, or
 *  its family states a head size. vLLM's llama.py, mixtral.py and qwen3.py read "head_dim", its qwen2.py and gpt2.py
 *  divide hidden by the heads (2025). */
bool hr_head_dim_is_free(const hr_model *model);

/** Whether the channels of the model's recurrent mixers are a multiple of hidden that its family states ("expand"), so
 *  that they follow another hidden size. */
bool hr_scan_follows_hidden(const hr_model *model, const hr_mixer_scan *scan);

/** Reads what follows the layers. `architecture` is the class in "architectures", or NULL; that of the family's row is
 *  its language model. HR_ERROR_UNSUPPORTED, naming the field, for a head of another kind than hr_head has. */
hr_status hr_read_head(hr_config *config, const hr_family *family, const char *architecture, hr_model *model);

/** Notes the layers for multi-token prediction, which transformers drops when it loads a checkpoint. */
hr_status hr_note_prediction_layers(hr_config *config);

/** If the configuration wraps that of a language model ("text_config"), *config reads the inner one from then on, and a
 *  note says what is left out. *wrapper is the model_type of the outer one, NULL if there is none. */
hr_status hr_take_text_part(hr_config *config, const char **wrapper);

/** Gives the inner configuration of a wrapper the sizes of the base class that it leaves out. */
hr_status hr_complete_text_part(hr_config *config, const hr_family *family);

/** Notes that of a model of this type, whose configuration has the fields of all parts in one object, only the language
 *  model is read. */
void hr_leave_other_parts_out(hr_config *config, const char *model_type);

/** Whether a field is one of the parts that the note has named. */
bool hr_is_left_out(const hr_config *config, const char *name, const json_t *value);

/** The model_type of the language model within a model of this type, or NULL. */
const char *hr_wrapped_type(const char *wrapper);

/** Headroom's own short form. */
bool hr_is_short_form(const hr_config *config);
hr_status hr_read_short_form(hr_config *config, hr_model *model);

/** Whether the family has latent attention. */
bool hr_has_latent(const hr_family *family);

/** HR_ERROR_UNSUPPORTED, naming the field, if a field that the family has not read says that the model has a mechanism
 *  that changes its shape. */
hr_status hr_refuse_by_field(hr_config *config);

/** HR_ERROR_UNSUPPORTED with the reason, if a field that changes the shape or the model_type itself says it. `found` is
 *  the model_type as messages show it. */
hr_status hr_refuse_by_type(hr_config *config, const char *field, const char *model_type, const char *found);

/** Always HR_ERROR_UNSUPPORTED: no family has this model_type. The message gives the reason for a known type or a known
 *  field, otherwise the short form, where the fields are llama's, or similar names. */
hr_status hr_refuse_model_type(hr_config *config, const char *field, const char *model_type);

#endif
