/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a decode step that one kernel runs. */
#include "runtime/device/persistent.h"

#include "base/error.h"
#include "model/operators/fused.h"
#include "run/lower.h"
#include "runtime/device/plan.h"

#include <headroom/experimental/operators.h>
#include <stdlib.h>

#define PARTS_MIN 8 /* of fewer the kernel does not fill its memory ahead before it ends */

/* ---- before the lowering ---- */

/* Whether the device has the kernel: asked with a layer as any other of the model. */
static bool device_persists(const hr_executor *x, const hr_run_shape *shape)
{
  const hr_linear_arguments linear = {.rows = hr_run_tokens(shape),
                                      .n = x->model.hidden,
                                      .k = x->model.hidden,
                                      .x_stride = x->model.hidden,
                                      .alignment = 16,
                                      .dtype = x->options.dtype,
                                      .norm = HR_ROWWISE_COUNT,
                                      .activation = HR_ROWWISE_COUNT};
  return x->device->backend->persists &&
         x->device->backend->persists(x->device, &(hr_persistent_part){.linear = &linear});
}

bool hr_run_persists(const hr_executor *x, const hr_run_shape *shape)
{
  const hr_workload workload = hr_run_workload(x, shape);
  return shape->tokens == 1 && !x->options.no_persistent && !x->options.no_graph && !x->weights.q8 &&
         hr_is_persistent(&x->model, &workload) && device_persists(x, shape);
}

/* ---- behind it ---- */

/* The operator of a launch that others are fused with. */
static const char *name_of(const hr_run_program *p, const hr_launch *launch)
{
  const hr_operator *items = p->operators.items;
  int at = 0;
  while (at + 1 < launch->op_count && items[launch->ops[at]].fused)
    at++;
  return hr_operator_id_name(items[launch->ops[at]].id);
}

/* The part that begins with a launch; returns how many it has, 0: none that is taken. */
static int take_part(const hr_executor *x, const hr_run_program *p, int at, hr_persistent_part *part)
{
  const hr_launch *first = &p->launches[at], *second = first + 1;
  int launches = 0;
  *part = (hr_persistent_part){0};
  if (first->run == hr_launch_linear) {
    part->linear = &first->linear;
    launches = 1;
  } else if (first->run == hr_launch_router) {
    part->router = &first->router;
    part->linear = &first->router.linear;
    launches = 1;
  } else if (first->cache && at + 1 < p->launch_count && second->run == hr_launch_decode) {
    part->append = &first->append;
    part->heads = first->heads.q_heads > 0 ? &first->heads : NULL;
    part->decode = &second->plan->problem.decode;
    part->arguments = &second->arguments.decode;
    launches = 2;
  }
  if (launches > 0)
    part->name = name_of(p, first + launches - 1);
  return launches > 0 && x->device->backend->persists(x->device, part) ? launches : 0;
}

/* Takes parts from launch `first` on; returns the launch behind them. */
static int take_parts(const hr_executor *x, const hr_run_program *p, int first, hr_persistent_part *parts,
                      size_t *count)
{
  int at = first, launches;
  *count = 0;
  while (at < p->launch_count && (launches = take_part(x, p, at, &parts[*count])) > 0)
    at += launches, (*count)++;
  return at;
}

static hr_status keep_range(const hr_executor *x, hr_run_program *p, hr_persistent_range range, hr_error *error)
{
  hr_persistent_range *more = realloc(p->persistent, (size_t)(p->persistent_count + 1) * sizeof *more);
  if (!more) {
    x->device->backend->forget_persistent(x->device, range.kernel);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a step");
  }
  p->persistent = more;
  p->persistent[p->persistent_count++] = range;
  return HR_OK;
}

/* The first launch of a range up to `end` whose results are in memory: of the last part, but of a router's choice. */
static int first_kept(const hr_persistent_part *last, int end)
{
  return last->router ? end : last->linear ? end - 1 : end - 2;
}

/* Whether launches behind a range read what it does not write to memory, of all but its last part. */
static bool is_read_behind(const hr_run_program *p, int first, int last_part, int end)
{
  for (int i = 0; i < p->value_count; i++) {
    const hr_arena_value *value = &p->values[i];
    if (value->first >= first && value->first < last_part && (value->last >= end || value->address))
      return true;
  }
  return false;
}

/* Makes the kernel of the launches from `first` on, unless they are few or not taken together; *end is behind them. */
static hr_status make_range(const hr_executor *x, hr_run_program *p, int first, hr_persistent_part *parts, int *end,
                            hr_error *error)
{
  size_t count;
  hr_persistent_range range = {.first = first, .end = take_parts(x, p, first, parts, &count)};
  *end = range.end;
  if (count < PARTS_MIN || is_read_behind(p, first, first_kept(&parts[count - 1], range.end), range.end))
    return HR_OK;
  const hr_status status = x->device->backend->persist(x->device, parts, count, &range.kernel, error);
  return status == HR_OK ? keep_range(x, p, range, error) : status == HR_ERROR_UNSUPPORTED ? HR_OK : status;
}

static hr_status make_ranges(const hr_executor *x, hr_run_program *p, hr_persistent_part *parts, hr_error *error)
{
  int at = 0;
  while (at < p->launch_count) {
    int end;
    HR_TRY(make_range(x, p, at, parts, &end, error));
    at = end == at ? at + 1 : end;
  }
  return HR_OK;
}

hr_status hr_program_persist(const hr_executor *x, hr_run_program *p, hr_error *error)
{
  if (!hr_run_persists(x, &p->shape))
    return HR_OK;
  hr_persistent_part *parts = calloc((size_t)p->launch_count, sizeof *parts);
  if (!parts)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a step");
  hr_status status = make_ranges(x, p, parts, error);
  free(parts);
  return status;
}

void hr_program_forget_persistent(const hr_executor *x, hr_run_program *p)
{
  for (int i = 0; i < p->persistent_count; i++)
    x->device->backend->forget_persistent(x->device, p->persistent[i].kernel);
  free(p->persistent);
  p->persistent = NULL;
  p->persistent_count = 0;
}

const hr_persistent_range *hr_persistent_at(const hr_run_program *p, int launch)
{
  for (int i = 0; i < p->persistent_count; i++) {
    if (p->persistent[i].first == launch)
      return &p->persistent[i];
  }
  return NULL;
}
