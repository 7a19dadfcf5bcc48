/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/step/team.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/communicator/communicator.h"
#include "runtime/device/device.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
  hr_team *team;
  hr_team_rank rank;
  pthread_t thread;
  bool has_thread, owns_device;
  hr_status status;
  hr_error error;
} member;

struct hr_team {
  pthread_mutex_t lock; /* protects the next four */
  pthread_cond_t changed;
  uint64_t jobs;   /* that were given out */
  int64_t at_work; /* members but the first */
  bool over;
  bool joined; /* the other ranks are processes; the communicator is the caller's */
  hr_team_job job;
  void *context;
  int64_t count;
  member members[];
};

static void do_job(member *m)
{
  m->status = m->team->job(&m->rank, m->team->context, &m->error);
  if (m->status != HR_OK && m->rank.communicator)
    hr_communicator_give_up(m->rank.communicator, m->error.message);
}

static void *main_of(void *argument)
{
  member *m = argument;
  hr_team *t = m->team;
  uint64_t done = 0;
  pthread_mutex_lock(&t->lock);
  for (;;) {
    while (t->jobs == done && !t->over)
      pthread_cond_wait(&t->changed, &t->lock);
    if (t->jobs == done)
      break;
    done = t->jobs;
    pthread_mutex_unlock(&t->lock);
    do_job(m);
    pthread_mutex_lock(&t->lock);
    if (--t->at_work == 0)
      pthread_cond_broadcast(&t->changed);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

/* A rank that fails makes others unavailable, which say its name only. */
static hr_status first_failure(const hr_team *t, hr_error *error)
{
  const member *found = NULL;
  for (int64_t i = 0; i < t->count; i++) {
    const member *m = &t->members[i];
    if (m->status != HR_OK && (!found || (found->status == HR_ERROR_UNAVAILABLE && m->status != HR_ERROR_UNAVAILABLE)))
      found = m;
  }
  return found ? hr_fail(error, found->status, "%s", found->error.message) : HR_OK;
}

hr_status hr_team_do(hr_team *t, hr_team_job job, void *context, hr_error *error)
{
  pthread_mutex_lock(&t->lock);
  t->job = job;
  t->context = context;
  t->at_work = t->count - 1;
  t->jobs++;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  do_job(&t->members[0]);
  pthread_mutex_lock(&t->lock);
  while (t->at_work > 0)
    pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
  return first_failure(t, error);
}

hr_team_rank *hr_team_first(hr_team *team)
{
  return &team->members[0].rank;
}

/* ---- executors ---- */

typedef struct opening {
  const hr_model *model;
  hr_executor_options options;
  hr_team_kind kind;
} opening;

static hr_status open_executor(hr_team_rank *rank, void *context, hr_error *error)
{
  const opening *o = context;
  hr_executor_options options = o->options;
  switch (o->kind) {
  case HR_TEAM_SHARES_LAYERS: options.communicator = rank->communicator; break;
  case HR_TEAM_OF_REPLICAS: options.replicas = rank->communicator; break;
  case HR_TEAM_OF_STAGES: options.stages = rank->communicator; break;
  }
  return hr_executor_open(rank->device, o->model, &options, &rank->executor, error);
}

hr_status hr_team_open_executors(hr_team *team, const hr_model *model, const hr_executor_options *options,
                                 hr_team_kind kind, hr_error *error)
{
  opening o = {model, *options, kind};
  return hr_team_do(team, open_executor, &o, error);
}

typedef struct loading {
  const hr_team_weights *weights;
  hr_team *team;
} loading;

typedef struct rank_loading {
  const hr_team_weights *reports; /* NULL: another rank does */
  const hr_communicator *communicator;
} rank_loading;

static hr_status check_others(const hr_communicator *c, hr_error *error)
{
  return c ? c->meeting->functions->check(c->meeting, error) : HR_OK;
}

/* No rank loads on for minutes once another has failed. */
static int watch(void *context, double done, const char *what)
{
  const rank_loading *l = context;
  if (check_others(l->communicator, NULL) != HR_OK)
    return 1;
  return l->reports && l->reports->progress ? l->reports->progress(l->reports->context, done, what) : 0;
}

static hr_status load(hr_team_rank *rank, void *context, hr_error *error)
{
  const loading *l = context;
  rank_loading own = {rank == hr_team_first(l->team) ? l->weights : NULL, rank->communicator};
  const hr_status status = hr_executor_load(rank->executor, l->weights->what, l->weights->seed, watch, &own, error);
  if (status == HR_ERROR_INTERRUPTED)
    HR_TRY(check_others(rank->communicator, error));
  HR_TRY(status);
  return l->team->joined ? hr_communicator_meet(rank->communicator, error) : HR_OK;
}

hr_status hr_team_load(hr_team *team, const hr_team_weights *weights, hr_error *error)
{
  loading l = {weights, team};
  return hr_team_do(team, load, &l, error);
}

hr_status hr_team_agree(hr_team *team, bool *value, hr_error *error)
{
  if (!team->joined)
    return HR_OK;
  hr_communicator *c = team->members[0].rank.communicator;
  bool *all = calloc((size_t)hr_communicator_size(c), sizeof *all);
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", hr_communicator_size(c));
  const hr_status status = hr_communicator_share(c, value, sizeof *value, all, error);
  if (status == HR_OK)
    *value = all[0];
  free(all);
  return status;
}

/* ---- opening ---- */

static hr_status open_device(hr_team *t, int64_t i, hr_device *first, hr_error *error)
{
  member *m = &t->members[i];
  char name[sizeof first->name];
  const char *number = strchr(first->name, ':');
  if (i == 0 && (number || t->count == 1)) {
    m->rank.device = first;
    return HR_OK;
  }
  snprintf(name, sizeof name, "%s", first->name);
  if (number)
    snprintf(name + (number + 1 - first->name), sizeof name - (size_t)(number + 1 - first->name), "%" PRId64,
             (int64_t)strtoll(number + 1, NULL, 10) + i);
  const int threads = (int)hr_max64(1, first->threads / t->count);
  HR_TRY(hr_device_open(name, number ? 0 : threads, &m->rank.device, error));
  m->owns_device = true;
  return HR_OK;
}

static hr_status connect(hr_team *t, hr_error *error)
{
  hr_device **devices = calloc((size_t)t->count, sizeof *devices);
  hr_communicator **communicators = calloc((size_t)t->count, sizeof *communicators);
  hr_status status = devices && communicators
                         ? HR_OK
                         : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", t->count);
  for (int64_t i = 0; i < t->count && status == HR_OK; i++)
    devices[i] = t->members[i].rank.device;
  if (status == HR_OK)
    status = hr_communicators_create(devices, t->count, NULL, communicators, error);
  for (int64_t i = 0; i < t->count && status == HR_OK; i++)
    t->members[i].rank.communicator = communicators[i];
  free(devices);
  free(communicators);
  return status;
}

static hr_status open_all(hr_team *t, hr_device *first, hr_error *error)
{
  for (int64_t i = 0; i < t->count; i++)
    HR_TRY(open_device(t, i, first, error));
  if (t->count > 1)
    HR_TRY(connect(t, error));
  for (int64_t i = 1; i < t->count; i++) {
    if (pthread_create(&t->members[i].thread, NULL, main_of, &t->members[i]) != 0)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "the system has no thread for rank %" PRId64, i);
    t->members[i].has_thread = true;
  }
  return HR_OK;
}

static hr_status make(int64_t members, hr_team **team, hr_error *error)
{
  hr_team *t = calloc(1, sizeof *t + (size_t)members * sizeof *t->members);
  if (!t)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", members);
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  t->count = members;
  for (int64_t i = 0; i < members; i++)
    t->members[i].team = t;
  *team = t;
  return HR_OK;
}

hr_status hr_team_join(hr_device *device, hr_communicator *communicator, int64_t ranks, hr_team **team, hr_error *error)
{
  if (hr_communicator_size(communicator) != ranks)
    return hr_fail(error, HR_ERROR_INVALID, "the communicator has %" PRId64 " ranks, and the step has %" PRId64,
                   hr_communicator_size(communicator), ranks);
  HR_TRY(make(1, team, error));
  (*team)->joined = true;
  (*team)->members[0].rank = (hr_team_rank){.device = device, .communicator = communicator};
  return HR_OK;
}

hr_status hr_team_open(hr_device *first, int64_t ranks, hr_team **team, hr_error *error)
{
  hr_team *t = NULL;
  HR_TRY(make(ranks, &t, error));
  hr_status status = open_all(t, first, error);
  if (status == HR_OK)
    *team = t;
  else
    hr_team_close(t);
  return status;
}

static void end_threads(hr_team *t)
{
  pthread_mutex_lock(&t->lock);
  t->over = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  for (int64_t i = 1; i < t->count; i++) {
    if (t->members[i].has_thread)
      pthread_join(t->members[i].thread, NULL);
  }
}

void hr_team_close(hr_team *t)
{
  if (!t)
    return;
  end_threads(t);
  for (int64_t i = 0; i < t->count; i++)
    hr_executor_close(t->members[i].rank.executor);
  for (int64_t i = 0; i < t->count && !t->joined; i++)
    hr_communicator_free(t->members[i].rank.communicator);
  for (int64_t i = 0; i < t->count; i++) {
    if (t->members[i].owns_device)
      hr_device_close(t->members[i].rank.device);
  }
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
  free(t);
}
