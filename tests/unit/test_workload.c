/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "models.h"

#include <headroom/workload.h>

static void defaults_come_from_the_model(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(workload.struct_size, sizeof workload);
  assert_int_equal(workload.phase, HR_PHASE_FORWARD);
  assert_int_equal(workload.attention, HR_ATTENTION_FUSED);
  assert_int_equal(workload.dtype, HR_BF16);
  assert_int_equal(workload.batch, 4);
  assert_int_equal(workload.sequence, 2048); /* of the 8192 positions */
  assert_int_equal(workload.context, 2048);
  assert_int_equal(workload.tensor_parallel, 1);
  assert_int_equal(workload.pipeline_stages, 1);
  model.max_positions = 1024;
  assert_int_equal(hr_workload_default(&model).sequence, 1024);
  model.default_batch = 16, model.default_sequence = 4096, model.default_tensor_parallel = 8;
  model.default_pipeline_stages = 2;
  workload = hr_workload_default(&model);
  assert_int_equal(workload.batch, 16);
  assert_int_equal(workload.sequence, 4096);
  assert_int_equal(workload.context, 4096);
  assert_int_equal(workload.tensor_parallel, 8);
  assert_int_equal(workload.pipeline_stages, 2);
}

static void an_impossible_size_is_named(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_error error;
  hr_workload workload = hr_workload_default(&model);
  assert_ok(hr_workload_check(&workload, &model, &error), error);
  workload.batch = 0;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "batch: expected at least 1, found 0");
  workload = hr_workload_default(&model);
  workload.sequence = INT64_MAX;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "sequence: expected at most 1099511627776, found 9223372036854775807");
  workload = hr_workload_default(&model);
  workload.pipeline_stages = 33;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "pipeline_stages: 33 stages need at least as many layers, the model has 32");
  workload = hr_workload_default(&model);
  workload.dtype = HR_DTYPE_COUNT;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
}

static void decode_needs_a_context_and_no_sequence(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  workload.context = 0;
  assert_int_equal(hr_workload_check(&workload, &model, NULL), HR_OK);
  workload.phase = HR_PHASE_DECODE;
  assert_int_equal(hr_workload_check(&workload, &model, NULL), HR_ERROR_INVALID);
  workload.context = 1, workload.sequence = 0;
  assert_int_equal(hr_workload_check(&workload, &model, NULL), HR_OK);
}

static void every_name_is_parsed(void **state)
{
  (void)state;
  for (int i = HR_PHASE_FORWARD; i <= HR_PHASE_DECODE; i++) {
    hr_phase phase = HR_PHASE_FORWARD;
    assert_int_equal(hr_phase_parse(hr_phase_name((hr_phase)i), &phase), HR_OK);
    assert_int_equal(phase, i);
  }
  hr_phase phase = HR_PHASE_TRAIN;
  assert_int_equal(hr_phase_parse("training", &phase), HR_ERROR_NOT_FOUND);
  assert_int_equal(phase, HR_PHASE_TRAIN);
  hr_attention_form form = HR_ATTENTION_UNFUSED;
  assert_int_equal(hr_attention_form_parse("fused", &form), HR_OK);
  assert_int_equal(form, HR_ATTENTION_FUSED);
  assert_string_equal(hr_attention_form_name((hr_attention_form)7), "unknown");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_come_from_the_model),
      cmocka_unit_test(an_impossible_size_is_named),
      cmocka_unit_test(decode_needs_a_context_and_no_sequence),
      cmocka_unit_test(every_name_is_parsed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
