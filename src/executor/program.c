/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"

#include <stdlib.h>

/* ---- making ---- */

static hr_status make_buffers(hr_executor *x, hr_run_program *p, hr_error *error)
{
  const hr_run_shape *s = &p->shape;
  const size_t rows = (size_t)(s->parts * hr_run_tokens(s)), numbers = (size_t)hr_run_number_count(x) * rows;
  const int64_t logit_rows = hr_run_logit_rows(s);
  const bool has_logits = s->phase != HR_PHASE_TRAIN && hr_run_is_last(x);
  const size_t bytes = !has_logits ? 0 : hr_run_logit_bytes(x, logit_rows); /* else a loss, or two numbers, a row */
  HR_TRY(hr_buffer_create(x->device, numbers * sizeof(int32_t), &p->numbers, error));
  return hr_buffer_create(x->device, bytes + (size_t)logit_rows * 2 * sizeof(int32_t), &p->logits, error);
}

/* One buffer of each kind serves all programs, which run one after another. */
static hr_status make_room(hr_executor *x, hr_buffer **buffer, size_t *has, size_t bytes, hr_error *error)
{
  if (bytes <= *has)
    return HR_OK;
  hr_buffer *larger;
  for (int i = 0; i < HR_RUN_PROGRAMS; i++)
    hr_program_forget(x, x->programs[i]);
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

/* Puts the addresses of values into the launches' arguments. A larger arena moves those of all programs. */
static void resolve(const hr_executor *x, hr_run_program *p)
{
  for (int i = 0; i < p->launch_count; i++) {
    hr_launch *launch = &p->launches[i];
    for (int k = 0; k < launch->operand_count; k++) {
      const hr_run_operand *operand = &launch->operands[k];
      const hr_arena_value *value = &p->values[operand->value];
      char *first = value->address ? value->address : (char *)hr_buffer_data(x->arena) + value->offset;
      *(void **)(uintptr_t)((char *)&launch->arguments + operand->member) = first + operand->offset;
    }
  }
}

static hr_status fill(hr_executor *x, hr_run_program *p, hr_error *error)
{
  HR_TRY(hr_run_list(x, &p->shape, &p->operators, error));
  HR_TRY(make_buffers(x, p, error));
  HR_TRY(hr_lower(x, p, error));
  HR_TRY(hr_plan_arena(p->values, p->value_count, &p->arena_bytes, error));
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
    hr_program_free(x, p);
    return status;
  }
  *program = p;
  return HR_OK;
}

void hr_program_forget(const hr_executor *x, hr_run_program *p)
{
  if (!p)
    return;
  if (p->recording)
    x->device->backend->forget(x->device, p->recording);
  hr_program_forget_persistent(x, p);
  p->recording = NULL;
  p->runs = 0;
}

void hr_program_free(const hr_executor *x, hr_run_program *p)
{
  if (!p)
    return;
  hr_program_forget(x, p);
  for (int i = 0; i < p->launch_count; i++)
    hr_plan_free(p->launches[i].plan);
  for (int i = 0; i < p->fp8_plan_count; i++)
    if (p->fp8_plans[i].plan)
      x->device->backend->free_fp8(x->device, p->fp8_plans[i].plan);
  hr_buffer_free(p->numbers);
  hr_buffer_free(p->logits);
  free(p->fp8_plans);
  free(p->launches);
  free(p->values);
  free(p);
}

/* ---- running ---- */

/* Some of a program's launches. */
typedef struct launch_range {
  const hr_executor *x;
  const hr_run_program *program;
  int first, end;
  bool in_order; /* nothing is beside anything */
} launch_range;

static hr_status run_on(const hr_launch *launch, const hr_launch_place *at, hr_error *error)
{
  if (launch->cache)
    return hr_kv_cache_write_heads(launch->cache, &launch->append, launch->heads.q ? &launch->heads : NULL,
                                   launch->part, at->stream, error);
  return launch->run(launch->plan, &launch->arguments, at, error);
}

static hr_status run_launch(const hr_launch *launch, const hr_launch_place *at, hr_error *error)
{
  const hr_backend *backend = at->device->backend;
  hr_launch_place beside = *at;
  for (int mark = 0; mark < HR_PIECES_MAX; mark++) {
    if (launch->awaits >> mark & 1 && backend->join)
      HR_TRY(backend->join(at->device, mark, error));
  }
  if (!launch->beside || !backend->fork)
    return run_on(launch, at, error);
  HR_TRY(backend->fork(at->device, &beside.stream, error));
  HR_TRY(run_on(launch, &beside, error));
  return backend->mark(at->device, launch->beside - 1, error);
}

static hr_status run_persistent(const hr_persistent_range *range, const hr_launch_place *at, hr_error *error)
{
  return at->device->backend->run_persistent(at->device, range->kernel, at->stream, error);
}

static hr_status run_range(void *context, hr_error *error)
{
  const launch_range *r = context;
  const hr_launch_place at = {.device = r->x->device,
                              .communicator = r->x->options.communicator,
                              .replicas = r->x->options.replicas,
                              .stages = r->x->options.stages,
                              .workspace = r->x->workspace ? hr_buffer_data(r->x->workspace) : NULL,
                              .stream = hr_device_stream(r->x->device)};
  for (int i = r->first; i < r->end; i++) {
    const hr_persistent_range *many = r->in_order ? NULL : hr_persistent_at(r->program, i);
    HR_TRY(many          ? run_persistent(many, &at, error)
           : r->in_order ? run_on(&r->program->launches[i], &at, error)
                         : run_launch(&r->program->launches[i], &at, error));
    i = many ? many->end - 1 : i;
  }
  return HR_OK;
}

/* Its arguments say which step it is, so that it is not recorded. */
static hr_status run_optimizer(const hr_executor *x, hr_run_program *p, hr_error *error)
{
  launch_range all = {x, p, p->optimizer, p->launch_count, false};
  for (int i = p->optimizer; i < p->launch_count; i++) {
    if (p->launches[i].run == hr_launch_rowwise)
      p->launches[i].arguments.rows.step = x->steps + 1;
  }
  return run_range(&all, error);
}

/* The first run, whose launches may still load programs, is not recorded. */
hr_status hr_program_run(const hr_executor *x, hr_run_program *p, bool optimizes, hr_error *error)
{
  const hr_backend *backend = x->device->backend;
  launch_range all = {x, p, 0, p->optimizer, false};
  if (p->runs == 0) {
    resolve(x, p);
    hr_program_forget_persistent(x, p);
    HR_TRY(hr_program_persist(x, p, error));
  }
  if (p->runs == 1 && backend->record && !x->options.no_graph)
    HR_TRY(backend->record(x->device, run_range, &all, &p->recording, error));
  HR_TRY(p->recording ? backend->replay(x->device, p->recording, error) : run_range(&all, error));
  p->runs++;
  return optimizes ? run_optimizer(x, p, error) : HR_OK;
}

/* ---- times of operators ---- */

/* Consecutive launches of one operator. */
static int end_of_part(const hr_run_program *p, int first)
{
  int end = first + 1;
  while (end < p->launch_count && p->launches[end].ops[0] == p->launches[first].ops[0] &&
         p->launches[end].op_count == p->launches[first].op_count)
    end++;
  return end;
}

typedef struct program_parts {
  const hr_executor *x;
  const hr_run_program *program;
  int *firsts; /* [count + 1] launches */
  size_t count;
} program_parts;

static hr_status run_part(void *context, size_t part, hr_error *error)
{
  const program_parts *p = context;
  launch_range range = {p->x, p->program, p->firsts[part], p->firsts[part + 1], true};
  return run_range(&range, error);
}

static hr_status time_on_host(program_parts *p, double *times_ns, hr_error *error)
{
  for (size_t i = 0; i < p->count; i++) {
    const double before_ns = hr_clock_ns();
    HR_TRY(run_part(p, i, error));
    times_ns[i] = hr_clock_ns() - before_ns;
  }
  return HR_OK;
}

static void divide_time(const hr_run_program *program, const hr_launch *launch, double time_ns, double *of_operators_ns)
{
  const hr_operator *items = program->operators.items;
  double moved = 0;
  for (int i = 0; i < launch->op_count; i++)
    moved += (double)items[launch->ops[i]].bytes;
  for (int i = 0; i < launch->op_count; i++)
    of_operators_ns[launch->ops[i]] +=
        launch->op_count == 1 ? time_ns : time_ns * (double)items[launch->ops[i]].bytes / moved;
}

static hr_status time_parts(program_parts *p, double *times_ns, double *of_operators_ns, hr_error *error)
{
  const hr_run_program *program = p->program;
  const hr_backend *backend = p->x->device->backend;
  for (int at = 0; at < program->launch_count; at = p->firsts[p->count])
    p->firsts[++p->count] = end_of_part(program, at);
  HR_TRY(backend->time_parts ? backend->time_parts(p->x->device, run_part, p, p->count, times_ns, error)
                             : time_on_host(p, times_ns, error));
  for (size_t i = 0; i < p->count; i++)
    divide_time(program, &program->launches[p->firsts[i]], times_ns[i], of_operators_ns);
  return HR_OK;
}

hr_status hr_program_time(const hr_executor *x, hr_run_program *program, double *times_ns, hr_error *error)
{
  const size_t launches = (size_t)program->launch_count;
  program_parts parts = {x, program, calloc(launches + 1, sizeof *parts.firsts), 0};
  double *part_ns = calloc(launches + 1, sizeof *part_ns);
  resolve(x, program);
  hr_status status = parts.firsts && part_ns
                         ? time_parts(&parts, part_ns, times_ns, error)
                         : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to time %zu launches", launches);
  free(parts.firsts);
  free(part_ns);
  return status;
}
