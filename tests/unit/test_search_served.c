/* SPDX-License-Identifier: Apache-2.0 */
/* Searches as they are by default: shapes that can be served. */
#include "test.h"

#include "analysis/search/space.h"
#include "devices.h"
#include "hardware/hardware.h"
#include "model/reshape/reshape.h"
#include "models.h"

#include <headroom/experimental/model.h>
#include <headroom/search.h>
#include <stdlib.h>
#include <string.h>

static hr_search_result *search_with(const char *name, const hr_model *model, const hr_workload *workload,
                                     const hr_search_options *options)
{
  hr_hardware hardware = device(name);
  hr_search_result *result;
  hr_error error;
  assert_ok(hr_search(&hardware, model, workload, options, &result, &error), error);
  return result;
}

static hr_search_result *search(const char *name, const hr_model *model, const hr_search_options *options)
{
  hr_workload workload = hr_workload_default(model);
  return search_with(name, model, &workload, options);
}

static bool spreads(int64_t kv_heads, int64_t t)
{
  return kv_heads % t == 0 || t % kv_heads == 0;
}

static void assert_served_on_eight(const hr_search_result *result, const hr_model *own)
{
  for (size_t i = 0; i < result->count; i++) {
    const hr_model *model = &result->shapes[i].model;
    assert_int_equal(hr_model_layers(model), hr_model_layers(own));
    assert_int_equal(model->vocabulary % 8, 0);
    for (size_t j = 0; j < model->group_count; j++) {
      const hr_mixer_attention *heads = &model->groups[j].attention, *before = &own->groups[j].attention;
      assert_int_equal(model->groups[j].dense.width % 8, 0);
      assert_int_equal(model->groups[j].experts.width % 8, 0);
      if (heads->q_heads == 0)
        continue;
      int64_t dim = heads->qk_dim;
      assert_true(dim == 64 || dim == 96 || dim == 128 || dim == 192 || dim == 256 || dim == before->qk_dim);
      for (int64_t t = 1; t <= 8; t *= 2)
        assert_true(heads->q_heads % t == 0 && spreads(heads->k_heads, t) && spreads(heads->v_heads, t));
    }
  }
}

static void shapes_can_be_served_on_eight_devices_and_keep_their_layers(void **state)
{
  (void)state;
  /* 20 heads, 28 heads with 4 K/V heads, 9 with 3: none of them spread over 8 devices; and experts. */
  const char *const models[] = {"gpt-neo-2.7b", "qwen2.5-7b", "smollm-135m", "mixtral-8x7b-v0.1", "gpt2"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_model model = shipped_model(models[i]);
    hr_workload workload = hr_workload_default(&model);
    hr_search_options options = hr_search_options_default();
    workload.attention = HR_ATTENTION_FUSED;
    hr_search_result *result = search_with("h200", &model, &workload, &options);
    assert_true(result->complete && result->count > 0);
    assert_served_on_eight(result, &model);
    hr_search_result_free(result);
  }
}

/* GPT-2's configuration has no field for the head size: hidden is heads · size. Mistral NeMo's has. */
static void only_families_that_state_a_head_size_get_heads_of_another_width_than_hidden(void **state)
{
  (void)state;
  const char *const models[] = {"gpt3-2.7b", "qwen2.5-7b", "llama-3-8b"};
  for (size_t i = 0; i < 3; i++) {
    hr_model model = shipped_model(models[i]);
    hr_search_options options = hr_search_options_default();
    hr_search_result *result = search("h200", &model, &options);
    size_t free_width = 0;
    for (size_t j = 0; j < result->count; j++) {
      const hr_mixer_attention *heads = &result->shapes[j].model.groups[0].attention;
      free_width += heads->q_heads * heads->qk_dim != result->shapes[j].model.hidden;
    }
    assert_true((free_width > 0) == (i == 2));
    hr_search_result_free(result);
  }
}

/* bf16 on an H200 is at full speed from 128 bytes = 64 elements on: 64 · 8 = 512 on eight devices. Of 8.03 B
 * parameters 2% either way are 321 M, or 817 of the 32 · 3 · 4096 parameters of a column of the MLP: two steps of 256,
 * one of 512. */
static void widths_are_multiples_that_the_device_and_the_degrees_want(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = hr_search_options_default();
  hr_search_space *space = calloc(1, sizeof *space);
  hr_error error;
  assert_non_null(space);
  assert_ok(hr_search_space_make(&hardware, &model, &workload, &options, space, &error), error);
  assert_int_equal(space->granule, 64);
  assert_int_equal(space->share, 8);
  assert_int_equal(space->mlp_step, 256);
  options.parameter_band = 0.04;
  space->hidden_count = 0;
  assert_ok(hr_search_space_make(&hardware, &model, &workload, &options, space, &error), error);
  assert_int_equal(space->mlp_step, 512);
  workload.tensor_parallel = 6; /* joins 1, 2, 4, 8: multiples of 24 */
  assert_ok(hr_search_space_make(&hardware, &model, &workload, &options, space, &error), error);
  assert_int_equal(space->share, 24);
  assert_int_equal(space->served_count, 5);
  free(space);
}

/* Blocks of 128 × 128 on eight devices: 1024 columns of the MLP, 128 of hidden, which is not split. */
static void no_device_gets_a_part_of_a_block_of_quantized_weights(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = hr_search_options_default();
  hr_search_space *space = calloc(1, sizeof *space);
  hr_error error;
  assert_non_null(space);
  model.quantization.format_count = 1;
  model.quantization.formats[0] =
      (hr_weight_format){.name = "fp8", .bits = 8, .block_inputs = 128, .block_outputs = 128, .block_bits = 32};
  assert_ok(hr_search_space_make(&hardware, &model, &workload, &options, space, &error), error);
  assert_int_equal(space->block, 128);
  assert_int_equal(space->mlp_step, 1024);
  for (size_t i = 0; i < space->hidden_count; i++)
    assert_int_equal(space->hidden[i] % 128, 0);
  free(space);
}

/* 7/8 of hidden has 7/8 of the channels: 8192 · 7/8 = 7168, and 256 · 7/8 = 224 of the step sizes' rank. */
static void channels_of_mamba_follow_hidden_if_the_family_states_their_multiple(void **state)
{
  (void)state;
  hr_model own = llama3_8b();
  own.groups[1] = own.groups[0];
  own.groups[1].attention = (hr_mixer_attention){.q_heads = 0};
  own.groups[1].scan = (hr_mixer_scan){
      .recurrence = HR_RECURRENCE_SELECTIVE, .heads = 8192, .head_dim = 1, .state = 16, .kernel = 4, .rank = 256};
  own.group_count = 2;
  hr_model model = own;
  model.hidden = 3584;
  assert_true(hr_reshape_scans(&own, &model)); /* of llama: stays */
  assert_int_equal(model.groups[1].scan.heads, 8192);
  strcpy(own.family, "jamba");
  assert_true(hr_reshape_scans(&own, &model));
  assert_int_equal(model.groups[1].scan.heads, 7168);
  assert_int_equal(model.groups[1].scan.rank, 224);
  own.groups[1].scan.groups = 4;
  model = own;
  model.hidden = 4097; /* twice is 8194, which four groups do not share */
  assert_false(hr_reshape_scans(&own, &model));
}

/* 8 K and V heads of 64 instead of 128 elements. */
static void a_shape_to_decode_with_says_what_its_cache_takes(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_search_options options = hr_search_options_default();
  workload.phase = HR_PHASE_DECODE;
  workload.attention = HR_ATTENTION_FUSED;
  options.vary = HR_SEARCH_HEADS;
  options.head_size_count = 1; /* 64, beside the model's own */
  hr_search_result *result = search_with("h200", &model, &workload, &options);
  assert_true(result->count > 0);
  assert_string_equal(result->shapes[0].differs, "heads 32×128 → 64×64, KV cache -50%");
  assert_true(result->shapes[0].cache_change == -0.5);
  hr_search_result_free(result);
}

static void a_shape_says_what_differs_and_whether_it_needs_training(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = hr_search_options_default();
  hr_workload workload = hr_workload_default(&model);
  workload.attention = HR_ATTENTION_FUSED;
  options.vary = HR_SEARCH_HEADS | HR_SEARCH_VOCABULARY;
  hr_search_result *result = search_with("h200", &model, &workload, &options);
  assert_true(result->count > 0);
  assert_string_equal(result->shapes[0].differs, "heads 32×80 → 40×64, vocabulary +47");
  assert_int_equal(result->shapes[0].change_class, HR_CHANGE_RETRAIN);
  assert_true(result->has_free && result->free.change_class == HR_CHANGE_FREE);
  assert_string_equal(result->free.differs, "vocabulary +47");
  assert_int_equal(result->varied, HR_SEARCH_HEADS | HR_SEARCH_VOCABULARY);
  hr_search_result_free(result);
}

/* 6900 = 4·1725 is aligned to 8 bytes in bf16 only. */
static void an_mlp_is_padded_for_free(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_search_options options = hr_search_options_default();
  hr_workload workload = hr_workload_default(&model);
  hr_set_mlp_width(&model, 6900, 1);
  hr_search_result *result = search_with("h200", &model, &workload, &options);
  assert_true(result->has_free && result->free.change_class == HR_CHANGE_FREE);
  assert_int_equal(hr_main_mlp_width(&result->free.model) % 64, 0);
  assert_true(hr_main_mlp_width(&result->free.model) > 6900 && result->free.model.vocabulary > 50257);
  double both = result->free.predicted_gain;
  hr_search_result_free(result);
  options.vary &= ~(unsigned)HR_SEARCH_MLP;
  result = search_with("h200", &model, &workload, &options);
  assert_true(result->has_free && result->free.predicted_gain < both);
  assert_int_equal(hr_main_mlp_width(&result->free.model), 6900);
  hr_search_result_free(result);
}

static void uneven_shapes_are_tried_on_request(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt-neo-2.7b");
  hr_search_options options = hr_search_options_default();
  options.hidden_min = options.hidden_max = 2560;
  options.heads_min = 20, options.heads_max = 21;
  hr_search_result *result = search("h200", &model, &options);
  assert_int_equal(result->evaluated, 0);
  assert_true(result->unserved > 0);
  hr_search_result_free(result);
  options.heads_max = 20; /* kept: the defaults that 20 heads do not spread over are left out */
  result = search("h200", &model, &options);
  assert_true(result->count > 0);
  assert_int_equal(result->served_count, 3);
  assert_int_equal(result->unserved_on[0], 8);
  hr_search_result_free(result);
  options.require_divisible = false;
  result = search("h200", &model, &options);
  assert_true(result->count > 0);
  assert_int_equal(result->served_count, 0);
  hr_search_result_free(result);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_can_be_served_on_eight_devices_and_keep_their_layers),
      cmocka_unit_test(only_families_that_state_a_head_size_get_heads_of_another_width_than_hidden),
      cmocka_unit_test(widths_are_multiples_that_the_device_and_the_degrees_want),
      cmocka_unit_test(no_device_gets_a_part_of_a_block_of_quantized_weights),
      cmocka_unit_test(channels_of_mamba_follow_hidden_if_the_family_states_their_multiple),
      cmocka_unit_test(a_shape_to_decode_with_says_what_its_cache_takes),
      cmocka_unit_test(an_mlp_is_padded_for_free),
      cmocka_unit_test(a_shape_says_what_differs_and_whether_it_needs_training),
      cmocka_unit_test(uneven_shapes_are_tried_on_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
