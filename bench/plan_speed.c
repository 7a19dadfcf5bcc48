/* SPDX-License-Identifier: Apache-2.0 */
/* How many layouts a plan of a training run evaluates per second on one core.
 *
 *   cmake --build --preset release --target plan_speed && build/release/bench/plan_speed
 *
 * Prints the layouts, seconds and layouts per second for shipped models. Uses CPU time, so other programs on the
 * machine have no effect. */
#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <time.h>

static double processor_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static hr_status measure(const char *name, int64_t devices, const hr_hardware *hardware, hr_error *error)
{
  hr_model model;
  hr_status status = hr_resolve_model(name, NULL, NULL, &model, error);
  if (status != HR_OK)
    return status;
  hr_workload workload = hr_workload_default(&model);
  workload.sequence = 4096;
  hr_training_options options = hr_training_options_default();
  options.device_counts = 1, options.devices[0] = devices, options.global_batch = 1024;
  hr_training_plan *plan;
  double start = processor_seconds();
  status = hr_plan_training(&(hr_subject){&model, &workload, hardware}, &options, &plan, error);
  double seconds = processor_seconds() - start;
  if (status != HR_OK)
    return status;
  printf("%-18s %6lld devices %7zu layouts %7zu fit  %8.4f s  %8.0f layouts/s\n", name, (long long)devices,
         plan->counts[0].tried, plan->counts[0].fitting, seconds, (double)plan->counts[0].tried / seconds);
  hr_training_plan_free(plan);
  return HR_OK;
}

int main(int argc, char **argv)
{
  static const char *const models[] = {"gpt3-2.7b", "llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b-v0.1",
                                       "qwen3-30b-a3b"};
  hr_error error;
  hr_hardware *hardware = hr_hardware_create();
  if (!hardware)
    return 1;
  hr_status status = hr_resolve_hardware(argc > 1 ? argv[1] : "h100-sxm", hardware, &error);
  for (size_t i = 0; status == HR_OK && i < sizeof models / sizeof *models; i++) {
    for (int64_t devices = 64; status == HR_OK && devices <= 1024; devices *= 16)
      status = measure(models[i], devices, hardware, &error);
  }
  if (status != HR_OK)
    fprintf(stderr, "plan_speed: %s\n", error.message);
  hr_hardware_free(hardware);
  return status != HR_OK;
}
