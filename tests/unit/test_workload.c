/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "models.h"

#include <headroom/experimental/change.h>
#include <headroom/experimental/workload.h>
#include <string.h>

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

static void refused(const hr_workload *workload, const hr_model *model, const char *message)
{
  hr_error error;
  assert_int_equal(hr_workload_check(workload, model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, message);
}

static void a_degree_that_does_not_suit_the_step_is_named(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload training = hr_workload_default(&model);
  training.phase = HR_PHASE_TRAIN;
  hr_workload w = training;
  w.context_parallel = 3;
  refused(
      &w, &model,
      "context_parallel: sequence, 2048, is not a multiple of 2 · 3: each device takes two equal parts of a sequence");
  w.context_parallel = 2, w.phase = HR_PHASE_DECODE;
  refused(&w, &model, "context_parallel: a decode step has one token of a sequence to split");
  w = training, w.zero_stage = 4;
  refused(&w, &model, "zero_stage: expected 0 to 3, found 4");
  w.zero_stage = 1, w.phase = HR_PHASE_PREFILL;
  refused(&w, &model, "zero_stage: needs the phase train");
  w = training, w.recompute = HR_RECOMPUTE_FULL, w.phase = HR_PHASE_FORWARD;
  refused(&w, &model, "recompute: needs the phase train");
  w = training, w.overlap = 1.5;
  refused(&w, &model, "overlap: expected 0 to 1, found 1.5");
  w = training, w.flash = (hr_flash_library)9;
  refused(&w, &model, "flash: 9 is not in the list");
  w = training, w.framework = HR_FRAMEWORK_VLLM;
  refused(&w, &model, "framework: vllm does not train");
  w = training, w.flash = HR_FLASH_1, w.framework = HR_FRAMEWORK_HEADROOM;
  refused(&w, &model, "flash: 1: the framework headroom has attention kernels of its own");
  w = training, w.microbatches = -1;
  refused(&w, &model, "microbatches: expected at least 1, found -1");
  w = hr_workload_default(&model), w.virtual_stages = 2;
  refused(&w, &model, "virtual_stages: 2 need the phase train and several pipeline stages");
  w.phase = HR_PHASE_TRAIN, w.pipeline_stages = 2, w.virtual_stages = -1;
  refused(&w, &model, "virtual_stages: expected at least 1, found -1");
  w.virtual_stages = 5;
  refused(&w, &model, "virtual_stages: 32 layers do not divide by 2 stages of 5 parts");
  w.virtual_stages = 2, w.microbatches = 3;
  refused(&w, &model, "virtual_stages: 3 microbatches are not a multiple of 2 stages");
  w = training, w.data_parallel = 0;
  refused(&w, &model, "data_parallel: expected at least 1, found 0");
  model.groups[0].dense.width = 0;
  model.groups[0].experts = (hr_ffn_experts){.experts = 8, .active = 2, .width = 14336};
  w = training, w.tensor_parallel = 2, w.expert_parallel = 8, w.data_parallel = 6;
  refused(&w, &model,
          "data_parallel: 6 is not a multiple of expert_parallel / tensor_parallel, 4 groups that share the experts");
}

static void training_fills_its_pipeline_unless_told_otherwise(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  workload.pipeline_stages = 4;
  assert_int_equal(hr_workload_microbatches(&workload), 1);
  workload.phase = HR_PHASE_TRAIN;
  assert_int_equal(hr_workload_microbatches(&workload), 4);
  workload.microbatches = 2;
  assert_int_equal(hr_workload_microbatches(&workload), 2);
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
  hr_change_class change_class = HR_CHANGE_FREE;
  assert_int_equal(hr_change_class_parse("deploy", &change_class), HR_OK);
  assert_int_equal(change_class, HR_CHANGE_DEPLOY);
  assert_int_equal(hr_change_class_parse("costly", &change_class), HR_ERROR_NOT_FOUND);
  assert_string_equal(hr_change_class_name(HR_CHANGE_RETRAIN), "retrain");
  hr_attention_form form = HR_ATTENTION_UNFUSED;
  assert_int_equal(hr_attention_form_parse("fused", &form), HR_OK);
  assert_int_equal(form, HR_ATTENTION_FUSED);
  assert_string_equal(hr_attention_form_name((hr_attention_form)7), "unknown");
  hr_recompute recompute = HR_RECOMPUTE_NONE;
  assert_int_equal(hr_recompute_parse("full", &recompute), HR_OK);
  assert_int_equal(recompute, HR_RECOMPUTE_FULL);
  assert_string_equal(hr_recompute_name(HR_RECOMPUTE_SELECTIVE), "selective");
}

/* What differs, as a bit for each. */
static uint64_t changes_of(const hr_model *model, const hr_workload *workload)
{
  hr_model before = llama3_8b();
  hr_workload asked = hr_workload_default(&before);
  asked.phase = workload->phase;
  return hr_changes_between(&before, &asked, model, workload);
}

static void what_differs_has_the_class_of_its_costliest_part(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  assert_true(changes_of(&model, &workload) == 0);
  workload.attention = HR_ATTENTION_UNFUSED;
  model.vocabulary = 128320;
  uint64_t free = changes_of(&model, &workload);
  assert_true(free == (1u << HR_CHANGED_ATTENTION | 1u << HR_CHANGED_VOCABULARY));
  assert_int_equal(hr_change_cost_of(hr_costliest_change(free))->change_class, HR_CHANGE_FREE);
  model.groups[0].dense.width += 64;
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_MLP_PADDING);
  assert_int_equal(hr_change_cost_of(HR_CHANGED_MLP_PADDING)->change_class, HR_CHANGE_FREE);
  workload.tensor_parallel = 2;
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_TENSOR_PARALLEL);
  assert_int_equal(hr_change_cost_of(HR_CHANGED_TENSOR_PARALLEL)->change_class, HR_CHANGE_DEPLOY);
  model.groups[0].dense.width -= 128;
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_MLP_WIDTH);
  assert_int_equal(hr_change_cost_of(HR_CHANGED_MLP_WIDTH)->change_class, HR_CHANGE_RETRAIN);
  model.groups[0].attention.k_heads = model.groups[0].attention.v_heads = 4;
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_KV_HEADS);
  assert_int_equal(hr_change_cost_of(HR_CHANGED_KV_HEADS)->change_class, HR_CHANGE_RETRAIN);
  assert_non_null(strstr(hr_change_cost_of(HR_CHANGED_KV_HEADS)->source, "2305.13245"));
  model.groups[0].attention.qk_dim = model.groups[0].attention.v_dim = 64;
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_HEADS);
  model.vocabulary = 32000; /* of 128256: tokens are lost */
  assert_int_equal(hr_costliest_change(changes_of(&model, &workload)), HR_CHANGED_OTHER);
}

static void k_apart_from_v_has_the_evidence_of_diffqkv(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  model.groups[0].attention.k_heads = 4;
  assert_true(changes_of(&model, &workload) == 1u << HR_CHANGED_K_HEADS);
  assert_non_null(strstr(hr_change_cost_of(HR_CHANGED_K_HEADS)->source, "2501.13629, table 1"));
  model.groups[0].attention.qk_dim = model.groups[0].attention.rotary_dim = 64; /* of 128, as V keeps */
  assert_true(changes_of(&model, &workload) == (1u << HR_CHANGED_K_HEADS | 1u << HR_CHANGED_K_SIZE));
  assert_non_null(strstr(hr_change_cost_of(HR_CHANGED_K_SIZE)->source, "2501.13629, tables 2 and 6"));
  model.groups[0].attention.v_heads = 4;
  assert_true(changes_of(&model, &workload) == (1u << HR_CHANGED_KV_HEADS | 1u << HR_CHANGED_K_SIZE));
}

/* Gradient accumulation keeps the global batch; a server has to wait for more requests. */
static void a_larger_batch_is_free_in_training_alone(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  workload.batch = 8;
  for (int i = HR_PHASE_FORWARD; i <= HR_PHASE_DECODE; i++) {
    workload.phase = (hr_phase)i;
    hr_change_class found = hr_change_cost_of(hr_costliest_change(changes_of(&model, &workload)))->change_class;
    assert_int_equal(found, i == HR_PHASE_TRAIN ? HR_CHANGE_FREE : HR_CHANGE_DEPLOY);
  }
}

static void fewer_larger_microbatches_of_the_same_global_batch_are_free(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload before = hr_workload_default(&model);
  before.phase = HR_PHASE_TRAIN;
  before.batch = 4, before.microbatches = 8;
  hr_workload after = before;
  after.batch = 8, after.microbatches = 4;
  assert_true(hr_changes_between(&model, &before, &model, &after) == 1u << HR_CHANGED_MICROBATCH);
  after.batch = 4, after.microbatches = 16; /* 64 sequences instead of 32 */
  assert_true(hr_changes_between(&model, &before, &model, &after) == 1u << HR_CHANGED_MICROBATCHES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_come_from_the_model),
      cmocka_unit_test(an_impossible_size_is_named),
      cmocka_unit_test(decode_needs_a_context_and_no_sequence),
      cmocka_unit_test(a_degree_that_does_not_suit_the_step_is_named),
      cmocka_unit_test(training_fills_its_pipeline_unless_told_otherwise),
      cmocka_unit_test(every_name_is_parsed),
      cmocka_unit_test(what_differs_has_the_class_of_its_costliest_part),
      cmocka_unit_test(k_apart_from_v_has_the_evidence_of_diffqkv),
      cmocka_unit_test(a_larger_batch_is_free_in_training_alone),
      cmocka_unit_test(fewer_larger_microbatches_of_the_same_global_batch_are_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
