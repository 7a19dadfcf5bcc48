/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel for launches of a decode step: its memory, and its runs. */
#include "runtime/cuda/persistent/persistent.h"

#include "base/error.h"
#include "runtime/cuda/persistent/cycles.h"
#include "runtime/cuda/persistent/instructions.h"
#include "runtime/cuda/persistent/program.h"

#include <stdlib.h>

static size_t aligned(size_t bytes)
{
  return (bytes + HR_PART_ALIGNMENT - 1) / HR_PART_ALIGNMENT * HR_PART_ALIGNMENT;
}

/* What all items of a part with attention send to each other. */
static size_t partial_bytes_of(const hr_persistent_sizes *s)
{
  if (s->q_each == 0 || s->splits == 1)
    return 0;
  const int group = (int)hr_persistent_heads(s->q_each), splits = (int)s->splits;
  const int part = hr_persistent_states(group) + hr_persistent_share(group, (int)s->v_dim, splits);
  const int64_t items = s->tokens * s->groups * hr_persistent_items(s->q_each) * s->splits;
  return aligned((size_t)(items * splits * part) * sizeof(float));
}

/* Tensor maps, instructions, counters, cycles that are noted, two places for partial results, two sets of what is
 * posted. */
static hr_status make_memory(hr_persistent_kernel *p, hr_instruction_list *list, const hr_persistent_sizes *sizes,
                             hr_error *error)
{
  const hr_backend *backend = p->device->backend;
  const size_t maps = list->count * HR_PART_MAPS_BYTES, table = list->count * sizeof *list->to;
  list->partial_bytes = partial_bytes_of(sizes);
  const size_t set = (size_t)(hr_posted_by(list, list->count - 1) - list->posted);
  const size_t before = maps + table + HR_PERSISTENT_COUNTERS * sizeof(unsigned) + hr_cycles_bytes(p);
  p->bytes = before + 2 * list->partial_bytes + 2 * set;
  HR_TRY(backend->allocate(p->device, p->bytes, &p->memory, error));
  HR_TRY(backend->set_bytes(p->device, p->memory, 0, before, error));
  HR_TRY(backend->set_bytes(p->device, (char *)p->memory + before, 0xFF, p->bytes - before, error));
  list->maps = hr_cuda_address(p->memory);
  p->call.instructions = list->maps + maps;
  p->call.counters = p->call.instructions + table;
  p->call.set = (int64_t)(set / 2);
  list->partial = list->maps + before;
  list->posted = list->partial + 2 * list->partial_bytes;
  return HR_OK;
}

static hr_status make_instructions(hr_persistent_kernel *p, hr_instruction_list *list, const hr_persistent_sizes *sizes,
                                   hr_error *error)
{
  const hr_backend *backend = p->device->backend;
  const size_t maps = list->count * HR_PART_MAPS_BYTES;
  HR_TRY(make_memory(p, list, sizes, error));
  HR_TRY(hr_write_instructions(list, error));
  hr_order_instructions(list);
  hr_label_cycles(p, list);
  HR_TRY(backend->write(p->device, p->memory, list->maps_to, maps, error));
  return backend->write(p->device, (char *)p->memory + maps, list->ordered, list->count * sizeof *list->ordered, error);
}

static bool allocate_list(hr_instruction_list *list)
{
  list->to = calloc(list->count, sizeof *list->to);
  list->ordered = calloc(list->count, sizeof *list->ordered);
  list->positions = calloc(list->count, sizeof *list->positions);
  list->sources = calloc(list->count, sizeof *list->sources);
  /* NOLINTNEXTLINE(clang-analyzer-unix.MallocSizeof): maps, as bytes */
  list->maps_to = calloc(list->count, HR_PART_MAPS_BYTES);
  return list->to && list->ordered && list->positions && list->sources && list->maps_to;
}

static void free_list(hr_instruction_list *list)
{
  free(list->to);
  free(list->ordered);
  free(list->positions);
  free(list->sources);
  free(list->maps_to);
}

static hr_status make(hr_persistent_kernel *p, const hr_persistent_part *parts, size_t count, hr_error *error)
{
  hr_persistent_sizes sizes;
  HR_TRY(hr_open_cycles(p, error));
  HR_TRY(hr_persistent_load(p, parts, count, &sizes, error));
  hr_instruction_list list = {.cuda = p->device->state, .parts = parts, .count = count, .blocks = p->kernel.blocks};
  hr_status status = allocate_list(&list) ? make_instructions(p, &list, &sizes, error)
                                          : hr_fail(error, HR_ERROR_OUT_OF_MEMORY,
                                                    "%s: not enough memory for a persistent kernel", p->device->name);
  free_list(&list);
  return status;
}

hr_status hr_cuda_persist(hr_device *device, const hr_persistent_part *parts, size_t count, void **kernel,
                          hr_error *error)
{
  hr_persistent_kernel *p = calloc(1, sizeof *p);
  if (!p)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory for a persistent kernel", device->name);
  p->device = device;
  p->call.count = (int)count;
  hr_status status = make(p, parts, count, error);
  if (status == HR_OK)
    *kernel = p;
  else
    hr_cuda_forget_persistent(device, p);
  return status;
}

void hr_cuda_forget_persistent(hr_device *device, void *kernel)
{
  hr_persistent_kernel *p = kernel;
  if (!p)
    return;
  hr_close_cycles(p);
  device->backend->release(device, p->memory, p->bytes);
  free(p);
}

hr_status hr_cuda_run_persistent(hr_device *device, void *kernel, void *stream, hr_error *error)
{
  const hr_persistent_kernel *p = kernel;
  const hr_cuda_queue queue = {device->state, stream};
  hr_persistent_call call = p->call;
  void *parameters[] = {&call};
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = hr_cuda_launch(&queue, &p->kernel, parameters, error);
  hr_cuda_leave(queue.cuda);
  return status;
}
