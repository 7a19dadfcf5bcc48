/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes used by several tests, written by hand so that they do not depend on the JSON reader. */
#ifndef HEADROOM_TEST_MODELS_H
#define HEADROOM_TEST_MODELS_H

#include <headroom/workload.h>

/** The transformer of Anthony et al. 2024: equal heads, a plain MLP of 4h, learned positions, tied embeddings. */
static inline hr_model paper_model(int64_t hidden, int64_t heads, int64_t layers, int64_t vocabulary)
{
  int64_t head = hidden / heads;
  hr_layer_group layer = {.count = layers,
                          .norms = 2,
                          .attention = {.q_heads = heads,
                                        .k_heads = heads,
                                        .v_heads = heads,
                                        .qk_dim = head,
                                        .v_dim = head,
                                        .q_bias = true,
                                        .k_bias = true,
                                        .v_bias = true,
                                        .output_bias = true},
                          .dense = {.width = 4 * hidden, .bias = true}};
  return (hr_model){.struct_size = sizeof(hr_model),
                    .name = "paper",
                    .family = "short",
                    .hidden = hidden,
                    .vocabulary = vocabulary,
                    .max_positions = 2048,
                    .activation = "gelu",
                    .positions = HR_POSITIONS_LEARNED,
                    .position_rows = 2048,
                    .norm = HR_NORM_LAYER,
                    .norm_bias = true,
                    .norm_weight = true,
                    .final_norm = true,
                    .tied_embeddings = true,
                    .group_count = 1,
                    .groups = {layer}};
}

/** GPT-3 2.7B. */
static inline hr_model gpt3_2_7b(void)
{
  return paper_model(2560, 32, 32, 50257);
}

/** Meta-Llama-3-8B: 32 query heads over 8 K/V heads of 128, gated MLP, rotary. */
static inline hr_model llama3_8b(void)
{
  hr_layer_group layer = {
      .count = 32,
      .norms = 2,
      .attention = {.q_heads = 32, .k_heads = 8, .v_heads = 8, .qk_dim = 128, .v_dim = 128, .rotary_dim = 128},
      .dense = {.width = 14336, .gated = true}};
  return (hr_model){.struct_size = sizeof(hr_model),
                    .name = "llama-3-8b",
                    .family = "llama",
                    .hidden = 4096,
                    .vocabulary = 128256,
                    .max_positions = 8192,
                    .activation = "silu",
                    .positions = HR_POSITIONS_ROTARY,
                    .norm = HR_NORM_RMS,
                    .norm_weight = true,
                    .final_norm = true,
                    .group_count = 1,
                    .groups = {layer}};
}

/** Mistral-7B-v0.1: as Llama-3-8B with a smaller vocabulary and a window of 4096 in every layer. */
static inline hr_model mistral_7b(void)
{
  hr_model model = llama3_8b();
  model.vocabulary = 32000;
  model.max_positions = 32768;
  model.groups[0].attention.window = 4096;
  return model;
}

/** SIGMA 1.5B (arXiv 2501.13629, Table 7): 32 query, 4 key and 16 value heads, augmented Q of 3072. */
static inline hr_model sigma_1_5b(void)
{
  hr_model model = llama3_8b();
  hr_layer_group *layer = &model.groups[0];
  model.hidden = 2048;
  layer->count = 26;
  layer->attention.k_heads = 4;
  layer->attention.v_heads = 16;
  layer->attention.qk_dim = layer->attention.v_dim = layer->attention.rotary_dim = 64;
  layer->attention.q_rank = 3072;
  layer->dense.width = 6144;
  return model;
}

/** Moves `count` layers of the first group to a group of their own with this window. */
static inline void give_window(hr_model *model, int64_t count, int64_t window)
{
  hr_layer_group *layer = &model->groups[model->group_count++];
  *layer = model->groups[0];
  layer->count = count;
  layer->attention.window = window;
  model->groups[0].count -= count;
}

/** The default workload, with attention as the paper has it: score, softmax and attention over value apart. */
static inline hr_workload unfused_workload(const hr_model *model)
{
  hr_workload workload = hr_workload_default(model);
  workload.attention = HR_ATTENTION_UNFUSED;
  return workload;
}

#endif
