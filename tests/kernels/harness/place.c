/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <sys/mman.h>
#include <unistd.h>

#define MARGIN ((size_t)512)

static size_t page_bytes(void)
{
  return (size_t)sysconf(_SC_PAGESIZE);
}

static void make_guarded(place *p, placing at)
{
  size_t page = page_bytes(), room = p->bytes + at.alignment + at.shift, inside = (room + page - 1) / page * page;
  p->map_bytes = inside + 2 * page;
  p->map = mmap(NULL, p->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p->map != MAP_FAILED);
  char *first = (char *)p->map + page;
  assert_int_equal(mprotect(first, inside, PROT_READ | PROT_WRITE), 0);
  memset(first, POISON, inside);
  p->data = at.at_start ? first + at.shift : first + (inside - p->bytes) / at.alignment * at.alignment;
  p->host = p->data;
}

static void make_with_margins(hr_device *device, place *p, size_t shift)
{
  hr_error error;
  p->margin = MARGIN + shift;
  p->map_bytes = p->bytes + p->margin + MARGIN;
  p->map = malloc(p->map_bytes);
  assert_non_null(p->map);
  memset(p->map, POISON, p->map_bytes);
  p->host = (char *)p->map + p->margin;
  assert_ok(hr_buffer_create(device, p->map_bytes, &p->buffer, &error), error);
  p->data = (char *)hr_buffer_data(p->buffer) + p->margin;
}

place place_make(hr_device *device, size_t bytes, placing at)
{
  place p = {.bytes = bytes > 0 ? bytes : at.alignment};
  if (device->backend->own_memory)
    make_with_margins(device, &p, at.at_start ? at.shift : at.alignment);
  else
    make_guarded(&p, at);
  return p;
}

void place_free_on_device(place *p)
{
  hr_buffer_free(p->buffer);
  p->buffer = NULL;
}

void place_free(place *p)
{
  hr_buffer_free(p->buffer);
  if (p->margin > 0)
    free(p->map);
  else if (p->map)
    munmap(p->map, p->map_bytes);
  *p = (place){.data = NULL};
}

void place_send(const place *p)
{
  hr_error error;
  if (p->buffer)
    assert_ok(hr_buffer_write(p->buffer, p->map, p->map_bytes, &error), error);
}

void place_bring(place *p)
{
  hr_error error;
  if (p->buffer)
    assert_ok(hr_buffer_read(p->buffer, p->map, p->map_bytes, &error), error);
}

/* Every second one is at the address that the allocator returns, the others behind a spacer allocation. */
hr_buffer *place_again(hr_device *device, const place *old, uint64_t bits, place *p)
{
  size_t shift = (size_t)(bits >> 8) % 64 * 16 + (size_t)((uintptr_t)old->data % 16);
  hr_buffer *in_the_way = NULL;
  hr_error error;
  if (device->backend->own_memory && bits & 1)
    assert_ok(hr_buffer_create(device, old->map_bytes << (bits >> 1 & 1), &in_the_way, &error), error);
  *p = place_make(device, old->bytes, (placing){16, true, shift});
  memcpy(p->host, old->host, p->bytes);
  return in_the_way;
}

/* The accessible bytes around an operand, or those of its margins. */
static void assert_around(const place *p, const char *what, const char *of)
{
  size_t edge = p->buffer ? 0 : page_bytes();
  const unsigned char *end = (const unsigned char *)p->map + p->map_bytes - edge;
  for (const unsigned char *at = (const unsigned char *)p->map + edge; at < end; at++) {
    if ((const char *)at == p->host)
      at += p->bytes;
    if (at < end && *at != POISON)
      fail_msg("%s: a byte outside of the %s was written, %td from its beginning", what, of,
               (const char *)at - p->host);
  }
}

void place_assert_rest(const place *p, const bool *written, size_t element, const char *what)
{
  assert_around(p, what, "result");
  for (size_t i = 0; written && i < p->bytes; i++)
    if (!written[i / element] && (unsigned char)p->host[i] != POISON)
      fail_msg("%s: byte %zu of the result, which is a gap, was written", what, i);
}

static hr_status run_in(const hr_plan *plan, const hr_arguments *x, void *workspace, hr_error *error)
{
  switch (plan->problem.operation) {
  case HR_OPERATION_GEMM: return hr_plan_run_gemm(plan, &x->gemm, workspace, NULL, error);
  case HR_OPERATION_ATTENTION: return hr_plan_run_attention(plan, &x->attention, workspace, NULL, error);
  case HR_OPERATION_ATTENTION_BACKWARD:
    return hr_plan_run_attention_backward(plan, &x->backward, workspace, NULL, error);
  case HR_OPERATION_ROWWISE: return hr_plan_run_rowwise(plan, &x->rows, workspace, NULL, error);
  default: return hr_plan_run_decode(plan, &x->decode, workspace, NULL, error);
  }
}

/* A buffer of a GPU begins at its own alignment, which kernels may rely on. */
static place make_workspace(const hr_plan *plan, bool at_start)
{
  hr_error error;
  size_t bytes = hr_plan_workspace_bytes(plan);
  place work = {.data = NULL};
  if (bytes > 0 && !plan->device->backend->own_memory)
    return place_make(plan->device, bytes, (placing){.alignment = 64, .at_start = at_start});
  if (bytes == 0)
    return work;
  assert_ok(hr_buffer_create(plan->device, bytes, &work.buffer, &error), error);
  assert_ok(hr_buffer_poison(work.buffer, HR_FP32, &error), error);
  work.data = hr_buffer_data(work.buffer);
  assert_ok(hr_workspace_clear(plan->device, work.data, NULL, &error), error);
  return work;
}

hr_status run_arguments(const hr_plan *plan, const hr_arguments *arguments, bool at_start, hr_error *error)
{
  place work = make_workspace(plan, at_start);
  hr_status status = run_in(plan, arguments, work.data, error);
  if (work.map)
    assert_around(&work, hr_plan_kernel(plan), "workspace");
  place_free(&work);
  return status;
}
