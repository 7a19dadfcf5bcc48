/* Which fields of a configuration nobody read, and which of those are not worth a word. */
#include "analysis/model/config.h"

#include <stdio.h>
#include <string.h>

/* Fields that say nothing about shape: tokens, initial values, dropout, training and generation options, versions. */
static const char *const irrelevant[] = {
    "architectures", "model_type", "auto_map", "name_or_path", "transformers_version", "torch_dtype", "dtype",
    "use_cache", "return_dict", "chunk_size_feed_forward", "torchscript", "pruned_heads", "finetuning_task",
    "id2label", "label2id", "problem_type", "tokenizer_class", "prefix", "task_specific_params", "is_decoder",
    "output_attentions", "output_hidden_states", "output_scores", "use_bfloat16", "tf_legacy_loss", "gradient_checkpointing",
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "unk_token_id",
    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
    "bad_words_ids", "temperature", "top_k", "top_p", "typical_p", "do_sample", "num_beams", "num_return_sequences",
    "max_length", "min_length", "length_penalty", "repetition_penalty", "no_repeat_ngram_size", "diversity_penalty",
    "early_stopping", "remove_invalid_values", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "initializer_range", "initializer_factor", "init_std", "layer_norm_epsilon",
    "layer_norm_eps", "rms_norm_eps", "norm_eps", "norm_epsilon", "attention_dropout", "attn_pdrop", "embd_pdrop",
    "resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "dropout", "embed_dropout", "embedding_dropout",
    "residual_dropout", "activation_dropout", "classifier_dropout", "layerdrop", "attention_softmax_in_fp32",
    "masked_softmax_fusion", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
    "pretraining_tp", "rope_theta", "rope_scaling", "rope_interleaved", "rotary_emb_base", "rotary",
    "original_max_position_embeddings", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "bias_dropout_fusion",
    "offset_alibi", "unk_token", "gradient_checkpointing_kwargs", "attn_implementation", "attn_logit_softcapping",
    "final_logit_softcapping", "query_pre_attn_scalar", "cache_implementation", "clip_qkv", "n_ctx", "output_past",
    "parallel_output", "rope_interleave", "use_flash_attn", "apply_residual_connection_post_layernorm", "norm_type",
    "use_scaled_rope", "mlp_type",
};

static bool is_in(const char *const *names, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0)
      return true;
  }
  return false;
}

void hr_config_note_unread(const hr_config *config)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)config->json.object, name, value)
  {
    if (name[0] == '_' || json_is_null(value) || is_in(irrelevant, sizeof irrelevant / sizeof *irrelevant, name) ||
        is_in(config->read, config->read_count, name))
      continue;
    char found[80];
    json_t *as_text = json_string(name); /* printed by the rules of values: short, on one line */
    hr_json_found(as_text, found, sizeof found);
    json_decref(as_text);
    hr_config_note(config, "field %s is ignored", found);
  }
}
