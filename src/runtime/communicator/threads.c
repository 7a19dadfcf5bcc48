/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/communicator/meeting.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the threads share; the last one that leaves frees it. */
typedef struct thread_room {
  pthread_mutex_t lock; /* protects all below */
  pthread_cond_t changed;
  int64_t size, members, arrived;
  uint64_t round;
  char failure[256]; /* "": none */
  struct {
    const void *given;
    size_t bytes;
    bool here;
  } ranks[];
} thread_room;

typedef struct thread_meeting {
  hr_meeting base;
  thread_room *room;
} thread_meeting;

static struct timespec time_after(double seconds)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double whole = floor(seconds);
  now.tv_sec += (time_t)whole;
  now.tv_nsec += (long)((seconds - whole) * 1e9);
  if (now.tv_nsec >= 1000000000L)
    now.tv_sec++, now.tv_nsec -= 1000000000L;
  return now;
}

/* ---- with the lock ---- */

static void fail_room(thread_room *room, const char *text)
{
  if (!room->failure[0])
    strncpy(room->failure, text, sizeof room->failure - 1);
  pthread_cond_broadcast(&room->changed);
}

static void say_missing(thread_room *room, const hr_exchange *e)
{
  char text[sizeof room->failure];
  int64_t missing = 0;
  while (missing < room->size - 1 && room->ranks[missing].here)
    missing++;
  hr_write_text(text, sizeof text, "rank %" PRId64 " of %" PRId64 " has not come to %s within %g s", missing,
                room->size, e->what, e->patience_s);
  fail_room(room, text);
}

static void wait_for_round(thread_room *room, uint64_t round, const hr_exchange *e)
{
  const struct timespec until = time_after(e->patience_s);
  while (room->round == round && !room->failure[0]) {
    if (e->patience_s == 0)
      pthread_cond_wait(&room->changed, &room->lock);
    else if (pthread_cond_timedwait(&room->changed, &room->lock, &until) == ETIMEDOUT && room->round == round)
      say_missing(room, e);
  }
}

/* Whether all have come: then a failure behind that is not one of this round. A rank that gives nothing may come while
 * others still read what it gave. */
static bool arrive(thread_room *room, int64_t rank, const hr_exchange *e, bool gives)
{
  const uint64_t round = room->round;
  if (gives) {
    room->ranks[rank].given = e->mine;
    room->ranks[rank].bytes = e->bytes;
  }
  room->ranks[rank].here = true;
  if (++room->arrived < room->size) {
    wait_for_round(room, round, e);
    return room->round != round;
  }
  room->arrived = 0;
  room->round++;
  for (int64_t i = 0; i < room->size; i++)
    room->ranks[i].here = false;
  pthread_cond_broadcast(&room->changed);
  return true;
}

/* ---- the functions ---- */

static hr_status failure_of(const thread_room *room, hr_error *error)
{
  return room->failure[0] ? hr_fail(error, HR_ERROR_UNAVAILABLE, "%s", room->failure) : HR_OK;
}

static hr_status check(hr_meeting *meeting, hr_error *error)
{
  thread_room *room = ((thread_meeting *)meeting)->room;
  pthread_mutex_lock(&room->lock);
  const hr_status status = failure_of(room, error);
  pthread_mutex_unlock(&room->lock);
  return status;
}

static hr_status come(hr_meeting *meeting, const hr_exchange *e, bool gives, hr_error *error)
{
  thread_room *room = ((thread_meeting *)meeting)->room;
  pthread_mutex_lock(&room->lock);
  hr_status status = failure_of(room, error);
  if (status == HR_OK && !arrive(room, meeting->rank, e, gives))
    status = failure_of(room, error);
  pthread_mutex_unlock(&room->lock);
  return status;
}

/* All have come once before, and once behind the reading of what the others gave. */
static hr_status exchange(hr_meeting *meeting, const hr_exchange *e, hr_error *error)
{
  const thread_room *room = ((thread_meeting *)meeting)->room;
  HR_TRY(come(meeting, e, true, error));
  bool equal = true;
  for (int64_t i = 0; i < meeting->size; i++)
    equal = equal && room->ranks[i].bytes == e->bytes;
  for (int64_t i = 0; i < meeting->size && equal && e->bytes > 0; i++)
    memcpy((char *)e->all + (size_t)i * e->bytes, room->ranks[i].given, e->bytes);
  HR_TRY(come(meeting, e, false, error));
  return equal ? HR_OK : hr_fail(error, HR_ERROR_INVALID, "%s: the ranks give different numbers of bytes", e->what);
}

static void give_up(hr_meeting *meeting, const char *reason)
{
  thread_room *room = ((thread_meeting *)meeting)->room;
  char text[sizeof room->failure];
  snprintf(text, sizeof text, "rank %" PRId64 " of %" PRId64 " gave up: %s", meeting->rank, meeting->size, reason);
  pthread_mutex_lock(&room->lock);
  fail_room(room, text);
  pthread_mutex_unlock(&room->lock);
}

static void free_room(thread_room *room)
{
  pthread_cond_destroy(&room->changed);
  pthread_mutex_destroy(&room->lock);
  free(room);
}

static void leave(hr_meeting *meeting)
{
  thread_room *room = ((thread_meeting *)meeting)->room;
  char text[sizeof room->failure];
  snprintf(text, sizeof text, "rank %" PRId64 " of %" PRId64 " has left", meeting->rank, meeting->size);
  pthread_mutex_lock(&room->lock);
  const bool last = --room->members == 0; /* NOLINT(clang-analyzer-unix.Malloc): the last one frees the room */
  fail_room(room, text);
  pthread_mutex_unlock(&room->lock);
  if (last)
    free_room(room);
  free(meeting);
}

static const hr_meeting_functions functions = {
    .exchange = exchange, .check = check, .give_up = give_up, .leave = leave};

static thread_room *make_room(int64_t size)
{
  thread_room *room = calloc(1, sizeof *room + (size_t)size * sizeof *room->ranks);
  pthread_condattr_t attributes;
  if (!room || pthread_condattr_init(&attributes) != 0) {
    free(room);
    return NULL;
  }
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&room->lock, NULL);
  pthread_cond_init(&room->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  room->size = size;
  return room;
}

hr_status hr_meet_as_threads(int64_t size, hr_meeting **meetings, hr_error *error)
{
  thread_room *room = make_room(size);
  int64_t made = 0;
  for (; room && made < size; made++) {
    thread_meeting *m = calloc(1, sizeof *m);
    if (!m)
      break;
    m->base = (hr_meeting){.functions = &functions, .rank = made, .size = size, .one_process = true};
    m->room = room;
    room->members++;
    meetings[made] = &m->base;
  }
  if (made == size)
    return HR_OK;
  if (room && made == 0)
    free_room(room);
  while (made > 0)
    leave(meetings[--made]);
  return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", size);
}
