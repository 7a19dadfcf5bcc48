/* SPDX-License-Identifier: Apache-2.0 */
/* How many shapes a search evaluates per second on one core.
 *
 *   cmake --build --preset release --target search_speed && build/release/bench/search_speed
 *
 * Searches near shipped models with any layers and head sizes from 64 to 128, which takes a while, and prints the
 * shapes, seconds and shapes per second of each. Uses CPU time, so other programs on the machine have no effect. */
#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <time.h>

static double processor_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static hr_status measure(const char *name, const hr_hardware *hardware, hr_phase phase, bool wide, hr_error *error)
{
  hr_model model;
  hr_status status = hr_resolve_model(name, NULL, NULL, &model, error);
  if (status != HR_OK)
    return status;
  hr_workload workload = hr_workload_default(&model);
  workload.phase = phase;
  hr_search_options options = hr_search_options_default();
  options.vary |= HR_SEARCH_LAYERS;
  options.head_dim_min = 64;
  options.head_dim_max = 128;
  options.serve_on_count = 1;
  options.serve_on[0] = 1;
  if (wide) {
    options.parameter_band = 0.05;
    options.hidden_step = options.mlp_step = 8;
    options.evaluations_max = 20000000;
  }
  hr_search_result *result;
  double start = processor_seconds();
  status = hr_search(hardware, &model, &workload, &options, &result, error);
  double seconds = processor_seconds() - start;
  if (status != HR_OK)
    return status;
  printf("%-14s %-8s %-5s %9llu shapes  %8.4f s  %10.0f shapes/s\n", name, hr_phase_name(phase), wide ? "wide" : "near",
         (unsigned long long)result->evaluated, seconds, (double)result->evaluated / seconds);
  hr_search_result_free(result);
  return HR_OK;
}

int main(int argc, char **argv)
{
  static const char *const models[] = {"gpt2", "gpt3-2.7b", "llama-3-8b", "llama-2-70b", "gemma-2-9b"};
  hr_error error;
  hr_hardware *hardware = hr_hardware_create();
  if (!hardware)
    return 1;
  hr_status status = hr_resolve_hardware(argc > 1 ? argv[1] : "h200", hardware, &error);
  for (size_t i = 0; status == HR_OK && i < sizeof models / sizeof *models; i++) {
    for (int wide = 0; status == HR_OK && wide < 2; wide++)
      status = measure(models[i], hardware, HR_PHASE_FORWARD, wide, &error);
  }
  if (status == HR_OK)
    status = measure("llama-3-8b", hardware, HR_PHASE_TRAIN, true, &error);
  if (status != HR_OK)
    fprintf(stderr, "search_speed: %s\n", error.message);
  hr_hardware_free(hardware);
  return status != HR_OK;
}
