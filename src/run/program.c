/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/error.h"
#include "runtime/device/clock.h"

#include <stdlib.h>

/* ---- making ---- */

static hr_status make_buffers(hr_executor *x, hr_run_program *p, hr_error *error)
{
  const hr_run_shape *s = &p->shape;
  const size_t rows = (size_t)(s->batch * s->tokens), numbers = rows * sizeof(int32_t);
  const size_t logit_rows = s->phase == HR_PHASE_PREFILL ? (size_t)s->batch : rows;
  const size_t row_bytes = (size_t)x->model.vocabulary * hr_dtype_bytes(x->options.dtype);
  HR_TRY(hr_buffer_create(x->device, numbers, &p->ids, error));
  HR_TRY(hr_buffer_create(x->device, numbers, &p->positions, error));
  return hr_buffer_create(x->device, logit_rows * row_bytes, &p->logits, error);
}

/* One buffer of each kind serves all programs, which run one after another. */
static hr_status make_room(hr_executor *x, hr_buffer **buffer, size_t *has, size_t bytes, hr_error *error)
{
  if (bytes <= *has)
    return HR_OK;
  hr_buffer *larger;
  HR_TRY(hr_buffer_create(x->device, bytes, &larger, error));
  hr_buffer_free(*buffer);
  *buffer = larger;
  *has = bytes;
  return HR_OK;
}

static void find_workspace(hr_run_program *p)
{
  for (int i = 0; i < p->launch_count; i++) {
    size_t bytes = p->launches[i].plan ? hr_plan_workspace_bytes(p->launches[i].plan) : 0;
    p->workspace_bytes = bytes > p->workspace_bytes ? bytes : p->workspace_bytes;
  }
}

static void *address_of(const hr_executor *x, const hr_run_value *value)
{
  return value->address ? value->address : (char *)hr_buffer_data(x->arena) + value->offset;
}

/* Puts the addresses of values into the launches' arguments. A larger arena moves those of all programs. */
static void resolve(const hr_executor *x, hr_run_program *p)
{
  for (int i = 0; i < p->launch_count; i++) {
    hr_launch *launch = &p->launches[i];
    for (int k = 0; k < launch->operand_count; k++) {
      const hr_run_operand *operand = &launch->operands[k];
      char *address = (char *)address_of(x, &p->values[operand->value]) + operand->offset;
      *(void **)(uintptr_t)((char *)&launch->arguments + operand->member) = address;
    }
  }
}

static hr_status fill(hr_executor *x, hr_run_program *p, hr_error *error)
{
  HR_TRY(hr_run_list(x, &p->shape, &p->operators, error));
  HR_TRY(make_buffers(x, p, error));
  HR_TRY(hr_lower(x, p, error));
  p->arena_bytes = hr_plan_arena(p->values, p->value_count);
  find_workspace(p);
  HR_TRY(make_room(x, &x->arena, &x->arena_bytes, p->arena_bytes, error));
  HR_TRY(make_room(x, &x->workspace, &x->workspace_bytes, p->workspace_bytes, error));
  return HR_OK;
}

hr_status hr_program_make(hr_executor *x, const hr_run_shape *shape, hr_run_program **program, hr_error *error)
{
  hr_run_program *p = calloc(1, sizeof *p);
  if (!p)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a step");
  p->shape = *shape;
  hr_status status = fill(x, p, error);
  if (status != HR_OK) {
    hr_program_free(p);
    return status;
  }
  *program = p;
  return HR_OK;
}

void hr_program_free(hr_run_program *p)
{
  if (!p)
    return;
  for (int i = 0; i < p->launch_count; i++)
    hr_plan_free(p->launches[i].plan);
  hr_buffer_free(p->ids);
  hr_buffer_free(p->positions);
  hr_buffer_free(p->logits);
  free(p->launches);
  free(p->values);
  free(p);
}

/* ---- running ---- */

static hr_status run_launch(const hr_launch *launch, void *workspace, hr_error *error)
{
  if (launch->cache)
    return hr_kv_cache_write(launch->cache, &launch->append, NULL, error);
  return launch->run(launch->plan, &launch->arguments, workspace, error);
}

hr_status hr_program_run(const hr_executor *x, hr_run_program *p, double *times_ns, hr_error *error)
{
  void *workspace = x->workspace ? hr_buffer_data(x->workspace) : NULL;
  resolve(x, p);
  double before_ns = times_ns ? hr_clock_ns() : 0;
  for (int i = 0; i < p->launch_count; i++) {
    HR_TRY(run_launch(&p->launches[i], workspace, error));
    if (!times_ns)
      continue;
    double now_ns = hr_clock_ns();
    times_ns[p->launches[i].op] += now_ns - before_ns;
    before_ns = now_ns;
  }
  return HR_OK;
}
