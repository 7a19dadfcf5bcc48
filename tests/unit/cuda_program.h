/* SPDX-License-Identifier: Apache-2.0 */
/* A program with CUDA contexts and streams of its own, and calls of attention on devices that it opens with them. */
#ifndef HEADROOM_TEST_CUDA_PROGRAM_H
#define HEADROOM_TEST_CUDA_PROGRAM_H

#include "machine.h"

#include "runtime/cuda/driver/driver.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/decode.h>

#include <dlfcn.h>
#include <math.h>

#define BYTES_MAX (1 << 16)
#define STREAM_NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING: neither waits for the default stream nor it for this one */

/* The caller's side: the driver, the primary context, and a context of its own. */
typedef struct program {
  hr_driver driver;
  cu_context primary, own;
  cu_stream primary_stream, own_stream;
  cu_result (*get_current)(cu_context *context);
  cu_result (*destroy)(cu_context context);
} program;

static inline void *entry(const program *p, const char *name)
{
  void *found = dlsym(p->driver.handle, name);
  assert_non_null(found);
  return found;
}

static inline cu_stream make_stream(const program *p)
{
  cu_stream stream = NULL;
  assert_int_equal(p->driver.cuStreamCreate(&stream, STREAM_NON_BLOCKING), CU_SUCCESS);
  return stream;
}

static inline int start_program(void **state)
{
  program *p = calloc(1, sizeof *p);
  hr_error error;
  cu_result (*create)(cu_context *, unsigned, cu_device) = NULL;
  assert_non_null(p);
  *state = p;
  if (hr_driver_open(&p->driver, &error) != HR_OK) {
    print_message("%s\n", error.message);
    return 0;
  }
  void *entries[] = {entry(p, "cuCtxCreate_v2"), entry(p, "cuCtxGetCurrent"), entry(p, "cuCtxDestroy_v2")};
  memcpy(&create, &entries[0], sizeof create);
  memcpy(&p->get_current, &entries[1], sizeof p->get_current);
  memcpy(&p->destroy, &entries[2], sizeof p->destroy);
  assert_int_equal(p->driver.cuDevicePrimaryCtxRetain(&p->primary, 0), CU_SUCCESS);
  assert_int_equal(create(&p->own, 0, 0), CU_SUCCESS);
  p->own_stream = make_stream(p);
  cu_context popped;
  assert_int_equal(p->driver.cuCtxPopCurrent_v2(&popped), CU_SUCCESS);
  assert_int_equal(p->driver.cuCtxPushCurrent_v2(p->primary), CU_SUCCESS);
  p->primary_stream = make_stream(p);
  return 0;
}

static inline int end_program(void **state)
{
  program *p = *state;
  cu_context popped;
  if (p->driver.handle) {
    assert_int_equal(p->driver.cuStreamDestroy_v2(p->primary_stream), CU_SUCCESS);
    assert_int_equal(p->driver.cuCtxPopCurrent_v2(&popped), CU_SUCCESS);
    assert_int_equal(p->driver.cuDevicePrimaryCtxRelease_v2(0), CU_SUCCESS);
    assert_int_equal(p->destroy(p->own), CU_SUCCESS); /* and its stream */
    hr_driver_close(&p->driver);
  }
  free(p);
  return 0;
}

static inline const program *need_gpu(void **state)
{
  const program *p = *state;
  if (!p->driver.handle)
    skip();
  return p;
}

static inline hr_device *open_with(void *stream, void *context)
{
  hr_device *device = NULL;
  hr_error error;
  hr_device_options options = hr_device_options_default();
  options.stream = stream;
  options.context = context;
  assert_ok(hr_device_open_with("cuda:0", &options, &device, &error), error);
  return device;
}

/* ---- one call ---- */

typedef struct call {
  hr_device *device;
  hr_plan *plan;
  bool decodes;
  hr_buffer *buffers[5]; /* Q, K, V, O, workspace */
  size_t o_bytes;
} call;

static inline hr_buffer *fill(hr_device *device, size_t bytes, uint64_t seed)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, bytes, &buffer, &error), error);
  assert_ok(hr_buffer_fill_uniform(buffer, HR_BF16, seed, &error), error);
  return buffer;
}

static inline void fill_call(call *c, const int64_t elements[4], uint64_t seed)
{
  hr_error error;
  for (int i = 0; i < 4; i++)
    c->buffers[i] = fill(c->device, (size_t)elements[i] * 2, seed + (uint64_t)i);
  assert_ok(hr_buffer_create(c->device, hr_plan_workspace_bytes(c->plan) + 1, &c->buffers[4], &error), error);
  c->o_bytes = (size_t)elements[3] * 2;
  assert_true(c->o_bytes <= BYTES_MAX);
}

/* Sequences of up to 700 tokens; 4 query heads, one K head and two V heads of 64 for each of `groups`. */
static inline call decode_call_of(hr_device *device, const char *kernel, int64_t batch, int64_t groups, uint64_t seed)
{
  call c = {.device = device, .decodes = true};
  hr_decode d = hr_decode_default();
  hr_error error;
  d.batch = batch, d.kv_len = 700;
  d.q_heads = 4 * groups, d.k_heads = groups, d.v_heads = 2 * groups;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  assert_ok(hr_plan_decode(device, &d, kernel, &c.plan, &error), error);
  int64_t tokens = d.page_count * d.page_size * 64, q = batch * d.q_heads * 64;
  fill_call(&c, (int64_t[]){q, tokens * d.k_heads, tokens * d.v_heads, q}, seed);
  return c;
}

static inline call decode_call(hr_device *device, uint64_t seed)
{
  return decode_call_of(device, NULL, 2, 2, seed);
}

/* 100 tokens, causal, 4/2/2 heads of 64. */
static inline call attention_call(hr_device *device, uint64_t seed)
{
  call c = {.device = device};
  hr_attention a = hr_attention_default();
  hr_error error;
  a.q_len = a.kv_len = 100;
  a.q_heads = 4, a.k_heads = a.v_heads = 2;
  a.qk_dim = a.v_dim = 64;
  a.mask = HR_MASK_CAUSAL;
  a.dtype = HR_BF16;
  assert_ok(hr_plan_attention(device, &a, NULL, &c.plan, &error), error);
  fill_call(&c, (int64_t[]){100 * 4 * 64, 100 * 2 * 64, 100 * 2 * 64, 100 * 4 * 64}, seed);
  return c;
}

static inline void start_run(const call *c)
{
  hr_error error;
  void *address[5];
  for (int i = 0; i < 5; i++)
    address[i] = hr_buffer_data(c->buffers[i]);
  hr_decode_arguments d = hr_decode_arguments_default();
  hr_attention_arguments a = hr_attention_arguments_default();
  d.q = a.q = address[0], d.k = a.k = address[1], d.v = a.v = address[2], d.o = a.o = address[3];
  assert_ok(c->decodes ? hr_plan_run_decode(c->plan, &d, address[4], hr_device_stream(c->device), &error)
                       : hr_plan_run_attention(c->plan, &a, address[4], hr_device_stream(c->device), &error),
            error);
}

static inline void read_result(const call *c, char o[BYTES_MAX])
{
  hr_error error;
  assert_ok(hr_buffer_read(c->buffers[3], o, c->o_bytes, &error), error);
}

static inline void poison_result(const call *c)
{
  hr_error error;
  assert_ok(hr_buffer_poison(c->buffers[3], HR_BF16, &error), error);
}

static inline void free_call(call *c)
{
  for (int i = 0; i < 5; i++)
    hr_buffer_free(c->buffers[i]);
  hr_plan_free(c->plan);
}

/* The same call on a device that was opened without a stream. */
static inline void run_elsewhere(call (*make)(hr_device *, uint64_t), uint64_t seed, char o[BYTES_MAX])
{
  hr_device *device = open_gpu();
  call c = make(device, seed);
  poison_result(&c);
  start_run(&c);
  read_result(&c, o);
  for (size_t i = 0; i < c.o_bytes / 2; i += 61)
    assert_true(!isnan(hr_number_load(HR_BF16, o, i)));
  free_call(&c);
  hr_device_close(device);
}

static inline void expect_result(const call *c, const char expected[BYTES_MAX])
{
  static char found[BYTES_MAX];
  read_result(c, found);
  assert_memory_equal(found, expected, c->o_bytes);
}

#endif
