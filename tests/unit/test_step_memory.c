/* SPDX-License-Identifier: Apache-2.0 */
/* What whole models allocate beside what `describe` counts. */
#include "test.h"

#include "hardware/hardware.h"

#include <dirent.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/step.h>
#include <headroom/memory.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER HEADROOM_SOURCE_DIR "/tests/data/checkpoints"
#define TOKENS 64 /* whole pages of the caches */

static hr_device *open_cpu(void)
{
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  return device;
}

static hr_memory memory_of(const hr_model *model, hr_phase phase, int64_t tokens)
{
  hr_workload workload = hr_workload_default(model);
  hr_memory memory;
  hr_error error;
  workload.phase = phase;
  workload.batch = 1;
  workload.sequence = workload.context = tokens;
  workload.dtype = HR_FP32;
  assert_ok(hr_memory_estimate(model, &workload, &memory, &error), error);
  return memory;
}

/* Caches keep all tokens of layers with a window, and weights in fp8 are widened. */
static hr_model as_it_runs(const hr_model *model)
{
  hr_model whole = *model;
  hr_error error;
  assert_ok(hr_model_set_weights(&whole, "bf16", &error), error);
  for (size_t i = 0; i < whole.group_count; i++)
    whole.groups[i].attention.window = 0;
  return whole;
}

static bool check_weights(hr_device *device, const char *family)
{
  char path[512];
  hr_model model;
  hr_error error;
  hr_executor *x = NULL;
  hr_executor_options options = hr_executor_options_default();
  snprintf(path, sizeof path, FOLDER "/%s", family);
  assert_ok(hr_resolve_model(path, NULL, NULL, &model, &error), error);
  options.tokens = TOKENS;
  const hr_status status = hr_executor_open(device, &model, &options, &x, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  const hr_model whole = as_it_runs(&model);
  const hr_memory m = memory_of(&whole, HR_PHASE_PREFILL, TOKENS);
  const double said = (double)(m.weight_bytes + m.kv_cache_bytes), has = (double)hr_executor_bytes(x);
  if (fabs(has / said - 1) > 0.03)
    fail_msg("%s: weights and caches are %.0f bytes, described are %.0f", family, has, said);
  hr_executor_close(x);
  return true;
}

static void weights_and_caches_of_every_family_are_what_describe_says(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  DIR *folder = opendir(FOLDER);
  int checked = 0;
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder));)
    checked += entry->d_name[0] != '.' && check_weights(device, entry->d_name);
  closedir(folder);
  hr_device_close(device);
  assert_true(checked >= 35);
}

typedef struct step_case {
  hr_phase phase;
  hr_recompute recompute;
  int64_t batch, replicas, zero_stage, ranks;
} step_case;

static void check_step(hr_device *device, const hr_model *model, const step_case *c)
{
  hr_hardware hardware;
  hr_error error;
  assert_ok(hr_resolve_hardware("xeon-sapphire-rapids", &hardware, &error), error);
  hr_workload workload = hr_workload_default(model);
  hr_step_options options = hr_step_options_default();
  hr_step_times *times = NULL;
  const hr_subject subject = {.hardware = &hardware, .model = model, .workload = &workload};
  workload.phase = c->phase;
  workload.recompute = c->recompute;
  workload.batch = c->batch, workload.context = 128;
  workload.dtype = HR_FP32;
  workload.data_parallel = c->replicas;
  workload.zero_stage = c->zero_stage;
  workload.tensor_parallel = c->ranks;
  options.budget_ns = 1;
  assert_ok(hr_step_measure(device, &subject, &options, &times, &error), error);
  const double has = (double)times->allocated_bytes, said = (double)times->estimated_bytes;
  if (fabs(has / said - 1) > 0.03)
    fail_msg("%s, recomputation %d, ZeRO stage %d: %.0f bytes are allocated, %.0f estimated", hr_phase_name(c->phase),
             (int)c->recompute, (int)c->zero_stage, has, said);
  assert_true(times->allocated_bytes > times->weight_bytes);
  const int64_t sequences = c->batch * workload.data_parallel;
  const double tokens = c->phase == HR_PHASE_DECODE ? 1 : (double)workload.sequence;
  assert_true(fabs(times->tokens_per_s * times->measurement.median_ns * 1e-9 / ((double)sequences * tokens) - 1) <
              1e-9);
  hr_step_times_free(times);
}

static hr_model model_of(const char *text)
{
  const hr_input input = {.text = text, .length = strlen(text), .name = "test"};
  hr_model model;
  hr_error error;
  assert_ok(hr_model_from_json(&input, NULL, NULL, &model, &error), error);
  return model;
}

/* 4 layers of h = 512 and 16000 words have 113 MiB of weights, beside which tables are small. Logits are apart from
 * other activations, which describe counts as the larger of both. */
static void a_step_allocates_what_describe_says(void **state)
{
  (void)state;
  const hr_model model = model_of("{\"h\":512,\"a\":8,\"L\":4,\"v\":16000,\"s\":128,\"tied\":false,"
                                  "\"final_norm\":true}");
  const step_case cases[] = {
      {HR_PHASE_FORWARD, HR_RECOMPUTE_NONE, 1, 1, 0, 1}, {HR_PHASE_PREFILL, HR_RECOMPUTE_NONE, 1, 1, 0, 1},
      {HR_PHASE_DECODE, HR_RECOMPUTE_NONE, 1, 1, 0, 1},  {HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 8, 1, 0, 1},
      {HR_PHASE_TRAIN, HR_RECOMPUTE_FULL, 8, 1, 0, 1},   {HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 4, 2, 0, 1},
      {HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 4, 2, 1, 1},   {HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 4, 3, 1, 1},
      {HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 4, 1, 0, 2}};
  hr_device *device = open_cpu();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_step(device, &model, &cases[i]);
  hr_device_close(device);
}

/* 32 experts of 256, and with latent attention, some 30 million weights. */
static void training_experts_takes_what_describe_says(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "{\"model_type\":\"qwen3_moe\",\"hidden_size\":256,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
      "\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":4000,\"intermediate_size\":512,"
      "\"moe_intermediate_size\":256,\"num_experts\":32,\"num_experts_per_tok\":2,\"max_position_embeddings\":128}",
      "{\"model_type\":\"deepseek_v3\",\"hidden_size\":256,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
      "\"num_key_value_heads\":4,\"vocab_size\":4000,\"intermediate_size\":512,\"moe_intermediate_size\":256,"
      "\"n_routed_experts\":32,\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"n_group\":4,\"topk_group\":2,"
      "\"first_k_dense_replace\":1,\"q_lora_rank\":96,\"kv_lora_rank\":64,\"qk_nope_head_dim\":64,"
      "\"qk_rope_head_dim\":32,\"v_head_dim\":64,\"max_position_embeddings\":128}"};
  hr_device *device = open_cpu();
  for (int i = 0; i < 2; i++) {
    const hr_model model = model_of(texts[i]);
    check_step(device, &model, &(step_case){HR_PHASE_TRAIN, HR_RECOMPUTE_NONE, 4, 1, 0, 1});
  }
  hr_device_close(device);
}

static void caches_keep_tokens_behind_windows(void **state)
{
  (void)state;
  const hr_model model = model_of("{\"h\":512,\"a\":8,\"L\":4,\"v\":2000,\"s\":128,\"window\":16}");
  hr_device *device = open_cpu();
  check_step(device, &model, &(step_case){HR_PHASE_DECODE, HR_RECOMPUTE_NONE, 2, 1, 0, 1});
  hr_device_close(device);
}

/* Tied, too, where the embedding is in q8_0 as well. */
static void weights_in_q8_0_take_what_describe_says(void **state)
{
  (void)state;
  hr_device *device = open_cpu();
  hr_error error;
  for (int tied = 0; tied <= 1; tied++) {
    hr_model model = model_of(tied ? "{\"h\":768,\"a\":8,\"L\":14,\"v\":9000,\"s\":128,\"tied\":true}"
                                   : "{\"h\":768,\"a\":8,\"L\":4,\"v\":24000,\"s\":128,\"tied\":false}");
    assert_ok(hr_model_set_weights(&model, "q8_0", &error), error);
    check_step(device, &model, &(step_case){tied ? HR_PHASE_DECODE : HR_PHASE_PREFILL, HR_RECOMPUTE_NONE, 1, 1, 0, 1});
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_and_caches_of_every_family_are_what_describe_says),
      cmocka_unit_test(a_step_allocates_what_describe_says),
      cmocka_unit_test(training_experts_takes_what_describe_says),
      cmocka_unit_test(caches_keep_tokens_behind_windows),
      cmocka_unit_test(weights_in_q8_0_take_what_describe_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
