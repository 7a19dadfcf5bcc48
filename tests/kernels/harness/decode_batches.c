/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence has the same bits whatever else is in the batch, with batch_invariant: batches of ragged sequences, and
 * each of the sequences alone. */
#include "call.h"

#define BATCH 6
#define KV_LEN 1300
static const int32_t lengths[BATCH] = {KV_LEN, 1, 700, 0, 129, 1024};

typedef struct batch {
  call of;
  place lengths, lse;
  size_t q_bytes, o_bytes, lse_bytes; /* of a sequence */
} batch;

static hr_decode problem_of(const char *kernel, hr_dtype dtype, int64_t number)
{
  static const int64_t heads[][3] = {{8, 2, 2}, {8, 1, 4}, {4, 4, 4}};
  hr_decode d = hr_decode_default();
  hr_error error;
  d.batch = BATCH, d.kv_len = KV_LEN, d.q_len = 1 + number, d.dtype = dtype, d.batch_invariant = true;
  d.q_heads = heads[number][0], d.k_heads = heads[number][1], d.v_heads = heads[number][2];
  d.top_k = strstr(kernel, "_topk_") ? 100 : 0;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  return d;
}

static void open_batch(hr_device *device, const char *kernel, const hr_decode *d, batch *b)
{
  const hr_problem problem = hr_decode_problem(d);
  const size_t rows = (size_t)(d->q_len * d->q_heads), element = hr_dtype_bytes(d->dtype);
  call_open(device, kernel, &problem, NULL, 1, &b->of);
  b->q_bytes = rows * (size_t)d->qk_dim * element, b->o_bytes = rows * (size_t)d->v_dim * element;
  b->lse_bytes = rows * sizeof(float);
  b->lse = place_make(device, BATCH * b->lse_bytes, (placing){.alignment = sizeof(float)});
  b->lengths = place_make(device, sizeof lengths, (placing){.alignment = sizeof *lengths});
  memcpy(b->lengths.host, lengths, sizeof lengths);
  place_send(&b->lengths);
  for (size_t i = 0; i < b->of.operands.count; i++)
    for (int64_t p = 0; b->of.operands.kinds[i] == HR_OPERAND_PAGES && p < BATCH * d->table_pitch; p++)
      ((int32_t *)(void *)b->of.places[i].host)[p] = (int32_t)(p * 7 % d->page_count);
}

static void close_batch(batch *b)
{
  call_close(&b->of);
  place_free(&b->lengths);
  place_free(&b->lse);
}

/* Runs sequences first … first + count − 1; O and log-sum-exp go to the front of their places. False: unsupported. */
static bool run(batch *b, int64_t first, int64_t count)
{
  hr_plan *plan = NULL;
  hr_error error;
  hr_decode d = b->of.problem.decode;
  d.batch = count;
  hr_status status = hr_plan_decode(b->of.device, &d, b->of.kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  hr_arguments x = call_arguments(&b->of);
  x.decode.q = (const char *)x.decode.q + (size_t)first * b->q_bytes;
  x.decode.pages += first * d.table_pitch;
  x.decode.lengths = (const int32_t *)b->lengths.data + first;
  x.decode.lse = b->lse.data;
  memset(b->of.output->host, POISON, b->of.output->bytes);
  call_run_with(&b->of, plan, &x, NULL);
  place_bring(&b->lse);
  hr_plan_free(plan);
  return true;
}

static void compare_with_parts(batch *b)
{
  char *all = malloc(BATCH * (b->o_bytes + b->lse_bytes)), *all_lse = all + BATCH * b->o_bytes;
  assert_non_null(all);
  bool ran = run(b, 0, BATCH);
  memcpy(all, b->of.output->host, BATCH * b->o_bytes);
  memcpy(all_lse, b->lse.host, BATCH * b->lse_bytes);
  for (int64_t count = 1; ran && count <= 2; count++)
    for (int64_t first = 0; first + count <= BATCH; first += count) {
      assert_true(run(b, first, count));
      if (memcmp(b->of.output->host, all + (size_t)first * b->o_bytes, (size_t)count * b->o_bytes) != 0 ||
          memcmp(b->lse.host, all_lse + (size_t)first * b->lse_bytes, (size_t)count * b->lse_bytes) != 0)
        fail_msg("%s %s: sequence %d, %d in a batch, differs from a batch of %d", b->of.kernel,
                 hr_dtype_name(b->of.problem.dtype), (int)first, (int)count, BATCH);
    }
  free(all);
}

static void check_batches(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < 3; i++) {
    if (!test_takes(i) || strcmp(kernel, "decode_naive") == 0) /* slow; it knows of no other sequence */
      continue;
    const hr_decode d = problem_of(kernel, dtype, i);
    batch b;
    open_batch(device, kernel, &d, &b);
    compare_with_parts(&b);
    close_batch(&b);
  }
}

static const fact facts[] = {FACT(a_sequence_has_the_same_bits_in_every_batch, check_batches)};
const fact_group decode_batches_facts = {
    .name = "decode_batches", .operation = "decode", .facts = facts, .count = LENGTH(facts), .shares = EVERY_NTH};
