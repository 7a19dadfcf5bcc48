/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of plans: sets of WAYS places, which readers search without a lock. A writer, under the mutex, replaces the
 * pointer in a place and frees what was there once no reader that may have seen it is left: readers count themselves in
 * one of two counters, and the writer waits for both in turn, while new readers use the other one (McKenney's SRCU). */
#include "runtime/device/plan.h"
#include "runtime/operation/key.h"

#include "base/error.h"
#include "base/struct_size.h"

#include <headroom/plans.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WAYS 8
#define CAPACITY_MAX ((size_t)1 << 20)

typedef struct entry {
  hr_problem_key key;
  hr_plan *plan;
  atomic_llong asked; /* hr_plans.made when it was last asked for */
} entry;

typedef struct place {
  _Atomic(entry *) entry; /* NULL: free */
} place;

struct hr_plans {
  hr_device *device;
  size_t sets; /* a power of two */
  place *places;
  atomic_uint phase;      /* the last bit says which counter readers use */
  atomic_long readers[2]; /* within find() */
  atomic_llong found, made;
  pthread_mutex_t mutex; /* held while a plan is made */
};

hr_status hr_plans_create(hr_device *device, size_t capacity, hr_plans **plans, hr_error *error)
{
  HR_NEED(error, device, plans);
  if (capacity < 1 || capacity > CAPACITY_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "capacity: expected 1 to %zu, found %zu", CAPACITY_MAX, capacity);
  hr_plans *created = calloc(1, sizeof *created);
  size_t sets = 1;
  while (sets * WAYS < capacity)
    sets *= 2;
  if (created)
    *created = (hr_plans){.device = device, .sets = sets, .places = calloc(sets * WAYS, sizeof(place))};
  if (!created || !created->places || pthread_mutex_init(&created->mutex, NULL) != 0) {
    if (created)
      free(created->places);
    free(created);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a cache of %zu plans", capacity);
  }
  *plans = created;
  return HR_OK;
}

static void free_entry(entry *e)
{
  if (!e)
    return;
  hr_plan_free(e->plan);
  free(e);
}

void hr_plans_free(hr_plans *plans)
{
  if (!plans)
    return;
  for (size_t i = 0; i < plans->sets * WAYS; i++)
    free_entry(atomic_load(&plans->places[i].entry));
  free(plans->places);
  pthread_mutex_destroy(&plans->mutex);
  free(plans);
}

static place *set_of(const hr_plans *plans, const hr_problem_key *key)
{
  return plans->places + (key->hash & (plans->sets - 1)) * WAYS;
}

/* The plan with a share for the caller; NULL: it is not there. Frees nothing, so that a writer may call it, too. */
static hr_plan *find(hr_plans *plans, const hr_problem_key *key)
{
  hr_plan *plan = NULL;
  unsigned counter = atomic_load(&plans->phase) & 1;
  atomic_fetch_add(&plans->readers[counter], 1);
  place *set = set_of(plans, key);
  for (int i = 0; i < WAYS && !plan; i++) {
    entry *e = atomic_load(&set[i].entry);
    if (!e || !hr_problem_keys_equal(&e->key, key))
      continue;
    plan = e->plan;
    hr_plan_share(plan);
    atomic_store_explicit(&e->asked, atomic_load_explicit(&plans->made, memory_order_relaxed), memory_order_relaxed);
  }
  atomic_fetch_sub(&plans->readers[counter], 1);
  return plan;
}

/* Waits until no reader is left that may have loaded a pointer before it was replaced. Under the mutex. */
static void wait_for_readers(hr_plans *plans)
{
  for (int i = 0; i < 2; i++) {
    unsigned counter = atomic_fetch_add(&plans->phase, 1) & 1;
    while (atomic_load(&plans->readers[counter]) > 0)
      sched_yield();
  }
}

/* A free place, or the one asked for longest ago. Under the mutex. */
static place *place_for(const hr_plans *plans, const hr_problem_key *key)
{
  place *set = set_of(plans, key), *oldest = set;
  for (int i = 0; i < WAYS; i++) {
    entry *e = atomic_load(&set[i].entry), *other = atomic_load(&oldest->entry);
    if (!e)
      return &set[i];
    if (atomic_load(&e->asked) < atomic_load(&other->asked))
      oldest = &set[i];
  }
  return oldest;
}

static hr_status insert(hr_plans *plans, const hr_problem_key *key, hr_plan *plan, hr_error *error)
{
  entry *e = malloc(sizeof *e);
  if (!e)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to keep a plan");
  e->key = *key;
  e->plan = plan;
  atomic_init(&e->asked, atomic_fetch_add(&plans->made, 1) + 1);
  entry *old = atomic_exchange(&place_for(plans, key)->entry, e);
  if (old)
    wait_for_readers(plans);
  free_entry(old);
  return HR_OK;
}

/* Under the mutex. */
static hr_status make(hr_plans *plans, const hr_problem *problem, const hr_problem_key *key, hr_plan **plan,
                      hr_error *error)
{
  hr_plan *made = find(plans, key); /* by a thread that had the mutex before */
  if (!made) {
    HR_TRY(hr_plan_create(plans->device, problem, NULL, &made, error));
    hr_status status = insert(plans, key, made, error);
    if (status != HR_OK) {
      hr_plan_free(made);
      return status;
    }
    hr_plan_share(made);
  }
  *plan = made;
  return HR_OK;
}

static hr_status find_or_make(hr_plans *plans, hr_problem problem, hr_plan **plan, hr_error *error)
{
  hr_problem_key key;
  hr_problem_key_of(&problem, &key);
  hr_plan *there = find(plans, &key);
  if (there) {
    atomic_fetch_add_explicit(&plans->found, 1, memory_order_relaxed);
    *plan = there;
    return HR_OK;
  }
  HR_TRY(hr_operation_of(problem.operation)->check(&problem, error));
  pthread_mutex_lock(&plans->mutex);
  hr_status status = make(plans, &problem, &key, plan, error);
  pthread_mutex_unlock(&plans->mutex);
  return status;
}

#define ASK(name, type, problem)                                                                   \
  hr_status hr_plans_##name(hr_plans *plans, const type *problem, hr_plan **plan, hr_error *error) \
  {                                                                                                \
    HR_NEED(error, plans, problem, plan);                                                          \
    HR_TAKE(type, problem, error);                                                                 \
    return find_or_make(plans, hr_##name##_problem(problem), plan, error);                         \
  }

ASK(gemm, hr_gemm, gemm)
ASK(attention, hr_attention, attention)
ASK(decode, hr_decode, decode)
ASK(rowwise, hr_rowwise, rows)

hr_status hr_plans_attention_backward(hr_plans *plans, const hr_attention *forward,
                                      const hr_attention_backward *backward, hr_plan **plan, hr_error *error)
{
  hr_backward both;
  HR_NEED(error, plans, forward, plan);
  HR_TRY(hr_backward_take(forward, backward, &both, error));
  return find_or_make(plans, hr_attention_backward_problem(&both), plan, error);
}

hr_plans_counts hr_plans_count(const hr_plans *plans)
{
  return (hr_plans_counts){.found = atomic_load(&plans->found), .made = atomic_load(&plans->made)};
}
