/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes used by several tests, written by hand so that they do not depend on the JSON reader. */
#ifndef HEADROOM_TEST_MODELS_H
#define HEADROOM_TEST_MODELS_H

#include <headroom/model.h>

/** The transformer of Anthony et al. 2024: equal heads, a plain MLP of 4h, learned positions, tied embeddings. */
static inline hr_model paper_model(int64_t hidden, int64_t heads, int64_t layers, int64_t vocabulary)
{
  return (hr_model){.struct_size = sizeof(hr_model),
                    .name = "paper",
                    .family = "short",
                    .layers = layers,
                    .hidden = hidden,
                    .vocabulary = vocabulary,
                    .max_positions = 2048,
                    .q_heads = heads,
                    .k_heads = heads,
                    .v_heads = heads,
                    .qk_dim = hidden / heads,
                    .v_dim = hidden / heads,
                    .mlp_width = 4 * hidden,
                    .activation = "gelu",
                    .positions = HR_POSITIONS_LEARNED,
                    .position_rows = 2048,
                    .norm = HR_NORM_LAYER,
                    .norm_bias = true,
                    .norm_weight = true,
                    .layer_norms = 2,
                    .final_norm = true,
                    .q_bias = true,
                    .k_bias = true,
                    .v_bias = true,
                    .output_bias = true,
                    .mlp_bias = true,
                    .tied_embeddings = true};
}

/** GPT-3 2.7B. */
static inline hr_model gpt3_2_7b(void)
{
  return paper_model(2560, 32, 32, 50257);
}

/** Meta-Llama-3-8B: 32 query heads over 8 K/V heads of 128, gated MLP, rotary. */
static inline hr_model llama3_8b(void)
{
  return (hr_model){.struct_size = sizeof(hr_model),
                    .name = "llama-3-8b",
                    .family = "llama",
                    .layers = 32,
                    .hidden = 4096,
                    .vocabulary = 128256,
                    .max_positions = 8192,
                    .q_heads = 32,
                    .k_heads = 8,
                    .v_heads = 8,
                    .qk_dim = 128,
                    .v_dim = 128,
                    .mlp_width = 14336,
                    .mlp_gated = true,
                    .activation = "silu",
                    .positions = HR_POSITIONS_ROTARY,
                    .rotary_dim = 128,
                    .norm = HR_NORM_RMS,
                    .norm_weight = true,
                    .layer_norms = 2,
                    .final_norm = true};
}

/** Mistral-7B-v0.1: as Llama-3-8B with a smaller vocabulary and a window of 4096 in every layer. */
static inline hr_model mistral_7b(void)
{
  hr_model model = llama3_8b();
  model.vocabulary = 32000;
  model.max_positions = 32768;
  model.window = 4096;
  model.window_layers = 32;
  return model;
}

/** SIGMA 1.5B (arXiv 2501.13629, Table 7): 32 query, 4 key and 16 value heads, augmented Q of 3072. */
static inline hr_model sigma_1_5b(void)
{
  hr_model model = llama3_8b();
  model.layers = 26;
  model.hidden = 2048;
  model.k_heads = 4;
  model.v_heads = 16;
  model.qk_dim = model.v_dim = model.rotary_dim = 64;
  model.q_rank = 3072;
  model.mlp_width = 6144;
  return model;
}

#endif
