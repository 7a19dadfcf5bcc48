/* SPDX-License-Identifier: Apache-2.0 */
#include "training/buckets.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/buffer.h"
#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

#define USUAL_BYTES (INT64_C(25) << 20) /* PyTorch's DistributedDataParallel: bucket_cap_mb */
#define PART_BYTES (INT64_C(16) << 20)  /* that copy engines bring at a time */

/* ---- blocks of weights ---- */

/* Where a block of weights begins, in elements from the first weight, in the order of the memory. */
typedef struct block {
  int64_t first, layer;
} block;

typedef struct block_list {
  block *of;
  size_t count;
} block_list;

static int64_t element_of(const hr_executor *x, const void *weight)
{
  const char *first = hr_buffer_data(x->weights.memory);
  return ((const char *)weight - first) / (int64_t)hr_dtype_bytes(x->options.dtype);
}

static hr_status count_block(const hr_placed_weights *w, const hr_weight_block *b, void *context, hr_error *error)
{
  (void)w, (void)b, (void)error;
  ((block_list *)context)->count++;
  return HR_OK;
}

typedef struct block_walk {
  const hr_executor *x;
  block_list *list;
} block_walk;

static hr_status take_block(const hr_placed_weights *w, const hr_weight_block *b, void *context, hr_error *error)
{
  const block_walk *walk = context;
  (void)error;
  walk->list->of[walk->list->count++] = (block){element_of(walk->x, hr_placed_weight(w, b->layer, b->key)), b->layer};
  return HR_OK;
}

static hr_status list_blocks(const hr_executor *x, block_list *list, hr_error *error)
{
  block_walk walk = {x, list};
  *list = (block_list){.of = NULL};
  HR_TRY(hr_each_weight_block(&x->weights, count_block, list, error));
  list->of = malloc((list->count + 1) * sizeof *list->of);
  list->count = 0;
  if (!list->of)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a list of gradients");
  hr_status status = hr_each_weight_block(&x->weights, take_block, &walk, error);
  if (status != HR_OK)
    free(list->of);
  return status;
}

/* ---- buckets ---- */

static int64_t bucket_bytes(const hr_executor *x)
{
  return x->options.bucket_bytes > 0 ? x->options.bucket_bytes : USUAL_BYTES;
}

/* From the end of the memory down. A bucket ends where a block begins, or with parts above that: the rest goes with the
 * block before, which is complete later. That of the first layer takes something of the head, which is complete. */
static void cut(hr_executor *x, const block_list *blocks, int64_t elements)
{
  const int64_t enough = bucket_bytes(x) / (int64_t)hr_dtype_bytes(x->options.dtype), parts = hr_state_parts(x);
  const int64_t whole = parts > 1 ? parts * HR_OPTIMIZER_ROW : 1;
  int64_t end = elements;
  for (size_t i = blocks->count; i-- > 0;) {
    const bool first_layer = i > 0 && blocks->of[i].layer >= 0 && blocks->of[i - 1].layer < 0;
    const int64_t count = end - blocks->of[i].first;
    const int64_t taken = i == 0 ? end : first_layer ? hr_round_up(count, whole) : count / whole * whole;
    if (taken <= 0 || (i > 0 && !first_layer && count < enough))
      continue;
    x->buckets[x->bucket_count++] = (hr_run_bucket){end - taken, taken};
    end -= taken;
  }
}

hr_status hr_run_make_buckets(hr_executor *x, hr_error *error)
{
  const int64_t elements = (int64_t)(hr_buffer_bytes(x->weights.memory) / hr_dtype_bytes(x->options.dtype));
  block_list blocks;
  HR_TRY(list_blocks(x, &blocks, error));
  x->buckets = malloc((blocks.count + 1) * sizeof *x->buckets);
  if (x->buckets && x->replicas > 1)
    cut(x, &blocks, elements);
  else if (x->buckets)
    x->buckets[x->bucket_count++] = (hr_run_bucket){0, elements};
  free(blocks.of);
  return x->buckets ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a list of gradients");
}

hr_run_bucket hr_own_part(const hr_executor *x, const hr_run_bucket *bucket)
{
  const int64_t parts = hr_state_parts(x), count = bucket->count / parts;
  return (hr_run_bucket){bucket->first + (parts > 1 ? x->replica * count : 0), count};
}

/* ---- when gradients are complete ---- */

void hr_gradient_is_launched(hr_lowering *l, const void *weight)
{
  hr_tape *t = l->tape;
  if (l->status != HR_OK || !l->program->shape.reduces)
    return;
  if (t->written_count == t->written_room) {
    const int more = t->written_room > 0 ? 2 * t->written_room : 64;
    hr_written_gradient *larger = realloc(t->written, (size_t)more * sizeof *larger);
    if (!larger) {
      hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step"));
      return;
    }
    t->written = larger;
    t->written_room = more;
  }
  t->written[t->written_count++] = (hr_written_gradient){element_of(l->x, weight), l->program->launch_count - 1};
}

/* The end of the block that begins at index i; the last one's is that of the memory. */
static int64_t end_of(const block_list *blocks, size_t i)
{
  return i + 1 < blocks->count ? blocks->of[i + 1].first : INT64_MAX;
}

/* The last launch of a gradient in the bucket. A gradient is one of a whole block. */
static int ready(const hr_tape *t, const block_list *blocks, const hr_run_bucket *bucket)
{
  int last = 0;
  for (int i = 0; i < t->written_count; i++) {
    const hr_written_gradient *w = &t->written[i];
    size_t at = 0, end = blocks->count; /* of the block, by halves */
    while (end - at > 1) {
      const size_t middle = (at + end) / 2;
      *(blocks->of[middle].first <= w->element ? &at : &end) = middle;
    }
    const bool inside = blocks->of[at].first < bucket->first + bucket->count && end_of(blocks, at) > bucket->first;
    last = inside && w->launch > last ? w->launch : last;
  }
  return last;
}

/* ---- launches ---- */

int hr_operator_of(const hr_lowering *l, hr_operator_id id)
{
  const hr_operators *list = &l->program->operators;
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].id == id)
      return (int)i;
  }
  return -1;
}

static void *gradient_at(const hr_executor *x, int64_t element)
{
  return (char *)hr_buffer_data(x->gradients) + (size_t)element * hr_dtype_bytes(x->options.dtype);
}

/* A launch and where it goes: behind `after`, in the order in which they were added. */
typedef struct placed {
  int after, added;
} placed;

static int compare_placed(const void *a, const void *b)
{
  const placed *one = a, *other = b;
  return one->after != other->after ? (one->after > other->after) - (one->after < other->after)
                                    : (one->added > other->added) - (one->added < other->added);
}

/* Puts launch order[i].added at i. Values live as long as before. */
static void reorder(hr_run_program *p, const placed *order, hr_launch *launches, int *now)
{
  const int count = p->launch_count;
  for (int i = 0; i < count; i++) {
    launches[i] = p->launches[order[i].added];
    now[order[i].added] = i;
  }
  now[count] = count;
  for (int v = 0; v < p->value_count; v++) {
    p->values[v].first = now[p->values[v].first];
    p->values[v].last = now[p->values[v].last];
  }
  free(p->launches);
  p->launches = launches;
  p->launch_room = count;
}

static void sort_launches(hr_lowering *l, placed *order)
{
  hr_run_program *p = l->program;
  const size_t count = (size_t)p->launch_count;
  hr_launch *launches = malloc(count * sizeof *launches);
  int *now = malloc((count + 1) * sizeof *now);
  qsort(order, count, sizeof *order, compare_placed);
  if (launches && now) {
    reorder(p, order, launches, now);
  } else {
    hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step"));
    free(launches);
  }
  free(now);
}

/* ---- messages ---- */

/* Messages that are added, all behind launch `ready` of those before them. */
typedef struct sum_list {
  hr_lowering *l;
  placed *order; /* by the launch that was added */
  int ready;
  hr_run_bucket begun; /* whose messages in two parts have not ended; count 0: none */
} sum_list;

static hr_launch *add_sum(sum_list *s, hr_collective_kind kind, int64_t first, int64_t count)
{
  hr_launch *launch = hr_add_message(s->l, hr_launch_between_replicas, kind, count);
  if (!launch)
    return NULL;
  s->order[s->l->program->launch_count - 1] = (placed){s->ready, s->l->program->launch_count - 1};
  launch->collective.send = launch->collective.receive = gradient_at(s->l->x, first);
  return launch;
}

/* Elements of a message in two parts; 0: the devices do not send so. */
static int64_t part_elements(const hr_executor *x)
{
  const int64_t element = (int64_t)hr_dtype_bytes(x->options.dtype);
  const int64_t count = hr_max64(1, hr_min64(PART_BYTES, bucket_bytes(x)) / element);
  return hr_state_parts(x) == 1 && hr_sends_beside(x->options.replicas, x->options.dtype, count) ? count : 0;
}

static void add_parts(sum_list *s, const hr_run_bucket *of, hr_call_part part)
{
  const int64_t each = part_elements(s->l->x);
  for (int64_t done = 0, place = 0; done < of->count; done += each, place++) {
    hr_launch *launch = add_sum(s, HR_ALL_REDUCE, of->first + done, hr_min64(each, of->count - done));
    if (!launch)
      return;
    launch->collective.part = part;
    launch->collective.place = place;
    launch->beside = part == HR_CALL_BEGIN ? 1 : 0;
    launch->awaits = part == HR_CALL_END && place == 0 ? 1 : 0;
  }
}

static void end_begun(sum_list *s)
{
  add_parts(s, &s->begun, HR_CALL_END);
  s->begun.count = 0;
}

/* Copy engines send a bucket while the gradients of the next are computed, and the sums are made behind these. */
static void add_in_parts(sum_list *s, const hr_run_bucket *bucket)
{
  const int64_t most = HR_CALLS_UNDER_WAY * part_elements(s->l->x);
  for (int64_t done = 0; done < bucket->count; done += most) {
    end_begun(s);
    s->begun = (hr_run_bucket){bucket->first + done, hr_min64(most, bucket->count - done)};
    add_parts(s, &s->begun, HR_CALL_BEGIN);
  }
}

static void add_whole(sum_list *s, const hr_run_bucket *bucket)
{
  const hr_executor *x = s->l->x;
  const hr_run_bucket own = hr_own_part(x, bucket);
  hr_launch *launch =
      add_sum(s, hr_state_parts(x) > 1 ? HR_REDUCE_SCATTER : HR_ALL_REDUCE, bucket->first, bucket->count);
  if (!launch)
    return;
  launch->collective.receive = gradient_at(x, own.first);
  launch->beside = 1;
}

/* The last message, behind which there is nothing to hide, waits for those beside the stream and stays on it: so that a
 * recording ends with all of them. */
static void join_last(hr_run_program *p)
{
  hr_launch *last = NULL;
  int sums = 0;
  for (int i = 0; i < p->launch_count; i++) {
    if (p->launches[i].run == hr_launch_between_replicas)
      last = &p->launches[i], sums++;
  }
  if (last)
    last->beside = 0, last->awaits = sums > 1 ? 1 : 0;
}

/* At most: two for each part of each bucket. */
static size_t message_count(const hr_executor *x)
{
  const int64_t each = part_elements(x);
  int64_t count = 0;
  for (int i = 0; i < x->bucket_count; i++)
    count += each > 0 ? 2 * (x->buckets[i].count / each + 1) : 1;
  return (size_t)count;
}

static void add_sums(hr_lowering *l, const block_list *blocks)
{
  const hr_executor *x = l->x;
  const int before = l->program->launch_count;
  const bool in_parts = part_elements(x) > 0;
  sum_list s = {.l = l, .order = malloc(((size_t)before + message_count(x)) * sizeof *s.order)};
  if (!s.order) {
    hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step"));
    return;
  }
  for (int i = 0; i < before; i++)
    s.order[i] = (placed){i, i};
  for (int i = 0; i < x->bucket_count; i++) {
    const int complete = ready(l->tape, blocks, &x->buckets[i]);
    s.ready = in_parts && complete < s.ready ? s.ready : complete;
    (in_parts ? add_in_parts : add_whole)(&s, &x->buckets[i]);
  }
  s.ready = before - 1;
  end_begun(&s);
  if (l->status == HR_OK)
    sort_launches(l, s.order);
  if (l->status == HR_OK && !in_parts)
    join_last(l->program);
  free(s.order);
}

void hr_lower_gradient_sums(hr_lowering *l)
{
  const hr_executor *x = l->x;
  block_list blocks;
  if (!l->program->shape.reduces || l->status != HR_OK)
    return;
  const int op = hr_operator_of(l, hr_state_parts(x) > 1 ? HR_OP_GRADIENT_REDUCE_SCATTER : HR_OP_GRADIENT_ALL_REDUCE);
  l->op_index = (size_t)op;
  hr_lowering_fail(l, list_blocks(x, &blocks, l->error));
  if (l->status != HR_OK)
    return;
  add_sums(l, &blocks);
  free(blocks.of); /* NOLINT(clang-analyzer-unix.Malloc): list_blocks() frees it only when it fails */
}
