/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that the caller captures in CUDA graphs, also whole steps of a KV cache, whose appends come in two halves; these
 * halves on all devices of this machine, with HEADROOM_TEST=gpu on the GPU alone. */
#include "cuda_program.h"
#include "kv_model.h"

#define CAPTURE_GLOBAL 0 /* CUstreamCaptureMode; PyTorch's default, the strictest */

/* ---- graphs ---- */

static void begin_capture(const program *p)
{
  assert_int_equal(p->driver.cuStreamBeginCapture_v2(p->primary_stream, CAPTURE_GLOBAL), CU_SUCCESS);
}

static cu_graph_exec end_capture(const program *p)
{
  cu_graph graph = NULL;
  cu_graph_exec executable = NULL;
  assert_int_equal(p->driver.cuStreamEndCapture(p->primary_stream, &graph), CU_SUCCESS);
  assert_int_equal(p->driver.cuGraphInstantiateWithFlags(&executable, graph, 0), CU_SUCCESS);
  assert_int_equal(p->driver.cuGraphDestroy(graph), CU_SUCCESS);
  return executable;
}

static void captured_runs_give_the_results_of_direct_ones(void **state)
{
  static char expected[2][2][BYTES_MAX]; /* of both calls, with both Q */
  const program *p = need_gpu(state);
  hr_error error;
  hr_device *device = open_with(p->primary_stream, NULL);
  call calls[] = {decode_call(device, 20), attention_call(device, 30)};
  for (int q = 1; q >= 0; q--)
    for (int i = 0; i < 2; i++) {
      assert_ok(hr_buffer_fill_uniform(calls[i].buffers[0], HR_BF16, (uint64_t)q, &error), error);
      start_run(&calls[i]);
      read_result(&calls[i], expected[i][q]);
    }
  begin_capture(p);
  for (int i = 0; i < 2; i++)
    start_run(&calls[i]);
  cu_graph_exec graph = end_capture(p);
  for (int q = 0; q < 2; q++) {
    for (int i = 0; i < 2; i++) {
      assert_ok(hr_buffer_fill_uniform(calls[i].buffers[0], HR_BF16, (uint64_t)q, &error), error);
      poison_result(&calls[i]);
    }
    assert_int_equal(p->driver.cuGraphLaunch(graph, p->primary_stream), CU_SUCCESS);
    for (int i = 0; i < 2; i++)
      expect_result(&calls[i], expected[i][q]);
  }
  assert_int_equal(p->driver.cuGraphExecDestroy(graph), CU_SUCCESS);
  for (int i = 0; i < 2; i++)
    free_call(&calls[i]);
  hr_device_close(device);
}

/* A run of two launches, the splits and their combination. */
static void both_launches_of_a_run_are_captured(void **state)
{
  static char whole[BYTES_MAX], apart[BYTES_MAX];
  const program *p = need_gpu(state);
  hr_device *device = open_with(p->primary_stream, NULL);
  call calls[] = {decode_call_of(device, "decode_split_sm80", 1, 1, 60),
                  decode_call_of(device, "decode_apart_sm80", 1, 1, 60)};
  assert_true(hr_plan_workspace_bytes(calls[1].plan) > 0); /* there is more than one split */
  start_run(&calls[0]);
  read_result(&calls[0], whole);
  start_run(&calls[1]);
  poison_result(&calls[1]);
  begin_capture(p);
  start_run(&calls[1]);
  cu_graph_exec graph = end_capture(p);
  assert_int_equal(p->driver.cuGraphLaunch(graph, p->primary_stream), CU_SUCCESS);
  read_result(&calls[1], apart);
  /* Means of 700 values, of about 0.02: 1e-3 allows for their rounding, but not for a split that is missing. */
  for (size_t i = 0; i < calls[0].o_bytes / 2; i++)
    assert_true(fabs(hr_number_load(HR_BF16, apart, i) - hr_number_load(HR_BF16, whole, i)) <= 1e-3);
  assert_int_equal(p->driver.cuGraphExecDestroy(graph), CU_SUCCESS);
  for (int i = 0; i < 2; i++)
    free_call(&calls[i]);
  hr_device_close(device);
}

/* ---- a step of a KV cache in two halves ---- */

static hr_kv_append new_tokens(const kv_model *m, const int64_t *slots, const hr_buffer *k, const hr_buffer *v)
{
  hr_kv_append a = m->rotary;
  a.count = 2, a.slots = slots;
  a.k = hr_buffer_data(k), a.v = hr_buffer_data(v);
  return a;
}

/* New rows in the buffers that every step reads, and the room for them. */
static void grow_model(kv_model *m, const int64_t *slots, hr_buffer *k, hr_buffer *v)
{
  char rows[2 * 512 * sizeof(float)];
  hr_error error;
  size_t element = hr_dtype_bytes(m->o.dtype);
  hr_kv_append a = new_tokens(m, slots, k, v);
  for (int which = 0; which < 2; which++) {
    size_t width = kv_width(m, which == 0);
    for (uint64_t i = 0; i < 2; i++)
      hr_numbers_uniform(m->o.dtype, m->next + 2 * i + (uint64_t)which, 0, width, rows + i * width * element);
    assert_ok(hr_buffer_write(which == 0 ? k : v, rows, 2 * width * element, &error), error);
  }
  for (int i = 0; i < 2; i++, m->next += 2)
    m->tokens[slots[i]][m->lengths[slots[i]]++] = m->next;
  assert_ok(hr_kv_cache_grow(m->cache, &a, hr_device_stream(m->device), &error), error);
}

static kv_model two_sequences(hr_device *device, int64_t slots[2], hr_buffer *rows[2])
{
  static const int64_t prompt[] = {14, 3};
  kv_model m = three_slots(HR_BF16, 16);
  hr_error error;
  m.rotary.rotary_dim = 16;
  kv_create(&m, device);
  for (int i = 0; i < 2; i++) {
    slots[i] = kv_add(&m);
    rows[i] = fill(device, 2 * 512 * sizeof(float), 1);
  }
  assert_ok(kv_append(&m, 2, slots, prompt, 0, &error), error);
  return m;
}

static void grown_slots_are_written(hr_device *device)
{
  int64_t slots[2], length = 0;
  hr_buffer *rows[2];
  hr_error error;
  kv_model m = two_sequences(device, slots, rows);
  for (int step = 0; step < 4; step++) {
    hr_kv_append a = new_tokens(&m, slots, rows[0], rows[1]);
    grow_model(&m, slots, rows[0], rows[1]);
    assert_ok(hr_kv_cache_write(m.cache, &a, hr_device_stream(m.device), &error), error);
  }
  kv_expect(&m, 0);
  hr_kv_append a = new_tokens(&m, slots, rows[0], rows[1]);
  a.positions = m.lengths[slots[0]] - 1;
  assert_int_equal(hr_kv_cache_write(m.cache, &a, hr_device_stream(m.device), &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "positions: expected at least 18, found 17");
  assert_int_equal(hr_kv_cache_grow(m.cache, &a, hr_device_stream(m.device), &error), HR_ERROR_INVALID);
  assert_ok(hr_kv_cache_length(m.cache, slots[0], &length, &error), error);
  assert_int_equal(length, 18); /* 14 and 4 */
  assert_ok(hr_kv_cache_truncate(m.cache, slots[0], 18, &error), error);
  a = new_tokens(&m, slots, rows[0], rows[1]);
  assert_int_equal(hr_kv_cache_write(m.cache, &a, hr_device_stream(m.device), &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "slots: nothing to write before hr_kv_cache_grow()");
  for (int i = 0; i < 2; i++)
    hr_buffer_free(rows[i]);
  kv_free(&m);
}

static void an_append_in_two_halves_is_an_append(void **state)
{
  (void)state;
  each_device(grown_slots_are_written);
}

/* Pages are taken between launches: sequence 0 begins its second page at the third. */
static void one_graph_writes_and_decodes_every_step(void **state)
{
  static char found[BYTES_MAX], expected[BYTES_MAX];
  const program *p = need_gpu(state);
  hr_error error;
  hr_device *device = open_with(p->primary_stream, NULL);
  int64_t slots[2];
  hr_buffer *rows[2];
  kv_model m = two_sequences(device, slots, rows);
  hr_kv_append a = new_tokens(&m, slots, rows[0], rows[1]);
  hr_decode d = hr_decode_default();
  hr_decode_arguments x = hr_decode_arguments_default();
  d.q_heads = 12;
  assert_ok(kv_decode(m.cache, 2, slots, &d, &x, &error), error);
  call c = {.device = device};
  assert_ok(hr_plan_decode(device, &d, NULL, &c.plan, &error), error);
  fill_call(&c, (int64_t[]){2 * 12 * d.qk_dim, 1, 1, 2 * 12 * d.v_dim}, 50);
  x.q = hr_buffer_data(c.buffers[0]), x.o = hr_buffer_data(c.buffers[3]);
  assert_ok(hr_plan_run_decode(c.plan, &x, hr_buffer_data(c.buffers[4]), p->primary_stream, &error),
            error); /* compiles */
  grow_model(&m, slots, rows[0], rows[1]);
  begin_capture(p);
  assert_ok(hr_kv_cache_write(m.cache, &a, hr_device_stream(m.device), &error), error);
  assert_ok(hr_plan_run_decode(c.plan, &x, hr_buffer_data(c.buffers[4]), p->primary_stream, &error), error);
  cu_graph_exec graph = end_capture(p);
  for (int step = 0; step < 5; step++) {
    if (step > 0)
      grow_model(&m, slots, rows[0], rows[1]);
    hr_decode now = d;
    hr_decode_arguments same = x;
    assert_ok(kv_decode(m.cache, 2, slots, &now, &same, &error), error);
    assert_memory_equal(&same, &x, sizeof x);
    poison_result(&c);
    assert_int_equal(p->driver.cuGraphLaunch(graph, p->primary_stream), CU_SUCCESS);
    read_result(&c, found);
    kv_expect(&m, step); /* K and V are those of the model */
    assert_ok(kv_decode(m.cache, 2, slots, &now, &same, &error), error);
    assert_ok(hr_plan_run_decode(c.plan, &x, hr_buffer_data(c.buffers[4]), p->primary_stream, &error), error);
    read_result(&c, expected);
    assert_memory_equal(found, expected, c.o_bytes);
    assert_true(!isnan(hr_number_load(HR_BF16, found, 0)));
  }
  assert_int_equal(p->driver.cuGraphExecDestroy(graph), CU_SUCCESS);
  free_call(&c);
  for (int i = 0; i < 2; i++)
    hr_buffer_free(rows[i]);
  kv_free(&m);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(captured_runs_give_the_results_of_direct_ones),
      cmocka_unit_test(both_launches_of_a_run_are_captured),
      cmocka_unit_test(an_append_in_two_halves_is_an_append),
      cmocka_unit_test(one_graph_writes_and_decodes_every_step),
  };
  return cmocka_run_group_tests(tests, start_program, end_program);
}
