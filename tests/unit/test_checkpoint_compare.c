/* SPDX-License-Identifier: Apache-2.0 */
/* How a checkpoint compares with the configuration beside it. */
#include "checkpoint_files.h"

static void parts_that_parameters_do_not_count_are_left_out(void **state)
{
  (void)state;
  static const struct {
    const char *name, *format;
    int bits;
    const char *shape;
    int64_t elements;
    hr_checkpoint_part part;
  } cases[] = {
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 32, "2", 2, HR_CHECKPOINT_BUFFERS},
      {"model.layers.0.attn.bias", "U8", 8, "1,1,32,32", 1024, HR_CHECKPOINT_BUFFERS},
      {"gpt_neox.layers.0.attention.masked_bias", "F32", 32, "", 1, HR_CHECKPOINT_BUFFERS},
      {"model.layers.1.mlp.up_proj.weight_scale_inv", "F32", 32, "1,1", 1, HR_CHECKPOINT_SCALES},
      {"model.layers.1.mlp.gate.e_score_correction_bias", "F32", 32, "8", 8, HR_CHECKPOINT_ROUTER_BIAS},
      {"model.vision_tower.blocks.0.weight", "BF16", 16, "3,5", 15, HR_CHECKPOINT_MEDIA},
      {"model.layers.2.eh_proj.weight", "BF16", 16, "8,16", 128, HR_CHECKPOINT_PREDICTION},
      {"mtp.fc.weight", "BF16", 16, "8,16", 128, HR_CHECKPOINT_PREDICTION},
      {"model.layers.0.some_counter", "I64", 64, "2", 2, HR_CHECKPOINT_BUFFERS},
      {"model.layers.0.some_mask", "BOOL", 8, "2,2", 4, HR_CHECKPOINT_BUFFERS},
      {"score.weight", "BF16", 16, "2,8", 16, HR_CHECKPOINT_OTHER_HEADS},
      {"model.layers.0.self_attn.q_proj.lora_A.weight", "BF16", 16, "2,8", 16, HR_CHECKPOINT_ADAPTERS},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_model();
    put_tensor(cases[i].name, cases[i].format, cases[i].bits, cases[i].shape, cases[i].elements);
    end_file("model.safetensors");
    hr_checkpoint_comparison comparison = compare();
    if (comparison.match != HR_CHECKPOINT_EQUAL_WITHOUT || !comparison.left_out[cases[i].part])
      fail_msg("%s: %s", cases[i].name, comparison.text);
    assert_int_equal(comparison.elements, 1480);
    assert_int_equal(sums.part_elements[cases[i].part], cases[i].elements);
    assert_non_null(strstr(comparison.text, " without "));
  }
}

static void a_whole_layer_of_multi_token_prediction_is_left_out(void **state)
{
  (void)state;
  put_model();
  put("model.layers.2.self_attn.q_proj.weight", 64);
  put("model.layers.2.enorm.weight", 8);
  put("model.layers.2.shared_head.head.weight", 80);
  end_file("model.safetensors");
  assert_int_equal(compare().match, HR_CHECKPOINT_EQUAL_WITHOUT);
  assert_int_equal(sums.part_elements[HR_CHECKPOINT_PREDICTION], 152);
}

static void a_tied_head_may_be_stored_and_an_untied_one_may_not_be_missing(void **state)
{
  (void)state;
  char text[512];
  begin_file();
  put("model.embed_tokens.weight", 80);
  put_layers(2);
  end_file("model.safetensors");
  hr_checkpoint_comparison comparison = compare();
  assert_int_equal(comparison.match, HR_CHECKPOINT_DIFFERENT);
  assert_string_equal(comparison.text, "1,400 parameters, 80 fewer than the configuration's 1,480: it has no LM head, "
                                       "as with tied embeddings");
  snprintf(text, sizeof text, config, "true");
  write_text("config.json", text);
  assert_int_equal(compare().match, HR_CHECKPOINT_EQUAL);
  put_model();
  end_file("model.safetensors");
  comparison = compare();
  assert_int_equal(comparison.match, HR_CHECKPOINT_EQUAL_WITHOUT);
  assert_true(comparison.left_out[HR_CHECKPOINT_HEAD]);
  assert_string_equal(comparison.text, "1,400 parameters without 80 of an LM head, as the configuration has");
}

static void another_models_tensors_are_different_by_both_numbers(void **state)
{
  (void)state;
  begin_file();
  put("model.embed_tokens.weight", 80);
  put_layers(3);
  put("lm_head.weight", 80);
  put_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 32, "2", 2);
  end_file("model.safetensors");
  hr_checkpoint_comparison comparison = compare();
  assert_int_equal(comparison.match, HR_CHECKPOINT_DIFFERENT);
  assert_int_equal(comparison.elements, 2136); /* one more layer of 656 */
  assert_string_equal(comparison.text,
                      "2,136 parameters without 2 of buffers, 656 more than the configuration's 1,480");
}

static void packed_weights_are_not_compared(void **state)
{
  (void)state;
  static const struct {
    const char *name, *format;
    int bits;
  } cases[] = {{"model.layers.0.mlp.up_proj.qweight", "I32", 32},
               {"model.layers.0.mlp.up_proj.weight_packed", "I32", 32},
               {"model.layers.0.mlp.up_proj.weight", "U8", 8},
               {"model.layers.0.mlp.up_proj.codes", "I8", 8},
               {"model.layers.0.mlp.up_proj.some_new_packing", "I16", 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin_file();
    put_tensor(cases[i].name, cases[i].format, cases[i].bits, "8,2", 16);
    put_tensor("model.layers.0.mlp.up_proj.scales", "F16", 16, "1,16", 16);
    end_file("model.safetensors");
    hr_checkpoint_comparison comparison = compare();
    assert_int_equal(comparison.match, HR_CHECKPOINT_NOT_COMPARED);
    assert_int_equal(sums.part_elements[HR_CHECKPOINT_PACKED], 16);
    assert_non_null(strstr(comparison.text, "not compared"));
  }
}

static void weights_of_one_byte_and_blocks_of_two_are_compared(void **state)
{
  (void)state;
  begin_file();
  put("model.embed_tokens.weight", 80);
  put_layers(1);
  put("lm_head.weight", 80);
  /* The second layer: 256 in fp8 and int8, and 2·192 in blocks of two, 384 = 3·8·16, and 16 norms. */
  put_tensor("model.layers.1.self_attn.qkv_proj.weight", "F8_E4M3", 8, "24,8", 192);
  put_tensor("model.layers.1.self_attn.o_proj.weight", "I8", 8, "8,8", 64);
  put_tensor("model.layers.1.mlp.experts.gate_up_proj_blocks", "U8", 8, "1,8,16", 128);
  put_tensor("model.layers.1.mlp.experts.gate_up_proj_scales", "U8", 8, "1,8", 8);
  put_tensor("model.layers.1.mlp.down_proj.weight_packed", "U8", 8, "8,8", 64);
  put("model.layers.1.input_layernorm.weight", 16);
  end_file("model.safetensors");
  hr_checkpoint_comparison comparison = compare();
  assert_string_equal(comparison.text, "1,480 parameters without 8 of quantization scales, as the configuration has");
}

/* Experts of DeepSeek-V4 are pairs in int8, 2·192 in the second layer; its tables of tokens' experts are no weights. */
static void names_and_pairs_of_deepseek_v4_are_known(void **state)
{
  (void)state;
  begin_file();
  put("embed.weight", 80);
  put_layers(1);
  put("head.weight", 80);
  put("layers.1.attn.wq_a.weight", 256);
  put("layers.1.attn_norm.weight", 16);
  put_tensor("layers.1.ffn.experts.0.w1.weight", "I8", 8, "16,12", 192);
  put_tensor("layers.1.ffn.experts.0.w1.scale", "F8_E8M0", 8, "4", 4);
  put_tensor("layers.1.ffn.gate.tid2eid", "I64", 64, "10,2", 20);
  put("layers.1.ffn.gate.bias", 6);
  end_file("model.safetensors");
  hr_checkpoint_comparison comparison = compare();
  assert_string_equal(
      comparison.text,
      "1,480 parameters without 20 of buffers and 4 of quantization scales and 6 of router correction biases, "
      "as the configuration has");
}

static void names_of_enumerators_have_a_fallback(void **state)
{
  (void)state;
  assert_string_equal(hr_tensor_format_name(HR_TENSOR_BF16), "bf16");
  assert_string_equal(hr_tensor_format_name(HR_TENSOR_FORMAT_COUNT), "unknown");
  assert_string_equal(hr_checkpoint_part_name(HR_CHECKPOINT_PREDICTION), "mtp");
  assert_string_equal(hr_checkpoint_part_name(HR_CHECKPOINT_PART_COUNT), "unknown");
  assert_string_equal(hr_checkpoint_match_name(HR_CHECKPOINT_DIFFERENT), "different");
  assert_string_equal(hr_checkpoint_match_name(HR_CHECKPOINT_MATCH_COUNT), "unknown");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(parts_that_parameters_do_not_count_are_left_out),
      IN_FOLDER(a_whole_layer_of_multi_token_prediction_is_left_out),
      IN_FOLDER(a_tied_head_may_be_stored_and_an_untied_one_may_not_be_missing),
      IN_FOLDER(another_models_tensors_are_different_by_both_numbers),
      IN_FOLDER(packed_weights_are_not_compared),
      IN_FOLDER(weights_of_one_byte_and_blocks_of_two_are_compared),
      IN_FOLDER(names_and_pairs_of_deepseek_v4_are_known),
      cmocka_unit_test(names_of_enumerators_have_a_fallback),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
