/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/replicas.h"

#include "base/checked.h"
#include "base/error.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is compared: its name and value. */
typedef struct setting {
  const char *name;
  double value;
} setting;

#define SETTINGS_MAX 16

/* Ranks that agree; NULL: one alone. */
typedef struct ranks {
  hr_communicator *of;
  const char *name;
} ranks;

static ranks replicas_of(const hr_executor *x)
{
  return (ranks){x->options.replicas, "replica"};
}

static ranks stages_of(const hr_executor *x)
{
  return (ranks){x->options.stages, "stage"};
}

static hr_status compare(const double *all, const setting *own, size_t count, const ranks *r, hr_error *error)
{
  for (int64_t rank = 1; rank < hr_communicator_size(r->of); rank++) {
    for (size_t i = 0; i < count; i++) {
      const double first = all[i], other = all[(size_t)rank * count + i];
      if (first < other || first > other)
        return hr_fail(error, HR_ERROR_INVALID, "%s: %s %" PRId64 " has %.10g, %s 0 has %.10g", own[i].name, r->name,
                       rank, other, r->name, first);
    }
  }
  return HR_OK;
}

static hr_status agree(const ranks *r, const setting *own, size_t count, hr_error *error)
{
  double mine[SETTINGS_MAX];
  const int64_t size = r->of ? hr_communicator_size(r->of) : 1;
  if (size == 1)
    return HR_OK;
  double *all = malloc((size_t)size * sizeof mine);
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the settings of %" PRId64 " %ss", size,
                   r->name);
  for (size_t i = 0; i < count; i++)
    mine[i] = own[i].value;
  hr_status status = hr_communicator_share(r->of, mine, count * sizeof *mine, all, error);
  if (status == HR_OK)
    status = compare(all, own, count, r, error);
  free(all);
  return status;
}

hr_status hr_replicas_agree_on_options(const hr_executor *x, hr_error *error)
{
  const hr_executor_options *o = &x->options;
  const setting settings[] = {{"dtype", (double)o->dtype},
                              {"zero_stage", (double)o->zero_stage},
                              {"bucket_bytes", (double)o->bucket_bytes},
                              {"learning_rate", o->learning_rate},
                              {"beta1", o->beta1},
                              {"beta2", o->beta2},
                              {"weight_decay", o->weight_decay},
                              {"max_norm", o->max_norm},
                              {"recompute", (double)o->recompute},
                              {"trains", (double)o->trains},
                              {"slots", (double)o->slots},
                              {"tokens", (double)o->tokens},
                              {"the model's layers", (double)hr_model_layers(&x->whole)},
                              {"the model's hidden size", (double)x->model.hidden},
                              {"the bytes of all weights", (double)x->bytes}};
  const size_t count = sizeof settings / sizeof *settings;
  const ranks replicas = replicas_of(x), stages = stages_of(x);
  _Static_assert(sizeof settings / sizeof *settings <= SETTINGS_MAX, "more settings");
  HR_TRY(agree(&replicas, settings, count, error));
  return agree(&stages, settings, count - 1, error); /* which have weights of their own */
}

hr_status hr_replicas_agree_on_weights(const hr_executor *x, const char *what, uint64_t seed, hr_error *error)
{
  const setting settings[] = {{"random weights", what ? 0 : 1},
                              {"seed", what ? 0 : (double)(seed >> 32) * 0x1p32 + (double)(seed & UINT32_MAX)}};
  const ranks replicas = replicas_of(x), stages = stages_of(x);
  HR_TRY(agree(&replicas, settings, sizeof settings / sizeof *settings, error));
  return agree(&stages, settings, sizeof settings / sizeof *settings, error);
}

static hr_status agree_on_step(const hr_executor *x, const ranks *r, const hr_executor_input *input, hr_error *error)
{
  const setting settings[] = {{"phase", (double)input->phase},
                              {"batch", (double)input->batch},
                              {"tokens", (double)input->tokens},
                              {"microbatches", (double)hr_max64(1, input->microbatches)},
                              {"steps before", (double)x->steps}};
  return agree(r, settings, sizeof settings / sizeof *settings, error);
}

hr_status hr_replicas_agree_on_step(const hr_executor *x, const hr_executor_input *input, hr_error *error)
{
  const ranks replicas = replicas_of(x);
  return input->phase == HR_PHASE_TRAIN ? agree_on_step(x, &replicas, input, error) : HR_OK;
}

hr_status hr_stages_agree_on_step(const hr_executor *x, const hr_executor_input *input, hr_error *error)
{
  const ranks stages = stages_of(x);
  return agree_on_step(x, &stages, input, error);
}

hr_status hr_take_from_last(const hr_executor *x, void *what, size_t bytes, hr_error *error)
{
  char *all = malloc((size_t)x->stages * bytes);
  if (!all)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for what %" PRId64 " stages share", x->stages);
  if (!hr_run_is_last(x))
    memset(what, 0, bytes);
  const hr_status status = hr_communicator_share(x->options.stages, what, bytes, all, error);
  if (status == HR_OK)
    memcpy(what, all + (size_t)(x->stages - 1) * bytes, bytes);
  free(all);
  return status;
}

hr_status hr_meet_all(const hr_executor *x, hr_error *error)
{
  hr_communicator *const all[] = {x->options.communicator, x->options.replicas, x->options.stages};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i])
      HR_TRY(hr_communicator_meet(all[i], error));
  }
  return HR_OK;
}

hr_status hr_replicas_check(const hr_executor *x, hr_error *error)
{
  const hr_executor_options *o = &x->options;
  if (x->replicas > 1 && !o->trains)
    return hr_fail(error, HR_ERROR_INVALID, "replicas: they share what trains a model, and this one does not train");
  if (o->zero_stage < 0 || o->zero_stage > 3)
    return hr_fail(error, HR_ERROR_INVALID, "zero_stage: expected 0 or 1, found %" PRId64, o->zero_stage);
  if (o->zero_stage > 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "zero_stage: %" PRId64 " cannot be run yet, 0 and 1 can",
                   o->zero_stage);
  if (o->bucket_bytes < 0)
    return hr_fail(error, HR_ERROR_INVALID, "bucket_bytes: expected 0 or more, found %" PRId64, o->bucket_bytes);
  return HR_OK;
}
