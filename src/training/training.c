/* SPDX-License-Identifier: Apache-2.0 */
#include "training/training.h"
#include "training/buckets.h"

#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/buffer.h"
#include "runtime/device/device.h"
#include "shape/number.h"

#include <stdlib.h>
#include <string.h>

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
  const int64_t states = has_copy(x) ? 3 : 2, parts = hr_state_parts(x);
  return weight_bytes + states * (int64_t)sizeof(float) * hr_ceil_div(elements_of(x, weight_bytes), parts);
}

static size_t state_bytes(const hr_executor *x)
{
  return (size_t)(elements_of(x, (int64_t)hr_buffer_bytes(x->weights.memory)) / hr_state_parts(x)) * sizeof(float);
}

hr_status hr_run_allocate_training(hr_executor *x, hr_error *error)
{
  const size_t bytes = state_bytes(x);
  HR_TRY(hr_run_make_buckets(x, error));
  HR_TRY(hr_buffer_create(x->device, hr_buffer_bytes(x->weights.memory), &x->gradients, error));
  HR_TRY(hr_buffer_create(x->device, bytes, &x->means, error));
  HR_TRY(hr_buffer_create(x->device, bytes, &x->variances, error));
  if ((hr_state_parts(x) > 1 || x->ranks > 1) && x->options.max_norm > 0)
    HR_TRY(hr_buffer_create(x->device, HR_SQUARES_SUMS * sizeof(float), &x->squares, error));
  return has_copy(x) ? hr_buffer_create(x->device, bytes, &x->copy, error) : HR_OK;
}

/* ---- beginning ---- */

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

/* Memory of the host through which buffers are filled. */
typedef struct chunk {
  void *weights;
  float *numbers;
} chunk;

static hr_status write_zeros(const hr_buffer *buffer, const chunk *c, hr_error *error)
{
  const size_t bytes = hr_buffer_bytes(buffer);
  memset(c->numbers, 0, CHUNK_BYTES);
  for (size_t at = 0; at < bytes; at += CHUNK_BYTES)
    HR_TRY(move_part(buffer, at, c->numbers, NULL, bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES, error));
  return HR_OK;
}

/* The replica's part of a bucket of 16-bit weights, in fp32. */
static hr_status copy_part(const hr_executor *x, const hr_run_bucket *bucket, const chunk *c, hr_error *error)
{
  const hr_run_bucket own = hr_own_part(x, bucket);
  const size_t element = hr_dtype_bytes(x->options.dtype), most = CHUNK_BYTES / sizeof(float);
  const size_t weight = (size_t)own.first, state = (size_t)(bucket->first / hr_state_parts(x));
  for (size_t at = 0; at < (size_t)own.count; at += most) {
    const size_t count = (size_t)own.count - at < most ? (size_t)own.count - at : most;
    HR_TRY(move_part(x->weights.memory, (weight + at) * element, NULL, c->weights, count * element, error));
    for (size_t i = 0; i < count; i++)
      c->numbers[i] = (float)hr_number_load(x->options.dtype, c->weights, i);
    HR_TRY(move_part(x->copy, (state + at) * sizeof(float), c->numbers, NULL, count * sizeof(float), error));
  }
  return HR_OK;
}

static hr_status fill_all(const hr_executor *x, const chunk *c, hr_error *error)
{
  hr_buffer *const zeros[] = {x->gradients, x->means, x->variances};
  for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
    HR_TRY(write_zeros(zeros[i], c, error));
  for (int i = 0; i < x->bucket_count && x->copy; i++)
    HR_TRY(copy_part(x, &x->buckets[i], c, error));
  return HR_OK;
}

hr_status hr_run_begin_training(hr_executor *x, hr_error *error)
{
  const chunk c = {.weights = malloc(CHUNK_BYTES), .numbers = malloc(CHUNK_BYTES)};
  hr_status status =
      c.weights && c.numbers ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory to begin training");
  if (status == HR_OK)
    status = fill_all(x, &c, error);
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

hr_rowwise hr_run_optimizer(const hr_executor *x, int64_t elements)
{
  const hr_executor_options *o = &x->options;
  hr_rowwise r = hr_rowwise_default();
  r.operation = HR_ROWWISE_ADAMW;
  r.dtype = o->dtype;
  r.rows = elements / HR_OPTIMIZER_ROW;
  r.columns = HR_OPTIMIZER_ROW;
  r.learning_rate = o->learning_rate;
  r.beta1 = o->beta1, r.beta2 = o->beta2;
  r.weight_decay = o->weight_decay;
  r.max_norm = o->max_norm;
  return r;
}

static void *element_at(const hr_buffer *buffer, int64_t index, size_t bytes)
{
  return (char *)hr_buffer_data(buffer) + (size_t)index * bytes;
}

/* Weights of 32 bits are their own copy. */
hr_rowwise_arguments hr_run_optimizer_arguments(const hr_executor *x, int64_t weight, int64_t state)
{
  hr_rowwise_arguments a = hr_rowwise_arguments_default();
  const size_t element = hr_dtype_bytes(x->options.dtype);
  void *weights = element_at(x->weights.memory, weight, element);
  a.inputs[0] = element_at(x->gradients, weight, element);
  a.inputs[1] = a.output = x->copy ? element_at(x->copy, state, sizeof(float)) : weights;
  a.inputs[2] = a.more_outputs[0] = element_at(x->means, state, sizeof(float));
  a.more_inputs[0] = a.more_outputs[1] = element_at(x->variances, state, sizeof(float));
  a.more_outputs[2] = weights;
  return a;
}
