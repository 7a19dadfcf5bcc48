/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/runner.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/quantity.h"
#include "runtime/device/clock.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/statistics.h"

#include <headroom/buffer.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MAX_DELAY 10.0               /* other programs may make the first run this many times slower */
#define SET_ALIGNMENT ((int64_t)256) /* of each operand; libraries on a GPU may rely on it */
#define GROUP_NS 200e3               /* least duration of a group of short runs */
#define GROUP_SAMPLES 5              /* the group is chosen from the shortest */
#define LATENCY_RUNS 100

hr_status hr_measure_check_cancelled(const hr_measure_options *options, hr_error *error)
{
  if (options->cancelled && options->cancelled(options->context))
    return hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
  return HR_OK;
}

int64_t hr_buffer_sets(size_t set_bytes, size_t cache_bytes)
{
  size_t apart = 2 * cache_bytes;
  return set_bytes >= apart || set_bytes == 0 ? 1 : (int64_t)((apart + set_bytes - 1) / set_bytes) + 1;
}

/* Computes the strides; returns the bytes of one set. */
static size_t compute_strides(hr_runner *s)
{
  size_t set_bytes = 0;
  for (size_t i = 0; i < s->operands.count; i++) {
    s->stride[i] = (size_t)hr_round_up((int64_t)s->operands.bytes[i], SET_ALIGNMENT);
    set_bytes += s->stride[i];
  }
  return set_bytes;
}

static hr_status fail_too_large(hr_error *error, const char *what, double needed, const char *have, double bytes)
{
  char most[HR_NUMBER_SIZE], asked[HR_NUMBER_SIZE];
  hr_write_bytes(asked, sizeof asked, needed);
  hr_write_bytes(most, sizeof most, bytes);
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s %s, %s %s", what, asked, have, most);
}

/* Chooses how many sets rotate, the same number for all problems of a sequence. Refuses what does not fit before
 * anything is allocated. */
static hr_status choose_sets(hr_runner *first, const hr_measure_options *options, hr_error *error)
{
  size_t set_bytes = 0, workspaces = 0;
  for (hr_runner *s = first; s; s = s->then) {
    set_bytes += compute_strides(s);
    workspaces += hr_plan_workspace_bytes(s->plan);
  }
  const hr_device *device = first->device;
  int64_t most = device->backend->sets_max;
  double limit = (double)options->memory_limit_bytes, one_set = (double)set_bytes + (double)workspaces;
  if (limit > 0 && one_set > limit)
    return fail_too_large(error, "operands and workspace take", one_set, "the limit is", limit);
  int64_t sets = options->warm ? 1 : hr_buffer_sets(set_bytes, device->cache_bytes);
  if (most > 0)
    sets = hr_min64(sets, most);
  for (hr_runner *s = first; s; s = s->then)
    s->sets = sets;
  double needed = (double)set_bytes * (double)sets + (double)workspaces;
  double available = (double)hr_device_memory_available(device) * 15 / 16;
  if (needed > available)
    return fail_too_large(error, sets == 1 ? "operands and workspace take" : "the rotating sets of operands take",
                          needed, "free:", available);
  return HR_OK;
}

/* ---- operands that are not random numbers of the problem's dtype; the same in all sets ---- */

static hr_status write_tables(hr_runner *s, size_t operand, uint64_t seed, hr_error *error)
{
  size_t bytes = (size_t)s->sets * s->stride[operand];
  char *sets = calloc(1, bytes);
  if (!sets)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " sets of tables", s->sets);
  for (int64_t i = 0; i < s->sets; i++)
    hr_check_of(s->problem.operation)
        ->make_table(&s->problem, s->operands.kinds[operand], seed, s->operands.bytes[operand],
                     sets + (size_t)i * s->stride[operand]);
  hr_status status = hr_buffer_write(s->buffers[operand], sets, bytes, error);
  free(sets);
  return status;
}

hr_status hr_runner_poison(hr_runner *s, hr_error *error)
{
  for (size_t i = s->operands.inputs; i < s->operands.count; i++)
    HR_TRY(hr_buffer_poison(s->buffers[i], hr_operand_dtype(&s->problem, &s->operands, i), error));
  return HR_OK;
}

static hr_status make_buffers(hr_runner *s, uint64_t seed, hr_error *error)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    HR_TRY(hr_buffer_create(s->device, s->stride[i] * (size_t)s->sets, &s->buffers[i], error));
    if (i >= s->operands.inputs)
      continue;
    if (s->operands.kinds[i] == HR_OPERAND_CACHE)
      HR_TRY(hr_buffer_fill_uniform(s->buffers[i], hr_check_of(s->problem.operation)->cache_dtype(&s->problem),
                                    seed * HR_OPERANDS_MAX + i, error));
    else if (s->operands.kinds[i] != HR_OPERAND_NUMBERS && s->operands.kinds[i] != HR_OPERAND_FP32)
      HR_TRY(write_tables(s, i, seed * HR_OPERANDS_MAX + i, error));
    else
      HR_TRY(hr_buffer_fill_uniform(s->buffers[i], hr_operand_dtype(&s->problem, &s->operands, i),
                                    seed * HR_OPERANDS_MAX + i, error));
  }
  HR_TRY(hr_runner_poison(s, error));
  size_t workspace = hr_plan_workspace_bytes(s->plan);
  s->free_before = s->device->backend->own_memory ? hr_device_memory_available(s->device) : 0;
  return workspace > 0 ? hr_buffer_create(s->device, workspace, &s->workspace, error) : HR_OK;
}

static hr_status plan(hr_runner *s, const hr_problem *problem, const hr_measure_options *options, hr_error *error)
{
  const hr_check *check = hr_check_of(problem->operation);
  if (check->can_be_timed)
    HR_TRY(check->can_be_timed(problem, error));
  s->problem = *problem;
  s->operands = hr_problem_operands(problem);
  return hr_plan_create(s->device, problem, options->kernel, &s->plan, error);
}

hr_status hr_runner_open_sequence(hr_device *device, const hr_problem *problems, size_t count,
                                  const hr_measure_options *options, hr_runner *runner, hr_error *error)
{
  *runner = (hr_runner){.device = device, .group = 1};
  hr_runner *last = runner;
  for (size_t i = 0; i < count; i++) {
    if (i > 0) {
      last->then = malloc(sizeof *last);
      if (!last->then)
        return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a sequence of %zu", count);
      last = last->then;
      *last = (hr_runner){.device = device, .group = 1};
    }
    HR_TRY(plan(last, &problems[i], options, error));
  }
  HR_TRY(choose_sets(runner, options, error));
  uint64_t seed = options->seed;
  for (hr_runner *s = runner; s; s = s->then)
    HR_TRY(make_buffers(s, seed++, error));
  return HR_OK;
}

hr_status hr_runner_open(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                         hr_runner *runner, hr_error *error)
{
  return hr_runner_open_sequence(device, problem, 1, options, runner, error);
}

static void release(hr_runner *s)
{
  for (size_t i = 0; i < HR_OPERANDS_MAX; i++)
    hr_buffer_free(s->buffers[i]);
  hr_buffer_free(s->workspace);
  hr_plan_free(s->plan);
}

static void forget(hr_runner *s)
{
  if (s->device && s->device->backend->forget)
    s->device->backend->forget(s->device, s->recording);
  s->recording = NULL;
}

void hr_runner_close(hr_runner *runner)
{
  forget(runner);
  release(runner);
  for (hr_runner *s = runner->then, *then; s; s = then) {
    then = s->then;
    release(s);
    free(s);
  }
}

static hr_status run_one(hr_runner *s, hr_error *error)
{
  void *addresses[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < s->operands.count; i++)
    addresses[i] = (char *)hr_buffer_data(s->buffers[i]) + (size_t)s->next * s->stride[i];
  s->next = s->next + 1 < s->sets ? s->next + 1 : 0;
  void *workspace = s->workspace ? hr_buffer_data(s->workspace) : NULL;
  const hr_operand_addresses at = {(const void *const *)addresses, addresses + s->operands.inputs};
  return hr_plan_run(s->plan, at, workspace, s->part, error);
}

hr_status hr_runner_run(hr_runner *runner, hr_error *error)
{
  for (hr_runner *s = runner; s; s = s->then)
    HR_TRY(run_one(s, error));
  return HR_OK;
}

void hr_runner_set_group(hr_runner *runner, int64_t runs)
{
  runner->group = runner->device->backend->time_runs ? hr_round_up(runs, runner->sets) : runs;
}

void hr_runner_regroup(hr_runner *runner, int64_t runs)
{
  forget(runner);
  runner->next = 0;
  hr_runner_set_group(runner, runs);
}

static hr_status run_once(void *context, hr_error *error)
{
  return hr_runner_run(context, error);
}

hr_status hr_runner_sample(hr_runner *runner, double *time_ns, hr_error *error)
{
  const hr_backend *backend = runner->device->backend;
  if (backend->time_runs)
    return backend->time_runs(runner->device, run_once, runner, runner->group, &runner->recording, time_ns, error);
  double start = hr_clock_ns();
  for (int64_t i = 0; i < runner->group; i++)
    HR_TRY(hr_runner_run(runner, error));
  *time_ns = (hr_clock_ns() - start) / (double)runner->group;
  return HR_OK;
}

hr_status hr_runner_first_sample(hr_runner *runner, const hr_measure_options *options, double *time_ns, hr_error *error)
{
  double limit_ns = options->time_limit_ns;
  HR_TRY(hr_runner_sample(runner, time_ns, error));
  for (int i = 0; i < 2 && *time_ns > limit_ns && *time_ns < MAX_DELAY * limit_ns; i++) {
    double again_ns;
    HR_TRY(hr_measure_check_cancelled(options, error));
    HR_TRY(hr_runner_sample(runner, &again_ns, error));
    *time_ns = fmin(*time_ns, again_ns);
  }
  if (*time_ns > limit_ns)
    return hr_fail(error, HR_ERROR_TIMEOUT, "one run takes %.3g s, the limit is %.3g s", *time_ns * 1e-9,
                   limit_ns * 1e-9);
  return HR_OK;
}

/* Short runs are timed in groups of at least GROUP_NS. The shortest of a few samples determines how many runs that is:
 * where the host was late in most of them, their median once timed runs of 5 µs one by one, as 19. */
hr_status hr_runner_choose_group(hr_runner *runner, double first_ns, hr_error *error)
{
  const hr_backend *backend = runner->device->backend;
  double short_ns = HR_SHORT_RUN_NS, shortest = first_ns;
  if (backend->group_below_ns)
    short_ns = fmax(short_ns, backend->group_below_ns(runner->device));
  if (first_ns >= MAX_DELAY * short_ns)
    return HR_OK;
  for (int i = 0; i < GROUP_SAMPLES; i++) {
    double time_ns;
    HR_TRY(hr_runner_sample(runner, &time_ns, error));
    shortest = fmin(shortest, time_ns);
  }
  if (shortest < short_ns)
    hr_runner_set_group(runner, (int64_t)ceil(GROUP_NS / fmax(shortest, 10)));
  return HR_OK;
}

/* Times one run with its way to the device and back, which groups of runs hide. */
static hr_status time_one_run(hr_runner *s, double *time_ns, hr_error *error)
{
  double start = hr_clock_ns();
  HR_TRY(hr_runner_run(s, error));
  if (s->device->backend->wait)
    HR_TRY(s->device->backend->wait(s->device, error));
  *time_ns = hr_clock_ns() - start;
  return HR_OK;
}

hr_status hr_runner_latency(hr_runner *runner, const hr_measure_options *options, double *latency_ns, hr_error *error)
{
  double start = hr_clock_ns(), times[LATENCY_RUNS];
  int64_t count = 0;
  while (count == 0 || (count < LATENCY_RUNS && hr_clock_ns() - start < options->time_limit_ns)) {
    HR_TRY(hr_measure_check_cancelled(options, error));
    HR_TRY(time_one_run(runner, &times[count++], error));
  }
  *latency_ns = hr_median_of(times, count).value;
  return HR_OK;
}
