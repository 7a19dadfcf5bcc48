/* SPDX-License-Identifier: Apache-2.0 */
/* Weights by role: joined, transposed, scaled and in other formats than the one wanted. Element i of a file's fp32
 * tensors is i, so that a value tells where it is from. */
#include "checkpoint_files.h"

#include "model/checkpoint/weight_reader.h"

#include <math.h>

static hr_weights *weights;
static hr_weight_reader reader;
static hr_model model;

/* Heads of 2 elements: 4 of Q that read 2 of K and V. */
static hr_layer_group heads(void)
{
  hr_layer_group group = {.count = 1};
  group.attention = (hr_mixer_attention){.q_heads = 4, .k_heads = 2, .v_heads = 2, .qk_dim = 2, .v_dim = 2};
  return group;
}

static void put_fp32(const char *name, const char *shape, int64_t elements)
{
  put_tensor(name, "F32", 32, shape, elements);
}

static void write_elements(void)
{
  FILE *out = fopen(path_of("model.safetensors"), "r+");
  assert_non_null(out);
  assert_int_equal(fseek(out, (long)(8 + file.length), SEEK_SET), 0);
  for (int64_t i = 0; i < file.bytes / 4; i++) {
    float value = (float)i;
    assert_int_equal(fwrite(&value, sizeof value, 1, out), 1);
  }
  assert_int_equal(fclose(out), 0);
}

static void begin(const char *family)
{
  end_file("model.safetensors");
  write_elements();
  model = hr_model_default();
  strcpy(model.family, family);
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_ok(hr_weight_reader_begin(&reader, weights, &model, &error), error);
}

static void end(void)
{
  hr_weight_reader_free(&reader);
  hr_weights_close(weights);
}

static hr_status read_weight(hr_weight_role role, int64_t count, int64_t rows, int64_t columns, float *to)
{
  static hr_layer_group group;
  group = heads();
  hr_weight_request request = {role, 0, &group, count, rows, columns, HR_FP32, NULL};
  return hr_weight_read(&reader, &request, to, &error);
}

static void assert_weight(hr_weight_role role, int64_t count, int64_t rows, int64_t columns, const float *expected)
{
  float values[64];
  assert_ok(read_weight(role, count, rows, columns, values), error);
  for (int64_t i = 0; i < count * rows * columns; i++) {
    if (values[i] != expected[i])
      fail_msg("element %d: expected %g, found %g", (int)i, (double)expected[i], (double)values[i]);
  }
}

static void assert_refused(hr_weight_role role, int64_t rows, int64_t columns, hr_status status, const char *message)
{
  float values[64] = {-1};
  hr_status found = read_weight(role, 1, rows, columns, values);
  if (found != status || strcmp(error.message, message) != 0)
    fail_msg("expected \"%s\", found \"%s\"", message, found == HR_OK ? "no error" : error.message);
  assert_true(values[0] == -1);
}

/* Rows 8 of Q, 4 of K, 4 of V: of one column, so that row i is i behind the embedding's 1 element. */
static void rows_of_q_k_and_v_are_found_one_behind_the_other(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_fp32("model.layers.0.self_attn.qkv_proj.weight", "16,2", 32);
  begin("phi3");
  assert_weight(HR_WEIGHT_Q, 1, 8, 2, (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  assert_weight(HR_WEIGHT_K, 1, 4, 2, (float[]){17, 18, 19, 20, 21, 22, 23, 24});
  assert_weight(HR_WEIGHT_V, 1, 4, 2, (float[]){25, 26, 27, 28, 29, 30, 31, 32});
  end();
}

/* [2 K heads, 2 query heads + K + V, 2 elements]: q0 q1 k0 v0 | q2 q3 k1 v1, biases 0 … 15. */
static void rows_are_found_within_the_groups_of_their_k_head(void **state)
{
  (void)state;
  begin_file();
  put_fp32("transformer.h.0.self_attention.query_key_value.bias", "16", 16);
  put_fp32("transformer.word_embeddings.weight", "1,1", 1);
  begin("falcon");
  assert_weight(HR_WEIGHT_Q_BIAS, 1, 1, 8, (float[]){0, 1, 2, 3, 8, 9, 10, 11});
  assert_weight(HR_WEIGHT_K_BIAS, 1, 1, 4, (float[]){4, 5, 12, 13});
  assert_weight(HR_WEIGHT_V_BIAS, 1, 1, 4, (float[]){6, 7, 14, 15});
  end();
}

/* Four blocks of q, v and k of a quarter of the heads: 8 rows of Q are 4 × 2. */
static void codegen_has_v_before_k_in_each_of_four_blocks(void **state)
{
  (void)state;
  begin_file();
  put_fp32("transformer.h.0.attn.qkv_proj.weight", "24,1", 24);
  put_fp32("transformer.wte.weight", "1,1", 1);
  begin("codegen");
  hr_layer_group group = heads();
  group.attention.k_heads = group.attention.v_heads = 4;
  float values[8];
  hr_weight_request request = {HR_WEIGHT_K, 0, &group, 1, 8, 1, HR_FP32, NULL};
  assert_ok(hr_weight_read(&reader, &request, values, &error), error);
  assert_memory_equal(values, ((float[]){4, 5, 10, 11, 16, 17, 22, 23}), sizeof values);
  request.role = HR_WEIGHT_V;
  assert_ok(hr_weight_read(&reader, &request, values, &error), error);
  assert_memory_equal(values, ((float[]){2, 3, 8, 9, 14, 15, 20, 21}), sizeof values);
  end();
}

/* [2 inputs, 16 outputs]: output i of input j is 16 j + i, behind the token embedding's 2 elements. */
static void conv1d_is_transposed_and_its_bias_is_not(void **state)
{
  (void)state;
  begin_file();
  put_fp32("wte.weight", "1,2", 2);
  put_fp32("h.0.attn.c_attn.weight", "2,16", 32);
  put_fp32("h.0.attn.c_attn.bias", "16", 16);
  begin("gpt2"); /* as the public gpt2 has its names, without "transformer." */
  assert_weight(HR_WEIGHT_K, 1, 4, 2, (float[]){10, 26, 11, 27, 12, 28, 13, 29});
  assert_weight(HR_WEIGHT_K_BIAS, 1, 1, 4, (float[]){42, 43, 44, 45});
  end();
}

static void gate_and_up_are_halves_or_alternate(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_fp32("model.layers.0.mlp.gate_up_proj.weight", "4,2", 8);
  begin("glm");
  assert_weight(HR_WEIGHT_GATE, 1, 2, 2, (float[]){1, 2, 3, 4});
  assert_weight(HR_WEIGHT_UP, 1, 2, 2, (float[]){5, 6, 7, 8});
  end();
  begin_file(); /* 2 experts of width 2 and 2 inputs: [2, 2, 2 · 2], then biases [2, 2 · 2], then 2 × [2, 2] */
  put_fp32("model.layers.0.mlp.experts.gate_up_proj", "2,2,4", 16);
  put_fp32("model.layers.0.mlp.experts.gate_up_proj_bias", "2,4", 8);
  put_fp32("model.layers.0.mlp.experts.down_proj", "2,2,2", 8);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  begin("gpt_oss");
  assert_weight(HR_WEIGHT_EXPERT_GATE, 2, 2, 2, (float[]){0, 4, 2, 6, 8, 12, 10, 14});
  assert_weight(HR_WEIGHT_EXPERT_UP, 2, 2, 2, (float[]){1, 5, 3, 7, 9, 13, 11, 15});
  assert_weight(HR_WEIGHT_EXPERT_GATE_BIAS, 2, 1, 2, (float[]){16, 18, 20, 22});
  assert_weight(HR_WEIGHT_EXPERT_UP_BIAS, 2, 1, 2, (float[]){17, 19, 21, 23});
  assert_weight(HR_WEIGHT_EXPERT_DOWN, 2, 2, 2, (float[]){24, 26, 25, 27, 28, 30, 29, 31});
  end();
}

static void experts_and_heads_in_tensors_of_their_own_are_put_together(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.layers.0.mlp.experts.0.up_proj.weight", "2,1", 2);
  put_fp32("model.layers.0.mlp.experts.1.up_proj.weight", "2,1", 2);
  put_fp32("model.layers.0.self_attn.k_layernorm.norms.0.weight", "2", 2);
  put_fp32("model.layers.0.self_attn.k_layernorm.norms.1.weight", "2", 2);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  begin("stablelm");
  assert_weight(HR_WEIGHT_EXPERT_UP, 2, 2, 1, (float[]){0, 1, 2, 3});
  assert_weight(HR_WEIGHT_K_NORM, 1, 1, 4, (float[]){4, 5, 6, 7});
  float values[6];
  assert_int_equal(read_weight(HR_WEIGHT_EXPERT_UP, 3, 2, 1, values), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "model.layers.0.mlp.experts.2.up_proj.weight: is missing, expected [2]");
  end();
}

static void the_factor_of_gemmas_norms_is_one_more_than_what_is_stored(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.norm.weight", "3", 3);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  begin("gemma2");
  assert_weight(HR_WEIGHT_FINAL_NORM, 1, 1, 3, (float[]){1, 2, 3});
  end();
}

static void tensors_of_a_wrapped_model_are_found_by_its_token_embedding(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.visual.patch_embed.embed_tokens.weight", "1,1", 1);
  put_fp32("model.language_model.embed_tokens.weight", "2,1", 2);
  put_fp32("model.language_model.norm.weight", "2", 2);
  put_fp32("lm_head.weight", "2,1", 2);
  begin("qwen3");
  assert_string_equal(reader.prefix, "model.language_model.");
  assert_weight(HR_WEIGHT_FINAL_NORM, 1, 1, 2, (float[]){3, 4});
  assert_weight(HR_WEIGHT_LOGIT, 1, 2, 1, (float[]){5, 6});
  end();
}

static void a_missing_or_misshapen_tensor_is_named_with_what_was_expected_and_found(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_fp32("model.layers.0.mlp.up_proj.weight", "2,3", 6);
  put_fp32("model.layers.0.input_layernorm.weight", "3", 3);
  begin("llama");
  assert_refused(HR_WEIGHT_UP, 3, 2, HR_ERROR_INVALID,
                 "model.layers.0.mlp.up_proj.weight: expected [3, 2], found [2, 3]");
  assert_refused(HR_WEIGHT_ATTENTION_NORM, 1, 4, HR_ERROR_INVALID,
                 "model.layers.0.input_layernorm.weight: expected [4], found [3]");
  assert_refused(HR_WEIGHT_DOWN, 3, 2, HR_ERROR_NOT_FOUND,
                 "model.layers.0.mlp.down_proj.weight: is missing, expected [3, 2]");
  assert_refused(HR_WEIGHT_MLP_NORM, 1, 3, HR_ERROR_NOT_FOUND,
                 "model.layers.0.post_attention_layernorm.weight: is missing, expected [3]");
  assert_refused(HR_WEIGHT_POSITION_EMBEDDING, 1, 3, HR_ERROR_UNSUPPORTED,
                 "which tensor of llama has the weight \"position_embedding\" is not known");
  end();
}

static void a_tensor_that_nobody_reads_is_named_unless_the_model_leaves_such_out(void **state)
{
  (void)state;
  begin_file();
  put_fp32("lm_head.weight", "1,1", 1); /* a copy of the tied embedding */
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_fp32("model.layers.0.self_attn.rotary_emb.inv_freq", "2", 2);
  put_fp32("model.layers.7.eh_proj.weight", "2,1", 2); /* multi-token prediction */
  put_fp32("model.layers.7.mlp.up_proj.weight", "2,1", 2);
  put_fp32("model.layers.8.mlp.up_proj.weight", "2,1", 2);
  begin("llama");
  assert_weight(HR_WEIGHT_TOKEN_EMBEDDING, 1, 1, 1, (float[]){1});
  model.tied_embeddings = true;
  assert_int_equal(hr_weight_reader_end(&reader, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message,
                      "model.layers.8.mlp.up_proj.weight: expected no such tensor in llama, found [2, 1]");
  model.tied_embeddings = false;
  assert_int_equal(hr_weight_reader_end(&reader, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "lm_head.weight: expected no such tensor in llama, found [1, 1]");
  end();
}

static void packed_and_integer_weights_are_refused_by_name(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_tensor("model.layers.0.mlp.experts.down_proj_blocks", "U8", 8, "4", 4);
  put_tensor("model.layers.0.self_attn.o_proj.weight", "I8", 8, "2,2", 4);
  begin("gpt_oss");
  assert_refused(HR_WEIGHT_EXPERT_DOWN, 2, 2, HR_ERROR_UNSUPPORTED,
                 "model.layers.0.mlp.experts.down_proj_blocks: weights packed into integers are not read");
  assert_refused(HR_WEIGHT_O, 2, 2, HR_ERROR_UNSUPPORTED,
                 "model.layers.0.self_attn.o_proj.weight: weights in int8 are not read");
  end();
}

static void a_family_without_known_names_is_refused(void **state)
{
  (void)state;
  begin_file();
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  begin("llama");
  hr_weight_reader other;
  strcpy(model.family, "mamba");
  assert_int_equal(hr_weight_reader_begin(&other, weights, &model, &error), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "the names of the tensors of mamba are not known");
  strcpy(model.family, "mpt");
  assert_int_equal(hr_weight_reader_begin(&other, weights, &model, &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "wte.weight: is missing, the token embedding of mpt");
  end();
}

/* ---- formats ---- */

/* Writes bytes behind the header. */
static void write_bytes(long offset, const void *bytes, size_t count)
{
  FILE *out = fopen(path_of("model.safetensors"), "r+");
  assert_non_null(out);
  assert_int_equal(fseek(out, (long)(8 + file.length) + offset, SEEK_SET), 0);
  assert_int_equal(fwrite(bytes, 1, count, out), count);
  assert_int_equal(fclose(out), 0);
}

static void elements_are_rounded_to_the_format_that_is_wanted(void **state)
{
  (void)state;
  /* 1 + 2^-8 lies between two bf16 numbers, and rounds to the even one, 1; 1 + 3·2^-8 to 1 + 2^-6; 70000 is no fp16. */
  const float values[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 70000, -0.0f};
  uint16_t wanted[4];
  begin_file();
  put_fp32("model.embed_tokens.weight", "4,1", 4);
  begin("llama");
  write_bytes(0, values, sizeof values);
  hr_weight_request request = {HR_WEIGHT_TOKEN_EMBEDDING, -1, NULL, 1, 4, 1, HR_BF16, NULL};
  assert_ok(hr_weight_read(&reader, &request, wanted, &error), error);
  assert_int_equal(wanted[0], 0x3F80);
  assert_int_equal(wanted[1], 0x3F82);
  assert_int_equal(wanted[3], 0x8000);
  request.dtype = HR_FP16;
  assert_ok(hr_weight_read(&reader, &request, wanted, &error), error);
  assert_int_equal(wanted[0], 0x3C04);
  assert_int_equal(wanted[2], 0x7C00);
  end();
}

/* bf16 behind an odd byte: the file's tensors are packed. */
static void elements_at_odd_addresses_are_read(void **state)
{
  (void)state;
  const uint16_t values[] = {0x3F80, 0x4000, 0x4040};
  begin_file();
  put_tensor("a", "U8", 8, "1", 1);
  put_tensor("model.embed_tokens.weight", "BF16", 16, "3,1", 3);
  begin("llama");
  write_bytes(1, values, sizeof values);
  hr_weight_request request = {HR_WEIGHT_TOKEN_EMBEDDING, -1, NULL, 1, 3, 1, HR_FP32, NULL};
  float found[3];
  assert_ok(hr_weight_read(&reader, &request, found, &error), error);
  assert_memory_equal(found, ((float[]){1, 2, 3}), sizeof found);
  end();
}

/* 130 × 129: 2 × 2 blocks. All elements are 1 (0x38 in E4M3) but for the scales, which are 0, 1, 2 and 3. */
static void fp8_is_multiplied_by_the_scale_of_its_block(void **state)
{
  (void)state;
  static float found[130 * 129];
  char ones[130 * 129];
  memset(ones, 0x38, sizeof ones);
  begin_file();
  put_fp32("model.layers.0.mlp.up_proj.weight_scale_inv", "2,2", 4);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_tensor("model.layers.0.mlp.up_proj.weight", "F8_E4M3", 8, "130,129", 130 * 129);
  begin("deepseek_v3");
  write_bytes(20, ones, sizeof ones);
  assert_ok(read_weight(HR_WEIGHT_UP, 1, 130, 129, found), error);
  for (int row = 0; row < 130; row++) {
    for (int column = 0; column < 129; column++)
      assert_true(found[row * 129 + column] == (float)(2 * (row >= 128) + (column >= 128)));
  }
  assert_int_equal(hr_weight_reader_end(&reader, &error), HR_ERROR_INVALID); /* the embedding; a scale is none */
  assert_non_null(strstr(error.message, "model.embed_tokens.weight"));
  end();
}

static void fp8_is_multiplied_by_the_scale_of_its_tensor_or_row(void **state)
{
  (void)state;
  const float two = 2;
  begin_file();
  put_fp32("model.layers.0.mlp.down_proj.weight_scale", "2,1", 2); /* 0 and 1 */
  put_fp32("model.layers.0.mlp.gate_proj.weight_scale", "3", 3);
  put_fp32("model.layers.0.mlp.up_proj.weight_scale", "", 1);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_tensor("model.layers.0.mlp.down_proj.weight", "F8_E4M3", 8, "2,2", 4);
  put_tensor("model.layers.0.mlp.gate_proj.weight", "F8_E4M3", 8, "2,2", 4);
  put_tensor("model.layers.0.mlp.up_proj.weight", "F8_E4M3", 8, "2,2", 4);
  put_tensor("model.layers.0.self_attn.o_proj.weight", "F8_E4M3", 8, "2,2", 4);
  begin("llama");
  write_bytes(28, "\x38\x38\x38\x38\x38\x38\x38\x38\x38\x38\x38\xb8", 12);
  write_bytes(20, &two, sizeof two);
  assert_weight(HR_WEIGHT_DOWN, 1, 2, 2, (float[]){0, 0, 1, 1});
  assert_weight(HR_WEIGHT_UP, 1, 2, 2, (float[]){2, 2, 2, -2});
  assert_refused(
      HR_WEIGHT_GATE, 2, 2, HR_ERROR_INVALID,
      "model.layers.0.mlp.gate_proj.weight_scale: expected a scale for the tensor, for each of 2 rows or for "
      "blocks of 128 × 128, found [3]");
  assert_refused(HR_WEIGHT_O, 2, 2, HR_ERROR_NOT_FOUND,
                 "model.layers.0.self_attn.o_proj.weight_scale: is missing, the scale of fp8 weights");
  end();
}

static hr_status read_fp8(hr_weight_role role, int64_t rows, int64_t columns, const hr_weight_scales *scales, void *to)
{
  static hr_layer_group group;
  group = heads();
  hr_weight_request request = {role, 0, &group, 1, rows, columns, HR_FP8_E4M3, scales};
  return hr_weight_read(&reader, &request, to, &error);
}

/* 130 × 129 in 2 × 2 blocks with the scales 0 to 3, which are kept as they are, or for 64 rows each: rows 0 to 63,
 * 64 to 127 and 128 and 129. A scale for all columns of a row is none of these. */
static void fp8_is_kept_with_the_scales_of_its_blocks(void **state)
{
  (void)state;
  static char values[130 * 129], found[130 * 129];
  float scales[12];
  for (size_t i = 0; i < sizeof values; i++)
    values[i] = (char)(i * 7);
  begin_file();
  put_fp32("model.layers.0.mlp.up_proj.weight_scale_inv", "2,2", 4);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_tensor("model.layers.0.mlp.up_proj.weight", "F8_E4M3", 8, "130,129", 130 * 129);
  begin("deepseek_v3");
  write_bytes(20, values, sizeof values);
  for (size_t i = 0; i < 12; i++)
    scales[i] = -1;
  assert_ok(read_fp8(HR_WEIGHT_UP, 130, 129, &(hr_weight_scales){128, 128, 4, scales}, found), error);
  assert_memory_equal(found, values, sizeof values);
  assert_memory_equal(scales, ((float[]){0, 1, -1, -1, 2, 3, -1, -1, -1, -1, -1, -1}), sizeof scales);
  assert_ok(read_fp8(HR_WEIGHT_UP, 130, 129, &(hr_weight_scales){64, 128, 4, scales}, found), error);
  assert_memory_equal(scales, ((float[]){0, 1, -1, -1, 0, 1, -1, -1, 2, 3, -1, -1}), sizeof scales);
  assert_int_equal(read_fp8(HR_WEIGHT_UP, 130, 129, &(hr_weight_scales){1, 129, 1, scales}, found),
                   HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message,
                      "model.layers.0.mlp.up_proj.weight_scale_inv: expected one scale for rows 0 to 0, as "
                      "the configuration says, found several; they can be read as bf16 "
                      "(--weights-format bf16)");
  assert_int_equal(read_fp8(HR_WEIGHT_UP, 130, 129, &(hr_weight_scales){256, 128, 4, scales}, found),
                   HR_ERROR_UNSUPPORTED);
  end();
}

/* A scale of the tensor is that of each row; weights in another format are not what was asked for. */
static void fp8_is_kept_with_the_scale_of_its_tensor_for_each_row(void **state)
{
  (void)state;
  char found[4];
  float scales[2];
  const float two = 2;
  begin_file();
  put_fp32("model.layers.0.mlp.down_proj.weight_scale", "2,1", 2); /* 0 and 1 */
  put_fp32("model.layers.0.mlp.gate_proj.weight_scale", "3", 3);
  put_fp32("model.layers.0.mlp.up_proj.weight_scale", "", 1);
  put_fp32("model.embed_tokens.weight", "1,1", 1);
  put_fp32("model.layers.0.self_attn.o_proj.weight", "2,2", 4);
  put_tensor("model.layers.0.mlp.down_proj.weight", "F8_E4M3", 8, "2,2", 4);
  put_tensor("model.layers.0.mlp.gate_proj.weight", "F8_E4M3", 8, "2,2", 4);
  put_tensor("model.layers.0.mlp.up_proj.weight", "F8_E4M3", 8, "2,2", 4);
  begin("llama");
  write_bytes(44, "abcdefghijkl", 12);
  write_bytes(20, &two, sizeof two);
  const hr_weight_scales rows = {1, 2, 1, scales};
  assert_ok(read_fp8(HR_WEIGHT_DOWN, 2, 2, &rows, found), error);
  assert_memory_equal(scales, ((float[]){0, 1}), sizeof scales);
  assert_memory_equal(found, "abcd", 4);
  assert_ok(read_fp8(HR_WEIGHT_UP, 2, 2, &rows, found), error);
  assert_memory_equal(scales, ((float[]){2, 2}), sizeof scales);
  assert_memory_equal(found, "ijkl", 4);
  assert_int_equal(read_fp8(HR_WEIGHT_GATE, 2, 2, &rows, found), HR_ERROR_INVALID);
  assert_int_equal(read_fp8(HR_WEIGHT_O, 2, 2, &rows, found), HR_ERROR_UNSUPPORTED);
  assert_string_equal(error.message, "model.layers.0.self_attn.o_proj.weight: expected fp8_e4m3, as the configuration "
                                     "says, found fp32; it can be read as bf16 (--weights-format bf16)");
  end();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(rows_of_q_k_and_v_are_found_one_behind_the_other),
      IN_FOLDER(rows_are_found_within_the_groups_of_their_k_head),
      IN_FOLDER(codegen_has_v_before_k_in_each_of_four_blocks),
      IN_FOLDER(conv1d_is_transposed_and_its_bias_is_not),
      IN_FOLDER(gate_and_up_are_halves_or_alternate),
      IN_FOLDER(experts_and_heads_in_tensors_of_their_own_are_put_together),
      IN_FOLDER(the_factor_of_gemmas_norms_is_one_more_than_what_is_stored),
      IN_FOLDER(tensors_of_a_wrapped_model_are_found_by_its_token_embedding),
      IN_FOLDER(a_missing_or_misshapen_tensor_is_named_with_what_was_expected_and_found),
      IN_FOLDER(a_tensor_that_nobody_reads_is_named_unless_the_model_leaves_such_out),
      IN_FOLDER(packed_and_integer_weights_are_refused_by_name),
      IN_FOLDER(a_family_without_known_names_is_refused),
      IN_FOLDER(elements_are_rounded_to_the_format_that_is_wanted),
      IN_FOLDER(elements_at_odd_addresses_are_read),
      IN_FOLDER(fp8_is_multiplied_by_the_scale_of_its_block),
      IN_FOLDER(fp8_is_multiplied_by_the_scale_of_its_tensor_or_row),
      IN_FOLDER(fp8_is_kept_with_the_scales_of_its_blocks),
      IN_FOLDER(fp8_is_kept_with_the_scale_of_its_tensor_for_each_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
