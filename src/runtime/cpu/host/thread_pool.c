#include "runtime/cpu/host/thread_pool.h"

#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* How often a member looks for the next run before it sleeps: some 20 µs, about what waking it costs. */
#define LOOKS 600

struct hr_team {
  pthread_mutex_t running; /* held by the one whose run it is */
  pthread_mutex_t lock;    /* of what follows */
  pthread_cond_t started, finished;
  atomic_uint run; /* counts runs; changed under the lock, looked at without */
  bool open;       /* members may still join this run */
  bool leaving;
  int active; /* members, without the caller, that are at work */
  hr_team_fn work;
  void *context;
  const hr_placement *placement;
  int threads; /* that exist, without the caller */
  struct member {
    hr_team *team;
    pthread_t thread;
    int index;
  } members[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static void look_for(hr_team *team, unsigned seen)
{
  for (int i = 0; i < LOOKS && atomic_load_explicit(&team->run, memory_order_relaxed) == seen; i++)
    pause_briefly();
}

static void *member_main(void *argument)
{
  struct member *member = argument;
  hr_team *team = member->team;
  unsigned seen = 0;
  hr_placement_bind(team->placement, member->index);
  for (;;) {
    look_for(team, seen);
    pthread_mutex_lock(&team->lock);
    while (team->run == seen && !team->leaving)
      pthread_cond_wait(&team->started, &team->lock);
    seen = team->run;
    bool leaving = team->leaving, joins = team->open;
    hr_team_fn work = team->work;
    void *context = team->context;
    team->active += joins;
    pthread_mutex_unlock(&team->lock);
    if (leaving)
      return NULL;
    if (!joins)
      continue;
    work(context, member->index);
    pthread_mutex_lock(&team->lock);
    if (--team->active == 0)
      pthread_cond_signal(&team->finished);
    pthread_mutex_unlock(&team->lock);
  }
}

static int start_members(hr_team *team, int threads)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* a signal is for the program's own threads */
  int status = 0;
  while (status == 0 && team->threads < threads - 1) {
    struct member *member = &team->members[team->threads];
    *member = (struct member){.team = team, .index = team->threads + 1};
    status = pthread_create(&member->thread, NULL, member_main, member);
    team->threads += status == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

hr_status hr_team_create(int threads, const hr_placement *placement, hr_team **team, hr_error *error)
{
  hr_team *created = calloc(1, sizeof *created + (size_t)threads * sizeof *created->members);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory for %d threads", threads);
  created->placement = placement;
  pthread_mutex_init(&created->running, NULL);
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->started, NULL);
  pthread_cond_init(&created->finished, NULL);
  if (start_members(created, threads) != 0) {
    int started = created->threads + 1;
    hr_team_free(created);
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: only %d of %d threads could be started", started, threads);
  }
  *team = created;
  return HR_OK;
}

void hr_team_free(hr_team *team)
{
  if (!team)
    return;
  pthread_mutex_lock(&team->lock);
  team->leaving = true;
  pthread_cond_broadcast(&team->started);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; i < team->threads; i++)
    pthread_join(team->members[i].thread, NULL);
  pthread_cond_destroy(&team->finished);
  pthread_cond_destroy(&team->started);
  pthread_mutex_destroy(&team->lock);
  pthread_mutex_destroy(&team->running);
  free(team);
}

void hr_team_run(hr_team *team, hr_team_fn work, void *context)
{
  if (team->threads == 0 || pthread_mutex_trylock(&team->running) != 0) {
    work(context, 0);
    return;
  }
  hr_placement_lead(team->placement);
  pthread_mutex_lock(&team->lock);
  team->work = work;
  team->context = context;
  team->open = true;
  team->run++;
  pthread_cond_broadcast(&team->started);
  pthread_mutex_unlock(&team->lock);
  work(context, 0);
  pthread_mutex_lock(&team->lock);
  team->open = false; /* who has not come by now has nothing left to do */
  while (team->active > 0)
    pthread_cond_wait(&team->finished, &team->lock);
  pthread_mutex_unlock(&team->lock);
  pthread_mutex_unlock(&team->running);
}
