/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/thread_pool.h"

#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Polls before a thread sleeps: some 20 µs, about the cost of waking it. */
#define POLLS 600

struct hr_thread_pool {
  pthread_mutex_t running; /* held by the caller of the current run */
  pthread_mutex_t lock;    /* protects the members below */
  pthread_cond_t started, finished;
  atomic_uint run; /* counts runs; written under the lock, polled without */
  bool open;       /* members may still join this run */
  bool leaving;
  atomic_int active; /* threads at work, without the caller; as `run` */
  hr_thread_pool_fn work;
  void *context;
  const hr_affinity *affinity;
  pid_t owner; /* a forked child has none of the threads, and locks as they were at that moment */
  int threads; /* started, without the caller */
  struct member {
    hr_thread_pool *pool;
    pthread_t thread;
    int index;
  } members[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* yield is a no-op on most cores */
#endif
}

static void poll_for_run(hr_thread_pool *pool, unsigned seen)
{
  for (int i = 0; i < POLLS && atomic_load_explicit(&pool->run, memory_order_relaxed) == seen; i++)
    pause_briefly();
}

/* The others finish about when the caller does, mostly sooner than it would fall asleep. */
static void poll_for_end(hr_thread_pool *pool)
{
  for (int i = 0; i < POLLS && atomic_load_explicit(&pool->active, memory_order_relaxed) > 0; i++)
    pause_briefly();
}

static void *member_main(void *argument)
{
  struct member *member = argument;
  hr_thread_pool *pool = member->pool;
  unsigned seen = 0;
  hr_affinity_bind(pool->affinity, member->index);
  for (;;) {
    poll_for_run(pool, seen);
    pthread_mutex_lock(&pool->lock);
    while (pool->run == seen && !pool->leaving)
      pthread_cond_wait(&pool->started, &pool->lock);
    seen = pool->run;
    bool leaving = pool->leaving, joins = pool->open;
    hr_thread_pool_fn work = pool->work;
    void *context = pool->context;
    pool->active += joins;
    pthread_mutex_unlock(&pool->lock);
    if (leaving)
      return NULL;
    if (!joins)
      continue;
    work(context, member->index);
    pthread_mutex_lock(&pool->lock);
    if (--pool->active == 0)
      pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
  }
}

static int start_members(hr_thread_pool *pool, int threads)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to the program's own threads */
  int status = 0;
  while (status == 0 && pool->threads < threads - 1) {
    struct member *member = &pool->members[pool->threads];
    *member = (struct member){.pool = pool, .index = pool->threads + 1};
    status = pthread_create(&member->thread, NULL, member_main, member);
    pool->threads += status == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

hr_status hr_thread_pool_create(int threads, const hr_affinity *affinity, hr_thread_pool **pool, hr_error *error)
{
  hr_thread_pool *created = calloc(1, sizeof *created + (size_t)threads * sizeof *created->members);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for %d threads", threads);
  created->affinity = affinity;
  created->owner = getpid();
  pthread_mutex_init(&created->running, NULL);
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->started, NULL);
  pthread_cond_init(&created->finished, NULL);
  if (start_members(created, threads) != 0) {
    int started = created->threads + 1;
    hr_thread_pool_free(created);
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: only %d of %d threads could be started", started, threads);
  }
  *pool = created;
  return HR_OK;
}

void hr_thread_pool_free(hr_thread_pool *pool)
{
  if (pool && pool->owner != getpid()) {
    free(pool);
    return;
  }
  if (!pool)
    return;
  pthread_mutex_lock(&pool->lock);
  pool->leaving = true;
  pthread_cond_broadcast(&pool->started);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->threads; i++)
    pthread_join(pool->members[i].thread, NULL);
  pthread_cond_destroy(&pool->finished);
  pthread_cond_destroy(&pool->started);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->running);
  free(pool);
}

void hr_thread_pool_run(hr_thread_pool *pool, hr_thread_pool_fn work, void *context)
{
  if (pool->threads == 0 || pthread_mutex_trylock(&pool->running) != 0) {
    work(context, 0);
    return;
  }
  hr_affinity_move_caller(pool->affinity);
  pthread_mutex_lock(&pool->lock);
  pool->work = work;
  pool->context = context;
  pool->open = true;
  pool->run++;
  pthread_cond_broadcast(&pool->started);
  pthread_mutex_unlock(&pool->lock);
  work(context, 0);
  pthread_mutex_lock(&pool->lock);
  pool->open = false; /* threads that have not joined by now find no work left */
  pthread_mutex_unlock(&pool->lock);
  poll_for_end(pool);
  pthread_mutex_lock(&pool->lock);
  while (pool->active > 0)
    pthread_cond_wait(&pool->finished, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->running);
}
