/* SPDX-License-Identifier: Apache-2.0 */
/* With batch_invariant a sequence has the same bits whatever else is in the batch: batches of ragged sequences, and
 * each of the sequences alone. */
#include "decode_call.h"

#include <headroom/buffer.h>

#include <stdlib.h>
#include <string.h>

#define BATCH 6
#define KV_LEN 1300
static const int32_t lengths[BATCH] = {KV_LEN, 1, 700, 0, 129, 1024};

typedef struct batch {
  hr_device *device;
  const char *kernel;
  hr_decode d;
  hr_decode_arguments arguments;
  size_t o_bytes, lse_bytes; /* of a sequence */
  char *o;                   /* found, [BATCH][o_bytes] */
  char *lse;
} batch;

static hr_buffer *filled(hr_device *device, hr_dtype dtype, size_t bytes, uint64_t seed)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, bytes, &buffer, &error), error);
  assert_ok(hr_buffer_fill_uniform(buffer, dtype, seed, &error), error);
  return buffer;
}

static hr_buffer *copy_of(hr_device *device, const void *from, size_t bytes)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, bytes, &buffer, &error), error);
  assert_ok(hr_buffer_write(buffer, from, bytes, &error), error);
  return buffer;
}

/* Runs sequences first … first + count − 1; O and log-sum-exp go to the front of the buffers. False: unsupported. */
static bool run(const batch *b, int64_t first, int64_t count, hr_buffer *o, hr_buffer *lse)
{
  hr_decode d = b->d;
  hr_decode_arguments x = b->arguments;
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error;
  d.batch = count;
  hr_status status = hr_plan_decode(b->device, &d, b->kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  assert_ok(hr_buffer_poison(o, d.dtype, &error), error);
  size_t q_bytes = (size_t)(d.q_len * d.q_heads * d.qk_dim) * hr_dtype_bytes(d.dtype);
  x.q = (const char *)x.q + (size_t)first * q_bytes;
  x.o = hr_buffer_data(o), x.lse = hr_buffer_data(lse);
  x.lengths += first, x.pages += first * d.table_pitch;
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(b->device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  assert_ok(hr_plan_run_decode(plan, &x, workspace ? hr_buffer_data(workspace) : NULL, NULL, &error), error);
  assert_ok(hr_buffer_read(o, b->o, (size_t)count * b->o_bytes, &error), error);
  assert_ok(hr_buffer_read(lse, b->lse, (size_t)count * b->lse_bytes, &error), error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  return true;
}

static void compare_with_parts(batch *b, hr_buffer *o, hr_buffer *lse)
{
  char *all = malloc(BATCH * b->o_bytes), *all_lse = malloc(BATCH * b->lse_bytes);
  assert_true(all && all_lse);
  if (run(b, 0, BATCH, o, lse)) {
    memcpy(all, b->o, BATCH * b->o_bytes);
    memcpy(all_lse, b->lse, BATCH * b->lse_bytes);
    for (int64_t count = 1; count <= 2; count++)
      for (int64_t first = 0; first + count <= BATCH; first += count) {
        assert_true(run(b, first, count, o, lse));
        if (memcmp(b->o, all + (size_t)first * b->o_bytes, (size_t)count * b->o_bytes) != 0 ||
            memcmp(b->lse, all_lse + (size_t)first * b->lse_bytes, (size_t)count * b->lse_bytes) != 0)
          fail_msg("%s %s: sequence %d, %d in a batch, differs from a batch of %d", b->kernel,
                   hr_dtype_name(b->d.dtype), (int)first, (int)count, BATCH);
      }
  }
  free(all);
  free(all_lse);
}

static void check_batches(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static const int64_t heads[][3] = {{8, 2, 2}, {8, 1, 4}, {4, 4, 4}};
  if (strcmp(kernel, "decode_naive") == 0) /* slow; it knows of no other sequence */
    return;
  for (int64_t i = 0; i < 3; i++) {
    if (!test_takes(i))
      continue;
    batch b = {.device = device, .kernel = kernel, .d = hr_decode_default()};
    hr_error error;
    hr_decode *d = &b.d;
    d->batch = BATCH, d->kv_len = KV_LEN, d->q_len = 1 + i, d->dtype = dtype, d->batch_invariant = true;
    d->q_heads = heads[i][0], d->k_heads = heads[i][1], d->v_heads = heads[i][2];
    d->top_k = strstr(kernel, "_topk_") ? 100 : 0;
    assert_ok(hr_decode_set_pages(d, 16, &error), error);
    size_t element = hr_dtype_bytes(dtype), rows = (size_t)(d->q_len * d->q_heads);
    size_t tokens = (size_t)(d->page_count * d->page_size);
    int32_t *pages = malloc((size_t)(BATCH * d->table_pitch) * sizeof *pages);
    assert_non_null(pages);
    for (int64_t p = 0; p < BATCH * d->table_pitch; p++)
      pages[p] = (int32_t)(p * 7 % d->page_count);
    b.o_bytes = rows * (size_t)d->v_dim * element, b.lse_bytes = rows * sizeof(float);
    b.o = malloc(BATCH * b.o_bytes), b.lse = malloc(BATCH * b.lse_bytes);
    assert_true(b.o && b.lse);
    hr_buffer *buffers[] = {
        filled(device, dtype, BATCH * rows * (size_t)d->qk_dim * element, 1),
        filled(device, dtype, tokens * (size_t)(d->k_heads * d->qk_dim) * element, 2),
        filled(device, dtype, tokens * (size_t)(d->v_heads * d->v_dim) * element, 3),
        copy_of(device, lengths, sizeof lengths),
        copy_of(device, pages, (size_t)(BATCH * d->table_pitch) * sizeof *pages),
        filled(device, dtype, BATCH * b.o_bytes, 4),
        filled(device, HR_FP32, BATCH * b.lse_bytes, 5),
    };
    b.arguments = hr_decode_arguments_default();
    b.arguments.q = hr_buffer_data(buffers[0]), b.arguments.k = hr_buffer_data(buffers[1]);
    b.arguments.v = hr_buffer_data(buffers[2]), b.arguments.lengths = hr_buffer_data(buffers[3]);
    b.arguments.pages = hr_buffer_data(buffers[4]);
    compare_with_parts(&b, buffers[5], buffers[6]);
    for (size_t n = 0; n < sizeof buffers / sizeof *buffers; n++)
      hr_buffer_free(buffers[n]);
    free(b.o);
    free(b.lse);
    free(pages);
  }
}

static void a_sequence_has_the_same_bits_in_every_batch(void **state)
{
  (void)state;
  decode_each_kernel(check_batches);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_sequence_has_the_same_bits_in_every_batch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
