/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in the memory of the host: every rank gets what all have, and takes its part. */
#include "runtime/communicator/communicator.h"

#include "base/checked.h"
#include "base/error.h"
#include "shape/number.h"

#include <headroom/experimental/collective.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 256 /* elements that are summed at a time */
#define PIECE_BYTES (4 << 20)

static hr_status room_for(hr_communicator *c, size_t bytes, hr_error *error)
{
  if (bytes <= c->room_bytes)
    return HR_OK;
  void *larger = realloc(c->room, bytes);
  if (!larger)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a message of %zu bytes", bytes);
  c->room = larger;
  c->room_bytes = bytes;
  return HR_OK;
}

static void add_floats(float *total, const char *from, size_t n, bool first)
{
  for (size_t i = 0; i < n; i++) {
    float term;
    memcpy(&term, from + i * sizeof term, sizeof term);
    total[i] = first ? term : total[i] + term;
  }
}

/* Sums, in fp32 and in the order of the ranks, of `count` elements from `first` on of each rank's `stride`. */
static void sum(const hr_collective_call *call, const char *all, int64_t ranks, size_t stride, size_t first,
                size_t count, void *to)
{
  double term[CHUNK];
  float total[CHUNK];
  const size_t bytes = hr_dtype_bytes(call->dtype);
  for (size_t at = 0; at < count; at += CHUNK) {
    const size_t n = count - at < CHUNK ? count - at : CHUNK;
    for (int64_t r = 0; r < ranks; r++) {
      const char *from = all + (size_t)r * stride * bytes;
      if (call->dtype == HR_FP32) {
        add_floats(total, from + (first + at) * bytes, n, r == 0);
        continue;
      }
      hr_numbers_load(call->dtype, from, first + at, n, term);
      for (size_t i = 0; i < n; i++)
        total[i] = r == 0 ? (float)term[i] : total[i] + (float)term[i];
    }
    hr_floats_store(call->dtype, to, at, n, total);
  }
}

/* The sum of all ranks, which is in `receive`, becomes the norm. */
static void add_norm(const hr_collective_call *call, int64_t row)
{
  const size_t columns = (size_t)call->columns, first = (size_t)row * columns;
  double squares = 0;
  for (size_t i = first; i < first + columns; i++) {
    const double sum = hr_number_load(call->dtype, call->receive, i) + hr_number_load(call->dtype, call->residual, i);
    squares += sum * sum;
  }
  const double factor = 1 / sqrt(squares / (double)columns + call->epsilon);
  for (size_t i = first; i < first + columns; i++) {
    const double sum = hr_number_load(call->dtype, call->receive, i) + hr_number_load(call->dtype, call->residual, i);
    hr_number_store(call->dtype, call->residual_sum, i, sum);
    hr_number_store(call->dtype, call->receive, i,
                    sum * factor * hr_number_load(call->dtype, call->norm_weight, i - first));
  }
}

/* ---- in pieces ---- */

/* What every rank has from an element of `send` on. */
static hr_status exchange_piece(hr_communicator *c, const hr_collective_call *call, int64_t first, int64_t count,
                                hr_error *error)
{
  const size_t element = hr_dtype_bytes(call->dtype);
  return hr_communicator_exchange(c, hr_collective_name(call->kind), (const char *)call->send + (size_t)first * element,
                                  (size_t)count * element, c->room, error);
}

/* The sum of all that ranks have from an element on, for one of them or all. */
static hr_status sum_piece(hr_communicator *c, const hr_collective_call *call, int64_t first, int64_t count, char *to,
                           hr_error *error)
{
  HR_TRY(exchange_piece(c, call, first, count, error));
  if (to)
    sum(call, c->room, c->meeting->size, (size_t)count, 0, (size_t)count, to);
  return HR_OK;
}

static hr_status reduce(hr_communicator *c, const hr_collective_call *call, int64_t piece, hr_error *error)
{
  const size_t element = hr_dtype_bytes(call->dtype);
  for (int64_t at = 0; at < call->count; at += piece)
    HR_TRY(
        sum_piece(c, call, at, hr_min64(piece, call->count - at), (char *)call->receive + (size_t)at * element, error));
  return HR_OK;
}

/* Rank after rank gets its part. */
static hr_status scatter(hr_communicator *c, const hr_collective_call *call, int64_t piece, hr_error *error)
{
  const int64_t size = c->meeting->size, part = call->count / size;
  const size_t element = hr_dtype_bytes(call->dtype);
  for (int64_t at = 0; at < size * part;) {
    const int64_t rank = at / part, inside = at % part, count = hr_min64(piece, part - inside);
    char *to = rank == c->meeting->rank ? (char *)call->receive + (size_t)inside * element : NULL;
    HR_TRY(sum_piece(c, call, at, count, to, error));
    at += count;
  }
  return HR_OK;
}

static hr_status gather(hr_communicator *c, const hr_collective_call *call, int64_t piece, hr_error *error)
{
  const int64_t size = c->meeting->size, part = call->count / size;
  const size_t element = hr_dtype_bytes(call->dtype);
  for (int64_t at = 0; at < part; at += piece) {
    const int64_t count = hr_min64(piece, part - at);
    const size_t bytes = (size_t)count * element;
    HR_TRY(exchange_piece(c, call, at, count, error));
    for (int64_t r = 0; r < size; r++)
      memcpy((char *)call->receive + (size_t)(r * part + at) * element, (const char *)c->room + (size_t)r * bytes,
             bytes);
  }
  return HR_OK;
}

typedef hr_status (*pieces_fn)(hr_communicator *c, const hr_collective_call *call, int64_t piece, hr_error *error);

static const pieces_fn in_pieces[HR_COLLECTIVE_COUNT] = {
    [HR_ALL_REDUCE] = reduce, [HR_REDUCE_SCATTER] = scatter, [HR_ALL_GATHER] = gather};

/* ---- at once ---- */

/* `all`: what each rank has sent, `sent` elements each. */
static void take_part(const hr_communicator *c, const hr_collective_call *call, const char *all, size_t sent)
{
  const int64_t size = c->meeting->size, rank = c->meeting->rank;
  const size_t bytes = hr_dtype_bytes(call->dtype), part = sent / (size_t)size * bytes;
  char *to = call->receive;
  switch (call->kind) {
  case HR_ALL_REDUCE: sum(call, all, size, sent, 0, sent, to); break;
  case HR_REDUCE_SCATTER:
    sum(call, all, size, sent, (size_t)rank * (sent / (size_t)size), sent / (size_t)size, to);
    break;
  case HR_ALL_GATHER: memcpy(to, all, (size_t)size * sent * bytes); break;
  case HR_ALL_TO_ALL:
    for (int64_t r = 0; r < size; r++)
      memcpy(to + (size_t)r * part, all + (size_t)r * sent * bytes + (size_t)rank * part, part);
    break;
  case HR_BROADCAST: memcpy(to, all + (size_t)call->peer * sent * bytes, sent * bytes); break;
  case HR_POINT_TO_POINT:
    if (to)
      memcpy(to, all + (size_t)call->source * sent * bytes, sent * bytes);
    break;
  case HR_COLLECTIVE_COUNT: break;
  }
}

static hr_status send_at_once(hr_communicator *c, const hr_collective_call *call, hr_error *error)
{
  const size_t sent = (size_t)hr_sent_elements(call, c->meeting->size), bytes = sent * hr_dtype_bytes(call->dtype);
  HR_TRY(room_for(c, ((size_t)c->meeting->size + 1) * bytes, error));
  char *nothing = (char *)c->room + (size_t)c->meeting->size * bytes;
  if (!call->send && bytes > 0)
    memset(nothing, 0, bytes);
  HR_TRY(hr_communicator_exchange(c, hr_collective_name(call->kind), call->send ? call->send : nothing, bytes, c->room,
                                  error));
  if (bytes > 0)
    take_part(c, call, c->room, sent);
  for (int64_t row = 0; call->columns > 0 && row < call->count / call->columns; row++)
    add_norm(call, row);
  return HR_OK;
}

/* Large messages go in pieces that caches hold, so that the room for those of all ranks stays small. The second of two
 * calls does all. */
hr_status hr_host_communicate(hr_communicator *c, const hr_collective_call *call, hr_error *error)
{
  if (call->part == HR_CALL_BEGIN)
    return HR_OK;
  const int64_t piece = PIECE_BYTES / (int64_t)hr_dtype_bytes(call->dtype);
  if (call->columns > 0 || call->count <= piece || !in_pieces[call->kind])
    return send_at_once(c, call, error);
  HR_TRY(room_for(c, (size_t)c->meeting->size * PIECE_BYTES, error));
  return in_pieces[call->kind](c, call, piece, error);
}
