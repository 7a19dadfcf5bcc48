/* SPDX-License-Identifier: Apache-2.0 */
/* A server's life from event to event. Requests that the scheduler has seen wait in a queue, are taken into the batch
 * as slots and the cache allow, are prefilled in that order, and decode until their outputs are whole. Between two
 * events (the end of an output, an arrival that can be taken, a full cache) all decode steps are taken as one. */
#include "analysis/load/instance.h"
#include "base/checked.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

/* ---- queues ---- */

static void push_back(hr_load_instance *s, hr_load_queue *to, size_t index)
{
  s->records[index].next = HR_LOAD_NONE;
  if (to->count++ == 0)
    to->head = index;
  else
    s->records[to->tail].next = index;
  to->tail = index;
}

static void push_front(hr_load_instance *s, hr_load_queue *to, size_t index)
{
  s->records[index].next = to->head;
  if (to->count++ == 0)
    to->tail = index;
  to->head = index;
}

static hr_load_record *pop_front(hr_load_instance *s, hr_load_queue *from)
{
  hr_load_record *record = &s->records[from->head];
  from->head = record->next;
  from->count--;
  return record;
}

/* ---- the heap of those that decode ---- */

static int64_t last_step_at(const hr_load_instance *s, size_t place)
{
  return s->records[s->running[place]].last_step;
}

static void swap(hr_load_instance *s, size_t a, size_t b)
{
  size_t kept = s->running[a];
  s->running[a] = s->running[b];
  s->running[b] = kept;
}

static void sift_up(hr_load_instance *s, size_t place)
{
  for (size_t parent; place > 0 && last_step_at(s, place) < last_step_at(s, parent = (place - 1) / 2); place = parent)
    swap(s, place, parent);
}

static void sift_down(hr_load_instance *s, size_t place)
{
  for (size_t child; (child = 2 * place + 1) < s->running_count; place = child) {
    if (child + 1 < s->running_count && last_step_at(s, child + 1) < last_step_at(s, child))
      child++;
    if (last_step_at(s, place) <= last_step_at(s, child))
      return;
    swap(s, place, child);
  }
}

static hr_load_record *remove_running(hr_load_instance *s, size_t place)
{
  size_t index = s->running[place];
  s->running[place] = s->running[--s->running_count];
  if (place < s->running_count) {
    sift_down(s, place);
    sift_up(s, place);
  }
  return &s->records[index];
}

/* ---- pipeline stages ---- */

/* Steps in which each sequence has its turn once. */
static int64_t turns(const hr_load_instance *s)
{
  return (int64_t)s->server->costs->stages;
}

/* Tokens that a sequence gets in a step, on average. */
static double tokens_per_turn(const hr_load_instance *s)
{
  return s->server->tokens_per_step / s->server->costs->stages;
}

/* ---- the batch ---- */

static size_t resident(const hr_load_instance *s)
{
  return s->prefilling.count + s->running_count;
}

/* Tokens in the cache of a request that decodes. */
static double context_of(const hr_load_instance *s, const hr_load_record *record)
{
  return (double)(record->prompt + record->made) + tokens_per_turn(s) * (double)(s->step - record->first_step);
}

/* Tokens that a prefill computes, if none of them are found in a cache. */
static int64_t prefilled(const hr_load_instance *s, const hr_load_record *record)
{
  return record->prompt + record->made - s->server->engine.decodes_first;
}

static double room_due(const hr_load_instance *s, const hr_load_record *record)
{
  return (double)record->prompt + (double)record->made + s->server->engine.decodes_first +
         s->server->engine.output_reserved * (double)(record->output - record->made);
}

static void leave_batch(hr_load_instance *s, hr_load_record *record, double context)
{
  s->cache_used -= context;
  s->cache_due -= room_due(s, record);
}

/* Another one is to decode it if it has not all of its tokens. */
static void leave(hr_load_instance *s, size_t index)
{
  hr_load_record *record = &s->records[index];
  if (record->made >= record->output)
    record->finish_ns = s->clock;
  push_back(s, &s->done, index);
}

static void finish_decoded(hr_load_instance *s)
{
  while (s->running_count > 0 && last_step_at(s, 0) <= s->step) {
    size_t index = s->running[0];
    hr_load_record *record = remove_running(s, 0);
    double context = context_of(s, record);
    s->contexts -= context;
    leave_batch(s, record, context);
    record->made = record->output;
    leave(s, index);
  }
}

/* ---- admission ---- */

/* When the scheduler sees the next request. */
static double next_seen_ns(const hr_load_instance *s)
{
  return s->incoming.count > 0 ? s->records[s->incoming.head].seen_ns : (double)INFINITY;
}

static void take_arrivals(hr_load_instance *s)
{
  while (next_seen_ns(s) <= s->clock) {
    size_t index = s->incoming.head;
    pop_front(s, &s->incoming);
    push_back(s, &s->waiting, index);
  }
}

static bool can_take(const hr_load_instance *s)
{
  if (s->waiting.count == 0 || resident(s) >= (size_t)s->server->slots)
    return false;
  double next_step = s->cache_used + (double)s->running_count * tokens_per_turn(s);
  double due = fmax(s->cache_due, next_step) + room_due(s, &s->records[s->waiting.head]);
  return resident(s) == 0 || s->server->cache_tokens == 0 || due <= (double)s->server->cache_tokens;
}

/* Tokens to prefill of a request that is taken, and whether it was computed before. */
static int64_t tokens_to_prefill(const hr_load_instance *s, const hr_load_record *record)
{
  int64_t found = (int64_t)(s->server->cached * (double)record->prompt);
  if (record->handed)
    return 0;
  return hr_max64(prefilled(s, record) - found, !s->server->engine.decodes_first);
}

/* Whether prompts wait for more of them: of those that could be taken there are few, and others decode. */
static bool hold(hr_load_instance *s)
{
  const hr_load_server *server = s->server;
  double tokens = 0;
  size_t free_slots = (size_t)server->slots - resident(s);
  if (server->wait_steps == 0 || s->running_count == 0 || s->held_steps >= server->wait_steps)
    return false;
  for (size_t i = s->waiting.head; i != HR_LOAD_NONE && free_slots > 0; i = s->records[i].next, free_slots--)
    tokens += (double)tokens_to_prefill(s, &s->records[i]);
  return tokens < 0.9 * (double)server->prefill_tokens;
}

static void admit(hr_load_instance *s)
{
  if (!can_take(s) || hold(s))
    return;
  s->held_steps = 0;
  while (can_take(s)) {
    size_t index = s->waiting.head;
    hr_load_record *record = pop_front(s, &s->waiting);
    if (record->made == 0)
      record->admitted_ns = s->clock;
    record->admission = s->admissions++;
    record->left = tokens_to_prefill(s, record);
    record->ready_ns = 0;
    s->cache_used += (double)(record->prompt + record->made);
    s->cache_due += room_due(s, record);
    push_back(s, &s->prefilling, index);
  }
  s->counts.resident_max = hr_max64(s->counts.resident_max, (int64_t)resident(s));
}

/* The request that was taken last gives its cache back and is computed again when there is room. */
static void preempt(hr_load_instance *s)
{
  size_t place = 0;
  for (size_t i = 1; i < s->running_count; i++)
    place = s->records[s->running[i]].admission > s->records[s->running[place]].admission ? i : place;
  size_t index = s->running[place];
  hr_load_record *record = remove_running(s, place);
  double context = context_of(s, record);
  s->contexts -= context;
  s->unstarted -= record->first_ns <= 0;
  leave_batch(s, record, context);
  record->made = hr_min64((int64_t)context - record->prompt, record->output - 1);
  push_front(s, &s->waiting, index);
  s->counts.preempted++;
}

/* ---- steps ---- */

static hr_load_step decode_of(const hr_load_instance *s)
{
  double sequences = (double)s->running_count;
  return (hr_load_step){.sequences = sequences,
                        .context = sequences > 0 ? s->contexts / sequences : 0,
                        .rows = sequences * (double)s->server->rows};
}

/* A decode step has given first tokens. */
static void start_outputs(hr_load_instance *s)
{
  for (size_t i = 0; i < s->running_count && s->unstarted > 0; i++) {
    hr_load_record *record = &s->records[s->running[i]];
    if (record->first_ns > 0)
      continue;
    record->first_ns = s->clock;
    s->unstarted--;
  }
}

/* `steps` decode steps of all that decode, whose contexts grow on the way. */
static void advance_decode(hr_load_instance *s, int64_t steps)
{
  double grown = (double)steps * tokens_per_turn(s) * (double)s->running_count;
  s->step += steps;
  s->contexts += grown;
  s->cache_used += grown;
  start_outputs(s);
}

static void spend(hr_load_instance *s, double ns)
{
  s->clock += ns;
  s->counts.busy_ns += ns;
}

static double step_ns(const hr_load_instance *s, const hr_load_step *step)
{
  const hr_load_engine *engine = &s->server->engine;
  return hr_load_step_ns(s->server->costs, step) + engine->step_ns +
         engine->sequence_ns * step->sequences / s->server->costs->stages;
}

/* Adds the part of a prompt that fits into the step. False if nothing of it does. */
static bool add_prompt(const hr_load_instance *s, hr_load_record *record, int64_t budget, hr_load_step *step)
{
  bool alone = step->prefill_tokens == 0, splits = s->server->engine.splits;
  if (budget <= 0 || (!splits && !alone && record->left > budget))
    return false;
  int64_t taken = splits || record->left > s->server->prefill_tokens ? hr_min64(record->left, budget) : record->left;
  double before = (double)(prefilled(s, record) - record->left);
  step->pairs += (double)taken * (before + 0.5 * (double)taken);
  step->prefill_tokens += (double)taken;
  record->left -= taken;
  return true;
}

/* The step that ended a prompt has given the first token, or the next one of a request computed again. */
static void add_token(hr_load_instance *s, hr_load_record *record)
{
  if (record->made == 0)
    record->first_ns = record->ready_ns;
  s->cache_due -= room_due(s, record);
  record->made++;
  s->cache_due += room_due(s, record);
  s->cache_used++;
}

/* The prompt is whole. */
static void begin_decode(hr_load_instance *s)
{
  size_t index = s->prefilling.head;
  hr_load_record *record = pop_front(s, &s->prefilling);
  if (!s->server->engine.decodes_first && !record->handed)
    add_token(s, record);
  record->handed = false;
  double context = (double)(record->prompt + record->made);
  if (record->made >= record->output || s->server->hands_over) {
    leave_batch(s, record, context);
    leave(s, index);
    return;
  }
  s->unstarted += record->first_ns <= 0;
  record->first_step = s->step;
  record->last_step =
      s->step + turns(s) * (int64_t)ceil((double)(record->output - record->made) / s->server->tokens_per_step);
  s->contexts += context;
  s->running[s->running_count++] = index;
  sift_up(s, s->running_count - 1);
}

static void begin_whole(hr_load_instance *s)
{
  while (s->prefilling.count > 0) {
    const hr_load_record *record = &s->records[s->prefilling.head];
    if (record->left > 0 || record->ready_ns > s->clock)
      return;
    begin_decode(s);
  }
}

/* The first request that has something to prefill; those before it are in the other stages. */
static size_t first_prompt(const hr_load_instance *s)
{
  size_t i = s->prefilling.head;
  while (i != HR_LOAD_NONE && s->records[i].left == 0)
    i = s->records[i].next;
  return i;
}

static void prefill(hr_load_instance *s)
{
  const hr_load_server *server = s->server;
  bool mixes = server->engine.mixes;
  hr_load_step step = mixes ? decode_of(s) : (hr_load_step){0};
  int64_t budget = hr_max64(server->prefill_tokens - (int64_t)step.rows, 1);
  size_t first = first_prompt(s);
  for (size_t i = first; i != HR_LOAD_NONE; i = s->records[i].next) {
    if (!add_prompt(s, &s->records[i], budget - (int64_t)step.prefill_tokens, &step))
      break;
  }
  spend(s, step_ns(s, &step));
  double ready_ns = s->clock + hr_load_behind_ns(server->costs, &step);
  for (size_t i = first; i != HR_LOAD_NONE && s->records[i].left == 0; i = s->records[i].next)
    s->records[i].ready_ns = ready_ns;
  if (mixes)
    advance_decode(s, 1);
  finish_decoded(s);
  begin_whole(s);
}

/* Steps of `ns` until a time, at least one. */
static int64_t steps_until(const hr_load_instance *s, double time_ns, double ns)
{
  return (int64_t)fmin(fmax(ceil((time_ns - s->clock) / ns), 1), 1e15);
}

/* Decode steps until an output ends, the cache is full, or an arrival may come or be taken. 0: the cache is full. */
static int64_t steps_to_event(const hr_load_instance *s, double ns, double until_ns)
{
  const hr_load_server *server = s->server;
  int64_t steps = last_step_at(s, 0) - s->step;
  double free_tokens = (double)server->cache_tokens - s->cache_used;
  double tokens = (double)s->running_count * tokens_per_turn(s);
  if (server->cache_tokens > 0 && s->running_count > 1 && free_tokens < tokens * (double)steps)
    steps = (int64_t)(fmax(free_tokens, 0) / tokens);
  if (s->unstarted > 0)
    steps = hr_min64(steps, turns(s));
  if (s->prefilling.count > 0)
    steps = hr_min64(steps, steps_until(s, s->records[s->prefilling.head].ready_ns, ns));
  if (resident(s) >= (size_t)server->slots || steps == 0)
    return steps;
  steps = hr_min64(steps, steps_until(s, fmin(next_seen_ns(s), until_ns), ns));
  if (s->waiting.count > 0 && s->held_steps < server->wait_steps)
    steps = hr_min64(steps, server->wait_steps - s->held_steps);
  return steps;
}

static void decode(hr_load_instance *s, double until_ns)
{
  hr_load_step step = decode_of(s);
  int64_t steps = steps_to_event(s, step_ns(s, &step), until_ns);
  if (steps == 0) {
    preempt(s);
    return;
  }
  step.context += tokens_per_turn(s) * 0.5 * (double)(steps - 1);
  spend(s, (double)steps * step_ns(s, &step));
  if (s->waiting.count > 0)
    s->held_steps += steps;
  advance_decode(s, steps);
  finish_decoded(s);
}

/* Nothing decodes: a prompt comes out of the last stage, or the batch is empty and a request comes. */
static double next_event_ns(const hr_load_instance *s)
{
  double ready_ns = s->prefilling.count > 0 ? s->records[s->prefilling.head].ready_ns : (double)INFINITY;
  return fmin(ready_ns, next_seen_ns(s));
}

/* ---- what others see ---- */

hr_status hr_load_begin_instance(const hr_load_server *server, hr_load_record *records, hr_load_instance *instance,
                                 hr_error *error)
{
  *instance = (hr_load_instance){.server = server, .records = records};
  instance->incoming.head = instance->waiting.head = instance->prefilling.head = instance->done.head = HR_LOAD_NONE;
  instance->running = calloc((size_t)server->slots, sizeof *instance->running);
  if (!instance->running)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  return HR_OK;
}

void hr_load_end_instance(hr_load_instance *instance)
{
  free(instance->running);
}

void hr_load_deliver(hr_load_instance *s, size_t index, double seen_ns)
{
  hr_load_record *records = s->records;
  size_t before = s->incoming.head;
  records[index].seen_ns = seen_ns;
  if (s->incoming.count == 0 || records[s->incoming.tail].seen_ns <= seen_ns) {
    push_back(s, &s->incoming, index);
  } else if (records[before].seen_ns > seen_ns) {
    push_front(s, &s->incoming, index);
  } else {
    while (records[records[before].next].seen_ns <= seen_ns)
      before = records[before].next;
    records[index].next = records[before].next;
    records[before].next = index;
    s->incoming.count++;
  }
}

double hr_load_next_ns(const hr_load_instance *s)
{
  bool busy = s->waiting.count > 0 || resident(s) > 0;
  return busy ? s->clock : fmax(s->clock, next_seen_ns(s));
}

void hr_load_advance(hr_load_instance *s, double until_ns)
{
  take_arrivals(s);
  admit(s);
  begin_whole(s);
  if (s->done.count > 0)
    return; /* what follows may depend on it */
  if (first_prompt(s) != HR_LOAD_NONE)
    prefill(s);
  else if (s->running_count > 0)
    decode(s, until_ns);
  else if (isfinite(next_event_ns(s)))
    s->clock = fmax(next_event_ns(s), s->clock);
}

size_t hr_load_take_done(hr_load_instance *s)
{
  size_t index = s->done.head;
  if (s->done.count == 0)
    return HR_LOAD_NONE;
  pop_front(s, &s->done);
  return index;
}
