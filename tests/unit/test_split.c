/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which degrees give each device whole heads, columns and blocks of quantized weights. */
#include "test.h"

#include "devices.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"
#include "models.h"

#include <stdio.h>
#include <string.h>

/* A model whose linear layers all have one format. */
static hr_model quantized(const char *name, const char *method, const hr_weight_format *format)
{
  hr_model model = shipped_model(name);
  snprintf(model.quantization.method, sizeof model.quantization.method, "%s", method);
  model.quantization.format_count = 1;
  model.quantization.formats[0] = *format;
  for (size_t i = 0; i < model.group_count; i++)
    memset(model.groups[i].formats, 1, sizeof model.groups[i].formats);
  return model;
}

static const hr_weight_format groups_of_128 = {
    .name = "int4", .bits = 4, .block_inputs = 128, .block_outputs = 1, .block_bits = 20};
static const hr_weight_format blocks_of_128 = {.name = "fp8",
                                               .bits = 8,
                                               .block_inputs = 128,
                                               .block_outputs = 128,
                                               .block_bits = 32,
                                               .activations = HR_ACTIVATIONS_FP8};
static const hr_weight_format groups_of_16 = {
    .name = "nvfp4", .bits = 4, .block_inputs = 16, .block_outputs = 1, .block_bits = 8};
static const hr_weight_format groups_of_32 = {
    .name = "mxfp4", .bits = 4, .block_inputs = 32, .block_outputs = 1, .block_bits = 8};
static const hr_weight_format flat_blocks_of_64 = {
    .name = "nf4", .bits = 4, .block_inputs = 64, .block_outputs = 1, .block_bits = 32};

static void assert_split(const hr_model *model, int64_t t, int64_t e, bool whole, const char *words)
{
  hr_split split = hr_split_of(model, t, e, HR_SPLIT_ALL);
  assert_int_equal(split.whole, whole);
  assert_string_equal(split.words, words);
}

/* 29568 = 128 · 231: an odd number of groups. */
static void an_mlp_of_231_groups_splits_by_no_even_degree(void **state)
{
  (void)state;
  const char *const methods[] = {"gptq", "awq", "compressed-tensors", "--weights"};
  for (size_t i = 0; i < 4; i++) {
    hr_model model = quantized("qwen2.5-72b", methods[i], &groups_of_128);
    assert_int_equal(model.groups[0].dense.width, 29568);
    assert_split(&model, 1, 1, true, "");
    for (int64_t t = 2; t <= 8; t *= 2) {
      hr_split split = hr_split_of(&model, t, 1, HR_SPLIT_ALL);
      assert_false(split.whole);
      assert_non_null(strstr(split.words, "of 29568 inputs are not whole blocks of 128"));
    }
    model.groups[0].dense.width = 29696; /* as its checkpoints are padded */
    assert_split(&model, 8, 1, true, "");
  }
}

static void blocks_are_whole_along_inputs_and_along_outputs(void **state)
{
  (void)state;
  hr_model model = quantized("llama-3-8b", "fp8", &blocks_of_128);
  assert_split(&model, 8, 1, true, ""); /* 14336 / 8 = 14 · 128, a K head of 128 each */
  model.groups[0].dense.width = 18432;
  assert_split(&model, 16, 1, true, ""); /* 1152 = 9 · 128 */
  assert_split(&model, 32, 1, false, "up_proj: 576 of 18432 outputs are not whole blocks of 128 (fp8)");
  model.groups[0].attention.qk_dim = model.groups[0].attention.v_dim = 64;
  assert_split(&model, 8, 1, false, "k_proj: 64 of 512 outputs are not whole blocks of 128 (fp8)");
}

static void experts_split_by_t_but_are_whole_where_e_spreads_them(void **state)
{
  (void)state;
  hr_model model = quantized("qwen3-30b-a3b", "fp8", &blocks_of_128);
  model.groups[0].experts.width = 1536;
  model.groups[0].attention.k_heads = model.groups[0].attention.v_heads = 8;
  assert_split(&model, 4, 1, true, ""); /* 384 = 3 · 128 */
  assert_split(&model, 8, 1, false, "experts.up_proj: 192 of 1536 outputs are not whole blocks of 128 (fp8)");
  assert_split(&model, 8, 8, true, "");
  model = quantized("qwen3-30b-a3b", "modelopt", &groups_of_16);
  model.groups[0].experts.width = 1856;
  assert_split(&model, 8, 1, false, "experts.down_proj: 232 of 1856 inputs are not whole blocks of 16 (modelopt)");
}

/* gpt-oss has experts of 2880: 360 on each of 8 devices, which servers pad to 384 = 6 · 64. */
static void experts_in_mxfp4_are_padded_and_predicted_so(void **state)
{
  (void)state;
  hr_model model = quantized("qwen3-30b-a3b", "mxfp4", &groups_of_32);
  model.groups[0].experts.width = 2880;
  assert_split(&model, 1, 1, true, "");
  assert_split(&model, 8, 1, true, "experts padded from 360 to 384 columns");
  hr_workload workload = hr_workload_default(&model);
  workload.tensor_parallel = 8;
  workload.phase = HR_PHASE_DECODE;
  assert_int_equal(hr_shard_layer(&model, &model.groups[0], &workload).experts.width, 384);
}

static void blocks_of_a_flattened_matrix_split_anywhere(void **state)
{
  (void)state;
  hr_model model = quantized("qwen2.5-72b", "bitsandbytes", &flat_blocks_of_64);
  assert_split(&model, 8, 1, true, "");
}

static void what_does_not_divide_is_named(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen2.5-7b");
  assert_split(&model, 8, 1, false, "28 query heads do not divide by t = 8");
  model = shipped_model("llama-3-8b");
  assert_split(&model, 16, 1, true, ""); /* K and V heads are copied to two devices each */
  model.groups[0].dense.width = 14340;
  assert_split(&model, 8, 1, false, "14340 MLP columns do not divide by t = 8");
  assert_int_equal(hr_split_of(&model, 8, 1, HR_SPLIT_HEADS).whole, true);
  model = shipped_model("mixtral-8x7b-v0.1");
  assert_split(&model, 1, 16, false, "8 experts do not divide by e = 16");
}

/* Mamba-2: 128 heads and 8 groups of B and C. vLLM's mamba_mixer2.py refuses a t that cuts groups, but copies one. */
static void groups_of_recurrent_layers_are_whole_or_single(void **state)
{
  (void)state;
  hr_model model = shipped_model("mamba-codestral-7b-v0.1");
  assert_split(&model, 8, 1, true, "");
  assert_split(&model, 16, 1, false, "8 groups of recurrent layers do not divide by t = 16");
  model.groups[0].scan.groups = 1;
  assert_split(&model, 16, 1, true, "");
}

static void a_padded_vocabulary_is_said(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt2");
  assert_split(&model, 1, 1, true, "");
  assert_split(&model, 2, 1, true, "vocabulary padded from 50257 to 50258");
  assert_split(&model, 8, 1, false, "12 query heads do not divide by t = 8");
  model = quantized("qwen3-30b-a3b", "mxfp4", &groups_of_32);
  model.groups[0].experts.width = 2880, model.vocabulary = 201089;
  assert_split(&model, 8, 1, true, "experts padded from 360 to 384 columns, vocabulary padded from 201089 to 201096");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_mlp_of_231_groups_splits_by_no_even_degree),
      cmocka_unit_test(blocks_are_whole_along_inputs_and_along_outputs),
      cmocka_unit_test(experts_split_by_t_but_are_whole_where_e_spreads_them),
      cmocka_unit_test(experts_in_mxfp4_are_padded_and_predicted_so),
      cmocka_unit_test(blocks_of_a_flattened_matrix_split_anywhere),
      cmocka_unit_test(what_does_not_divide_is_named),
      cmocka_unit_test(groups_of_recurrent_layers_are_whole_or_single),
      cmocka_unit_test(a_padded_vocabulary_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
