/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-layer attention (CLA, arXiv 2405.12981) of Hunyuan: parameters, layers, operators and cache. */
#include "reading.h"

#include <headroom/experimental/operators.h>
#include <headroom/memory.h>

/* Sizes of Hunyuan-Large (arXiv 2411.02265, table 1): 64 layers, 80 heads of 80 over 8 K and V heads, 16 experts and a
 * shared one, 389 billion parameters. */
#define LARGE                                                                                                  \
  "{\"architectures\":[\"HunYuanForCausalLM\"],\"model_type\":\"hunyuan\",\"hidden_size\":6400,"               \
  "\"intermediate_size\":18304,\"num_hidden_layers\":64,\"num_attention_heads\":80,\"num_key_value_heads\":8," \
  "\"num_experts\":16,\"moe_topk\":1,\"num_shared_expert\":1,\"use_mixed_mlp_moe\":true,\"use_qk_norm\":true," \
  "\"attention_bias\":false,\"mlp_bias\":false,\"norm_type\":\"hf_rms\",\"vocab_size\":129024,"                \
  "\"tie_word_embeddings\":true,\"max_position_embeddings\":131072,\"cla_share_factor\":2,\"use_cla\":true}"

/* Five layers of 4 heads of 16 over 2 K and V heads. */
#define SMALL(type)                                                                                   \
  "{\"model_type\":\"" type "\",\"hidden_size\":64,\"intermediate_size\":40,\"num_hidden_layers\":5," \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":100,\"tie_word_embeddings\":true,"
#define SHARED ",\"use_cla\":true,\"cla_share_factor\":2}"

static hr_memory cache_of(const char *text)
{
  hr_model model = read_model(text);
  hr_workload workload = hr_workload_default(&model);
  hr_memory memory;
  hr_error error;
  workload.phase = HR_PHASE_DECODE;
  workload.context = 64;
  assert_ok(hr_memory_estimate(&model, &workload, &memory, &error), error);
  return memory;
}

static void hunyuan_large_has_the_published_parameters(void **state)
{
  (void)state;
  const int64_t q_and_o = 2 * 6400 * 6400, k_and_v = 2 * 6400 * 640;
  const int64_t expert = INT64_C(3) * 6400 * 18304;
  hr_parameters p = read_parameters(LARGE);
  assert_int_equal(p.attention, 64 * q_and_o + 32 * k_and_v); /* half of the layers have K and V */
  assert_int_equal(p.experts, 64 * 16 * expert);
  assert_int_equal(p.mlp, 64 * (expert + 16 * 6400));
  assert_int_equal(p.norm, 64 * (2 * 6400 + 2 * 80) + 6400); /* every layer has norms of Q and of K */
  assert_int_equal(p.total, 388701405440);
  assert_int_equal(p.active, p.total - 64 * 15 * expert);
  assert_int_equal(cache_of(LARGE).kv_cache_bytes_per_token, 32 * 2 * 8 * 80 * 2);
}

/* Layers 0, 2 and 4 have K and V of their own, the others those of the layer before. */
static void layers_share_by_their_number(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL("hunyuan") "\"use_qk_norm\":true" SHARED);
  assert_int_equal(m.group_count, 2);
  assert_true(m.groups[0].count == 3 && m.groups[1].count == 2);
  assert_true(!m.groups[0].attention.shared_kv && !m.groups[0].attention.shared_k_norm);
  assert_true(m.groups[1].attention.shared_kv && m.groups[1].attention.shared_k_norm);
  assert_true(m.order[0] == 0 && m.order[1] == 1 && m.order[2] == 0 && m.order[3] == 1 && m.order[4] == 0);
  m = read_model(SMALL("hunyuan") "\"use_cla\":true,\"cla_share_factor\":3}");
  assert_true(m.groups[0].count == 2 && m.groups[1].count == 3 && !m.groups[1].attention.shared_k_norm);
  assert_int_equal(read_model(SMALL("hunyuan") "\"use_cla\":true,\"cla_share_factor\":1}").group_count, 1);
  assert_int_equal(read_model(SMALL("hunyuan") "\"use_cla\":false,\"cla_share_factor\":2}").group_count, 1);
  assert_int_equal(read_model(SMALL("hunyuan") "\"use_cla\":true}").group_count, 1);
}

static void every_family_of_hunyuan_shares(void **state)
{
  (void)state;
  static const char *const rows[] = {SMALL("hunyuan_v1_dense") "\"head_dim\":16",
                                     SMALL("hunyuan_vl_text") "\"head_dim\":16",
                                     SMALL("hunyuan_v1_moe") "\"head_dim\":16,\"num_experts\":4,\"moe_topk\":2"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1024], whole[1024];
    snprintf(text, sizeof text, "%s%s", rows[i], SHARED);
    snprintf(whole, sizeof whole, "%s,\"use_cla\":false,\"cla_share_factor\":2}", rows[i]);
    /* K and V of two of five layers: 2 · 64 · 32 each; their norms of K stay. */
    assert_int_equal(read_parameters(whole).total - read_parameters(text).total, 2 * 2 * 64 * 32);
    assert_int_equal(read_parameters(text).norm, read_parameters(whole).norm);
    assert_int_equal(cache_of(text).kv_cache_bytes_per_token * 5, cache_of(whole).kv_cache_bytes_per_token * 3);
  }
}

/* A layer that shares projects Q alone and normalizes Q alone: the weights of its norm of K multiply Q. */
static void operators_of_a_sharing_layer_have_no_k_and_v(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL("hunyuan") "\"use_qk_norm\":true" SHARED);
  hr_workload workload = hr_workload_default(&m);
  hr_operators operators;
  hr_error error;
  int64_t widths[2] = {0, 0}, normed[2] = {0, 0};
  workload.batch = 3, workload.phase = HR_PHASE_DECODE, workload.context = 64;
  assert_ok(hr_operators_list(&m, &workload, &operators, &error), error);
  for (size_t i = 0; i < operators.count; i++) {
    const hr_operator *op = &operators.items[i];
    if (op->id == HR_OP_QKV_TRANSFORM)
      widths[op->count == 3 ? 0 : 1] = op->gemm.n;
    if (op->id == HR_OP_QK_NORM)
      normed[op->count == 3 ? 0 : 1] = op->bytes;
    if (op->id == HR_OP_ATTENTION) /* each reads the keys of 64 tokens */
      assert_true(op->attention.k_heads == 2 && op->attention.kv_len == 64);
  }
  assert_true(widths[0] == 64 + 2 * 32 && widths[1] == 64);
  assert_true(normed[0] == 2 * 3 * 6 * 16 * 2 && normed[1] == 2 * 3 * 4 * 16 * 2); /* read and written, in bf16 */
}

/* Tencent's code: one expert is none, skipped layers are dense, and a shared one is there by its own field. */
static void networks_are_those_of_tencent_s_code(void **state)
{
  (void)state;
  hr_model m = read_model(SMALL("hunyuan") "\"num_experts\":1}");
  assert_true(m.groups[0].dense.width == 40 && m.groups[0].experts.experts == 0);
  m = read_model(SMALL("hunyuan") "\"num_experts\":4,\"moe_topk\":2,\"num_shared_expert\":2}");
  assert_true(m.groups[0].experts.active == 2 && m.groups[0].experts.shared_width == 0);
  const test_notes notes = read_notes(SMALL("hunyuan") "\"num_experts\":4,\"moe_topk\":2,\"num_shared_expert\":2}");
  assert_non_null(strstr(notes.text, "num_shared_expert: is ignored without use_mixed_mlp_moe"));
  m = read_model(SMALL("hunyuan") "\"num_experts\":4,\"moe_topk\":2,\"num_shared_expert\":2,"
                                  "\"use_mixed_mlp_moe\":true,\"moe_layer_num_skipped\":1" SHARED);
  assert_true(m.group_count == 3 && m.groups[0].count == 1 && m.groups[0].dense.width == 40);
  assert_true(m.groups[1].attention.shared_kv && m.groups[1].experts.shared_width == 80);
  m = read_model(SMALL("hunyuan") "\"attention_head_dim\":24,\"head_dim\":24}");
  assert_int_equal(m.groups[0].attention.qk_dim, 24);
}

static void other_mechanisms_are_refused(void **state)
{
  (void)state;
  assert_refused(SMALL("hunyuan") "\"use_mla\":true}", HR_ERROR_UNSUPPORTED,
                 "config.json: use_mla: only false is supported");
  assert_refused(SMALL("hunyuan") "\"mamba\":true}", HR_ERROR_UNSUPPORTED,
                 "config.json: mamba: only false is supported");
  assert_refused(SMALL("hunyuan") "\"norm_type\":\"fused\"}", HR_ERROR_UNSUPPORTED,
                 "config.json: norm_type: only rms and hf_rms are supported");
  assert_refused(SMALL("hunyuan") "\"head_dim\":24}", HR_ERROR_INVALID,
                 "config.json: head_dim: 24 is not the head size, 16");
  assert_refused(SMALL("hunyuan") "\"use_cla\":true,\"cla_share_factor\":0}", HR_ERROR_INVALID,
                 "config.json: cla_share_factor: expected a positive integer, found 0");
  assert_refused(SMALL("llama") "\"use_cla\":true}", HR_ERROR_UNSUPPORTED,
                 "config.json: use_cla: true means cross-layer attention layers, which are not supported for this "
                 "family (docs/models.md)");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hunyuan_large_has_the_published_parameters),
      cmocka_unit_test(layers_share_by_their_number),
      cmocka_unit_test(every_family_of_hunyuan_shares),
      cmocka_unit_test(operators_of_a_sharing_layer_have_no_k_and_v),
      cmocka_unit_test(networks_are_those_of_tencent_s_code),
      cmocka_unit_test(other_mechanisms_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
