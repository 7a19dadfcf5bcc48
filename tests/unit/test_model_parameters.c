/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter counts computed by hand, part by part, and the paper's closed form. */
#include "reading.h"

static void the_short_form_has_exactly_the_papers_parameters(void **state)
{
  (void)state;
  const struct {
    int64_t h, a, L, v, s;
  } shapes[] = {{2560, 32, 32, 50257, 2048}, {64, 4, 3, 101, 17}, {12288, 96, 96, 51200, 2048}, {1, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t h = shapes[i].h, L = shapes[i].L, v = shapes[i].v, s = shapes[i].s;
    char text[200];
    snprintf(text, sizeof text, "{\"h\":%d,\"a\":%d,\"L\":%d,\"v\":%d,\"s\":%d,\"mlp\":\"gelu\"}", (int)h,
             (int)shapes[i].a, (int)L, (int)v, (int)s);
    assert_int_equal(read_parameters(text).total, 12 * h * h * L + 13 * h * L + (v + s) * h);
  }
}

static void gpt2_has_124439808_parameters_part_by_part(void **state)
{
  (void)state;
  hr_parameters p = read_parameters("{\"model_type\":\"gpt2\",\"n_layer\":12,\"n_embd\":768,\"n_head\":12,"
                                    "\"n_positions\":1024,\"vocab_size\":50257}");
  assert_int_equal(p.embedding, 38597376); /* 50257·768 */
  assert_int_equal(p.position, 786432);    /* 1024·768 */
  assert_int_equal(p.attention, 28348416); /* 12·(768·2304 + 2304 + 768·768 + 768) */
  assert_int_equal(p.mlp, 56669184);       /* 12·(768·3072 + 3072 + 3072·768 + 768) */
  assert_int_equal(p.norm, 38400);         /* (12·2 + 1)·2·768 */
  assert_int_equal(p.logit, 0);            /* tied */
  assert_int_equal(p.total, 124439808);
  assert_int_equal(p.excluding_embeddings, 85056000); /* 28348416 + 56669184 + 38400 */
}

static void llama_3_8b_has_grouped_heads_and_untied_logits(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(
      "{\"model_type\":\"llama\",\"num_hidden_layers\":32,\"hidden_size\":4096,\"num_attention_heads\":32,"
      "\"num_key_value_heads\":8,\"intermediate_size\":14336,\"vocab_size\":128256,\"max_position_embeddings\":8192}");
  assert_int_equal(p.embedding, 525336576);  /* 128256·4096 */
  assert_int_equal(p.attention, 1342177280); /* 32·(2·4096·4096 + 2·4096·8·128) */
  assert_int_equal(p.mlp, 5637144576);       /* 32·3·4096·14336 */
  assert_int_equal(p.norm, 266240);          /* (32·2 + 1)·4096: no biases */
  assert_int_equal(p.logit, 525336576);
  assert_int_equal(p.position, 0);
  assert_int_equal(p.total, 8030261248);
}

static void sigma_1_5b_has_1486_million_parameters_outside_embeddings(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(
      "{\"model_type\":\"sigma\",\"num_hidden_layers\":26,\"hidden_size\":2048,\"intermediate_size\":6144,"
      "\"augmented_q_dim\":3072,\"num_attention_heads\":32,\"num_key_heads\":4,\"num_value_heads\":16,"
      "\"vocab_size\":128256}");
  /* 26·(Q 2048·3072 + 3072·32·64, K 2048·4·64, V 2048·16·64, out 32·64·2048) = 26·19398656 */
  assert_int_equal(p.attention, 504365056);
  assert_int_equal(p.mlp, 981467136); /* 26·3·2048·6144 */
  assert_int_equal(p.norm, 108544);   /* (26·2 + 1)·2048 */
  assert_int_equal(p.excluding_embeddings, 1485940736);
}

static void sigmas_halved_keys_shrink_q_and_k_but_not_v(void **state)
{
  (void)state;
  hr_model model = read_model(
      "{\"model_type\":\"sigma\",\"num_hidden_layers\":1,\"hidden_size\":2048,\"intermediate_size\":6144,"
      "\"num_attention_heads\":32,\"num_key_heads\":4,\"num_value_heads\":16,\"key_head_dim\":32,\"vocab_size\":100}");
  assert_int_equal(model.groups[0].attention.qk_dim, 32);
  assert_int_equal(model.groups[0].attention.v_dim, 64); /* 2048 / 32 */
  assert_int_equal(model.groups[0].attention.q_rank, 0);
  hr_parameters p;
  assert_int_equal(hr_model_parameters(&model, &p, NULL), HR_OK);
  /* Q 2048·32·32, K 2048·4·32, V 2048·16·64, out 32·64·2048 */
  assert_int_equal(p.attention, 2097152 + 262144 + 2097152 + 4194304);
}

static void gemma_2_has_four_norms_and_heads_wider_than_hidden(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(
      "{\"model_type\":\"gemma2\",\"num_hidden_layers\":26,\"hidden_size\":2304,\"num_attention_heads\":8,"
      "\"num_key_value_heads\":4,\"head_dim\":256,\"intermediate_size\":9216,\"vocab_size\":256000}");
  assert_int_equal(p.norm, 241920);         /* (26·4 + 1)·2304 */
  assert_int_equal(p.attention, 368050176); /* 26·(2304·2048 + 2·2304·1024 + 2048·2304) */
  assert_int_equal(p.logit, 0);
}

static void q_and_k_norms_count_one_head_or_all(void **state)
{
  (void)state;
  hr_model model = read_model("{\"h\":64,\"a\":8,\"L\":3,\"v\":10,\"s\":4,\"k_heads\":2}");
  const struct {
    hr_qk_norm norm;
    bool bias;
    int64_t parameters; /* of 3 layers */
  } cases[] = {
      {HR_QK_NORM_NONE, false, 0},   {HR_QK_NORM_SHARED, false, 48},    /* 3·2·8 */
      {HR_QK_NORM_SHARED, true, 96}, {HR_QK_NORM_PER_HEAD, false, 240}, /* 3·(8 + 2)·8 */
      {HR_QK_NORM_FULL, false, 240},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    model.groups[0].attention.qk_norm = cases[i].norm;
    model.groups[0].attention.qk_norm_bias = cases[i].bias;
    hr_parameters p;
    assert_int_equal(hr_model_parameters(&model, &p, NULL), HR_OK);
    assert_int_equal(p.norm, 3 * 2 * 2 * 64 + cases[i].parameters);
  }
}

static void a_narrower_embedding_brings_its_two_projections(void **state)
{
  (void)state;
  hr_parameters p = read_parameters(
      "{\"model_type\":\"opt\",\"num_hidden_layers\":24,\"hidden_size\":1024,\"num_attention_heads\":16,"
      "\"ffn_dim\":4096,\"vocab_size\":50272,\"word_embed_proj_dim\":512,\"do_layer_norm_before\":false,"
      "\"max_position_embeddings\":2048}");
  assert_int_equal(p.embedding, 26787840); /* 50272·512 + 2·512·1024 */
  assert_int_equal(p.position, 2099200);   /* (2048 + 2)·1024 */
  assert_int_equal(p.norm, 98304);         /* 24·2·2·1024, and none after the last layer */
}

static void a_count_that_does_not_fit_is_an_overflow(void **state)
{
  (void)state;
  hr_model model = read_model("{\"h\":64,\"a\":8,\"L\":3,\"v\":10,\"s\":4}");
  model.groups[0].dense.width = model.hidden = ((int64_t)1 << 40) - 1;
  hr_parameters p = {.total = 5};
  hr_error error;
  assert_int_equal(hr_model_parameters(&model, &p, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "the parameters of the MLP do not fit into 63 bits");
  assert_int_equal(p.total, 5);
  assert_int_equal(hr_model_check(&model, NULL), HR_ERROR_OVERFLOW);
}

static void parts_that_fit_may_still_overflow_together(void **state)
{
  (void)state;
  hr_model model = read_model("{\"h\":4,\"a\":1,\"L\":1,\"v\":10,\"s\":4}");
  model.groups[0] = (hr_layer_group){
      .count = ((int64_t)1 << 40) - 1,
      .norms = 2,
      .attention = {.q_heads = 1, .k_heads = 1, .v_heads = 1, .qk_dim = 1, .v_dim = 1, .q_rank = (int64_t)1 << 21},
      .dense = {.width = (int64_t)1 << 21}}; /* 2^40 layers of (1 + 1)·2^21: 2^62; and as much in Q */
  model.hidden = 1;
  model.position_rows = 1;
  model.norm_weight = false;
  hr_error error;
  hr_parameters p;
  assert_int_equal(hr_model_parameters(&model, &p, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "the parameters of the model do not fit into 63 bits");
}

static void a_member_out_of_range_is_named(void **state)
{
  (void)state;
  const hr_model good = read_model("{\"h\":64,\"a\":8,\"L\":3,\"v\":10,\"s\":4}");
  hr_error error;
  assert_int_equal(hr_model_check(&good, &error), HR_OK);

  hr_model model = good;
  model.groups[0].count = 0;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[0]: count: expected at least 1, found 0");

  model = good;
  model.group_count = 0;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "group_count: expected 1 to 64, found 0");

  model = good;
  model.groups[0].attention.v_heads = 3;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[0]: attention.v_heads: 3 does not divide attention.q_heads, 8");

  model = good;
  model.groups[model.group_count++] = (hr_layer_group){.count = 1};
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[1]: has neither a mixer (attention.q_heads, latent.q_heads, "
                                     "compressed.q_heads, scan.heads) nor a feed-forward network "
                                     "(dense.width, experts.experts)");

  model = good;
  model.vocabulary = (int64_t)1 << 40;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "vocabulary: expected at most 1099511627775, found 1099511627776");

  model = good;
  model.groups[0].attention.rotary_dim = 9; /* heads of 64 / 8 */
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[0]: attention.rotary_dim: 9 is more than attention.qk_dim, 8");

  model = good;
  model.groups[0].attention.qk_norm = (hr_qk_norm)9;
  assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "groups[0]: attention.qk_norm: 9 is not a kind of Q/K norm");
}

static void the_default_model_has_no_sizes_and_is_invalid(void **state)
{
  (void)state;
  hr_model model = hr_model_default();
  assert_int_equal(model.struct_size, sizeof(hr_model));
  assert_int_equal(hr_model_check(&model, NULL), HR_ERROR_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_short_form_has_exactly_the_papers_parameters),
      cmocka_unit_test(gpt2_has_124439808_parameters_part_by_part),
      cmocka_unit_test(llama_3_8b_has_grouped_heads_and_untied_logits),
      cmocka_unit_test(sigma_1_5b_has_1486_million_parameters_outside_embeddings),
      cmocka_unit_test(sigmas_halved_keys_shrink_q_and_k_but_not_v),
      cmocka_unit_test(gemma_2_has_four_norms_and_heads_wider_than_hidden),
      cmocka_unit_test(q_and_k_norms_count_one_head_or_all),
      cmocka_unit_test(a_narrower_embedding_brings_its_two_projections),
      cmocka_unit_test(a_count_that_does_not_fit_is_an_overflow),
      cmocka_unit_test(parts_that_fit_may_still_overflow_together),
      cmocka_unit_test(a_member_out_of_range_is_named),
      cmocka_unit_test(the_default_model_has_no_sizes_and_is_invalid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
