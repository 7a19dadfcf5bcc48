#include "runtime/measure/subject.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/clock.h"

#define SET_ALIGNMENT ((int64_t)256) /* what a library on a GPU may take for granted */

int64_t hr_buffer_sets(size_t set_bytes, size_t cache_bytes)
{
  size_t apart = 2 * cache_bytes;
  return set_bytes >= apart || set_bytes == 0 ? 1 : (int64_t)((apart + set_bytes - 1) / set_bytes) + 1;
}

/* The sets' bytes, and the refusal of what does not fit before anything is allocated. */
static hr_status lay_out(hr_subject *s, bool warm, hr_error *error)
{
  size_t set_bytes = 0;
  for (size_t i = 0; i < s->operands.count; i++) {
    s->stride[i] = (size_t)hr_round_up((int64_t)s->operands.bytes[i], SET_ALIGNMENT);
    set_bytes += s->stride[i];
  }
  int64_t most = s->device->backend->sets_max;
  s->sets = warm ? 1 : hr_buffer_sets(set_bytes, s->device->cache_bytes);
  if (most > 0)
    s->sets = hr_min64(s->sets, most);
  double needed = (double)set_bytes * (double)s->sets + (double)hr_plan_workspace_bytes(s->plan);
  double available = (double)hr_device_memory_available(s->device) * 15 / 16;
  if (needed > available)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%.2f GB are needed for %s of operands, %.2f GB are free",
                   needed * 1e-9, s->sets == 1 ? "one set" : "the rotating sets", available * 1e-9);
  return HR_OK;
}

static hr_status make_buffers(hr_subject *s, uint64_t seed, hr_error *error)
{
  for (size_t i = 0; i < s->operands.count; i++) {
    HR_TRY(hr_buffer_create(s->device, s->stride[i] * (size_t)s->sets, &s->buffers[i], error));
    if (i + 1 < s->operands.count)
      HR_TRY(hr_buffer_fill_uniform(s->buffers[i], s->problem.dtype, seed * HR_OPERANDS_MAX + i, error));
    else
      HR_TRY(hr_buffer_poison(s->buffers[i], s->problem.dtype, error));
  }
  size_t workspace = hr_plan_workspace_bytes(s->plan);
  return workspace > 0 ? hr_buffer_create(s->device, workspace, &s->workspace, error) : HR_OK;
}

hr_status hr_subject_open(hr_device *device, const hr_problem *problem, const hr_measure_options *options,
                          hr_subject *subject, hr_error *error)
{
  *subject = (hr_subject){.device = device, .problem = *problem, .group = 1};
  subject->operands = hr_problem_operands(problem);
  HR_TRY(hr_plan_create(device, problem, options->kernel, &subject->plan, error));
  HR_TRY(lay_out(subject, options->warm, error));
  return make_buffers(subject, options->seed, error);
}

void hr_subject_close(hr_subject *subject)
{
  if (subject->device && subject->device->backend->forget)
    subject->device->backend->forget(subject->device, subject->recording);
  for (size_t i = 0; i < HR_OPERANDS_MAX; i++)
    hr_buffer_free(subject->buffers[i]);
  hr_buffer_free(subject->workspace);
  hr_plan_free(subject->plan);
}

hr_status hr_subject_run(hr_subject *s, hr_error *error)
{
  void *addresses[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < s->operands.count; i++)
    addresses[i] = (char *)hr_buffer_data(s->buffers[i]) + (size_t)s->next * s->stride[i];
  const void *inputs[HR_OPERANDS_MAX] = {addresses[0], addresses[1], addresses[2], addresses[3]};
  s->next = s->next + 1 < s->sets ? s->next + 1 : 0;
  return hr_plan_run(s->plan, inputs, addresses[s->operands.count - 1],
                     s->workspace ? hr_buffer_data(s->workspace) : NULL, error);
}

void hr_subject_group(hr_subject *s, int64_t runs)
{
  s->group = s->device->backend->time_runs ? hr_round_up(runs, s->sets) : runs;
}

static hr_status run_once(void *context, hr_error *error)
{
  return hr_subject_run(context, error);
}

hr_status hr_subject_sample(hr_subject *s, double *time_ns, hr_error *error)
{
  const hr_backend *backend = s->device->backend;
  if (backend->time_runs)
    return backend->time_runs(s->device, run_once, s, s->group, &s->recording, time_ns, error);
  double start = hr_clock_ns();
  for (int64_t i = 0; i < s->group; i++)
    HR_TRY(hr_subject_run(s, error));
  *time_ns = (hr_clock_ns() - start) / (double)s->group;
  return HR_OK;
}
