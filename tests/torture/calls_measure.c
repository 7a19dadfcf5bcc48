/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements of the public interface that no command makes alone, graphs' halves of an append, and buffers. A
 * measurement may have `out_of_memory` as its result, which ends the program as an error does. */
#include "calls.h"

#include <headroom/experimental/communicator.h>
#include <headroom/experimental/plan.h>
#include <headroom/experimental/run.h>
#include <stdlib.h>
#include <string.h>

static hr_measure_options short_options(void)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = 1e9;
  options.samples_min = options.samples_max = 3;
  options.warm = true;
  return options;
}

static hr_status result_of(const hr_measurement *measurement, hr_error *error)
{
  hr_status status = measurement->status == HR_ERROR_NOISY ? HR_OK : measurement->status;
  if (status != HR_OK)
    snprintf(error->message, sizeof error->message, "%s", measurement->reason);
  return status;
}

static hr_status use_measurements(hr_device *device, hr_error *error)
{
  hr_measure_options options = short_options();
  hr_measurement measurement;
  static hr_comparison comparison;
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = 4, rows.columns = 16, rows.dtype = HR_FP32;
  hr_gemm before = hr_gemm_default(), after;
  before.m = before.n = before.k = 16, before.dtype = HR_FP32;
  after = before, after.m = 8;
  hr_status status = HR_OK;
  TRY(hr_measure_rowwise(device, &rows, &options, &measurement, error));
  TRY(result_of(&measurement, error));
  TRY(hr_measure_gemm_pair(device, &before, &after, &options, &comparison, error));
  TRY(result_of(&comparison.before, error));
  TRY(result_of(&comparison.after, error));
  printf("measured with %s\n", measurement.kernel);
end:
  return status;
}

static hr_status use_buffers(hr_device *device, hr_error *error)
{
  const float four[4] = {1, 2, 3, 4};
  float back[4] = {0};
  hr_buffer *buffer = NULL;
  hr_plan *plan = NULL;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 16, gemm.dtype = HR_FP32;
  hr_status status = HR_OK;
  TRY(hr_buffer_create(device, 256, &buffer, error));
  TRY(hr_buffer_poison(buffer, HR_FP32, error));
  TRY(hr_buffer_write(buffer, four, sizeof four, error));
  TRY(hr_buffer_read(buffer, back, sizeof back, error));
  TRY(hr_plan_gemm_choice(device, &gemm, &(hr_plan_choice){.kernel = NULL, .choice = 0, .choices = 1}, &plan, error));
  printf("%g %g, %s, %d\n", (double)back[0], (double)back[3], hr_plan_kernel(plan), (int)hr_plan_choices(plan));
end:
  hr_plan_free(plan);
  hr_buffer_free(buffer);
  return status;
}

/* A growth that fails leaves the slot as long as it was. */
static hr_status use_growth(hr_device *device, hr_error *error)
{
  hr_kv_cache_options options = hr_kv_cache_options_default();
  options.dtype = HR_FP32, options.slots = 1, options.tokens = 64;
  hr_kv_cache *cache = NULL;
  hr_buffer *values = NULL;
  int64_t slot = 0, length = -1;
  const int64_t tokens = 20;
  hr_kv_append append = hr_kv_append_default();
  append.count = 1, append.slots = &slot, append.tokens = &tokens;
  hr_status status = HR_OK;
  TRY(hr_buffer_create(device, 20 * 64 * sizeof(float), &values, error));
  TRY(hr_buffer_fill_uniform(values, HR_FP32, 1, error));
  append.k = append.v = hr_buffer_data(values);
  TRY(hr_kv_cache_create(device, &options, &cache, error));
  TRY(hr_kv_cache_add(cache, &slot, error));
  hr_status grown = hr_kv_cache_grow(cache, &append, NULL, error);
  TRY(hr_kv_cache_length(cache, slot, &length, NULL));
  if (length != (grown == HR_OK ? 20 : 0))
    grown = HR_ERROR_WRONG_RESULT;
  TRY(grown);
  TRY(hr_kv_cache_write(cache, &append, NULL, error));
  printf("length %d\n", (int)length);
end:
  hr_kv_cache_free(cache);
  hr_buffer_free(values);
  return status;
}

/* A small model runs, and its operators are timed. */
static hr_status use_executor(hr_device *device, hr_error *error)
{
  static const char config[] = "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":1,"
                               "\"num_attention_heads\":2,\"intermediate_size\":16,\"vocab_size\":20}";
  const hr_input input = {.name = "tiny", .text = config, .length = sizeof config - 1};
  const hr_executor_options options = {.struct_size = sizeof options, .dtype = HR_FP32, .slots = 1, .tokens = 8};
  static hr_model model;
  static double times_ns[HR_OPERATORS_MAX];
  int32_t largest;
  hr_generated *generated = NULL;
  hr_executor *executor = NULL;
  hr_executor_input step = hr_executor_input_default();
  hr_status status = HR_OK;
  step.tokens = 3;
  step.ids = (const int32_t[]){1, 2, 3};
  TRY(hr_model_from_json(&input, NULL, NULL, &model, error));
  TRY(hr_executor_open(device, &model, &options, &executor, error));
  TRY(hr_executor_step(executor, &step, NULL, error));
  TRY(hr_executor_time_operators(executor, times_ns, error));
  TRY(hr_executor_largest(executor, &largest, error));
  TRY(hr_executor_truncate(executor, 0, 2, error));
  TRY(hr_executor_load(executor, NULL, 1, NULL, NULL, error));
  TRY(hr_generate(executor, &step, 2, &generated, error));
end:
  hr_generated_free(generated);
  hr_executor_close(executor);
  return status;
}

/* It trains, and computes its layers again. */
static hr_status use_training(hr_device *device, hr_error *error)
{
  static const char config[] =
      "{\"model_type\":\"qwen3\",\"hidden_size\":16,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,\"intermediate_size\":16,\"vocab_size\":20}";
  const hr_input input = {.name = "tiny", .text = config, .length = sizeof config - 1};
  hr_executor_options options = hr_executor_options_default();
  static hr_model model;
  hr_executor *executor = NULL;
  hr_executor_input step = hr_executor_input_default();
  hr_status status = HR_OK;
  float losses[3];
  options.tokens = 8;
  options.trains = true;
  options.recompute = HR_RECOMPUTE_FULL;
  step.phase = HR_PHASE_TRAIN;
  step.tokens = 3;
  step.ids = (const int32_t[]){1, 2, 3};
  TRY(hr_model_from_json(&input, NULL, NULL, &model, error));
  TRY(hr_executor_open(device, &model, &options, &executor, error));
  TRY(hr_executor_step(executor, &step, losses, error));
  TRY(hr_executor_step(executor, &step, losses, error));
  printf("losses %.4g %.4g\n", (double)losses[0], (double)losses[1]);
end:
  hr_executor_close(executor);
  return status;
}

/* A rank alone, as a thread and as a process. */
static hr_status use_communicators(hr_device *device, hr_error *error)
{
  hr_communicator *alone = NULL, *joined = NULL;
  hr_communicator_options options = hr_communicator_options_default();
  hr_collective_call call = hr_collective_call_default();
  hr_status status = HR_OK;
  float numbers[2] = {1, 2};
  call.count = 2;
  call.send = call.receive = numbers;
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "1", 1);
  setenv("LOCAL_RANK", "0", 1);
  TRY(hr_communicator_environment(&options, error));
  TRY(hr_communicators_create(&device, 1, NULL, &alone, error));
  TRY(hr_communicator_join(device, &options, &joined, error));
  TRY(hr_communicate(alone, &call, NULL, error));
  TRY(hr_communicator_wait(alone, NULL, error));
  TRY(hr_communicator_meet(joined, error));
  TRY(hr_communicator_share(joined, &call.count, sizeof call.count, &call.count, error));
  printf("sums %g %g\n", (double)numbers[0], (double)numbers[1]);
end:
  hr_communicator_free(joined);
  hr_communicator_free(alone);
  return status;
}

static hr_status use_all(hr_error *error)
{
  hr_device *device = NULL;
  hr_device_options options = hr_device_options_default();
  options.threads = 1;
  hr_status status = HR_OK;
  TRY(hr_device_open_with("cpu", &options, &device, error));
  TRY(use_buffers(device, error));
  TRY(use_growth(device, error));
  TRY(use_measurements(device, error));
  TRY(use_executor(device, error));
  TRY(use_training(device, error));
  TRY(use_communicators(device, error));
end:
  hr_device_close(device);
  return status;
}

int main(void)
{
  return calls_end(use_all);
}
