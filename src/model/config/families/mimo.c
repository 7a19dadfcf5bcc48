/* SPDX-License-Identifier: Apache-2.0 */
/* MiMo-V2-Flash: layers with a window have sinks and twice the K and V heads. */
#include "model/config/config_experts.h"

#include <inttypes.h>

enum { FULL, SLIDING };

typedef struct mimo_layers {
  hr_layer_set sliding, experts;
} mimo_layers;

static size_t type_of(const void *layers, int64_t index)
{
  return hr_layer_set_has(&((const mimo_layers *)layers)->sliding, index) ? SLIDING : FULL;
}

static void change(const void *layers, int64_t index, hr_layer_group *layer)
{
  hr_change_to_experts(&((const mimo_layers *)layers)->experts, index, layer);
}

static hr_status read_flags(hr_config *config, const char *field, int64_t layers, hr_layer_set *set)
{
  hr_config_mark(config, field);
  return hr_read_layer_flags(&config->json, field, layers, set);
}

/* Sizes of layers with a window under names of their own, which may only say what is usual. */
static hr_status check_usual(hr_config *config, const hr_mixer_attention *sliding)
{
  const struct {
    const char *field;
    int64_t usual;
  } sizes[] = {{"swa_num_attention_heads", sliding->q_heads},
               {"swa_num_key_value_heads", sliding->k_heads},
               {"swa_head_dim", sliding->qk_dim},
               {"swa_v_head_dim", sliding->v_dim}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t given;
    HR_TRY(hr_config_size_derived(config, sizes[i].field, sizes[i].usual, &given));
    if (given != sizes[i].usual)
      return hr_json_fail(&config->json, sizes[i].field, HR_ERROR_UNSUPPORTED,
                          "%" PRId64 " instead of %" PRId64 " is not supported", given, sizes[i].usual);
  }
  return HR_OK;
}

/* Published beside the window, whose size it has; neither transformers nor vLLM reads it. */
static hr_status check_chunk(hr_config *config)
{
  int64_t window, chunk;
  HR_TRY(hr_config_size_derived(config, "sliding_window", 0, &window));
  HR_TRY(hr_config_size_derived(config, "attention_chunk_size", window, &chunk));
  if (chunk == window)
    return HR_OK;
  return hr_json_fail(&config->json, "attention_chunk_size", HR_ERROR_UNSUPPORTED,
                      "%" PRId64 " instead of sliding_window, %" PRId64 ", is not supported", chunk, window);
}

static hr_status read_sinks(hr_config *config)
{
  bool full, sliding;
  HR_TRY(hr_config_flag(config, "add_full_attention_sink_bias", false, &full));
  HR_TRY(hr_config_flag(config, "add_swa_attention_sink_bias", true, &sliding));
  if (full || !sliding)
    return hr_json_fail(&config->json, full ? "add_full_attention_sink_bias" : "add_swa_attention_sink_bias",
                        HR_ERROR_UNSUPPORTED, "sinks in other layers than those with a window are not supported");
  return HR_OK;
}

hr_status hr_finish_mimo(hr_config *config, const hr_family *family, hr_model *model)
{
  hr_mixer_attention *attention = &model->groups[0].attention;
  int64_t count = model->groups[0].count, before = 0;
  mimo_layers layers;
  HR_TRY(hr_config_size_or(config, "v_head_dim", 128, &attention->v_dim));
  HR_TRY(hr_config_window(config, "sliding_window", 129, model));
  HR_TRY(hr_config_size_derived(config, "sliding_window_size", 0, &before));
  HR_TRY(check_chunk(config));
  if (before > 0) /* the tokens before the query */
    attention->window = before + 1;
  HR_TRY(hr_config_expert_layers(config, &family->experts, count, &layers.experts));
  for (int64_t i = 0; i < count; i++)
    hr_layer_set_put(&layers.sliding, i, i > 0 && (i + 1) % 6 != 0);
  HR_TRY(read_flags(config, "hybrid_layer_pattern", count, &layers.sliding));
  if (!hr_json_has(&config->json, "mlp_layer_types"))
    HR_TRY(read_flags(config, "moe_layer_freq", count, &layers.experts));
  hr_layer_pattern pattern = hr_window_pattern(model);
  pattern.type_of = type_of;
  pattern.change = change;
  pattern.context = pattern.change_context = &layers;
  hr_mixer_attention *sliding = &pattern.types[SLIDING].layer.attention;
  sliding->k_heads *= 2, sliding->v_heads *= 2;
  sliding->sinks = true;
  HR_TRY(check_usual(config, sliding));
  HR_TRY(read_sinks(config));
  return hr_config_windows(config, &pattern, model);
}
