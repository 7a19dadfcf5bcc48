/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming reads and copies by all threads, each in its own memory, together larger than any cache. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cpu/ceilings/ceilings.h"
#include "runtime/cpu/ceilings/rounds.h"
#include "runtime/device/host.h"

#include <headroom/buffer.h>

#include <math.h>
#include <string.h>

#define ROUNDS 8 /* the first touches the pages and is not counted */
#define SLAB_BYTES_MIN ((int64_t)16 << 20)

typedef struct stream {
  char *from, *to;
  size_t slab; /* bytes of each thread */
  hr_read_loop read;
} stream;

static void copy_round(void *context, int index, int round)
{
  const stream *s = context;
  char *from = s->from + (size_t)index * s->slab, *to = s->to + (size_t)index * s->slab;
  if (round == 0)
    memset(from, 1, s->slab);
  memcpy(to, from, s->slab);
  from[round] = to[round + 1]; /* uses the copy, so that the compiler keeps it */
}

static void read_round(void *context, int index, int round)
{
  const stream *s = context;
  char *from = s->from + (size_t)index * s->slab;
  if (round == 0)
    memset(from, 1, s->slab);
  from[round] = (char)s->read(from, s->slab);
}

static double best_of(const double *round_ns)
{
  double best_ns = round_ns[1];
  for (int round = 2; round < ROUNDS; round++)
    best_ns = fmin(best_ns, round_ns[round]);
  return best_ns;
}

/* Twice the last-level cache for source and for destination, within an eighth of the free memory. */
static size_t slab_bytes(const hr_device *device)
{
  int64_t wanted = hr_max64(2 * (int64_t)device->cache_bytes / device->threads, SLAB_BYTES_MIN);
  int64_t most = (int64_t)(hr_host_memory_available() / 16 / (size_t)device->threads);
  return (size_t)hr_max64(hr_min64(wanted, most), 1 << 16);
}

hr_status hr_cpu_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error)
{
  const hr_cpu *cpu = hr_cpu_of(device);
  stream s = {.slab = slab_bytes(device)};
  size_t bytes = s.slab * (size_t)device->threads;
  double round_ns[ROUNDS];
  hr_buffer *from = NULL, *to = NULL;
  HR_TRY(hr_buffer_create(device, bytes, &from, error));
  hr_status status = hr_buffer_create(device, bytes, &to, error);
  if (status == HR_OK) {
    s.from = hr_buffer_data(from);
    s.to = hr_buffer_data(to);
    status = hr_rounds_run(device->threads, &cpu->affinity, copy_round, &s, ROUNDS, round_ns, error);
  }
  if (status == HR_OK)
    *bytes_per_s = 2.0 * (double)bytes / best_of(round_ns) * 1e9;
  hr_buffer_free(from);
  hr_buffer_free(to);
  return status;
}

hr_status hr_cpu_read_rate(hr_device *device, hr_read_loop read, int threads, double *bytes_per_s, hr_error *error)
{
  const hr_cpu *cpu = hr_cpu_of(device);
  stream s = {.slab = slab_bytes(device) / 64 * 64, .read = read};
  size_t bytes = s.slab * (size_t)threads;
  double round_ns[ROUNDS];
  hr_buffer *from = NULL;
  HR_TRY(hr_buffer_create(device, bytes, &from, error));
  s.from = hr_buffer_data(from);
  hr_status status = hr_rounds_run(threads, &cpu->affinity, read_round, &s, ROUNDS, round_ns, error);
  if (status == HR_OK)
    *bytes_per_s = (double)bytes / best_of(round_ns) * 1e9;
  hr_buffer_free(from);
  return status;
}
