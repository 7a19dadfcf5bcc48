/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a pipeline stage: its microbatches in the order of the schedule, and messages between rounds. All
 * ranks make the same calls, with nothing to send or receive where a round has none for them. */
#include "executor/lower_forward.h"

#include "base/error.h"
#include "schedule/pipeline.h"
#include "training/buckets.h"
#include "training/gradients.h"
#include "training/training.h"

#include <stdlib.h>

static const hr_run_view none = {.value = -1};

typedef struct pipeline {
  hr_executor *x;
  hr_run_program *program;
  bool trains;
  hr_lowering *parts;
  hr_tape *tapes;       /* [parts] of training; else NULL */
  hr_stage_turn *turns; /* [stages] */
  hr_lowering messages;
} pipeline;

/* ---- messages ---- */

/* A message of so many elements; ranks are −1 where there is no one. */
typedef struct stage_message {
  int64_t count, to, from;
  hr_run_view send, receive;
} stage_message;

static hr_launch *add_message(pipeline *p, const stage_message *m, hr_pass pass)
{
  hr_lowering *l = &p->messages;
  const hr_operators *list = &p->program->operators;
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].id == HR_OP_PIPELINE_SEND && list->items[i].pass == pass)
      l->op_index = i;
  }
  hr_launch *launch = hr_add_message(l, hr_launch_between_stages, HR_POINT_TO_POINT, m->count);
  if (!launch)
    return NULL;
  launch->collective.peer = m->to < 0 ? 0 : m->to;
  launch->collective.source = m->from < 0 ? 0 : m->from;
  if (m->send.value >= 0)
    hr_bind(l, offsetof(hr_collective_call, send), m->send);
  if (m->receive.value >= 0)
    hr_bind(l, offsetof(hr_collective_call, receive), m->receive);
  return launch;
}

/* Whether the stage sends in the round what it has computed: forward to the next, backward to the one before. */
static bool sends(const pipeline *p, int64_t stage, hr_stage_work work)
{
  const int64_t end = work == HR_STAGE_FORWARD ? p->x->stages - 1 : 0;
  return stage >= 0 && stage < p->x->stages && p->turns[stage].work == work && stage != end;
}

static hr_run_view computed(hr_lowering *l, hr_stage_work work)
{
  return hr_packed(l, work == HR_STAGE_FORWARD ? hr_tensor_view(l, HR_TENSOR_HIDDEN)
                                               : hr_gradient_of(l, l->tape->starts[0]));
}

static void keep_received(hr_lowering *l, hr_stage_work work, hr_run_view view)
{
  *(work == HR_STAGE_FORWARD ? &l->tensors[HR_TENSOR_HIDDEN] : &l->tape->received) = view;
}

/* All results of a round in one direction. */
static void pass_on(pipeline *p, hr_stage_work work)
{
  const int64_t own = p->x->stage, step = work == HR_STAGE_FORWARD ? 1 : -1, rows = p->messages.rows;
  stage_message m = {.count = rows * p->x->model.hidden, .to = -1, .from = -1, .send = none, .receive = none};
  bool any = false;
  for (int64_t s = 0; s < p->x->stages; s++)
    any = any || sends(p, s, work);
  if (!any)
    return;
  if (sends(p, own, work)) {
    m.to = own + step;
    m.send = computed(&p->parts[p->turns[own].microbatch], work);
  }
  if (sends(p, own - step, work)) {
    m.from = own - step;
    m.receive = hr_new_view(&p->messages, rows, p->x->model.hidden);
  }
  add_message(p, &m, work == HR_STAGE_FORWARD ? HR_PASS_FORWARD : HR_PASS_DGRAD);
  if (m.from >= 0)
    keep_received(&p->parts[p->turns[m.from].microbatch], work, m.receive);
}

/* ---- tied embeddings ---- */

static bool has_copies(const pipeline *p)
{
  const int logit = hr_operator_of(&p->messages, HR_OP_LOGIT);
  return logit >= 0 && p->program->operators.items[logit].weights[0] == HR_WEIGHT_TOKEN_EMBEDDING;
}

/* The first stage and the last have a copy each, of which both get the whole gradient. */
static void add_up_copies(pipeline *p)
{
  hr_lowering *l = &p->messages;
  const hr_model *model = &p->x->model;
  const int64_t columns = model->embedding_dim > 0 ? model->embedding_dim : model->hidden, last = p->x->stages - 1;
  const bool has = p->x->stage == 0 || p->x->stage == last;
  const int64_t other = !has ? -1 : p->x->stage == 0 ? last : 0;
  const stage_message m = {model->vocabulary * columns, other, other, none,
                           has ? hr_new_view(l, model->vocabulary, columns) : none};
  hr_launch *launch = add_message(p, &m, HR_PASS_DGRAD);
  if (!launch || !has)
    return;
  void *gradient = hr_run_gradient(p->x, hr_run_weight(p->x, -1, HR_WEIGHT_TOKEN_EMBEDDING));
  launch->collective.send = gradient;
  hr_add_rowwise_into(l, hr_rows_of(HR_ROWWISE_RESIDUAL, model->vocabulary, columns),
                      (hr_input_operand[]){hr_of_address(gradient), hr_of_view(m.receive)},
                      (hr_output_operand[]){{none, gradient}}, 1);
}

/* ---- rounds ---- */

static void compute(pipeline *p, const hr_stage_turn *turn)
{
  hr_lowering *l = &p->parts[turn->microbatch];
  if (turn->work == HR_STAGE_FORWARD)
    hr_lower_forward(l);
  else if (turn->work == HR_STAGE_BACKWARD)
    hr_lower_backward(l);
}

static hr_status first_failure(const pipeline *p)
{
  for (int64_t i = 0; i < p->program->shape.parts; i++)
    HR_TRY(p->parts[i].status);
  return p->messages.status;
}

static hr_status lower_rounds(pipeline *p)
{
  const int64_t parts = p->program->shape.parts;
  while (hr_stages_next(p->turns, p->x->stages, parts, p->trains)) {
    compute(p, &p->turns[p->x->stage]);
    HR_TRY(first_failure(p));
    pass_on(p, HR_STAGE_FORWARD);
    pass_on(p, HR_STAGE_BACKWARD);
    HR_TRY(first_failure(p));
  }
  p->program->optimizer = p->program->launch_count;
  if (!p->trains)
    return HR_OK;
  if (has_copies(p))
    add_up_copies(p);
  hr_lower_optimizer(&p->messages);
  return first_failure(p);
}

static hr_status begin(pipeline *p, hr_error *error)
{
  const size_t parts = (size_t)p->program->shape.parts;
  p->parts = calloc(parts, sizeof *p->parts);
  p->turns = calloc((size_t)p->x->stages, sizeof *p->turns);
  p->tapes = p->trains ? calloc(parts, sizeof *p->tapes) : NULL;
  if (!p->parts || !p->turns || (p->trains && !p->tapes))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %zu microbatches", parts);
  p->messages = hr_begin_lowering(p->x, p->program, 0, NULL, error);
  for (size_t i = 0; i < parts; i++) {
    p->parts[i] = hr_begin_lowering(p->x, p->program, (int64_t)i, p->trains ? &p->tapes[i] : NULL, error);
    if (p->trains)
      HR_TRY(hr_tape_begin(p->x, &p->tapes[i], error));
  }
  return HR_OK;
}

hr_status hr_lower_stage(hr_executor *x, hr_run_program *program, hr_error *error)
{
  pipeline p = {.x = x, .program = program, .trains = program->shape.phase == HR_PHASE_TRAIN};
  hr_status status = begin(&p, error);
  if (status == HR_OK)
    status = lower_rounds(&p);
  for (int64_t i = 0; i < program->shape.parts && p.tapes; i++)
    hr_tape_end(&p.tapes[i]);
  free(p.parts);
  free(p.tapes);
  free(p.turns);
  return status;
}
