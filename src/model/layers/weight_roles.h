/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a model by what they are for, whatever a checkpoint calls them and however it joins or stores them. */
#ifndef HR_MODEL_LAYERS_WEIGHT_ROLES_H
#define HR_MODEL_LAYERS_WEIGHT_ROLES_H

/* Enumerator, name, whether each layer has its own. A matrix is [outputs, inputs], a bias or norm weight [outputs]; of
 * several experts one after another. Q, K and V are those of all heads, head after head: [heads · head size, hidden];
 * elements of a head are in the order in which the family's rotary embedding pairs them. Biases follow their weights.
 */
#define HR_WEIGHT_ROLE_LIST(ROW)                                                                          \
  ROW(HR_WEIGHT_NONE, "none", false)                                                                      \
  ROW(HR_WEIGHT_TOKEN_EMBEDDING, "token_embedding", false)       /* [vocabulary, embedding width] */      \
  ROW(HR_WEIGHT_POSITION_EMBEDDING, "position_embedding", false) /* [position_rows, hidden] */            \
  ROW(HR_WEIGHT_EMBEDDING_NORM, "embedding_norm", false)                                                  \
  ROW(HR_WEIGHT_EMBEDDING_NORM_BIAS, "embedding_norm_bias", false)                                        \
  ROW(HR_WEIGHT_EMBEDDING_PROJECTION_IN, "embedding_projection_in", false)                                \
  ROW(HR_WEIGHT_ATTENTION_HC, "attention_hc", true) /* of streams: [weights, streams · hidden] */        \
  ROW(HR_WEIGHT_ATTENTION_HC_BIAS, "attention_hc_bias", true)                                             \
  ROW(HR_WEIGHT_ATTENTION_HC_SCALES, "attention_hc_scales", true)                                         \
  ROW(HR_WEIGHT_ATTENTION_NORM, "attention_norm", true)                                                   \
  ROW(HR_WEIGHT_ATTENTION_NORM_BIAS, "attention_norm_bias", true)                                         \
  ROW(HR_WEIGHT_Q_DOWN, "q_down", true) /* of an augmented Q and of latent attention: [q_rank, hidden] */ \
  ROW(HR_WEIGHT_Q_DOWN_BIAS, "q_down_bias", true)                                                         \
  ROW(HR_WEIGHT_Q_RANK_NORM, "q_rank_norm", true)                                                         \
  ROW(HR_WEIGHT_Q, "q", true) /* behind a Q_DOWN [heads · head size, q_rank] */                          \
  ROW(HR_WEIGHT_Q_BIAS, "q_bias", true)                                                                   \
  ROW(HR_WEIGHT_KV_DOWN, "kv_down", true) /* of latent attention: [kv_rank + rope_dim, hidden] */         \
  ROW(HR_WEIGHT_KV_DOWN_BIAS, "kv_down_bias", true)                                                       \
  ROW(HR_WEIGHT_KV_RANK_NORM, "kv_rank_norm", true)                                                       \
  ROW(HR_WEIGHT_KV_UP, "kv_up", true)       /* [heads · (nope_dim + v_dim), kv_rank] */                  \
  ROW(HR_WEIGHT_COMPRESS, "compress", true) /* of entries: [vectors · head_dim, hidden] */               \
  ROW(HR_WEIGHT_COMPRESS_GATE, "compress_gate", true)                                                     \
  ROW(HR_WEIGHT_COMPRESS_POSITIONS, "compress_positions", true) /* [ratio, vectors · head_dim] */        \
  ROW(HR_WEIGHT_COMPRESS_NORM, "compress_norm", true)                                                     \
  ROW(HR_WEIGHT_INDEX_Q, "index_q", true) /* of an indexer: [heads · index_dim, q_rank or hidden] */     \
  ROW(HR_WEIGHT_INDEX_Q_NORM, "index_q_norm", true)                                                       \
  ROW(HR_WEIGHT_INDEX_K, "index_k", true)                                                                 \
  ROW(HR_WEIGHT_INDEX_K_GATE, "index_k_gate", true)                                                       \
  ROW(HR_WEIGHT_INDEX_POSITIONS, "index_positions", true)                                                 \
  ROW(HR_WEIGHT_INDEX_K_NORM, "index_k_norm", true)                                                       \
  ROW(HR_WEIGHT_INDEX_K_NORM_BIAS, "index_k_norm_bias", true)                                             \
  ROW(HR_WEIGHT_INDEX_WEIGHTS, "index_weights", true) /* [index_heads, hidden] */                         \
  ROW(HR_WEIGHT_K, "k", true)                                                                             \
  ROW(HR_WEIGHT_K_BIAS, "k_bias", true)                                                                   \
  ROW(HR_WEIGHT_V, "v", true)                                                                             \
  ROW(HR_WEIGHT_V_BIAS, "v_bias", true)                                                                   \
  ROW(HR_WEIGHT_Q_NORM, "q_norm", true) /* [head size], or of all heads */                                \
  ROW(HR_WEIGHT_Q_NORM_BIAS, "q_norm_bias", true)                                                         \
  ROW(HR_WEIGHT_K_NORM, "k_norm", true)                                                                   \
  ROW(HR_WEIGHT_K_NORM_BIAS, "k_norm_bias", true)                                                         \
  ROW(HR_WEIGHT_SINKS, "sinks", true)   /* [query heads] */                                               \
  ROW(HR_WEIGHT_O_DOWN, "o_down", true) /* [o_groups · o_rank, columns of a group] */                    \
  ROW(HR_WEIGHT_O, "o", true)                                                                             \
  ROW(HR_WEIGHT_O_BIAS, "o_bias", true)                                                                   \
  ROW(HR_WEIGHT_ATTENTION_POST_NORM, "attention_post_norm", true)                                         \
  ROW(HR_WEIGHT_ATTENTION_POST_NORM_BIAS, "attention_post_norm_bias", true)                               \
  ROW(HR_WEIGHT_MLP_HC, "mlp_hc", true)                                                                   \
  ROW(HR_WEIGHT_MLP_HC_BIAS, "mlp_hc_bias", true)                                                         \
  ROW(HR_WEIGHT_MLP_HC_SCALES, "mlp_hc_scales", true)                                                     \
  ROW(HR_WEIGHT_MLP_NORM, "mlp_norm", true)                                                               \
  ROW(HR_WEIGHT_MLP_NORM_BIAS, "mlp_norm_bias", true)                                                     \
  ROW(HR_WEIGHT_UP, "up", true)                                                                           \
  ROW(HR_WEIGHT_UP_BIAS, "up_bias", true)                                                                 \
  ROW(HR_WEIGHT_GATE, "gate", true)                                                                       \
  ROW(HR_WEIGHT_GATE_BIAS, "gate_bias", true)                                                             \
  ROW(HR_WEIGHT_DOWN, "down", true)                                                                       \
  ROW(HR_WEIGHT_DOWN_BIAS, "down_bias", true)                                                             \
  ROW(HR_WEIGHT_ROUTER, "router", true) /* [experts, hidden] */                                           \
  ROW(HR_WEIGHT_ROUTER_BIAS, "router_bias", true)                                                         \
  ROW(HR_WEIGHT_EXPERT_LATENT_DOWN, "expert_latent_down", true) /* [latent, hidden] */                    \
  ROW(HR_WEIGHT_EXPERT_LATENT_DOWN_BIAS, "expert_latent_down_bias", true)                                 \
  ROW(HR_WEIGHT_EXPERT_LATENT_UP, "expert_latent_up", true) /* [hidden, latent] */                        \
  ROW(HR_WEIGHT_EXPERT_LATENT_UP_BIAS, "expert_latent_up_bias", true)                                     \
  ROW(HR_WEIGHT_EXPERT_UP, "expert_up", true) /* [experts, width, hidden or latent] */                    \
  ROW(HR_WEIGHT_EXPERT_UP_BIAS, "expert_up_bias", true)                                                   \
  ROW(HR_WEIGHT_EXPERT_GATE, "expert_gate", true)                                                         \
  ROW(HR_WEIGHT_EXPERT_GATE_BIAS, "expert_gate_bias", true)                                               \
  ROW(HR_WEIGHT_EXPERT_DOWN, "expert_down", true) /* [experts, hidden, width] */                          \
  ROW(HR_WEIGHT_EXPERT_DOWN_BIAS, "expert_down_bias", true)                                               \
  ROW(HR_WEIGHT_SHARED_UP, "shared_up", true)                                                             \
  ROW(HR_WEIGHT_SHARED_UP_BIAS, "shared_up_bias", true)                                                   \
  ROW(HR_WEIGHT_SHARED_GATE, "shared_gate", true)                                                         \
  ROW(HR_WEIGHT_SHARED_GATE_BIAS, "shared_gate_bias", true)                                               \
  ROW(HR_WEIGHT_SHARED_DOWN, "shared_down", true)                                                         \
  ROW(HR_WEIGHT_SHARED_DOWN_BIAS, "shared_down_bias", true)                                               \
  ROW(HR_WEIGHT_EXPERTS_NORM, "experts_norm", true) /* of the sum of all experts' results */              \
  ROW(HR_WEIGHT_EXPERTS_NORM_BIAS, "experts_norm_bias", true)                                             \
  ROW(HR_WEIGHT_SHARED_OUTPUT_GATE, "shared_output_gate", true) /* [1, hidden] */                         \
  ROW(HR_WEIGHT_ACTIVATION, "activation", true)                 /* learned numbers of the activation */   \
  ROW(HR_WEIGHT_MLP_POST_NORM, "mlp_post_norm", true)                                                     \
  ROW(HR_WEIGHT_MLP_POST_NORM_BIAS, "mlp_post_norm_bias", true)                                           \
  ROW(HR_WEIGHT_FINAL_HC, "final_hc", false)                                                              \
  ROW(HR_WEIGHT_FINAL_HC_BIAS, "final_hc_bias", false)                                                    \
  ROW(HR_WEIGHT_FINAL_HC_SCALES, "final_hc_scales", false)                                                \
  ROW(HR_WEIGHT_FINAL_NORM, "final_norm", false)                                                          \
  ROW(HR_WEIGHT_FINAL_NORM_BIAS, "final_norm_bias", false)                                                \
  ROW(HR_WEIGHT_EMBEDDING_PROJECTION_OUT, "embedding_projection_out", false)                              \
  ROW(HR_WEIGHT_LOGIT, "logit", false) /* a checkpoint of tied embeddings has none */                     \
  ROW(HR_WEIGHT_LOGIT_BIAS, "logit_bias", false)

typedef enum hr_weight_role {
#define HR_WEIGHT_ROLE_ENUM(enumerator, name, in_layer) enumerator,
  HR_WEIGHT_ROLE_LIST(HR_WEIGHT_ROLE_ENUM)
#undef HR_WEIGHT_ROLE_ENUM
      HR_WEIGHT_ROLE_COUNT
} hr_weight_role;

#endif
