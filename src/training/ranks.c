/* SPDX-License-Identifier: Apache-2.0 */
#include "training/ranks.h"

#include "base/error.h"
#include "runtime/device/squares.h"
#include "training/training.h"

#define SQUARES_ALIGNMENT 16 /* hr_squares_arguments.x */

/* ---- which ranks have a weight ---- */

static bool is_norm_of_heads(int role)
{
  return role == HR_WEIGHT_Q_NORM || role == HR_WEIGHT_Q_NORM_BIAS || role == HR_WEIGHT_K_NORM ||
         role == HR_WEIGHT_K_NORM_BIAS;
}

/* What reads the results are the rank's own heads, or its part of a layer of experts. */
static bool is_before_parts(int role)
{
  return role == HR_WEIGHT_Q_DOWN || role == HR_WEIGHT_Q_DOWN_BIAS || role == HR_WEIGHT_Q_RANK_NORM ||
         role == HR_WEIGHT_KV_DOWN || role == HR_WEIGHT_KV_DOWN_BIAS || role == HR_WEIGHT_KV_RANK_NORM ||
         role == HR_WEIGHT_ROUTER || role == HR_WEIGHT_SHARED_OUTPUT_GATE;
}

static bool is_norm_of_rows(int role)
{
  static const int weights[] = {HR_WEIGHT_EMBEDDING_NORM, HR_WEIGHT_ATTENTION_NORM, HR_WEIGHT_ATTENTION_POST_NORM,
                                HR_WEIGHT_MLP_NORM,       HR_WEIGHT_MLP_POST_NORM,  HR_WEIGHT_FINAL_NORM};
  bool found = false;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
    found = found || role == weights[i] || role == weights[i] + 1; /* its bias */
  return found;
}

static bool is_of_k(int role)
{
  return role == HR_WEIGHT_K || role == HR_WEIGHT_K_BIAS || role == HR_WEIGHT_K_NORM || role == HR_WEIGHT_K_NORM_BIAS;
}

/* Ranks whose neighbours have the same weight, and each a part of its gradient; 1: the rank's is complete. */
static int64_t parts_of(const hr_executor *x, const hr_weight_block *block, size_t index)
{
  const int role = block->roles[index];
  if (hr_run_splits_rows(x) && is_norm_of_rows(role))
    return x->ranks;
  if (!block->group)
    return 1;
  if (is_before_parts(role))
    return x->ranks;
  if (role == HR_WEIGHT_ROUTER_BIAS)
    return x->model.numerics.router.bias_chooses ? 1 : x->ranks;
  const hr_mixer_attention *own = &block->group->attention;
  const hr_mixer_attention *whole = &x->whole.groups[block->group - x->model.groups].attention;
  if (is_norm_of_heads(role) && own->qk_norm == HR_QK_NORM_SHARED)
    return x->ranks;
  if (is_of_k(role))
    return x->ranks * own->k_heads / whole->k_heads;
  return role == HR_WEIGHT_V || role == HR_WEIGHT_V_BIAS ? x->ranks * own->v_heads / whole->v_heads : 1;
}

/* Ranks that have the weight. */
static int64_t holders_of(const hr_executor *x, const hr_weight_block *block, size_t index)
{
  const hr_weight_slice slice = hr_weight_slice_of(&x->weights, block, index);
  return hr_is_whole(&slice, &block->shapes[index]) ? x->ranks : parts_of(x, block, index);
}

/* ---- sums ---- */

static hr_rowwise elements(const hr_lowering *l, hr_rowwise_operation operation, int64_t count)
{
  hr_rowwise r = hr_rows_of(operation, 1, count);
  r.alignment = (int64_t)hr_element_bytes(l); /* of a part of a block */
  return r;
}

static hr_run_view part_at(hr_run_view all, int64_t index, int64_t count)
{
  return (hr_run_view){all.value, index * count, 1, count, count};
}

static void copy_from(hr_lowering *l, const void *from, hr_run_view to)
{
  hr_add_rowwise_into(l, elements(l, HR_ROWWISE_COPY, to.columns), (hr_input_operand[]){hr_of_address(from)},
                      (hr_output_operand[]){{to, NULL}}, 1);
}

/* Every rank gets the parts of all, and adds up those of its neighbours with the same weight, in their order. */
static void add_up_neighbours(hr_lowering *l, void *gradient, int64_t count, int64_t parts)
{
  const int64_t ranks = l->x->ranks, first = l->x->rank / parts * parts;
  const hr_run_view own = hr_new_view(l, 1, count), all = hr_new_view(l, ranks, count);
  copy_from(l, gradient, own);
  if (!hr_add_message(l, hr_launch_collective, HR_ALL_GATHER, ranks * count))
    return;
  hr_bind(l, offsetof(hr_collective_call, send), own);
  hr_bind(l, offsetof(hr_collective_call, receive), all);
  for (int64_t i = 1; i < parts; i++) {
    const hr_input_operand before = i == 1 ? hr_of_view(part_at(all, first, count)) : hr_of_address(gradient);
    hr_add_rowwise_into(l, elements(l, HR_ROWWISE_RESIDUAL, count),
                        (hr_input_operand[]){before, hr_of_view(part_at(all, first + i, count))},
                        (hr_output_operand[]){{{.value = -1}, gradient}}, 1);
  }
}

static void add_up_ranks(hr_lowering *l, void *gradient, int64_t count)
{
  hr_launch *launch = hr_add_message(l, hr_launch_collective, HR_ALL_REDUCE, count);
  if (launch)
    launch->collective.send = launch->collective.receive = gradient;
}

static hr_status add_up_block(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  hr_lowering *l = context;
  char *gradient = hr_run_gradient(l->x, hr_placed_weight(w, block->layer, block->key));
  (void)error;
  for (size_t i = 0; i < block->count; i++) {
    const int64_t parts = parts_of(l->x, block, i);
    if (parts == l->x->ranks && block->count == 1)
      add_up_ranks(l, gradient, block->elements[i]);
    else if (parts > 1)
      add_up_neighbours(l, gradient, block->elements[i], parts);
    gradient += (size_t)block->elements[i] * hr_element_bytes(l);
  }
  return l->status;
}

void hr_lower_rank_gradients(hr_lowering *l)
{
  if (l->x->ranks > 1 && l->status == HR_OK)
    hr_lowering_fail(l, hr_each_weight_block(&l->x->weights, add_up_block, l, l->error));
}

/* ---- squares ---- */

/* Gradients from `first` to `end` that the rank counts, of which one has been found. */
typedef struct counted {
  hr_lowering *l;
  char *first, *end; /* NULL: none */
  bool adds;
} counted;

static void add_squares(counted *c)
{
  hr_lowering *l = c->l;
  if (!c->first || l->status != HR_OK)
    return;
  const int64_t count = (c->end - c->first) / (int64_t)hr_element_bytes(l);
  const bool aligned = (uintptr_t)c->first % SQUARES_ALIGNMENT == 0;
  const hr_run_view copy = aligned ? (hr_run_view){.value = -1} : hr_new_view(l, 1, count);
  if (!aligned)
    copy_from(l, c->first, copy);
  hr_launch *launch = hr_add_launch(l, hr_launch_squares);
  if (!launch)
    return;
  launch->squares =
      (hr_squares_arguments){l->x->options.dtype, count, c->first, hr_buffer_data(l->x->squares), c->adds};
  if (!aligned)
    hr_bind(l, offsetof(hr_squares_arguments, x), copy);
  c->adds = true;
  c->first = NULL;
}

/* The first of the ranks with the same weight counts its gradient. Zeros are between blocks. */
static hr_status count_block(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  counted *c = context;
  char *gradient = hr_run_gradient(c->l->x, hr_placed_weight(w, block->layer, block->key));
  (void)error;
  for (size_t i = 0; i < block->count; i++) {
    const size_t bytes = (size_t)block->elements[i] * hr_element_bytes(c->l);
    const bool counts = c->l->x->rank % holders_of(c->l->x, block, i) == 0;
    if (!counts)
      add_squares(c);
    else if (!c->first)
      c->first = gradient;
    gradient += bytes;
    c->end = counts ? gradient : c->end;
  }
  return c->l->status;
}

void hr_lower_rank_squares(hr_lowering *l)
{
  counted c = {.l = l};
  if (l->status != HR_OK)
    return;
  hr_lowering_fail(l, hr_each_weight_block(&l->x->weights, count_block, &c, l->error));
  add_squares(&c);
  hr_launch *sum = hr_add_message(l, hr_launch_collective, HR_ALL_REDUCE, HR_SQUARES_SUMS);
  if (!sum)
    return;
  sum->collective.dtype = HR_FP32;
  sum->collective.send = sum->collective.receive = hr_buffer_data(l->x->squares);
}
