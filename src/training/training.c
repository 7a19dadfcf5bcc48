/* SPDX-License-Identifier: Apache-2.0 */
#include "training/training.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/buffer.h"
#include "runtime/device/device.h"
#include "shape/number.h"

#include <stdlib.h>
#include <string.h>

#define ROW_ELEMENTS 4096 /* of the optimizer's rows, of which weights are whole numbers */
#define CHUNK_BYTES ((size_t)32 << 20)

/* ---- what has gradients ---- */

/* Bits of a bias that the layer lacks would be moved, too: among those of others it is a zero. */
static bool has_some_biases(const hr_layer_group *layer)
{
  const hr_mixer_attention *m = &layer->attention;
  return m->q_bias != m->k_bias || m->q_bias != m->v_bias;
}

hr_status hr_run_check_training(const hr_model *model, hr_error *error)
{
  if (hr_run_has_q8(model))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "weights in q8_0 cannot be trained");
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &model->groups[i];
    const hr_refusal refusals[] = {
        {layer->experts.experts > 0 && model->numerics.router.weighs_inputs, "experts with weighted inputs"},
        {hr_run_chunk(model) > 0, "attention in chunks"},
        {model->numerics.query_growth != 0, "queries that grow with their positions"},
        {layer->attention.sinks, "attention with sinks"},
        {has_some_biases(layer), "a bias of some of Q, K and V"}};
    HR_TRY(hr_refuse(refusals, sizeof refusals / sizeof *refusals, "trained", error));
  }
  return HR_OK;
}

/* ---- memory ---- */

static bool has_copy(const hr_executor *x)
{
  return hr_dtype_bytes(x->options.dtype) < sizeof(float);
}

static int64_t elements_of(const hr_executor *x, int64_t weight_bytes)
{
  return weight_bytes / (int64_t)hr_dtype_bytes(x->options.dtype);
}

int64_t hr_run_training_bytes(const hr_executor *x, int64_t weight_bytes)
{
  const int64_t states = has_copy(x) ? 3 : 2;
  return weight_bytes + states * (int64_t)sizeof(float) * elements_of(x, weight_bytes);
}

static int64_t whole_rows(const hr_executor *x)
{
  return hr_ceil_div(elements_of(x, (int64_t)hr_buffer_bytes(x->weights.memory)), ROW_ELEMENTS);
}

hr_status hr_run_allocate_training(hr_executor *x, hr_error *error)
{
  const size_t elements = (size_t)(whole_rows(x) * ROW_ELEMENTS);
  HR_TRY(hr_buffer_create(x->device, elements * hr_dtype_bytes(x->options.dtype), &x->gradients, error));
  HR_TRY(hr_buffer_create(x->device, elements * sizeof(float), &x->means, error));
  HR_TRY(hr_buffer_create(x->device, elements * sizeof(float), &x->variances, error));
  return has_copy(x) ? hr_buffer_create(x->device, elements * sizeof(float), &x->copy, error) : HR_OK;
}

/* ---- beginning ---- */

/* Parts of buffers through memory of the host: elements first … first + count − 1 of the weights, and zeros. */
typedef struct chunk {
  void *weights;
  float *numbers;
  size_t first, count;
} chunk;

/* Reads to `to` where `from` is NULL. */
static hr_status move_part(const hr_buffer *whole, size_t offset, const void *from, void *to, size_t bytes,
                           hr_error *error)
{
  hr_buffer *part;
  HR_TRY(hr_buffer_part(whole, offset, bytes, &part, error));
  hr_status status = from ? hr_buffer_write(part, from, bytes, error) : hr_buffer_read(part, to, bytes, error);
  hr_buffer_free(part);
  return status;
}

static hr_status begin_chunk(hr_executor *x, const chunk *c, hr_error *error)
{
  const size_t element = hr_dtype_bytes(x->options.dtype), at = c->first * sizeof(float);
  memset(c->numbers, 0, c->count * sizeof(float));
  HR_TRY(move_part(x->gradients, c->first * element, c->numbers, NULL, c->count * element, error));
  HR_TRY(move_part(x->means, at, c->numbers, NULL, c->count * sizeof(float), error));
  HR_TRY(move_part(x->variances, at, c->numbers, NULL, c->count * sizeof(float), error));
  if (!x->copy)
    return HR_OK;
  HR_TRY(move_part(x->weights.memory, c->first * element, NULL, c->weights, c->count * element, error));
  for (size_t i = 0; i < c->count; i++)
    c->numbers[i] = (float)hr_number_load(x->options.dtype, c->weights, i);
  return move_part(x->copy, at, c->numbers, NULL, c->count * sizeof(float), error);
}

hr_status hr_run_begin_training(hr_executor *x, hr_error *error)
{
  const size_t elements = (size_t)(whole_rows(x) * ROW_ELEMENTS), most = CHUNK_BYTES / sizeof(float);
  chunk c = {.weights = malloc(CHUNK_BYTES), .numbers = malloc(CHUNK_BYTES)};
  hr_status status =
      c.weights && c.numbers ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to begin training");
  for (; c.first < elements && status == HR_OK; c.first += most) {
    c.count = elements - c.first < most ? elements - c.first : most;
    status = begin_chunk(x, &c, error);
  }
  free(c.weights);
  free(c.numbers);
  x->steps = 0;
  x->began = status == HR_OK;
  return status;
}

/* ---- gradients and the optimizer ---- */

void *hr_run_gradient(const hr_executor *x, const void *weight)
{
  const char *first = hr_buffer_data(x->weights.memory), *at = weight;
  const bool inside =
      (uintptr_t)at >= (uintptr_t)first && (uintptr_t)at < (uintptr_t)first + hr_buffer_bytes(x->weights.memory);
  return inside ? (char *)hr_buffer_data(x->gradients) + (at - first) : NULL;
}

hr_rowwise hr_run_optimizer(const hr_executor *x)
{
  const hr_executor_options *o = &x->options;
  hr_rowwise r = hr_rowwise_default();
  r.operation = HR_ROWWISE_ADAMW;
  r.dtype = o->dtype;
  r.rows = x->weights.memory ? whole_rows(x) : 1;
  r.columns = ROW_ELEMENTS;
  r.learning_rate = o->learning_rate;
  r.beta1 = o->beta1, r.beta2 = o->beta2;
  r.weight_decay = o->weight_decay;
  r.max_norm = o->max_norm;
  return r;
}

/* Weights of 32 bits are their own copy. */
hr_rowwise_arguments hr_run_optimizer_arguments(const hr_executor *x)
{
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  void *weights = hr_buffer_data(x->weights.memory), *copy = x->copy ? hr_buffer_data(x->copy) : weights;
  a.inputs[0] = hr_buffer_data(x->gradients);
  a.inputs[1] = a.output = copy;
  a.inputs[2] = a.more_outputs[0] = hr_buffer_data(x->means);
  a.more_inputs[0] = a.more_outputs[1] = hr_buffer_data(x->variances);
  a.more_outputs[2] = weights;
  return a;
}
