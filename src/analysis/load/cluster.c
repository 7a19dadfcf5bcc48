/* SPDX-License-Identifier: Apache-2.0 */
/* Instances side by side. The one whose clock is behind goes on, and no decoding instance goes beyond the time at which
 * a prompt may be handed to it: when an instance that prefills ends its next step, or when one that is idle has
 * prefilled a request that is sent from now on. */
#include "analysis/load/instance.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

typedef struct run {
  const hr_load_cluster *cluster;
  hr_load_instance *instances; /* those that prefill, then those that decode */
  double *next_ns;             /* hr_load_next_ns() of each */
  size_t prefilling, all;
  hr_load_record *records;
  size_t count, issued, handed, finished;
  bool closed; /* clients send when a request ends */
} run;

static void deliver(run *r, size_t to, size_t index, double seen_ns)
{
  hr_load_deliver(&r->instances[to], index, seen_ns);
  r->next_ns[to] = hr_load_next_ns(&r->instances[to]);
}

static void issue(run *r)
{
  double taken_ns = r->cluster->prefill.server->engine.arrival_ns;
  deliver(r, r->issued % r->prefilling, r->issued, r->records[r->issued].arrival_ns + taken_ns);
  r->issued++;
}

static void hand_over(run *r, size_t index)
{
  hr_load_record *record = &r->records[index];
  const hr_load_cluster *cluster = r->cluster;
  double on_the_way_ns = cluster->transfer_ns + cluster->transfer_ns_per_token * (double)record->prompt;
  record->handed = true;
  deliver(r, r->prefilling + r->handed++ % (r->all - r->prefilling), index, record->ready_ns + on_the_way_ns);
}

/* A client whose request has ended sends the next one. */
static void end(run *r, size_t index)
{
  r->finished++;
  if (!r->closed || r->issued == r->count)
    return;
  r->records[r->issued].arrival_ns = r->records[index].finish_ns;
  issue(r);
}

static void collect(run *r, hr_load_instance *from)
{
  for (size_t index; (index = hr_load_take_done(from)) != HR_LOAD_NONE;) {
    hr_load_record *record = &r->records[index];
    bool whole = record->made >= record->output;
    if (!whole && r->all > r->prefilling) {
      hand_over(r, index);
      continue;
    }
    if (!whole) /* nobody decodes */
      record->finish_ns = record->first_ns;
    end(r, index);
  }
}

/* The one of the first `count` that goes on next. */
static size_t next_of(const run *r, size_t count)
{
  size_t next = 0;
  for (size_t i = 1; i < count; i++)
    next = r->next_ns[i] < r->next_ns[next] ? i : next;
  return next;
}

/* Until when nothing is handed to an instance that goes on now. */
static double quiet_until_ns(const run *r, size_t instance)
{
  if (instance < r->prefilling)
    return INFINITY;
  double prefilled_ns = r->next_ns[next_of(r, r->prefilling)];
  double sent_ns = r->closed ? r->instances[instance].clock + r->cluster->least_prefill_ns : (double)INFINITY;
  return fmin(prefilled_ns, sent_ns);
}

/* The simulation of these takes some seconds. */
#define EVENTS_MAX 20000000

static hr_status serve(run *r, hr_error *error)
{
  int64_t preempted = 0;
  for (int64_t events = 0; r->finished < r->count; events++) {
    size_t place = next_of(r, r->all);
    hr_load_instance *next = &r->instances[place];
    int64_t before = next->counts.preempted;
    if (events + preempted * next->server->slots / 64 > EVENTS_MAX)
      return hr_fail(
          error, HR_ERROR_INVALID,
          "requests: they would take more than %d steps; simulate fewer, or with more prefill_tokens in a step",
          EVENTS_MAX);
    hr_load_advance(next, quiet_until_ns(r, place));
    r->next_ns[place] = hr_load_next_ns(next);
    preempted += next->counts.preempted - before;
    collect(r, next);
  }
  return HR_OK;
}

static hr_status begin(run *r, hr_error *error)
{
  for (size_t i = 0; i < r->all; i++) {
    const hr_load_pool *pool = i < r->prefilling ? &r->cluster->prefill : &r->cluster->decode;
    HR_TRY(hr_load_begin_instance(pool->server, r->records, &r->instances[i], error));
    r->next_ns[i] = INFINITY;
  }
  return HR_OK;
}

static void add_counts(const hr_load_instance *instance, hr_load_counts *to)
{
  to->busy_ns += instance->counts.busy_ns;
  to->resident_max += instance->counts.resident_max;
  to->preempted += instance->counts.preempted;
}

hr_status hr_load_simulate_cluster(hr_load_cluster *cluster, hr_load_record *records, size_t count, int64_t clients,
                                   hr_error *error)
{
  run r = {.cluster = cluster, .prefilling = cluster->prefill.instances, .records = records, .count = count};
  r.all = r.prefilling + cluster->decode.instances;
  r.closed = clients > 0;
  r.instances = calloc(r.all, sizeof *r.instances);
  r.next_ns = calloc(r.all, sizeof *r.next_ns);
  hr_status status = r.instances && r.next_ns
                         ? begin(&r, error)
                         : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  if (status == HR_OK) {
    while (r.issued < count && (!r.closed || r.issued < (size_t)clients))
      issue(&r);
    status = serve(&r, error);
  }
  cluster->prefill.counts = cluster->decode.counts = (hr_load_counts){0};
  for (size_t i = 0; i < r.all && r.instances; i++) {
    add_counts(&r.instances[i], i < r.prefilling ? &cluster->prefill.counts : &cluster->decode.counts);
    hr_load_end_instance(&r.instances[i]);
  }
  free(r.instances);
  free(r.next_ns);
  return status;
}

hr_status hr_load_simulate(const hr_load_server *server, hr_load_record *records, size_t count, int64_t clients,
                           hr_load_counts *counts, hr_error *error)
{
  hr_load_cluster alone = {.prefill = {.server = server, .instances = 1}};
  hr_status status = hr_load_simulate_cluster(&alone, records, count, clients, error);
  *counts = alone.prefill.counts;
  return status;
}
