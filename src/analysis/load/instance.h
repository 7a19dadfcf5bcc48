/* SPDX-License-Identifier: Apache-2.0 */
/* One server of a simulation: the requests that are on it, and its clock. */
#ifndef HR_ANALYSIS_LOAD_INSTANCE_H
#define HR_ANALYSIS_LOAD_INSTANCE_H

#include "analysis/load/simulation.h"

#define HR_LOAD_NONE SIZE_MAX

/** Requests in order, linked by their `next`. */
typedef struct hr_load_queue {
  size_t head, tail, count;
} hr_load_queue;

typedef struct hr_load_instance {
  const hr_load_server *server;
  hr_load_record *records;
  double clock;
  int64_t step;           /* decode steps so far */
  hr_load_queue incoming; /* that the scheduler has not seen yet, by seen_ns */
  hr_load_queue waiting, prefilling;
  hr_load_queue done;             /* until hr_load_take_done() takes them */
  size_t *running, running_count; /* that decode: a heap by last_step */
  size_t unstarted;               /* of these without a token yet */
  double cache_used;              /* tokens of the batch in the cache */
  double cache_due;               /* for which there has to be room, by the engine's rule */
  double contexts;                /* tokens in the cache of those that decode */
  size_t admissions;
  int64_t held_steps; /* decode steps that waiting prompts have waited for others */
  hr_load_counts counts;
} hr_load_instance;

/** Begins an idle instance; hr_load_end_instance() frees what it holds. */
hr_status hr_load_begin_instance(const hr_load_server *server, hr_load_record *records, hr_load_instance *instance,
                                 hr_error *error);

void hr_load_end_instance(hr_load_instance *instance);

/** Sends a request, which the scheduler sees at `seen_ns`. */
void hr_load_deliver(hr_load_instance *instance, size_t index, double seen_ns);

/** When the next hr_load_advance() begins; INFINITY with nothing to do. */
double hr_load_next_ns(const hr_load_instance *instance);

/** Advances the clock by a step, or by decode steps until something happens, of which the last may begin before
 *  `until_ns`. */
void hr_load_advance(hr_load_instance *instance, double until_ns);

/** The next request that has ended, or that another instance is to decode; HR_LOAD_NONE if there is none. */
size_t hr_load_take_done(hr_load_instance *instance);

#endif
