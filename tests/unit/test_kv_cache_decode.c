/* SPDX-License-Identifier: Apache-2.0 */
/* Decode calls over a KV cache: row i of prefill attention; tables that stay where they are. With HEADROOM_TEST=gpu on
 * the GPU alone. */
#include "kv_model.h"

#define Q_HEADS 12

/* Q of a token, whatever is cached. */
static void make_query(const kv_model *m, int64_t slot, int64_t position, char *q)
{
  hr_numbers_uniform(m->o.dtype, (uint64_t)(1000000 + 1000 * slot + position), 0, (size_t)(Q_HEADS * m->o.qk_dim), q);
}

/* ---- prefill ---- */

/* Q, K (rotated here) and V of a slot's tokens, in order. */
static void make_prefill_operands(const kv_model *m, int64_t slot, char *q, char *k, char *v)
{
  size_t element = hr_dtype_bytes(m->o.dtype), k_width = kv_width(m, true), v_width = kv_width(m, false);
  double row[512], bound;
  assert_true(k_width <= 512);
  for (int64_t t = 0; t < m->lengths[slot]; t++, k += k_width * element, v += v_width * element) {
    make_query(m, slot, t, q + (size_t)(t * Q_HEADS * m->o.qk_dim) * element);
    hr_numbers_uniform(m->o.dtype, m->tokens[slot][t] + 1, 0, v_width, v);
    hr_numbers_uniform(m->o.dtype, m->tokens[slot][t], 0, k_width, k);
    hr_numbers_load(m->o.dtype, k, 0, k_width, row);
    for (int64_t i = 0; i < (int64_t)k_width; i++)
      hr_number_store(m->o.dtype, k, (size_t)i, kv_rotated(m, row, i / m->o.qk_dim, i % m->o.qk_dim, t, &bound));
  }
}

/* Attention of all tokens of a slot on the reference device: O [tokens, Q_HEADS, v_dim]. */
static void prefill(const kv_model *m, int64_t slot, hr_device *reference, double *o)
{
  hr_error error;
  hr_attention a = hr_attention_default();
  a.q_len = a.kv_len = m->lengths[slot];
  a.q_heads = Q_HEADS, a.k_heads = m->o.k_heads, a.v_heads = m->o.v_heads;
  a.qk_dim = m->o.qk_dim, a.v_dim = m->o.v_dim;
  a.dtype = m->o.dtype;
  a.mask = HR_MASK_CAUSAL;
  const size_t widths[] = {(size_t)(Q_HEADS * a.qk_dim), kv_width(m, true), kv_width(m, false),
                           (size_t)(Q_HEADS * a.v_dim)};
  char *operands[4];
  for (int i = 0; i < 4; i++) {
    operands[i] = calloc((size_t)a.q_len * widths[i], hr_dtype_bytes(a.dtype));
    assert_non_null(operands[i]);
  }
  make_prefill_operands(m, slot, operands[0], operands[1], operands[2]);
  hr_plan *plan;
  hr_buffer *workspace;
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = operands[0], x.k = operands[1], x.v = operands[2], x.o = operands[3];
  assert_ok(hr_plan_attention(reference, &a, NULL, &plan, &error), error);
  assert_ok(hr_buffer_create(reference, hr_plan_workspace_bytes(plan) + 1, &workspace, &error), error);
  assert_ok(hr_plan_run_attention(plan, &x, hr_buffer_data(workspace), NULL, &error), error);
  hr_numbers_load(a.dtype, operands[3], 0, (size_t)a.q_len * widths[3], o);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  for (int i = 0; i < 4; i++)
    free(operands[i]);
}

/* ---- decode ---- */

#define RESULTS (TOKENS_MAX * Q_HEADS * 10)

/* Decodes the last `q_len` tokens of both slots and keeps O by token; false: the device has no kernel. */
static bool decode_step(const kv_model *m, const int64_t slots[2], int64_t q_len, double (*o)[RESULTS])
{
  hr_error error;
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default();
  d.q_len = q_len, d.q_heads = Q_HEADS;
  assert_ok(kv_decode(m->cache, 2, slots, &d, &x, &error), error);
  hr_plan *plan;
  hr_status planned = hr_plan_decode(m->device, &d, NULL, &plan, &error);
  if (planned == HR_ERROR_UNSUPPORTED && strcmp(m->device->backend->name, "cuda") == 0) {
    print_message("%s\n", error.message);
    return false;
  }
  assert_ok(planned, error);
  size_t element = hr_dtype_bytes(d.dtype), q_row = (size_t)(Q_HEADS * d.qk_dim) * element;
  size_t row = (size_t)(Q_HEADS * d.v_dim);
  char *q = malloc(2 * (size_t)q_len * q_row), *results = calloc(2 * (size_t)q_len * row, element);
  assert_true(q && results);
  for (int64_t i = 0; i < 2 * q_len; i++)
    make_query(m, slots[i / q_len], m->lengths[slots[i / q_len]] - q_len + i % q_len, q + (size_t)i * q_row);
  hr_buffer *buffers[] = {kv_upload(m->device, q, 2 * (size_t)q_len * q_row),
                          kv_upload(m->device, results, 2 * (size_t)q_len * row * element), NULL};
  assert_ok(hr_buffer_create(m->device, hr_plan_workspace_bytes(plan) + 1, &buffers[2], &error), error);
  x.q = hr_buffer_data(buffers[0]), x.o = hr_buffer_data(buffers[1]);
  assert_ok(hr_plan_run_decode(plan, &x, hr_buffer_data(buffers[2]), NULL, &error), error);
  assert_ok(hr_buffer_read(buffers[1], results, 2 * (size_t)q_len * row * element, &error), error);
  for (int64_t i = 0; i < 2 * q_len; i++) {
    int64_t slot = slots[i / q_len], token = m->lengths[slot] - q_len + i % q_len;
    hr_numbers_load(d.dtype, results, (size_t)i * row, row, o[slot] + (size_t)token * row);
  }
  for (int i = 0; i < 3; i++)
    hr_buffer_free(buffers[i]);
  hr_plan_free(plan);
  free(q);
  free(results);
  return true;
}

static void compare_with_prefill(const kv_model *m, int64_t slot, int64_t first, const double *o)
{
  hr_device *reference;
  hr_error error;
  double *expected = calloc(RESULTS, sizeof *expected), bound = m->o.dtype == HR_FP32 ? 1e-5 : 3e-2;
  if (m->o.cache_format != HR_KV_UNQUANTIZED) /* averages of numbers up to 1, each within 1/200 or 1/16 of itself */
    bound = m->o.cache_format == HR_KV_INT8 ? 2e-2 : 6e-2;
  assert_non_null(expected);
  assert_ok(hr_device_open("reference", 1, &reference, &error), error);
  prefill(m, slot, reference, expected);
  hr_device_close(reference);
  for (int64_t i = first * Q_HEADS * m->o.v_dim; i < m->lengths[slot] * Q_HEADS * m->o.v_dim; i++)
    if (!(fabs(o[i] - expected[i]) <= bound))
      fail_msg("%s, pages of %" PRId64 ": slot %" PRId64 ", token %" PRId64 ": %g, prefill gives %g",
               hr_dtype_name(m->o.dtype), m->o.page_size, slot, i / Q_HEADS / m->o.v_dim, o[i], expected[i]);
  free(expected);
}

/* Prompts, then steps of one token and of three, of which the last is rejected. */
static void decode_two_slots(hr_device *device, hr_dtype dtype, int64_t page_size, hr_kv_format format,
                             hr_kv_scales scales)
{
  static const float head_scales[] = {1.0f / 127, 1.0f / 100, 1.0f / 90};
  kv_model m = three_slots(dtype, page_size);
  hr_error error;
  m.o.cache_format = format, m.o.cache_scales = scales;
  m.o.k_scales = m.o.v_scales = head_scales;
  m.o.tokens = 100;
  m.rotary.rotary_dim = 16;
  kv_create(&m, device);
  double(*o)[RESULTS] = calloc(SLOTS_MAX, sizeof *o);
  assert_non_null(o);
  const int64_t slots[] = {kv_add(&m), kv_add(&m)}, prompt[] = {9, 30}, draft[] = {3, 3}, back[] = {slots[1], slots[0]};
  bool runs = true;
  assert_ok(kv_append(&m, 2, slots, prompt, 0, &error), error);
  for (int step = 0; step < 12 && runs; step++) {
    bool speculative = step % 3 == 2;
    assert_ok(kv_append(&m, 2, slots, speculative ? draft : NULL, 0, &error), error);
    runs = decode_step(&m, step % 2 ? back : slots, speculative ? 3 : 1, o);
    for (int i = 0; i < 2 && speculative; i++)
      assert_ok(hr_kv_cache_truncate(m.cache, slots[i], --m.lengths[slots[i]], &error), error);
  }
  for (int i = 0; i < 2 && runs; i++)
    compare_with_prefill(&m, slots[i], prompt[i], o[slots[i]]);
  kv_expect(&m, 0);
  free(o);
  kv_free(&m);
}

static void decode_everywhere(hr_device *device)
{
  static const hr_dtype dtypes[] = {HR_FP32, HR_FP16, HR_BF16};
  for (int i = 0; i < 6; i++)
    if (test_takes(i))
      decode_two_slots(device, dtypes[i % 3], i < 3 ? 0 : 16, HR_KV_UNQUANTIZED, HR_KV_SCALE_HEAD);
  for (int i = 0; i < 4; i++)
    if (test_takes(i))
      decode_two_slots(device, dtypes[i % 3], i % 3 ? 16 : 0, i % 2 ? HR_KV_INT8 : HR_KV_FP8, (hr_kv_scales)(i / 2));
}

static void decode_over_a_cache_gives_the_rows_of_prefill(void **state)
{
  (void)state;
  each_device(decode_everywhere);
}

static void decode_twice(hr_device *device)
{
  kv_model m = three_slots(HR_BF16, 16);
  hr_error error;
  kv_create(&m, device);
  const int64_t slots[] = {kv_add(&m), kv_add(&m)}, tokens[] = {40, 3};
  assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
  hr_decode d[2] = {hr_decode_default(), hr_decode_default()};
  hr_decode_arguments x[2] = {hr_decode_arguments_default(), hr_decode_arguments_default()};
  d[0].q_heads = 6;
  assert_ok(kv_decode(m.cache, 2, slots, &d[0], &x[0], &error), error);
  assert_ok(hr_decode_check(&d[0], &error), error);
  assert_true(d[0].q_heads == 6 && d[0].kv_len == m.o.tokens && d[0].batch == 2);
  assert_ok(kv_append(&m, 2, slots, tokens, 0, &error), error);
  d[1].q_heads = 6;
  assert_ok(kv_decode(m.cache, 2, slots, &d[1], &x[1], &error), error);
  assert_true(d[1].kv_len == d[0].kv_len && d[1].page_size == d[0].page_size && d[1].page_count == d[0].page_count &&
              d[1].table_pitch == d[0].table_pitch);
  assert_memory_equal(&x[0], &x[1], sizeof x[0]);
  kv_free(&m);
}

static void problem_and_addresses_stay_as_sequences_grow(void **state)
{
  (void)state;
  each_device(decode_twice);
}

/* ---- a GPU's tables ---- */

static void queue_numbers_of_many_counts(hr_device *device)
{
  kv_model m = three_slots(HR_BF16, 16);
  kv_create(&m, device);
  static const size_t counts[] = {1, 992, 993, 8192, 8193}; /* one launch, several, a copy */
  static int32_t from[8193], to[8195];
  hr_error error;
  for (size_t i = 0; i < sizeof counts / sizeof *counts && device->backend->queue_numbers; i++) {
    for (size_t j = 0; j < counts[i]; j++)
      from[j] = (int32_t)(j * j + i);
    memset(to, 0xFF, sizeof to);
    hr_buffer *buffer = kv_upload(device, to, sizeof to);
    int32_t *address = (int32_t *)hr_buffer_data(buffer) + 1;
    const hr_kv_numbers numbers = {address, from, counts[i]};
    assert_ok(device->backend->queue_numbers(m.cache, &numbers, 1, hr_device_stream(device), &error), error);
    assert_ok(hr_buffer_read(buffer, to, sizeof to, &error), error);
    assert_memory_equal(to + 1, from, counts[i] * sizeof *from);
    assert_true(to[0] == -1 && to[counts[i] + 1] == -1);
    hr_buffer_free(buffer);
  }
  kv_free(&m);
}

/* More ranges than are gathered, with gaps between them, longer together than what a launch has. */
static void gather_many_ranges(hr_device *device)
{
  kv_model m = three_slots(HR_BF16, 16);
  kv_create(&m, device);
  static int32_t from[11 * 250], to[11 * 251];
  hr_error error;
  memset(from, 0, sizeof from);
  memset(to, 0xFF, sizeof to);
  hr_buffer *buffer = kv_upload(device, to, sizeof to);
  hr_kv_cache_gather(m.cache);
  for (int i = 0; i < 11; i++) {
    const hr_kv_numbers numbers = {(int32_t *)hr_buffer_data(buffer) + i * 251, from + i * 250, 250};
    assert_ok(hr_kv_cache_upload(m.cache, &numbers, hr_device_stream(device), &error), error);
  }
  for (int i = 0; i < 11 * 250; i++)
    from[i] = i;
  memset(from, 0, 8 * 250 * sizeof *from); /* were sent before, as there was no room for more */
  assert_ok(hr_kv_cache_send(m.cache, hr_device_stream(device), &error), error);
  assert_ok(hr_buffer_read(buffer, to, sizeof to, &error), error);
  for (int i = 0; i < 11; i++) {
    assert_memory_equal(to + i * 251, from + i * 250, 250 * sizeof *from);
    assert_int_equal(to[i * 251 + 250], -1);
  }
  const hr_kv_numbers first = {(int32_t *)hr_buffer_data(buffer), from + 9 * 250, 250},
                      second = {first.to + 1, from, 1};
  hr_kv_cache_gather(m.cache);
  assert_ok(hr_kv_cache_upload(m.cache, &first, hr_device_stream(device), &error), error);
  hr_kv_cache_drop(m.cache); /* as a step that fails does */
  from[0] = 77;
  assert_ok(hr_kv_cache_upload(m.cache, &second, hr_device_stream(device), &error), error);
  assert_ok(hr_buffer_read(buffer, to, sizeof to, &error), error);
  assert_true(to[0] == 0 && to[1] == 77 && to[2] == 0);
  hr_buffer_free(buffer);
  kv_free(&m);
}

static void gathered_numbers_arrive(void **state)
{
  (void)state;
  each_device(gather_many_ranges);
}

static void queued_numbers_arrive(void **state)
{
  (void)state;
  each_device(queue_numbers_of_many_counts);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decode_over_a_cache_gives_the_rows_of_prefill),
      cmocka_unit_test(problem_and_addresses_stay_as_sequences_grow),
      cmocka_unit_test(queued_numbers_arrive),
      cmocka_unit_test(gathered_numbers_arrive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
