/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of findings fit the shape, the device and the phase. */
#include "test.h"

#include "advice.h"
#include "models.h"

#include <headroom/experimental/model.h>
#include <headroom/memory.h>

static hr_advice *advise_at(const char *name, const hr_model *model, int64_t t, hr_dtype dtype)
{
  hr_hardware hardware = device(name);
  hr_workload workload = workload_of(model, t);
  workload.dtype = dtype;
  return advise_under(&hardware, model, &workload);
}

static void a_finding_on_fewer_heads_names_the_number_of_kv_heads(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3.2-1b"); /* 32 heads of 64 over 8 KV heads: 4 query heads each */
  hr_advice *advice = advise("h200", &model);
  const hr_finding *finding = found(advice, "fewer_heads");
  assert_string_equal(finding->current, "32 heads of 64, 8 KV heads");
  assert_string_equal(finding->suggested, "16 heads of 128, 4 KV heads");
  hr_advice_free(advice);
  model = sigma_1_5b(); /* K and V heads differ */
  advice = advise("h200", &model);
  finding = found(advice, "fewer_heads");
  assert_string_equal(finding->current, "32 heads of 64, 4 K and 16 V heads");
  hr_advice_free(advice);
}

static void the_finding_names_the_heads_that_do_not_split(void **state)
{
  (void)state;
  hr_model model = shipped_model("phi-3-medium-4k"); /* 40 query heads split over 4 devices, 10 KV heads do not */
  hr_advice *advice = advise_at("h200", &model, 4, HR_BF16);
  const hr_finding *finding = found(advice, "batch_heads_per_device");
  assert_non_null(strstr(finding->why, "3 K heads, against 2.50 on average")); /* ⌈10/4⌉ = 3 */
  assert_int_equal(finding->workload.tensor_parallel, 2);
  hr_advice_free(advice);
}

/* A device with memory halfway between the needs of two workloads: `smaller` fits, `larger` does not. */
static hr_hardware device_between(const hr_model *model, const hr_workload *smaller, const hr_workload *larger)
{
  hr_hardware hardware = device("h200");
  hr_memory fits, too_large;
  hr_error error;
  assert_ok(hr_memory_estimate(model, smaller, &fits, &error), error);
  assert_ok(hr_memory_estimate(model, larger, &too_large, &error), error);
  assert_true(fits.total_bytes < too_large.total_bytes);
  hardware.memory_bytes = (fits.total_bytes + too_large.total_bytes) / 2 * 10 / 9; /* nine tenths are usable */
  return hardware;
}

/* 64 heads do not split over 3 devices. Over 2 they would, but half of the model does not fit into memory where a third
 * of it does. */
static void a_suggested_t_still_fits_the_memory(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_workload workload = workload_of(&model, 3), fewer = workload_of(&model, 2);
  hr_hardware large = device("h200"), small = device_between(&model, &workload, &fewer);
  hr_advice *advice = advise_under(&large, &model, &workload);
  assert_int_equal(found(advice, "batch_heads_per_device")->workload.tensor_parallel, 2);
  hr_advice_free(advice);
  advice = advise_under(&small, &model, &workload);
  assert_int_equal(found(advice, "batch_heads_per_device")->workload.tensor_parallel, 4);
  hr_advice_free(advice);
}

/* 36 layers in 5 stages. 4 is nearest, but a stage of 9 layers does not fit where one of 8 does; 6 stages of 6 do, and
 * 32 microbatches take (32 + 5) · 6 · 6 against (32 + 4) · 8 · 5 layer times of a device. */
static void a_suggested_number_of_stages_still_fits_the_memory(void **state)
{
  (void)state;
  hr_model model = paper_model(8192, 64, 36, 50304);
  hr_workload workload = workload_of(&model, 1);
  workload.pipeline_stages = 5, workload.microbatches = 32;
  hr_workload fewer = workload;
  fewer.pipeline_stages = 4;
  hr_hardware large = device("h200"), small = device_between(&model, &workload, &fewer);
  hr_advice *advice = advise_under(&large, &model, &workload);
  assert_int_equal(found(advice, "pipeline_divides_layers")->workload.pipeline_stages, 4);
  hr_advice_free(advice);
  advice = advise_under(&small, &model, &workload);
  assert_int_equal(found(advice, "pipeline_divides_layers")->workload.pipeline_stages, 6);
  hr_advice_free(advice);
}

/* The same stages with one microbatch: 6 of them would take 6 · 6 · 6 against 8 · 5 · 5 layer times of a device. */
static void more_stages_that_gain_nothing_are_not_suggested(void **state)
{
  (void)state;
  hr_model model = paper_model(8192, 64, 36, 50304);
  hr_workload workload = workload_of(&model, 1);
  workload.pipeline_stages = 5;
  hr_workload fewer = workload;
  fewer.pipeline_stages = 4;
  hr_hardware small = device_between(&model, &workload, &fewer);
  hr_advice *advice = advise_under(&small, &model, &workload);
  const hr_finding *finding = found(advice, "pipeline_divides_layers");
  assert_int_equal(finding->workload.pipeline_stages, 5);
  assert_int_equal(hr_model_layers(&finding->model), 35);
  hr_advice_free(advice);
}

/* Yi-34B has 7 query heads per KV head, so no number of heads near 7168 is divisible by 6 along with its KV heads. */
static void a_degree_of_six_without_a_nearby_shape_is_infeasible(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.hidden = 7168;
  model.groups[0].attention.q_heads = 56;
  hr_advice *advice = advise_at("h200", &model, 6, HR_BF16);
  const hr_finding *finding = found(advice, "six_gpu_node");
  assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
  assert_false(finding->has_change);
  assert_non_null(strstr(finding->why, "do not split over t = 6"));
  hr_advice_free(advice);
}

static void an_unknown_node_size_is_not_zero_devices(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hardware.devices_per_node = 0;
  hr_workload workload = workload_of(&model, 1);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_null(strstr(found(advice, "six_gpu_node")->why, "0 devices"));
  hr_advice_free(advice);
}

static void a_smaller_t_is_no_gain_of_the_step(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise_at("h200", &model, 8, HR_BF16);
  const hr_finding *finding = found(advice, "tensor_parallel_small");
  assert_true(finding->has_change && finding->gain_per_device);
  assert_true(finding->predicted_gain > 0.1 && finding->predicted_time_ns > advice->step.about.time_ns);
  assert_int_equal(finding->severity, HR_SEVERITY_MEDIUM);
  assert_non_null(strstr(finding->why, "tokens/s per device +"));
  assert_non_null(strstr(finding->why, "but the step takes"));
  hr_advice_free(advice);
}

static void augmented_q_is_among_the_gemms_that_t_divides(void **state)
{
  (void)state;
  hr_model model = sigma_1_5b();
  hr_advice *advice = advise_at("h200", &model, 4, HR_BF16);
  assert_non_null(strstr(found(advice, "tensor_parallel_small")->operators, "q_down q_up k_transform v_transform"));
  hr_advice_free(advice);
}

/* Four rows: the time to read the weights hides that of the tiles, whose rows are 60/64 empty. */
static void padding_of_tiles_hidden_by_memory_time_is_not_a_loss(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-13b");
  hr_hardware hardware = device("l4");
  hr_workload workload = workload_of(&model, 2);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 2048;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  for (size_t i = 0; i < advice->step.operators.count; i++) {
    if (advice->step.operators.items[i].id == HR_OP_MLP_UP) {
      assert_int_equal(advice->step.predictions[i].bound_by, HR_BOUND_MEMORY);
      assert_true(advice->step.predictions[i].tile_waste > 0.9);
    }
  }
  assert_non_null(strstr(found(advice, "tile_quantization")->why, "tile quantization costs at most"));
  hr_advice_free(advice);
}

/* 50257 is odd, but fp32, which uses no matrix units, is not slowed down by that. An alignment of 16 bytes does not
 * help either: the size has 4. */
static void alignment_is_not_given_as_a_reason_where_it_costs_nothing(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.dtype = HR_FP32;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "vocabulary_alignment");
  assert_true(finding->not_applicable);
  assert_null(strstr(finding->why, "from 16 bytes"));
  assert_non_null(strstr(finding->why, "the loss is negligible in this step"));
  hr_advice_free(advice);
}

static void a_larger_batch_of_decode_states_its_latency(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 2048;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_non_null(strstr(found(advice, "microbatch")->why, "a sequence then waits"));
  hr_advice_free(advice);
}

static void a_slow_device_has_rates_that_are_not_zero(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("xeon-sapphire-rapids");
  hardware.dense_flops_per_s[HR_BF16] = 600e9; /* two cores of a cloud machine */
  hardware.library_share[HR_BF16] = 0.05;
  hr_workload workload = workload_of(&model, 1);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    assert_null(strstr(advice->findings[i].why, " 0.0"));
    assert_null(strstr(advice->findings[i].why, "-0.00%"));
    assert_null(strstr(advice->findings[i].why, "TFLOP/s"));
  }
  hr_advice_free(advice);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_finding_on_fewer_heads_names_the_number_of_kv_heads),
      cmocka_unit_test(the_finding_names_the_heads_that_do_not_split),
      cmocka_unit_test(a_suggested_t_still_fits_the_memory),
      cmocka_unit_test(a_suggested_number_of_stages_still_fits_the_memory),
      cmocka_unit_test(more_stages_that_gain_nothing_are_not_suggested),
      cmocka_unit_test(a_degree_of_six_without_a_nearby_shape_is_infeasible),
      cmocka_unit_test(an_unknown_node_size_is_not_zero_devices),
      cmocka_unit_test(a_smaller_t_is_no_gain_of_the_step),
      cmocka_unit_test(augmented_q_is_among_the_gemms_that_t_divides),
      cmocka_unit_test(padding_of_tiles_hidden_by_memory_time_is_not_a_loss),
      cmocka_unit_test(alignment_is_not_given_as_a_reason_where_it_costs_nothing),
      cmocka_unit_test(a_larger_batch_of_decode_states_its_latency),
      cmocka_unit_test(a_slow_device_has_rates_that_are_not_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
