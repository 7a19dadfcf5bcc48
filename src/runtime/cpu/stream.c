/* A streaming copy by all threads, each from and to memory of its own, larger together than any cache. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device/clock.h"
#include "runtime/device/host.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 8 /* the first brings the pages in and is not counted */
#define SLAB_BYTES_LEAST ((int64_t)16 << 20)

typedef struct copy_team {
  pthread_mutex_t gate; /* held until it is known whether every thread could be started */
  bool abandoned;
  pthread_barrier_t barrier;
  char *from, *to;
  size_t slab; /* bytes of each thread */
  double round_ns[ROUNDS];
} copy_team;

typedef struct copy_member {
  copy_team *team;
  pthread_t thread;
  int index;
} copy_member;

static void *copy_rounds(void *argument)
{
  copy_member *member = argument;
  copy_team *team = member->team;
  pthread_mutex_lock(&team->gate); /* NOLINT(clang-analyzer-core.NonNullParamChecker): there is a thread at least */
  bool abandoned = team->abandoned;
  pthread_mutex_unlock(&team->gate);
  if (abandoned)
    return NULL;
  char *from = team->from + (size_t)member->index * team->slab, *to = team->to + (size_t)member->index * team->slab;
  memset(from, 1, team->slab);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&team->barrier);
    double start = hr_clock_ns();
    memcpy(to, from, team->slab);
    from[round] = to[round + 1]; /* the copy is used, so that it is made */
    pthread_barrier_wait(&team->barrier);
    if (member->index == 0)
      team->round_ns[round] = hr_clock_ns() - start;
  }
  return NULL;
}

/* Starts threads 1 and up and is thread 0 itself. A barrier short of a thread would never open, so that all wait at the
 * gate until it is known that nobody is missing. */
static hr_status run_team(copy_team *team, copy_member *members, int threads, hr_error *error)
{
  if (pthread_barrier_init(&team->barrier, NULL, (unsigned)threads) != 0)
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: no barrier for a copy by %d threads", threads);
  pthread_mutex_init(&team->gate, NULL);
  pthread_mutex_lock(&team->gate);
  int started = 1;
  for (int i = 0; i < threads; i++)
    members[i] = (copy_member){.team = team, .index = i};
  while (started < threads && pthread_create(&members[started].thread, NULL, copy_rounds, &members[started]) == 0)
    started++;
  team->abandoned = started < threads;
  pthread_mutex_unlock(&team->gate);
  copy_rounds(&members[0]);
  for (int i = 1; i < started; i++)
    pthread_join(members[i].thread, NULL);
  pthread_mutex_destroy(&team->gate);
  pthread_barrier_destroy(&team->barrier);
  if (team->abandoned)
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: only %d of %d threads could be started", started, threads);
  return HR_OK;
}

/* Twice the last-level cache on either side, within an eighth of what is free. */
static size_t slab_bytes(const hr_device *device)
{
  int64_t wanted = hr_max64(2 * (int64_t)device->cache_bytes / device->threads, SLAB_BYTES_LEAST);
  int64_t most = (int64_t)(hr_host_memory_available() / 16 / (size_t)device->threads);
  return (size_t)hr_max64(hr_min64(wanted, most), 1 << 16);
}

hr_status hr_cpu_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error)
{
  copy_team team = {.slab = slab_bytes(device)};
  size_t bytes = team.slab * (size_t)device->threads;
  hr_buffer *from = NULL, *to = NULL;
  copy_member *members = calloc((size_t)device->threads, sizeof *members);
  hr_status status = members ? hr_buffer_create(device, bytes, &from, error)
                             : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory for threads");
  if (status == HR_OK)
    status = hr_buffer_create(device, bytes, &to, error);
  if (status == HR_OK) {
    team.from = hr_buffer_data(from);
    team.to = hr_buffer_data(to);
    status = run_team(&team, members, device->threads, error);
  }
  if (status == HR_OK) {
    double best_ns = team.round_ns[1];
    for (int round = 2; round < ROUNDS; round++)
      best_ns = fmin(best_ns, team.round_ns[round]);
    *bytes_per_s = 2.0 * (double)bytes / best_ns * 1e9;
  }
  hr_buffer_free(from);
  hr_buffer_free(to);
  free(members);
  return status;
}
