/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/ceilings/rounds.h"

#include "base/error.h"
#include "runtime/device/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct pool {
  pthread_mutex_t gate; /* held until it is known whether every thread could be started */
  bool abandoned;
  pthread_barrier_t barrier;
  const hr_affinity *affinity;
  hr_round_fn work;
  void *context;
  int rounds;
  double *round_ns;
} pool;

typedef struct member {
  pool *pool;
  pthread_t thread;
  int index;
} member;

static void *go_round(void *argument)
{
  const member *m = argument;
  pool *t = m->pool;
  pthread_mutex_lock(&t->gate); /* NOLINT(clang-analyzer-core.NonNullParamChecker): there is a thread at least */
  bool abandoned = t->abandoned;
  pthread_mutex_unlock(&t->gate);
  if (abandoned)
    return NULL;
  if (m->index == 0)
    hr_affinity_move_caller(t->affinity);
  else
    hr_affinity_bind(t->affinity, m->index);
  for (int round = 0; round < t->rounds; round++) {
    pthread_barrier_wait(&t->barrier);
    double start = hr_clock_ns();
    t->work(t->context, m->index, round);
    pthread_barrier_wait(&t->barrier);
    if (m->index == 0)
      t->round_ns[round] = hr_clock_ns() - start;
  }
  return NULL;
}

/* With a thread missing the barrier would never open, so all threads wait at the gate until every thread has
 * started. */
static int start_members(pool *t, member *members, int threads)
{
  int started = 1;
  pthread_mutex_lock(&t->gate);
  for (int i = 0; i < threads; i++)
    members[i] = (member){.pool = t, .index = i};
  while (started < threads && pthread_create(&members[started].thread, NULL, go_round, &members[started]) == 0)
    started++;
  t->abandoned = started < threads;
  pthread_mutex_unlock(&t->gate);
  return started;
}

hr_status hr_rounds_run(int threads, const hr_affinity *affinity, hr_round_fn work, void *context, int rounds,
                        double *round_ns, hr_error *error)
{
  pool t = {.affinity = affinity, .work = work, .context = context, .rounds = rounds};
  t.round_ns = round_ns;
  member *members = calloc((size_t)threads, sizeof *members);
  if (!members)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for threads");
  if (pthread_barrier_init(&t.barrier, NULL, (unsigned)threads) != 0) {
    free(members);
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: no barrier for %d threads", threads);
  }
  pthread_mutex_init(&t.gate, NULL);
  int started = start_members(&t, members, threads);
  go_round(&members[0]);
  for (int i = 1; i < started; i++)
    pthread_join(members[i].thread, NULL);
  pthread_mutex_destroy(&t.gate);
  pthread_barrier_destroy(&t.barrier);
  free(members);
  return started == threads
             ? HR_OK
             : hr_fail(error, HR_ERROR_BACKEND, "cpu: only %d of %d threads could be started", started, threads);
}
