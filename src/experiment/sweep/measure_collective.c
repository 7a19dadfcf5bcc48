/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between the GPUs of this host, or between ranks on the cores of a CPU. A sample is the time of many calls
 * by the device's clock, of the rank that came last: the others' has the wait for it in it. The operands of a call are
 * where the call before left them, as those of a step are. */
#include "experiment/sweep/ranks.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "experiment/step/team.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"
#include "runtime/measure/problem_list.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/collective.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARIES 2 /* HR_LIBRARY_NCCL and HR_LIBRARY_HEADROOM */
#define RANKS_MAX 64
#define OWN_BYTES (INT64_C(64) << 20) /* Headroom's kernels are for messages up to this size */
#define SAMPLE_NS 2e6
#define CALLS_MAX 500
#define SAMPLES_MIN 10
#define SAMPLES_MAX 1000
#define LIMIT_NS 2e9
#define PRECISION 0.005
#define NOISY 0.05
#define CHECKED 128 /* elements of a result, spread over it */

/* A team and a communicator of each library. */
typedef struct rank_group {
  int64_t count;
  hr_status status;
  hr_error error; /* why there is no team */
  hr_team *team;
  hr_device *devices[RANKS_MAX];
  hr_communicator *communicators[LIBRARIES][RANKS_MAX];
  hr_error missing[LIBRARIES]; /* status HR_OK: the library is there */
  struct rank_group *next;
} rank_group;

typedef struct known_result {
  hr_collective collective; /* the library is that of the measurement */
  hr_dtype dtype;
  hr_measurement measurement;
  struct known_result *next;
} known_result;

struct hr_sweep_ranks {
  rank_group *groups;
  known_result *results;
};

hr_sweep_ranks *hr_sweep_ranks_create(void)
{
  return calloc(1, sizeof(hr_sweep_ranks));
}

static void close_group(rank_group *g)
{
  for (int library = 0; library < LIBRARIES; library++) {
    for (int64_t r = 0; r < g->count; r++)
      hr_communicator_free(g->communicators[library][r]);
  }
  hr_team_close(g->team);
  free(g);
}

void hr_sweep_ranks_free(hr_sweep_ranks *ranks)
{
  if (!ranks)
    return;
  for (rank_group *g = ranks->groups, *next; g; g = next) {
    next = g->next;
    close_group(g);
  }
  for (known_result *r = ranks->results, *next; r; r = next) {
    next = r->next;
    free(r);
  }
  free(ranks);
}

/* ---- teams ---- */

static hr_status note_device(hr_team_rank *rank, void *context, hr_error *error)
{
  rank_group *g = context;
  (void)error;
  g->devices[hr_communicator_rank(rank->communicator)] = rank->device;
  return HR_OK;
}

static bool is_cpu(const hr_device *device)
{
  return !device->backend->connect;
}

/* Without peers' memory a communicator that is asked for own kernels has NCCL's alone. */
static bool has_own_kernels(const hr_communicator *c)
{
  hr_collective_call call = hr_collective_call_default();
  call.dtype = HR_BF16, call.count = call.columns = 1024;
  return hr_communicator_takes_norm(c, &call);
}

static void connect(rank_group *g, hr_collective_library library)
{
  hr_communicator_options options = hr_communicator_options_default();
  hr_error *why = &g->missing[library];
  options.small_bytes = library == HR_LIBRARY_NCCL ? -1 : OWN_BYTES;
  if (is_cpu(g->devices[0]) && library == HR_LIBRARY_NCCL) {
    hr_fail(why, HR_ERROR_UNSUPPORTED, "NCCL is for GPUs");
    return;
  }
  hr_status status = hr_communicators_create(g->devices, g->count, &options, g->communicators[library], why);
  if (status == HR_OK && library == HR_LIBRARY_HEADROOM && !has_own_kernels(g->communicators[library][0]))
    status = hr_fail(why, HR_ERROR_UNSUPPORTED, "the GPUs do not see each other's memory");
  why->status = status;
}

static rank_group *open_group(hr_device *device, int64_t count)
{
  rank_group *g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  g->count = count;
  hr_error why = {.message = ""};
  g->status = hr_team_open(device, count, &g->team, &why);
  if (g->status == HR_OK)
    g->status = hr_team_do(g->team, note_device, g, &why);
  if (g->status != HR_OK) {
    hr_fail(&g->error, g->status, "%" PRId64 " ranks: %s", count, why.message);
    return g;
  }
  for (int library = 0; library < LIBRARIES; library++)
    connect(g, (hr_collective_library)library);
  return g;
}

static rank_group *group_of(hr_sweep_ranks *ranks, hr_device *device, int64_t count)
{
  rank_group *g = ranks->groups;
  while (g && g->count != count)
    g = g->next;
  if (g)
    return g;
  g = open_group(device, count);
  if (g) {
    g->next = ranks->groups;
    ranks->groups = g;
  }
  return g;
}

/* ---- one call ---- */

typedef struct collective_run {
  rank_group *group;
  hr_collective collective;
  hr_dtype dtype;
  uint64_t seed;
  int64_t count; /* of the call */
  hr_buffer *send[RANKS_MAX], *receive[RANKS_MAX];
  hr_collective_library library; /* at hand */
  int64_t calls;
  void *recordings[LIBRARIES][RANKS_MAX];
  double time_ns[RANKS_MAX];
  bool broken; /* ranks have given up on each other */
} collective_run;

typedef struct one_rank {
  collective_run *run;
  int64_t rank;
  hr_device *device;
  hr_communicator *communicator;
  hr_collective_call call;
} one_rank;

static int64_t received(const collective_run *run)
{
  return run->collective.kind == HR_REDUCE_SCATTER ? run->count / run->group->count : run->count;
}

static int64_t sent(const collective_run *run)
{
  return run->collective.kind == HR_ALL_GATHER ? run->count / run->group->count : run->count;
}

/* A message goes from rank 0 to rank 1. */
static one_rank rank_of(collective_run *run, const hr_team_rank *rank)
{
  one_rank one = {.run = run, .rank = hr_communicator_rank(rank->communicator), .device = rank->device};
  const bool message = run->collective.kind == HR_POINT_TO_POINT;
  one.communicator = run->group->communicators[run->library][one.rank];
  one.call = hr_collective_call_default();
  one.call.kind = run->collective.kind, one.call.dtype = run->dtype, one.call.count = run->count;
  one.call.peer = message ? 1 : 0;
  one.call.send = message && one.rank == 1 ? NULL : hr_buffer_data(run->send[one.rank]);
  one.call.receive = message && one.rank == 0 ? NULL : hr_buffer_data(run->receive[one.rank]);
  return one;
}

static hr_status call_once(void *context, hr_error *error)
{
  one_rank *one = context;
  return hr_communicate(one->communicator, &one->call, hr_device_stream(one->device), error);
}

static hr_status allocate_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  collective_run *run = context;
  const int64_t r = hr_communicator_rank(rank->communicator);
  const size_t element = hr_dtype_bytes(run->dtype);
  HR_TRY(hr_buffer_create(rank->device, (size_t)sent(run) * element, &run->send[r], error));
  HR_TRY(hr_buffer_create(rank->device, (size_t)received(run) * element, &run->receive[r], error));
  return hr_buffer_fill_uniform(run->send[r], run->dtype, run->seed + (uint64_t)r, error);
}

static hr_status poison_and_call(one_rank *one, hr_error *error)
{
  HR_TRY(hr_buffer_poison(one->run->receive[one->rank], one->run->dtype, error));
  HR_TRY(hr_communicator_meet(one->communicator, error));
  HR_TRY(call_once(one, error));
  return hr_communicator_wait(one->communicator, hr_device_stream(one->device), error);
}

/* Without this the others would wait for a rank that has failed. */
static hr_status or_give_up(const one_rank *one, hr_status status, const hr_error *error)
{
  if (status != HR_OK)
    hr_communicator_give_up(one->communicator, error->message);
  return status;
}

static hr_status try_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  one_rank one = rank_of(context, rank);
  return or_give_up(&one, poison_and_call(&one, error), error);
}

static hr_status do_together(collective_run *run, hr_team_job job, hr_error *error)
{
  const hr_status status = hr_team_do(run->group->team, job, run, error);
  run->broken = run->broken || status != HR_OK;
  return status;
}

/* ---- the check ---- */

static hr_status element_at(const collective_run *run, hr_buffer *const *buffers, int64_t rank, int64_t i,
                            double *value, hr_error *error)
{
  hr_device *device = run->group->devices[rank];
  const size_t bytes = hr_dtype_bytes(run->dtype);
  char number[8] = {0};
  HR_TRY(device->backend->read(device, number, (const char *)hr_buffer_data(buffers[rank]) + (size_t)i * bytes, bytes,
                               error));
  *value = hr_number_load(run->dtype, number, 0);
  return HR_OK;
}

/* The sum of all ranks' element i, and of their magnitudes. */
static hr_status sum_at(const collective_run *run, int64_t i, double *sum, double *magnitude, hr_error *error)
{
  *sum = *magnitude = 0;
  for (int64_t r = 0; r < run->group->count; r++) {
    double value;
    HR_TRY(element_at(run, run->send, r, i, &value, error));
    *sum += value;
    *magnitude += fabs(value);
  }
  return HR_OK;
}

static hr_status expected_at(const collective_run *run, int64_t rank, int64_t i, double *value, double *magnitude,
                             hr_error *error)
{
  const int64_t part = run->count / run->group->count;
  *magnitude = 0;
  switch (run->collective.kind) {
  case HR_ALL_REDUCE: return sum_at(run, i, value, magnitude, error);
  case HR_REDUCE_SCATTER: return sum_at(run, rank * part + i, value, magnitude, error);
  case HR_ALL_GATHER: return element_at(run, run->send, i / part, i % part, value, error);
  case HR_ALL_TO_ALL: return element_at(run, run->send, i / part, rank * part + i % part, value, error);
  case HR_POINT_TO_POINT:
  case HR_BROADCAST:
  case HR_COLLECTIVE_COUNT: break;
  }
  return element_at(run, run->send, 0, i, value, error);
}

/* Sums are rounded to the format once or, by a library that sends sums on, at each rank. */
static hr_status check_rank(const collective_run *run, int64_t rank, hr_measurement *m, hr_error *error)
{
  const double rounding = hr_dtype_bytes(run->dtype) == 4 ? 0x1p-23 : run->dtype == HR_FP16 ? 0x1p-10 : 0x1p-7;
  const int64_t count = received(run), step = count > CHECKED ? count / CHECKED : 1;
  for (int64_t i = 0; i < count; i += step) {
    double found, wanted, magnitude;
    HR_TRY(element_at(run, run->receive, rank, i, &found, error));
    HR_TRY(expected_at(run, rank, i, &wanted, &magnitude, error));
    const double off = fabs(found - wanted);
    if (!(off <= rounding * magnitude))
      return hr_fail(error, HR_ERROR_WRONG_RESULT, "rank %" PRId64 ": element %" PRId64 " is %g instead of %g", rank, i,
                     found, wanted);
    m->max_error = fmax(m->max_error, off);
    m->rows_checked++;
  }
  return HR_OK;
}

static hr_status check(collective_run *run, hr_measurement *m, hr_error *error)
{
  const bool message = run->collective.kind == HR_POINT_TO_POINT;
  m->max_error = 0;
  HR_TRY(do_together(run, try_rank, error));
  for (int64_t r = message ? 1 : 0; r < run->group->count; r++)
    HR_TRY(check_rank(run, r, m, error));
  return HR_OK;
}

/* ---- samples ---- */

static hr_status time_calls(one_rank *one, hr_error *error)
{
  collective_run *run = one->run;
  const hr_backend *backend = one->device->backend;
  HR_TRY(hr_communicator_meet(one->communicator, error));
  if (backend->time_runs)
    return backend->time_runs(one->device, call_once, one, run->calls, &run->recordings[run->library][one->rank],
                              &run->time_ns[one->rank], error);
  const double start_ns = hr_clock_ns();
  for (int64_t i = 0; i < run->calls; i++)
    HR_TRY(call_once(one, error));
  run->time_ns[one->rank] = (hr_clock_ns() - start_ns) / (double)run->calls;
  return HR_OK;
}

static hr_status time_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  one_rank one = rank_of(context, rank);
  return or_give_up(&one, time_calls(&one, error), error);
}

static hr_status forget_rank(hr_team_rank *rank, void *context, hr_error *error)
{
  collective_run *run = context;
  const int64_t r = hr_communicator_rank(rank->communicator);
  (void)error;
  for (int library = 0; library < LIBRARIES; library++) {
    if (rank->device->backend->forget && run->recordings[library][r])
      rank->device->backend->forget(rank->device, run->recordings[library][r]);
    run->recordings[library][r] = NULL;
  }
  return HR_OK;
}

/* The rank that came last waited for none. */
static hr_status take_sample(collective_run *run, hr_collective_library library, int64_t calls, double *time_ns,
                             hr_error *error)
{
  run->library = library;
  run->calls = calls;
  HR_TRY(do_together(run, time_rank, error));
  *time_ns = INFINITY;
  for (int64_t r = 0; r < run->group->count; r++)
    *time_ns = fmin(*time_ns, run->time_ns[r]);
  return HR_OK;
}

/* The libraries that are timed, their calls in a sample and their samples. */
typedef struct interleaved {
  bool timed[LIBRARIES];
  int64_t calls[LIBRARIES], count;
  double samples[LIBRARIES][SAMPLES_MAX];
  hr_measurement *measurements; /* of both */
} interleaved;

/* A failure of a library is its result, unless ranks have given up. */
static hr_status note(interleaved *all, hr_collective_library library, hr_status status, const hr_error *why,
                      hr_error *error)
{
  hr_measurement *m = &all->measurements[library];
  if (status == HR_ERROR_INTERRUPTED)
    return hr_fail(error, status, "%s", why->message);
  if (status != HR_OK) {
    all->timed[library] = false;
    m->status = status == HR_ERROR_INVALID ? HR_ERROR_UNSUPPORTED : status;
    hr_copy_text(m->reason, sizeof m->reason, why->message);
  }
  return HR_OK;
}

/* Checks the result, and finds how many calls are a sample. The first graph of two calls is thrown away. */
static hr_status begin(collective_run *run, interleaved *all, hr_collective_library library, hr_error *error)
{
  double time_ns = 0;
  run->library = library;
  HR_TRY(check(run, &all->measurements[library], error));
  HR_TRY(take_sample(run, library, 2, &time_ns, error));
  HR_TRY(take_sample(run, library, 2, &time_ns, error));
  HR_TRY(do_together(run, forget_rank, error));
  all->calls[library] = (int64_t)fmax(2, fmin(CALLS_MAX, SAMPLE_NS / time_ns));
  return HR_OK;
}

/* Half of the width of the median's interval, relative to the median. */
static double spread_of(const hr_measurement *m)
{
  return fmax(m->median_high_ns - m->median_ns, m->median_ns - m->median_low_ns) / m->median_ns;
}

static bool is_precise(const interleaved *all)
{
  double sorted[SAMPLES_MAX];
  hr_measurement m = hr_no_measurement(HR_OK, "");
  for (int library = 0; library < LIBRARIES; library++) {
    if (!all->timed[library])
      continue;
    memcpy(sorted, all->samples[library], (size_t)all->count * sizeof *sorted);
    hr_statistics(sorted, all->count, &m);
    if (spread_of(&m) > PRECISION)
      return false;
  }
  return true;
}

static hr_status sample_all(collective_run *run, interleaved *all, double limit_ns, hr_progress *progress,
                            hr_error *error)
{
  const double start_ns = hr_clock_ns();
  for (int64_t round = -1; all->count < SAMPLES_MAX; round++) { /* the first one makes the graphs */
    if (all->count >= SAMPLES_MIN && (is_precise(all) || hr_clock_ns() - start_ns > limit_ns))
      return HR_OK;
    if (hr_progress_cancelled(progress))
      return hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
    for (int library = 0; library < LIBRARIES; library++) {
      if (all->timed[library])
        HR_TRY(take_sample(run, (hr_collective_library)library, all->calls[library], &all->samples[library][all->count],
                           error));
    }
    all->count += round >= 0;
  }
  return HR_OK;
}

static void sum_up(const collective_run *run, interleaved *all, hr_collective_library library)
{
  hr_measurement *m = &all->measurements[library];
  const hr_device *device = run->group->devices[0];
  const double bytes = (double)run->collective.bytes;
  hr_statistics(all->samples[library], all->count, m);
  m->bytes_per_s = bytes * hr_collective_bus_share(run->collective.kind, run->collective.devices) / m->median_ns * 1e9;
  m->buffer_sets = 1;
  hr_copy_text(m->kernel, sizeof m->kernel, hr_collective_library_name(library));
  if (device->backend->conditions)
    device->backend->conditions(device, &m->conditions);
  if (spread_of(m) <= NOISY)
    return;
  m->status = HR_ERROR_NOISY;
  hr_write_text(m->reason, sizeof m->reason, "the 95%% interval of the median is ±%.1f%% after %" PRId64 " samples",
                100 * spread_of(m), m->samples);
}

/* ---- a point ---- */

/* Why a library has no time here. */
static hr_status check_library(const collective_run *run, hr_collective_library library, hr_error *error)
{
  const hr_error *missing = &run->group->missing[library];
  if (missing->status != HR_OK)
    return hr_fail(error, missing->status, "%s", missing->message);
  if (library == HR_LIBRARY_NCCL || is_cpu(run->group->devices[0]))
    return HR_OK;
  if (run->collective.kind != HR_ALL_REDUCE)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "Headroom has all-reduces of its own, and NCCL's other collectives");
  if (run->collective.bytes > OWN_BYTES)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "Headroom's all-reduces are for messages of up to %" PRId64 " bytes",
                   OWN_BYTES);
  return HR_OK;
}

static hr_status measure_all(collective_run *run, interleaved *all, double limit_ns, hr_progress *progress,
                             hr_error *error)
{
  bool any = false;
  HR_TRY(do_together(run, allocate_rank, error));
  for (int library = 0; library < LIBRARIES; library++) {
    hr_error why = {.message = ""};
    hr_status status = check_library(run, (hr_collective_library)library, &why);
    if (run->broken)
      status = hr_fail(&why, HR_ERROR_UNAVAILABLE, "the ranks have failed with another library");
    if (status == HR_OK)
      status = begin(run, all, (hr_collective_library)library, &why);
    all->timed[library] = status == HR_OK;
    HR_TRY(note(all, (hr_collective_library)library, status, &why, error));
    any = any || all->timed[library];
  }
  if (any && !run->broken)
    HR_TRY(sample_all(run, all, limit_ns, progress, error));
  for (int library = 0; library < LIBRARIES; library++) {
    if (all->timed[library] && all->count > 0)
      sum_up(run, all, (hr_collective_library)library);
  }
  return HR_OK;
}

static void end(collective_run *run)
{
  hr_error ignored;
  hr_team_do(run->group->team, forget_rank, run, &ignored);
  for (int64_t r = 0; r < run->group->count; r++) {
    hr_buffer_free(run->send[r]);
    hr_buffer_free(run->receive[r]);
  }
}

static known_result *find(const hr_sweep_ranks *ranks, const hr_collective *c, hr_dtype dtype)
{
  known_result *r = ranks->results;
  while (r && (r->collective.kind != c->kind || r->collective.devices != c->devices ||
               r->collective.bytes != c->bytes || r->collective.library != c->library || r->dtype != dtype))
    r = r->next;
  return r;
}

static hr_status keep(hr_sweep_ranks *ranks, const collective_run *run, const hr_measurement *measurements,
                      hr_error *error)
{
  for (int library = 0; library < LIBRARIES; library++) {
    known_result *r = calloc(1, sizeof *r);
    if (!r)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a result");
    *r = (known_result){run->collective, run->dtype, measurements[library], ranks->results};
    r->collective.library = (hr_collective_library)library;
    ranks->results = r;
  }
  return HR_OK;
}

static hr_status refuse(hr_measurement *m, const hr_error *why)
{
  m->status = why->status == HR_ERROR_INVALID ? HR_ERROR_UNSUPPORTED : why->status;
  hr_copy_text(m->reason, sizeof m->reason, why->message);
  return HR_OK;
}

/* Ranks that have given up on each other do not work together again: the next point opens others. */
static void drop(hr_sweep_ranks *ranks, rank_group *group)
{
  rank_group **at = &ranks->groups;
  while (*at != group)
    at = &(*at)->next;
  *at = group->next;
  close_group(group);
}

static hr_status measure(hr_sweep_ranks *ranks, collective_run *run, double limit_ns, hr_progress *progress,
                         hr_error *error)
{
  hr_measurement measurements[LIBRARIES] = {hr_no_measurement(HR_OK, ""), hr_no_measurement(HR_OK, "")};
  interleaved *all = calloc(1, sizeof *all);
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the samples of a collective");
  all->measurements = measurements;
  hr_status status = measure_all(run, all, limit_ns, progress, error);
  free(all);
  end(run);
  if (run->broken)
    drop(ranks, run->group);
  return status == HR_OK ? keep(ranks, run, measurements, error) : status;
}

hr_status hr_sweep_measure_collective(hr_sweep_ranks *ranks, hr_device *device, const hr_sweep_point *point,
                                      const hr_sweep_options *options, hr_progress *progress,
                                      hr_measurement *measurement, hr_error *error)
{
  collective_run run = {.collective = point->collective, .dtype = options->dtype, .seed = options->choice.seed};
  hr_error why = {.status = HR_OK};
  known_result *known = find(ranks, &run.collective, run.dtype);
  if (!known) {
    run.group = group_of(ranks, device, run.collective.devices);
    if (!run.group)
      return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %" PRId64 " ranks", run.collective.devices);
    if (run.group->status != HR_OK)
      return refuse(measurement, &run.group->error);
    run.count = run.collective.bytes / (int64_t)hr_dtype_bytes(run.dtype);
    hr_status status =
        measure(ranks, &run, options->time_limit_ns > 0 ? options->time_limit_ns : LIMIT_NS, progress, &why);
    if (status == HR_ERROR_INTERRUPTED)
      return hr_fail(error, status, "%s", why.message);
    if (status != HR_OK)
      return refuse(measurement, &why);
    known = find(ranks, &run.collective, run.dtype);
  }
  *measurement = known->measurement;
  return HR_OK;
}
