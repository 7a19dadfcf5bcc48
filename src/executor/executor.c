/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/replicas.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "model/layers/layer_kinds.h"
#include "run/program.h"
#include "runtime/communicator/communicator.h"
#include "runtime/device/device.h"
#include "shape/number.h"
#include "training/buckets.h"
#include "training/training.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_TOKENS 4096
#define LEARNING_RATE 1e-3
#define STAGE_PATIENCE_S 600 /* for a stage that computes what it sends */
#define PLANS 512            /* that are kept; a layer has about twenty */

void hr_executor_options_init(hr_executor_options *options, size_t size)
{
  HR_INIT(options, size,
          (hr_executor_options){
              .dtype = HR_FP32, .slots = 1, .learning_rate = LEARNING_RATE, .beta1 = 0.9, .beta2 = 0.999});
}

void hr_executor_input_init(hr_executor_input *input, size_t size)
{
  HR_INIT(input, size, (hr_executor_input){.phase = HR_PHASE_PREFILL, .batch = 1});
}

/* ---- opening ---- */

/* Gradients of fp16 would have to be scaled to stay above its smallest numbers. */
static hr_status check_training(const hr_executor *x, hr_error *error)
{
  if (x->options.dtype == HR_FP16)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "dtype: a model trains in fp32 or bf16");
  if (x->options.recompute != HR_RECOMPUTE_NONE && x->options.recompute != HR_RECOMPUTE_FULL)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "recompute: a step computes all of a layer again, or nothing");
  if (x->options.weight_decay != 0 && x->model.numerics.router.bias_chooses)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "weight_decay: a bias that only chooses experts would decay");
  const hr_rowwise optimizer = hr_run_optimizer(x, HR_OPTIMIZER_ROW);
  HR_TRY(hr_run_check_training(&x->model, error));
  return hr_rowwise_check(&optimizer, error);
}

static hr_status check_options(hr_executor *x, hr_error *error)
{
  hr_executor_options *o = &x->options;
  const int64_t positions = x->model.max_positions;
  const bool learned = x->model.positions == HR_POSITIONS_LEARNED;
  if (o->tokens == 0)
    o->tokens = positions > 0 ? hr_min64(positions, USUAL_TOKENS) : USUAL_TOKENS;
  if (o->slots < 1 || o->slots > 1 << 20)
    return hr_fail(error, HR_ERROR_INVALID, "slots: expected 1 to 2^20, found %" PRId64, o->slots);
  if (o->tokens < 1 || o->tokens > 1 << 24)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: expected 1 to 2^24, found %" PRId64, o->tokens);
  if (o->pieces < 0 || o->pieces > HR_PIECES_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "pieces: expected 0 to %d, found %" PRId64, HR_PIECES_MAX, o->pieces);
  if (learned && o->tokens > positions)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: %" PRId64 " are more than the model's %" PRId64 " positions",
                   o->tokens, positions);
  if (o->dtype != HR_FP32 && o->dtype != HR_BF16 && o->dtype != HR_FP16)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "dtype: a step runs in fp32, bf16 or fp16");
  HR_TRY(hr_replicas_check(x, error));
  return o->trains ? check_training(x, error) : HR_OK;
}

static int64_t cache_bytes(const hr_executor *x)
{
  int64_t elements = 0;
  for (int64_t layer = 0; layer < x->layers; layer++) {
    const hr_layer_group *group = hr_run_group(x, layer);
    const hr_mixer_latent *l = &group->latent;
    const hr_mixer_attention *m = &group->attention;
    elements += l->q_heads > 0 ? l->kv_rank + l->rope_dim : m->k_heads * m->qk_dim + m->v_heads * m->v_dim;
  }
  return elements * x->options.slots * x->options.tokens * (int64_t)hr_dtype_bytes(x->options.dtype);
}

static hr_status bytes_needed(const hr_executor *x, int64_t *bytes, hr_error *error)
{
  HR_TRY(hr_placed_weights_bytes(&x->weights, bytes, error));
  *bytes += x->options.trains ? hr_run_training_bytes(x, *bytes) : cache_bytes(x);
  return HR_OK;
}

static hr_status describe_weights(hr_executor *x, hr_error *error)
{
  const hr_run_shape one = {.phase = HR_PHASE_FORWARD, .batch = 1, .tokens = 1, .microbatches = 1, .parts = 1};
  x->weights.device = x->device;
  x->weights.model = &x->model;
  x->weights.whole = &x->whole;
  x->weights.rank = x->rank;
  x->weights.ranks = x->ranks;
  x->weights.operators = x->listed;
  x->weights.dtype = x->options.dtype;
  x->weights.parts = hr_state_parts(x);
  return hr_run_list(x, &one, x->listed, error);
}

static hr_status check_memory(hr_executor *x, hr_error *error)
{
  int64_t bytes;
  HR_TRY(bytes_needed(x, &bytes, error));
  const size_t available = hr_device_memory_available(x->device);
  x->bytes = bytes;
  if ((size_t)bytes > available)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: weights and %s need %.2f GiB, of which %s has %.2f",
                   x->model.name, x->options.trains ? "what trains them" : "KV cache", (double)bytes * 0x1p-30,
                   hr_device_name(x->device), (double)available * 0x1p-30);
  return HR_OK;
}

static hr_status make_cache(hr_executor *x, int64_t layer, hr_error *error)
{
  const hr_layer_group *group = hr_run_group(x, layer);
  const bool latent = group->latent.q_heads > 0;
  const hr_mixer_attention m = latent ? hr_absorbed_attention(&group->latent) : group->attention;
  hr_kv_cache_options options = hr_kv_cache_options_default();
  options.latent = latent;
  options.k_heads = m.k_heads, options.v_heads = m.v_heads;
  options.qk_dim = m.qk_dim, options.v_dim = m.v_dim;
  options.dtype = x->options.dtype;
  options.page_size = HR_RUN_PAGE_TOKENS;
  options.slots = x->options.slots, options.tokens = x->options.tokens;
  options.slots_of = layer > 0 ? x->caches[0] : NULL;
  HR_TRY(hr_kv_cache_create(x->device, &options, &x->caches[layer], error));
  for (int64_t i = 0; i < x->options.slots && layer == 0; i++) {
    int64_t slot;
    HR_TRY(hr_kv_cache_add(x->caches[layer], &slot, error));
  }
  return HR_OK;
}

/* A vector of the same number, as wide as any norm, and as many as heads that a gradient is summed over. */
static hr_status make_vector(hr_executor *x, double value, hr_buffer **buffer, hr_error *error)
{
  const hr_model *m = &x->model;
  int64_t widest = hr_max64(m->hidden, m->embedding_dim);
  for (size_t i = 0; i < m->group_count; i++)
    widest = hr_max64(hr_max64(widest, m->groups[i].latent.q_heads),
                      m->groups[i].attention.q_heads * m->groups[i].attention.qk_dim);
  const size_t bytes = (size_t)widest * hr_dtype_bytes(x->options.dtype);
  void *numbers = malloc(bytes);
  if (!numbers)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a vector of %" PRId64, widest);
  for (int64_t i = 0; i < widest; i++)
    hr_number_store(x->options.dtype, numbers, (size_t)i, value);
  hr_status status = hr_buffer_create(x->device, bytes, buffer, error);
  if (status == HR_OK)
    status = hr_buffer_write(*buffer, numbers, bytes, error);
  free(numbers);
  return status;
}

/* A rank has the slopes of its own heads. */
static hr_status make_slopes(hr_executor *x, hr_error *error)
{
  const int64_t heads = x->whole.groups[0].attention.q_heads, own = x->model.groups[0].attention.q_heads;
  const size_t bytes = (size_t)heads * sizeof(float), own_bytes = (size_t)own * sizeof(float);
  float *slopes = x->model.positions == HR_POSITIONS_ALIBI ? malloc(bytes) : NULL;
  if (x->model.positions != HR_POSITIONS_ALIBI)
    return HR_OK;
  if (!slopes)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the slopes of ALiBi");
  hr_attention_alibi_slopes(heads, slopes);
  for (int64_t i = 0; i < heads && x->model.numerics.alibi_scaled; i++)
    slopes[i] /= sqrtf((float)x->model.groups[0].attention.qk_dim);
  hr_status status = hr_buffer_create(x->device, own_bytes, &x->slopes, error);
  if (status == HR_OK)
    status = hr_buffer_write(x->slopes, slopes + x->rank * own, own_bytes, error);
  free(slopes);
  return status;
}

static hr_status allocate_tables(hr_executor *x, hr_error *error)
{
  const size_t slots = (size_t)x->options.slots;
  x->layers = hr_model_layers(&x->model);
  x->caches = calloc((size_t)x->layers, sizeof *x->caches);
  x->lengths = calloc(slots, sizeof *x->lengths);
  x->slot_numbers = calloc(slots, sizeof *x->slot_numbers);
  x->new_tokens = calloc(slots, sizeof *x->new_tokens);
  x->listed = calloc(1, sizeof *x->listed);
  if (!x->caches || !x->lengths || !x->slot_numbers || !x->new_tokens || !x->listed)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for an executor");
  return HR_OK;
}

/* fp8 stays fp8 where kernels multiply with it, in a step of 16 bits on one device; elsewhere it is widened. */
static bool keeps_fp8(const hr_executor *x)
{
  const hr_backend *backend = x->device->backend;
  return hr_run_widens(&x->whole) && x->whole.quantization.format_count > 0 && backend->keeps_fp8 &&
         backend->keeps_fp8(x->device) && hr_dtype_bytes(x->options.dtype) == 2 && !x->options.trains && x->ranks == 1;
}

static hr_status open_all(hr_executor *x, hr_error *error)
{
  HR_TRY(hr_model_check(&x->whole, error));
  HR_TRY(hr_run_check_model(&x->whole, error));
  x->weights.q8 = hr_run_has_q8(&x->whole);
  x->weights.fp8 = keeps_fp8(x);
  if (x->weights.fp8)
    hr_keep_fp8(&x->whole);
  else if (!x->weights.q8 && x->whole.quantization.format_count > 0)
    HR_TRY(hr_model_set_weights(&x->whole, "bf16", error));
  HR_TRY(hr_run_take_share(x, error));
  if (x->weights.q8 && !x->device->backend->multiply_q8)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: weights in q8_0 run on a CPU alone", hr_device_name(x->device));
  HR_TRY(check_options(x, error));
  HR_TRY(allocate_tables(x, error));
  HR_TRY(describe_weights(x, error));
  HR_TRY(check_memory(x, error));
  HR_TRY(hr_replicas_agree_on_options(x, error));
  HR_TRY(hr_plans_create(x->device, PLANS, &x->plans, error));
  HR_TRY(hr_placed_weights_allocate(&x->weights, error));
  HR_TRY(make_vector(x, 1, &x->ones, error));
  HR_TRY(make_vector(x, 0, &x->zeros, error));
  HR_TRY(hr_run_make_angles(x, error));
  HR_TRY(make_slopes(x, error));
  if (x->options.trains)
    return hr_run_allocate_training(x, error);
  for (int64_t layer = 0; layer < x->layers; layer++)
    HR_TRY(make_cache(x, layer, error));
  return HR_OK;
}

hr_status hr_executor_open(hr_device *device, const hr_model *model, const hr_executor_options *options,
                           hr_executor **executor, hr_error *error)
{
  HR_NEED(error, device, model, executor);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_executor_options, options, error);
  hr_executor *x = calloc(1, sizeof *x);
  if (!x)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for an executor");
  x->device = device;
  x->whole = *model;
  x->options = options ? *options : hr_executor_options_default();
  const hr_communicator *c = x->options.communicator, *replicas = x->options.replicas, *stages = x->options.stages;
  x->rank = c ? hr_communicator_rank(c) : 0;
  x->ranks = c ? hr_communicator_size(c) : 1;
  x->replica = replicas ? hr_communicator_rank(replicas) : 0;
  x->replicas = replicas ? hr_communicator_size(replicas) : 1;
  x->stage = stages ? hr_communicator_rank(stages) : 0;
  x->stages = stages ? hr_communicator_size(stages) : 1;
  if (stages)
    x->options.stages->patience_s = fmax(x->options.stages->patience_s, STAGE_PATIENCE_S);
  hr_status status = open_all(x, error);
  if (status != HR_OK) {
    hr_executor_close(x);
    return status;
  }
  *executor = x;
  return HR_OK;
}

static void free_buffers(hr_executor *x)
{
  hr_placed_weights_free(&x->weights);
  hr_buffer *const others[] = {x->ones,           x->zeros,          x->angles[0], x->angles[1], x->slopes,
                               x->angles_back[0], x->angles_back[1], x->gradients, x->means,     x->variances,
                               x->copy,           x->squares,        x->workspace, x->arena};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    hr_buffer_free(others[i]);
}

void hr_executor_close(hr_executor *x)
{
  if (!x)
    return;
  for (int i = 0; i < HR_RUN_PROGRAMS; i++)
    hr_program_free(x, x->programs[i]);
  for (int64_t layer = x->layers - 1; x->caches && layer >= 0; layer--)
    hr_kv_cache_free(x->caches[layer]);
  hr_plans_free(x->plans);
  free_buffers(x);
  void *const tables[] = {x->caches,  x->lengths, x->slot_numbers, x->new_tokens,
                          x->numbers, x->listed,  x->staging,      x->buckets};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    free(tables[i]);
  free(x);
}

/* ---- what others ask ---- */

int64_t hr_executor_outputs(const hr_executor *x)
{
  return x->whole.vocabulary;
}

int64_t hr_executor_bytes(const hr_executor *x)
{
  return x->bytes;
}

int64_t hr_executor_length(const hr_executor *x, int64_t slot)
{
  return slot >= 0 && slot < x->options.slots ? x->lengths[slot] : 0;
}

const hr_operators *hr_executor_operators(const hr_executor *x)
{
  return x->programs[0] ? &x->programs[0]->operators : NULL;
}

hr_status hr_executor_time_operators(hr_executor *executor, double *times_ns, hr_error *error)
{
  HR_NEED(error, executor, times_ns);
  const hr_executor *x = executor;
  if (!x->programs[0])
    return hr_fail(error, HR_ERROR_INVALID, "no step has run whose operators could be timed");
  return hr_program_time(x, x->programs[0], times_ns, error);
}

hr_status hr_executor_load(hr_executor *executor, const char *what, uint64_t seed, hr_progress_fn progress,
                           void *context, hr_error *error)
{
  HR_NEED(error, executor);
  executor->loaded = executor->began = false;
  HR_TRY(hr_replicas_agree_on_weights(executor, what, seed, error));
  HR_TRY(hr_placed_weights_fill(&executor->weights, what, seed, progress, context, error));
  HR_TRY(hr_meet_all(executor, error)); /* others load at their own speed */
  executor->loaded = true;
  return HR_OK;
}
