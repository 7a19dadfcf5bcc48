/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the fields of a configuration that no reader used, except those that never affect the shape. */
#include "analysis/model/config.h"

#include <string.h>

/* Fields that never affect the shape: tokens, initial values, dropout, training and generation options, versions. */
static const char *const irrelevant[] = {
    "activation_dropout",
    "apply_residual_connection_post_layernorm",
    "architectures",
    "attention_dropout",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "attn_logit_softcapping",
    "attn_pdrop",
    "auto_map",
    "aux_loss_alpha",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bias_dropout_fusion",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "clip_qkv",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "dim_model_base",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "embed_dropout",
    "embedding_dropout",
    "eos_token_id",
    "final_logit_softcapping",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "input_jitter_noise",
    "is_decoder",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "layerdrop",
    "length_penalty",
    "masked_softmax_fusion",
    "max_length",
    "min_length",
    "mlp_type",
    "model_type",
    "n_ctx",
    "name_or_path",
    "no_repeat_ngram_size",
    "norm_eps",
    "norm_epsilon",
    "norm_topk_prob",
    "norm_type",
    "num_beams",
    "num_return_sequences",
    "offset_alibi",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "parallel_output",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "query_pre_attn_scalar",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "rms_norm_eps",
    "rope_interleave",
    "rope_interleaved",
    "rope_scaling",
    "rope_theta",
    "rotary",
    "rotary_emb_base",
    "routed_scaling_factor",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "scale_depth",
    "scale_emb",
    "scoring_func",
    "sep_token_id",
    "seq_aux",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "topk_method",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "use_scaled_rope",
};

static bool is_in(const char *const *names, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0)
      return true;
  }
  return false;
}

void hr_config_note_unknown_fields(const hr_config *config)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)config->json.object, name, value)
  {
    if (name[0] == '_' || json_is_null(value) || is_in(irrelevant, sizeof irrelevant / sizeof *irrelevant, name) ||
        is_in(config->read, config->read_count, name))
      continue;
    char found[80];
    json_t *as_text = json_string(name); /* prints the name short and on one line */
    hr_json_found(as_text, found, sizeof found);
    json_decref(as_text);
    hr_config_note(config, "field %s is ignored", found);
  }
}
