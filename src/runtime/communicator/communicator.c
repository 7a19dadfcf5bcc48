/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/communicator/communicator.h"

#include "base/error.h"
#include "base/struct_size.h"

#include <headroom/experimental/collective.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_PATIENCE_S 10
#define RANKS_MAX 1024

void hr_communicator_options_init(hr_communicator_options *options, size_t size)
{
  HR_INIT(options, size, (hr_communicator_options){.size = 1});
}

void hr_collective_call_init(hr_collective_call *call, size_t size)
{
  HR_INIT(call, size, (hr_collective_call){.kind = HR_ALL_REDUCE, .dtype = HR_FP32});
}

/* ---- joining ---- */

static hr_status check_options(const hr_communicator_options *o, hr_error *error)
{
  if (!(o->patience_s >= 0 && o->patience_s <= 1e6))
    return hr_fail(error, HR_ERROR_INVALID, "patience_s: expected 0 to 10^6, found %g", o->patience_s);
  if (o->small_bytes < -1)
    return hr_fail(error, HR_ERROR_INVALID, "small_bytes: expected −1 or more, found %" PRId64, o->small_bytes);
  if (o->size < 1 || o->size > RANKS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "size: expected 1 to %d, found %" PRId64, RANKS_MAX, o->size);
  if (o->rank < 0 || o->rank >= o->size)
    return hr_fail(error, HR_ERROR_INVALID, "rank: expected 0 to %" PRId64 ", found %" PRId64, o->size - 1, o->rank);
  return HR_OK;
}

static hr_status make(hr_device *device, hr_meeting *meeting, const hr_communicator_options *o,
                      hr_communicator **communicator, hr_error *error)
{
  hr_communicator *c = calloc(1, sizeof *c);
  if (!c)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a communicator");
  c->device = device;
  c->meeting = meeting;
  c->patience_s = o->patience_s > 0 ? o->patience_s : USUAL_PATIENCE_S;
  c->small_bytes = o->small_bytes;
  *communicator = c;
  return HR_OK;
}

/* Devices of one kind, each once. A CPU may be shared. */
static hr_status check_devices(hr_device *const *devices, int64_t count, hr_error *error)
{
  for (int64_t i = 0; i < count; i++) {
    if (!devices[i])
      return hr_fail(error, HR_ERROR_INVALID, "hr_communicators_create: devices[%" PRId64 "] is NULL", i);
    if (devices[i]->backend != devices[0]->backend)
      return hr_fail(error, HR_ERROR_INVALID, "%s and %s are devices of two kinds", devices[0]->name, devices[i]->name);
    for (int64_t k = 0; k < i; k++) {
      const bool same = devices[i]->backend->own_memory && strcmp(devices[i]->name, devices[k]->name) == 0;
      if (same || devices[i] == devices[k])
        return hr_fail(error, HR_ERROR_INVALID, "%s is given twice, as ranks %" PRId64 " and %" PRId64,
                       devices[i]->name, k, i);
    }
  }
  return HR_OK;
}

static void free_ranks(int64_t count, hr_communicator **communicators)
{
  for (int64_t i = 0; i < count; i++) {
    hr_communicator_free(communicators[i]);
    communicators[i] = NULL;
  }
}

static hr_status make_ranks(hr_device *const *devices, int64_t count, const hr_communicator_options *o,
                            hr_meeting **meetings, hr_communicator **communicators, hr_error *error)
{
  hr_status status = hr_meet_as_threads(count, meetings, error);
  for (int64_t i = 0; i < count && status == HR_OK; i++) {
    status = make(devices[i], meetings[i], o, &communicators[i], error);
    for (int64_t k = i; k < count && status != HR_OK; k++)
      meetings[k]->functions->leave(meetings[k]);
  }
  return status;
}

hr_status hr_communicators_create(hr_device *const *devices, int64_t count, const hr_communicator_options *options,
                                  hr_communicator **communicators, hr_error *error)
{
  HR_NEED(error, devices, communicators);
  HR_TAKE(hr_communicator_options, options, error);
  const hr_communicator_options usual = hr_communicator_options_default(), *o = options ? options : &usual;
  if (count < 1 || count > RANKS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 1 to %d, found %" PRId64, RANKS_MAX, count);
  HR_TRY(check_options(o, error));
  HR_TRY(check_devices(devices, count, error));
  return hr_communicators_connect(devices, count, o, communicators, error);
}

hr_status hr_communicators_connect(hr_device *const *devices, int64_t count, const hr_communicator_options *o,
                                   hr_communicator **communicators, hr_error *error)
{
  hr_meeting **meetings = calloc((size_t)count, sizeof *meetings);
  if (!meetings)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", count);
  memset(communicators, 0, (size_t)count * sizeof *communicators);
  hr_status status = make_ranks(devices, count, o, meetings, communicators, error);
  free(meetings);
  const hr_backend *backend = devices[0]->backend;
  if (status == HR_OK && backend->connect)
    status = backend->connect(communicators, count, error);
  if (status != HR_OK)
    free_ranks(count, communicators);
  return status;
}

hr_status hr_communicator_join(hr_device *device, const hr_communicator_options *options,
                               hr_communicator **communicator, hr_error *error)
{
  HR_NEED(error, device, options, communicator);
  HR_TAKE(hr_communicator_options, options, error);
  HR_TRY(check_options(options, error));
  if (options->size > 1 && !options->address[0])
    return hr_fail(error, HR_ERROR_INVALID, "address: the host of rank 0 is not known (MASTER_ADDR)");
  if (options->size > 1 && (options->port < 1 || options->port > UINT16_MAX))
    return hr_fail(error, HR_ERROR_INVALID, "port: expected 1 to %d, found %" PRId64, UINT16_MAX, options->port);
  hr_meeting *meeting;
  hr_communicator *c = NULL;
  HR_TRY(hr_meet_as_processes(options, &meeting, error));
  hr_status status = make(device, meeting, options, &c, error);
  if (status != HR_OK) {
    meeting->functions->leave(meeting);
    return status;
  }
  hr_error reason = {.message = ""};
  if (device->backend->connect)
    status = device->backend->connect(&c, 1, &reason);
  if (status == HR_OK) {
    *communicator = c;
    return HR_OK;
  }
  hr_communicator_give_up(c, reason.message);
  hr_communicator_free(c);
  return hr_fail(error, status, "%s", reason.message);
}

void hr_communicator_free(hr_communicator *c)
{
  if (!c)
    return;
  if (c->state)
    c->device->backend->disconnect(c);
  c->meeting->functions->leave(c->meeting);
  free(c->room);
  free(c);
}

int64_t hr_communicator_rank(const hr_communicator *communicator)
{
  return communicator->meeting->rank;
}

int64_t hr_communicator_size(const hr_communicator *communicator)
{
  return communicator->meeting->size;
}

/* ---- calls ---- */

static hr_status check_call(const hr_communicator *c, const hr_collective_call *call, hr_error *error)
{
  const int64_t size = c->meeting->size;
  const bool divides = call->kind == HR_ALL_GATHER || call->kind == HR_REDUCE_SCATTER || call->kind == HR_ALL_TO_ALL;
  const bool message = call->kind == HR_POINT_TO_POINT;
  if ((unsigned)call->kind >= HR_COLLECTIVE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "kind: %d is not a collective", (int)call->kind);
  if (call->dtype != HR_FP32 && call->dtype != HR_BF16 && call->dtype != HR_FP16)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "dtype: messages are in fp32, bf16 or fp16");
  if (call->count < 0 || call->count > INT64_C(1) << 40)
    return hr_fail(error, HR_ERROR_INVALID, "count: expected 0 to 2^40, found %" PRId64, call->count);
  if (divides && call->count % size != 0)
    return hr_fail(error, HR_ERROR_INVALID, "count: %" PRId64 " does not divide by %" PRId64 " ranks", call->count,
                   size);
  if (call->peer < 0 || call->peer >= size)
    return hr_fail(error, HR_ERROR_INVALID, "peer: %" PRId64 " is none of %" PRId64 " ranks", call->peer, size);
  if (call->source < 0 || call->source >= size)
    return hr_fail(error, HR_ERROR_INVALID, "source: %" PRId64 " is none of %" PRId64 " ranks", call->source, size);
  if (call->columns != 0 && (call->kind != HR_ALL_REDUCE || call->columns < 0 || call->count % call->columns != 0))
    return hr_fail(error, HR_ERROR_INVALID, "columns: %" PRId64 " are no rows of %s of %" PRId64, call->columns,
                   hr_collective_name(call->kind), call->count);
  if (call->columns > 0 && (!call->residual || !call->residual_sum || !call->norm_weight))
    return hr_fail(error, HR_ERROR_INVALID, "%s is NULL",
                   !call->residual       ? "residual"
                   : !call->residual_sum ? "residual_sum"
                                         : "norm_weight");
  if (call->part != HR_CALL_WHOLE && (call->kind != HR_ALL_REDUCE || call->part < 0 || call->part > HR_CALL_END))
    return hr_fail(error, HR_ERROR_INVALID, "part: only an all_reduce has one");
  if (call->part == HR_CALL_BEGIN && call->columns > 0)
    return hr_fail(error, HR_ERROR_INVALID, "columns: a norm is that of the call that ends");
  if (call->place < 0 || call->place >= HR_CALLS_UNDER_WAY)
    return hr_fail(error, HR_ERROR_INVALID, "place: expected 0 to %d, found %" PRId64, HR_CALLS_UNDER_WAY - 1,
                   call->place);
  if (!message && call->count > 0 && (!call->send || !call->receive))
    return hr_fail(error, HR_ERROR_INVALID, "%s: %s is NULL", hr_collective_name(call->kind),
                   call->send ? "receive" : "send");
  return HR_OK;
}

static hr_call_shape shape_of(const hr_collective_call *call)
{
  const bool has_root = call->kind == HR_BROADCAST;
  return (hr_call_shape){(int64_t)call->kind,       (int64_t)call->dtype, call->count,
                         has_root ? call->peer : 0, call->columns,        (int64_t)call->part};
}

static bool was_compared(const hr_communicator *c, const hr_call_shape *shape)
{
  for (size_t i = 0; i < c->compared_count; i++) {
    if (memcmp(&c->compared[i], shape, sizeof *shape) == 0)
      return true;
  }
  return false;
}

static void say_shape(const hr_call_shape *s, char *text, size_t size)
{
  snprintf(text, size, "%s of %" PRId64 " %s", hr_collective_name((hr_collective_kind)s->kind), s->count,
           hr_dtype_name((hr_dtype)s->dtype));
}

/* Before all have come: then nothing has to be loaded while kernels of others wait. */
static hr_status compare(hr_communicator *c, const hr_collective_call *call, hr_error *error)
{
  const hr_call_shape own = shape_of(call);
  const hr_backend *backend = c->device->backend;
  hr_call_shape all[RANKS_MAX];
  if (was_compared(c, &own))
    return HR_OK;
  if (backend->prepare_call)
    HR_TRY(backend->prepare_call(c, call, error));
  HR_TRY(hr_communicator_exchange(c, hr_collective_name(call->kind), &own, sizeof own, all, error));
  for (int64_t i = 1; i < c->meeting->size; i++) {
    if (memcmp(&all[0], &all[i], sizeof own) == 0)
      continue;
    char first[96], other[96];
    say_shape(&all[0], first, sizeof first);
    say_shape(&all[i], other, sizeof other);
    return hr_fail(error, HR_ERROR_INVALID, "rank %" PRId64 " asks for an %s, rank 0 for an %s", i, other, first);
  }
  if (c->compared_count == HR_CALLS_COMPARED) /* on all ranks at the same call */
    c->compared_count = 0;
  c->compared[c->compared_count++] = own;
  return HR_OK;
}

hr_status hr_communicate(hr_communicator *communicator, const hr_collective_call *call, void *stream, hr_error *error)
{
  HR_NEED(error, communicator, call);
  HR_TAKE(hr_collective_call, call, error);
  const hr_backend *backend = communicator->device->backend;
  HR_TRY(check_call(communicator, call, error));
  if (call->columns > 0 && !hr_communicator_takes_norm(communicator, call))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "no kernel adds up %" PRId64 " rows of %" PRId64 " with their norm",
                   call->count / call->columns, call->columns);
  HR_TRY(communicator->meeting->functions->check(communicator->meeting, error));
  HR_TRY(compare(communicator, call, error));
  return backend->communicate ? backend->communicate(communicator, call, stream, error)
                              : hr_host_communicate(communicator, call, error);
}

bool hr_communicator_sends_beside(const hr_communicator *communicator, const hr_collective_call *call)
{
  const hr_backend *backend = communicator->device->backend;
  return backend->sends_beside && backend->sends_beside(communicator, call);
}

bool hr_communicator_takes_norm(const hr_communicator *communicator, const hr_collective_call *call)
{
  const hr_backend *backend = communicator->device->backend;
  return !backend->takes_norm || backend->takes_norm(communicator, call);
}

hr_status hr_communicator_wait(hr_communicator *communicator, void *stream, hr_error *error)
{
  HR_NEED(error, communicator);
  const hr_backend *backend = communicator->device->backend;
  return backend->await_ranks ? backend->await_ranks(communicator, stream, error)
                              : communicator->meeting->functions->check(communicator->meeting, error);
}

hr_status hr_communicator_meet(hr_communicator *communicator, hr_error *error)
{
  HR_NEED(error, communicator);
  hr_meeting *m = communicator->meeting;
  return m->functions->exchange(m, &(hr_exchange){.what = "a meeting"}, error);
}

hr_status hr_communicator_share(hr_communicator *communicator, const void *mine, size_t bytes, void *all,
                                hr_error *error)
{
  HR_NEED(error, communicator, mine, all);
  return hr_communicator_exchange(communicator, "what hosts share", mine, bytes, all, error);
}

void hr_communicator_give_up(hr_communicator *communicator, const char *reason)
{
  hr_meeting *m = communicator->meeting;
  m->functions->give_up(m, reason ? reason : "no reason is given");
}
