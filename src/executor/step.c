/* SPDX-License-Identifier: Apache-2.0 */
/* One step: the tokens are checked, the caches grow, the program runs, the logits are read. */
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "executor/replicas.h"
#include "runtime/device/kv_cache.h"
#include "shape/number.h"
#include "training/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW_NUMBERS 2048
#define MICROBATCHES_MAX 1024 /* in one program */
#define USUAL_SEED 1          /* of random weights */

/* ---- checks ---- */

static hr_status check_ids(const hr_executor *x, const hr_executor_input *input, hr_error *error)
{
  for (int64_t i = 0; i < hr_max64(1, input->microbatches) * input->batch * input->tokens; i++) {
    if (input->ids[i] < 0 || input->ids[i] >= x->whole.vocabulary)
      return hr_fail(error, HR_ERROR_INVALID, "ids[%" PRId64 "]: %d is not below the vocabulary, %" PRId64, i,
                     (int)input->ids[i], x->whole.vocabulary);
  }
  return HR_OK;
}

static hr_status check_slot(const hr_executor *x, const hr_executor_input *input, int64_t slot, hr_error *error)
{
  const bool decode = input->phase == HR_PHASE_DECODE;
  if (slot < 0 || slot >= x->options.slots)
    return hr_fail(error, HR_ERROR_INVALID, "slots: %" PRId64 " is not below %" PRId64, slot, x->options.slots);
  if (decode && x->lengths[slot] == 0)
    return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 ": has no tokens yet, which prefill gives it", slot);
  if ((decode ? x->lengths[slot] : 0) + input->tokens > x->options.tokens)
    return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 ": would have more than %" PRId64 " tokens", slot,
                   x->options.tokens);
  return HR_OK;
}

static hr_status check_input(hr_executor *x, const hr_executor_input *input, hr_error *error)
{
  const int64_t most = input->phase == HR_PHASE_DECODE ? HR_DECODE_Q_LEN_MAX : x->options.tokens;
  const int64_t parts = hr_max64(1, input->microbatches);
  const bool keeps = hr_phase_keeps_tokens(input->phase), trains = input->phase == HR_PHASE_TRAIN;
  if ((unsigned)input->phase > HR_PHASE_DECODE || (x->options.trains && keeps) || (!x->options.trains && trains))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "phase: the executor runs %s",
                   x->options.trains ? "forward and training steps" : "forward, prefill and decode");
  if (input->microbatches < 0 || (input->microbatches > 1 && !trains && x->stages == 1))
    return hr_fail(error, HR_ERROR_INVALID, "microbatches: only training and stages have several, found %" PRId64,
                   input->microbatches);
  if (x->stages > 1 && parts > MICROBATCHES_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "microbatches: stages have up to %d, found %" PRId64, MICROBATCHES_MAX,
                   parts);
  if (trains && input->tokens < 2)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: training needs 2 of each sequence or more, found %" PRId64,
                   input->tokens);
  if (keeps && parts > x->options.slots)
    return hr_fail(error, HR_ERROR_INVALID,
                   "microbatches: each has slots of its own, found %" PRId64 " and %" PRId64 " slots", parts,
                   x->options.slots);
  if (input->batch < 1 || (keeps && input->batch > x->options.slots / parts))
    return hr_fail(error, HR_ERROR_INVALID, "batch: expected 1 to %" PRId64 ", found %" PRId64,
                   x->options.slots / parts, input->batch);
  if (input->tokens < 1 || input->tokens > most)
    return hr_fail(error, HR_ERROR_INVALID, "tokens: expected 1 to %" PRId64 ", found %" PRId64, most, input->tokens);
  if (hr_run_splits_rows(x) && input->batch % x->ranks * (input->tokens % x->ranks) % x->ranks != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "tokens: those of %" PRId64 " sequences of %" PRId64 " do not divide by the %" PRId64
                   " ranks of sequence parallelism",
                   input->batch, input->tokens, x->ranks);
  for (int64_t i = 0; i < parts * input->batch && keeps; i++) {
    x->slot_numbers[i] = input->slots ? input->slots[i] : i;
    x->new_tokens[i] = input->tokens;
    HR_TRY(check_slot(x, input, x->slot_numbers[i], error));
  }
  return check_ids(x, input, error);
}

/* ---- programs ---- */

static bool has_shape(const hr_run_program *p, const hr_run_shape *shape)
{
  return p && p->shape.phase == shape->phase && p->shape.batch == shape->batch && p->shape.tokens == shape->tokens &&
         p->shape.microbatches == shape->microbatches && p->shape.adds == shape->adds &&
         p->shape.reduces == shape->reduces && p->shape.parts == shape->parts;
}

/* Moves the program of the shape to the front, or makes it there in the place of the one used longest ago. */
static hr_status find_program(hr_executor *x, const hr_run_shape *shape, hr_error *error)
{
  hr_run_program *found = NULL;
  int at = 0;
  while (at < HR_RUN_PROGRAMS - 1 && x->programs[at] && !has_shape(x->programs[at], shape))
    at++;
  if (has_shape(x->programs[at], shape))
    found = x->programs[at];
  else
    HR_TRY(hr_program_make(x, shape, &found, error));
  if (found != x->programs[at])
    hr_program_free(x, x->programs[at]);
  memmove(&x->programs[1], &x->programs[0], (size_t)at * sizeof *x->programs);
  x->programs[0] = found;
  return HR_OK;
}

/* ---- tokens ---- */

static hr_status room_for(void **memory, size_t *room, size_t bytes, hr_error *error)
{
  if (bytes <= *room)
    return HR_OK;
  void *larger = realloc(*memory, bytes);
  if (!larger)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a step");
  *memory = larger;
  *room = bytes;
  return HR_OK;
}

static int64_t first_position(const hr_executor *x, const hr_executor_input *input, int64_t sequence)
{
  return input->phase == HR_PHASE_DECODE ? x->lengths[x->slot_numbers[sequence]] : 0;
}

/* Some layers have kernels that read places of tokens, or factors. */
static void number_places(const hr_executor *x, int32_t *of, int64_t count, int64_t row, int64_t sequence)
{
  const int64_t pitch = hr_ceil_div(x->options.tokens, HR_RUN_PAGE_TOKENS), chunk = hr_run_chunk(&x->model);
  const hr_numerics *n = &x->model.numerics;
  const int32_t position = of[HR_NUMBER_POSITION * count];
  const int64_t first = chunk > 0 ? position - position % chunk : 0;
  const double steps = n->query_growth != 0 ? floor((position + 1) / n->query_floor) : 0;
  const float growth = (float)(1 + n->query_growth * log1p(steps));
  memcpy(&of[HR_NUMBER_GROWTH * count], &growth, sizeof growth);
  of[HR_NUMBER_ROW * count] = (int32_t)row;
  of[HR_NUMBER_FIRST * count] = (int32_t)first;
  of[HR_NUMBER_LENGTH * count] = (int32_t)(position + 1 - first);
  of[HR_NUMBER_PAGE * count] = (int32_t)(sequence * pitch + first / HR_RUN_PAGE_TOKENS);
}

/* The rank's row of the token embedding, or one with a factor of 0, of which each token has another: what is added to
 * one row is added in turn, and 4096 tokens took 12 ms. */
static void number_row(const hr_executor *x, int32_t *of, int64_t count)
{
  const int64_t rows = x->model.vocabulary, row = of[HR_NUMBER_ID * count] - x->rank * rows;
  const bool here = row >= 0 && row < rows;
  const float factor = here ? 1 : 0;
  of[HR_NUMBER_ID * count] = (int32_t)(((row % rows) + rows) % rows);
  memcpy(&of[HR_NUMBER_HERE * count], &factor, sizeof factor);
}

/* A part has its own, one kind after another. */
static void number_tokens(const hr_executor *x, const hr_executor_input *input, int64_t part)
{
  const int64_t count = input->batch * input->tokens;
  const int rows = hr_run_number_count(x);
  const int32_t *ids = input->ids + part * count;
  for (int64_t i = 0; i < count; i++) {
    const int64_t sequence = i / input->tokens, token = i % input->tokens;
    int32_t *of = (int32_t *)x->numbers + part * rows * count + i;
    of[HR_NUMBER_ID * count] = ids[i];
    of[HR_NUMBER_POSITION * count] = (int32_t)(first_position(x, input, part * input->batch + sequence) + token);
    if (rows > HR_NUMBER_TARGET)
      of[HR_NUMBER_TARGET * count] = token + 1 == input->tokens ? -1 : ids[i + 1];
    if (rows > HR_NUMBER_ROW)
      number_places(x, of, count, i, sequence);
    if (x->ranks > 1)
      number_row(x, of, count);
  }
}

/* Few numbers are put on the stream, which does not wait for them as it would for a copy. */
static hr_status send_tokens(hr_executor *x, const hr_run_program *p, const hr_executor_input *input, hr_error *error)
{
  const size_t of_part = (size_t)(input->batch * input->tokens * hr_run_number_count(x));
  const size_t count = (size_t)p->shape.parts * of_part, bytes = count * sizeof(int32_t);
  HR_TRY(room_for(&x->numbers, &x->number_room, bytes, error));
  for (int64_t part = 0; part < p->shape.parts; part++)
    number_tokens(x, input, part);
  const hr_kv_numbers numbers = {hr_buffer_data(p->numbers), x->numbers, count};
  if (count > FEW_NUMBERS || !x->caches[0])
    return hr_buffer_write(p->numbers, x->numbers, bytes, error);
  return hr_kv_cache_upload(x->caches[0], &numbers, hr_device_stream(x->device), error);
}

/* ---- caches ---- */

/* The first layer's cache has the slots of all. */
static hr_status grow_caches(const hr_executor *x, const hr_executor_input *input, hr_error *error)
{
  hr_kv_cache *cache = x->caches[0];
  hr_kv_append append = hr_kv_append_default();
  const int64_t parts = hr_max64(1, input->microbatches);
  append.count = parts * input->batch;
  append.slots = x->slot_numbers;
  append.tokens = x->new_tokens;
  if (!hr_phase_keeps_tokens(input->phase))
    return HR_OK;
  for (int64_t i = 0; i < append.count && input->phase == HR_PHASE_PREFILL; i++)
    HR_TRY(hr_kv_cache_truncate(cache, x->slot_numbers[i], 0, error));
  HR_TRY(hr_kv_cache_grow_parts(cache, &append, parts, hr_device_stream(x->device), error));
  return hr_kv_cache_select(cache, append.count, x->slot_numbers, hr_device_stream(x->device), error);
}

static int64_t sequences_kept(const hr_executor_input *input)
{
  return hr_phase_keeps_tokens(input->phase) ? hr_max64(1, input->microbatches) * input->batch : 0;
}

/* After a failure slots have what they had before, or nothing where a prefill had begun. */
static void take_back(hr_executor *x, const hr_executor_input *input)
{
  for (int64_t i = 0; i < sequences_kept(input); i++) {
    const int64_t slot = x->slot_numbers[i];
    if (input->phase == HR_PHASE_PREFILL)
      x->lengths[slot] = 0;
    hr_kv_cache_truncate(x->caches[0], slot, x->lengths[slot], NULL);
  }
}

static void keep_lengths(hr_executor *x, const hr_executor_input *input)
{
  for (int64_t i = 0; i < sequences_kept(input); i++)
    x->lengths[x->slot_numbers[i]] = first_position(x, input, i) + input->tokens;
}

/* ---- logits ---- */

/* In fp32. */
static hr_status read_results(hr_executor *x, const hr_run_program *p, size_t count, float *to, hr_error *error)
{
  const size_t bytes = count * hr_dtype_bytes(x->options.dtype);
  if (p->shape.phase == HR_PHASE_TRAIN || x->options.dtype == HR_FP32)
    return hr_buffer_read(p->logits, to, count * sizeof *to, error);
  HR_TRY(room_for(&x->staging, &x->staging_room, bytes, error));
  HR_TRY(hr_buffer_read(p->logits, x->staging, bytes, error));
  for (size_t i = 0; i < count; i++)
    to[i] = (float)hr_number_load(x->options.dtype, x->staging, i);
  return HR_OK;
}

/* Each rank has some columns of every row. */
static hr_status gather_logits(hr_executor *x, const hr_run_program *p, size_t rows, float *logits, hr_error *error)
{
  const size_t own = (size_t)x->model.vocabulary, all = (size_t)x->whole.vocabulary, ranks = (size_t)x->ranks;
  float *parts = malloc((ranks + 1) * rows * own * sizeof *parts), *mine = parts + ranks * rows * own;
  if (!parts)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the logits of %zu tokens", rows);
  hr_status status = read_results(x, p, rows * own, mine, error);
  if (status == HR_OK)
    status = hr_communicator_share(x->options.communicator, mine, rows * own * sizeof *mine, parts, error);
  for (size_t i = 0; i < rows * all && status == HR_OK; i++) {
    const size_t row = i / all, column = i % all;
    logits[i] = parts[(column / own * rows + row) * own + column % own];
  }
  free(parts);
  return status;
}

static hr_status read_of_stages(hr_executor *x, const hr_run_program *p, size_t count, float *to, hr_error *error)
{
  const hr_status status = hr_run_is_last(x) ? read_results(x, p, count, to, error) : HR_OK;
  return status == HR_OK ? hr_take_from_last(x, to, count * sizeof *to, error) : status;
}

static hr_status read_logits(hr_executor *x, const hr_run_program *p, float *logits, hr_error *error)
{
  const int64_t rows = hr_run_logit_rows(&p->shape);
  const int64_t columns = p->shape.phase == HR_PHASE_TRAIN ? 1 : hr_executor_outputs(x);
  if (x->stages > 1)
    return read_of_stages(x, p, (size_t)(rows * columns), logits, error);
  return x->ranks > 1 && p->shape.phase != HR_PHASE_TRAIN ? gather_logits(x, p, (size_t)rows, logits, error)
                                                          : read_results(x, p, (size_t)(rows * columns), logits, error);
}

static hr_status wait_for_ranks(const hr_executor *x, hr_error *error)
{
  hr_communicator *const all[] = {x->options.communicator, x->options.replicas, x->options.stages};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i])
      HR_TRY(hr_communicator_wait(all[i], hr_device_stream(x->device), error));
  }
  return HR_OK;
}

/* The first run of a program, which ranks make at their own speed. */
static hr_status meet_before(const hr_executor *x, const hr_run_program *p, const hr_executor_input *input,
                             hr_error *error)
{
  if (x->stages > 1) /* whose programs begin anew at different times, as their arenas grow */
    return hr_stages_agree_on_step(x, input, error);
  if (p->runs > 0)
    return HR_OK;
  if (x->options.communicator)
    HR_TRY(hr_communicator_meet(x->options.communicator, error));
  return p->shape.reduces ? hr_communicator_meet(x->options.replicas, error) : HR_OK;
}

/* The numbers of tokens and caches, at once. */
static hr_status send_numbers(hr_executor *x, const hr_run_program *p, const hr_executor_input *input, hr_error *error)
{
  hr_kv_cache *cache = x->caches[0];
  if (cache)
    hr_kv_cache_gather(cache);
  hr_status status = send_tokens(x, p, input, error);
  if (status == HR_OK)
    status = grow_caches(x, input, error);
  if (cache && status == HR_OK)
    status = hr_kv_cache_send(cache, hr_device_stream(x->device), error);
  else if (cache)
    hr_kv_cache_drop(cache);
  return status;
}

static hr_status wait_for_step(const hr_executor *x, hr_error *error)
{
  const hr_backend *backend = x->device->backend;
  return backend->wait ? backend->wait(x->device, error) : HR_OK;
}

/* The last of several microbatches runs the optimizer. */
static hr_status run_step(hr_executor *x, const hr_executor_input *input, bool last, float *logits, hr_error *error)
{
  hr_run_program *p = x->programs[0];
  HR_TRY(send_numbers(x, p, input, error));
  HR_TRY(hr_program_run(x, p, last, error));
  HR_TRY(wait_for_ranks(x, error));
  x->steps += last && p->shape.phase == HR_PHASE_TRAIN;
  return logits ? read_logits(x, p, logits, error) : wait_for_step(x, error);
}

static hr_status run_microbatches(hr_executor *x, const hr_executor_input *input, float *losses, hr_error *error)
{
  const int64_t ids = input->batch * input->tokens, microbatches = hr_max64(1, input->microbatches);
  const int64_t parts = x->stages > 1 ? microbatches : 1, count = microbatches / parts;
  hr_executor_input one = *input;
  for (int64_t i = 0; i < count; i++) {
    const bool last = i + 1 == count, trains = input->phase == HR_PHASE_TRAIN;
    const hr_run_shape shape = {.phase = input->phase,
                                .batch = input->batch,
                                .tokens = input->tokens,
                                .microbatches = microbatches,
                                .adds = i > 0,
                                .reduces = trains && last && x->replicas > 1,
                                .parts = parts};
    one.ids = input->ids + i * ids;
    HR_TRY(find_program(x, &shape, error));
    HR_TRY(meet_before(x, x->programs[0], input, error));
    HR_TRY(run_step(x, &one, last, losses ? losses + i * ids : NULL, error));
  }
  return HR_OK;
}

hr_status hr_executor_step(hr_executor *executor, const hr_executor_input *input, float *logits, hr_error *error)
{
  HR_NEED(error, executor, input);
  hr_executor *x = executor;
  HR_TAKE(hr_executor_input, input, error);
  const int32_t *ids = input->ids;
  HR_NEED(error, ids);
  HR_TRY(check_input(x, input, error));
  if (!x->loaded)
    HR_TRY(hr_executor_load(x, NULL, USUAL_SEED, NULL, NULL, error));
  if (x->options.trains && !x->began)
    HR_TRY(hr_run_begin_training(x, error));
  HR_TRY(hr_replicas_agree_on_step(x, input, error));
  hr_status status = run_microbatches(x, input, logits, error);
  if (status == HR_OK)
    keep_lengths(x, input);
  else
    take_back(x, input);
  return status;
}

hr_status hr_executor_truncate(hr_executor *executor, int64_t slot, int64_t length, hr_error *error)
{
  HR_NEED(error, executor);
  if (executor->options.trains)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "an executor that trains has no slots");
  const bool exists = slot >= 0 && slot < executor->options.slots;
  if (!exists || length < 0 || length > executor->lengths[slot])
    return hr_fail(error, HR_ERROR_INVALID, "slot %" PRId64 ": cannot keep %" PRId64 " of %" PRId64 " tokens", slot,
                   length, exists ? executor->lengths[slot] : 0);
  HR_TRY(hr_kv_cache_truncate(executor->caches[0], slot, length, error));
  executor->lengths[slot] = length;
  return HR_OK;
}
