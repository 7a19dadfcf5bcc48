/* SPDX-License-Identifier: Apache-2.0 */
/* A small problem for each row of the kernel table with its operands, run by the public call of its operation. */
#ifndef HEADROOM_TEST_KERNEL_CALLS_H
#define HEADROOM_TEST_KERNEL_CALLS_H

#include "machine.h"

#include "runtime/device/plan.h"

#include <headroom/buffer.h>
#include <stdio.h>

#define SLACK_BYTES 256 /* of each operand, so that it may begin behind its buffer's first byte */
#define CALL_BYTES_MAX (1 << 17)

typedef struct kernel_call {
  hr_device *device;
  hr_problem problem;
  hr_operands operands;
  hr_plan *plan;
  hr_buffer *buffers[HR_OPERANDS_MAX]; /* of the inputs */
  hr_buffer *output;                   /* all outputs, one after the other */
  hr_buffer *workspace;
} kernel_call;

/* ---- problems ---- */

/* Two sequences, more tiles than the emulated GPU has multiprocessors. */
static inline hr_problem small_attention(hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.batch = 2;
  a.q_len = a.kv_len = 40;
  a.q_heads = 4, a.k_heads = a.v_heads = 2;
  return hr_attention_problem(&a);
}

static inline hr_problem small_backward(hr_dtype dtype)
{
  const hr_backward b = {small_attention(dtype).attention, hr_attention_backward_default()};
  return hr_attention_backward_problem(&b);
}

/* Two sequences, long enough that also the emulated GPU splits them. */
static inline hr_problem small_decode(hr_dtype dtype, const char *kernel)
{
  hr_decode d = hr_decode_default();
  d.dtype = dtype;
  d.batch = 2, d.kv_len = 900;
  d.q_heads = 4;
  if (strstr(kernel, "latent"))
    d.latent = true, d.q_heads = 16, d.k_heads = d.v_heads = 1, d.qk_dim = 576, d.v_dim = 512;
  if (strstr(kernel, "topk"))
    d.top_k = 1024, d.kv_len = 1100, d.q_heads = 1, d.v_dim = 256;
  assert_int_equal(hr_decode_set_pages(&d, 16, NULL), HR_OK);
  return hr_decode_problem(&d);
}

static inline hr_problem small_gemm(hr_dtype dtype)
{
  hr_gemm g = hr_gemm_default();
  g.m = 32, g.n = 48, g.k = 64;
  g.dtype = dtype;
  return hr_gemm_problem(&g);
}

static inline hr_problem small_rows(hr_dtype dtype)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = HR_ROWWISE_RMS_NORM;
  r.rows = 5, r.columns = 256;
  r.dtype = dtype;
  return hr_rowwise_problem(&r);
}

static inline hr_problem problem_for(const hr_kernel_info *kernel)
{
  static const hr_dtype dtypes[] = {HR_BF16, HR_FP16, HR_FP32};
  hr_dtype dtype = HR_FP32;
  for (size_t i = sizeof dtypes / sizeof *dtypes; i > 0; i--)
    if (hr_has_word(kernel->dtypes, hr_dtype_name(dtypes[i - 1])))
      dtype = dtypes[i - 1];
  return strcmp(kernel->operation, "attention") == 0            ? small_attention(dtype)
         : strcmp(kernel->operation, "attention_backward") == 0 ? small_backward(dtype)
         : strcmp(kernel->operation, "decode") == 0             ? small_decode(dtype, kernel->name)
         : strcmp(kernel->operation, "gemm") == 0               ? small_gemm(dtype)
                                                                : small_rows(dtype);
}

static inline hr_status plan_problem(hr_device *device, const hr_problem *p, const char *kernel, hr_plan **plan,
                                     hr_error *error)
{
  switch (p->operation) {
  case HR_OPERATION_ATTENTION_BACKWARD:
    return hr_plan_attention_backward(device, &p->backward.forward, &p->backward.options, kernel, plan, error);
  case HR_OPERATION_ATTENTION: return hr_plan_attention(device, &p->attention, kernel, plan, error);
  case HR_OPERATION_DECODE: return hr_plan_decode(device, &p->decode, kernel, plan, error);
  case HR_OPERATION_GEMM: return hr_plan_gemm(device, &p->gemm, kernel, plan, error);
  default: return hr_plan_rowwise(device, &p->rows, kernel, plan, error);
  }
}

/* ---- calls ---- */

static inline hr_buffer *make_operand(hr_device *device, size_t bytes, hr_dtype dtype, uint64_t seed)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(device, bytes + SLACK_BYTES, &buffer, &error), error);
  assert_ok(hr_buffer_fill_uniform(buffer, dtype, seed, &error), error);
  return buffer;
}

static inline hr_buffer *make_workspace(const kernel_call *c)
{
  hr_buffer *workspace = NULL;
  hr_error error;
  assert_ok(hr_buffer_create(c->device, hr_plan_workspace_bytes(c->plan) + 1, &workspace, &error), error);
  return workspace;
}

static inline void free_kernel_call(kernel_call *c)
{
  for (size_t i = 0; i < c->operands.inputs; i++)
    hr_buffer_free(c->buffers[i]);
  hr_buffer_free(c->output);
  hr_buffer_free(c->workspace);
  hr_plan_free(c->plan);
}

/* Where an output begins among all outputs; that of number `operands.count` where they end. */
static inline size_t output_at(const kernel_call *c, size_t operand)
{
  size_t at = 0;
  for (size_t i = c->operands.inputs; i < operand; i++)
    at += (c->operands.bytes[i] + SLACK_BYTES - 1) / SLACK_BYTES * SLACK_BYTES;
  return at;
}

static inline size_t output_bytes(const kernel_call *c)
{
  return output_at(c, c->operands.count);
}

static inline hr_buffer *output_of(const kernel_call *c)
{
  return c->output;
}

/* False where the kernel does not run on the device. */
static inline bool make_kernel_call(hr_device *device, const hr_kernel_info *kernel, kernel_call *c)
{
  hr_error error;
  *c = (kernel_call){.device = device, .problem = problem_for(kernel)};
  hr_status status = plan_problem(device, &c->problem, kernel->name, &c->plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    print_message("%s\n", error.message);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  c->operands = hr_problem_operands(&c->problem);
  assert_true(output_bytes(c) <= CALL_BYTES_MAX);
  for (size_t i = 0; i < c->operands.inputs; i++)
    c->buffers[i] = make_operand(device, c->operands.bytes[i], hr_operand_dtype(&c->problem, &c->operands, i), i);
  c->output = make_operand(device, output_bytes(c), c->problem.dtype, c->operands.inputs);
  c->workspace = make_workspace(c);
  return true;
}

/* Returns the call's arguments with operand `which` moved some bytes behind the beginning of its buffer. */
static inline hr_arguments arguments_behind(const kernel_call *c, hr_buffer *output, size_t which, size_t bytes)
{
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  void *outputs[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < c->operands.inputs; i++)
    inputs[i] = (char *)hr_buffer_data(c->buffers[i]) + (i == which ? bytes : 0);
  for (size_t i = c->operands.inputs; i < c->operands.count; i++)
    outputs[i - c->operands.inputs] = (char *)hr_buffer_data(output) + output_at(c, i) + (i == which ? bytes : 0);
  hr_arguments x = hr_problem_arguments(&c->problem, &c->operands, (hr_operand_addresses){inputs, outputs});
  if (c->problem.operation == HR_OPERATION_DECODE)
    x.decode.pages = NULL; /* pages one after the other */
  return x;
}

static inline hr_arguments arguments_to(const kernel_call *c, hr_buffer *output)
{
  return arguments_behind(c, output, 0, 0);
}

static inline hr_status run_arguments(const hr_plan *plan, const hr_arguments *x, const hr_buffer *workspace,
                                      void *stream, hr_error *error)
{
  void *space = hr_buffer_data(workspace);
  switch (plan->problem.operation) {
  case HR_OPERATION_ATTENTION_BACKWARD: return hr_plan_run_attention_backward(plan, &x->backward, space, stream, error);
  case HR_OPERATION_ATTENTION: return hr_plan_run_attention(plan, &x->attention, space, stream, error);
  case HR_OPERATION_DECODE: return hr_plan_run_decode(plan, &x->decode, space, stream, error);
  case HR_OPERATION_GEMM: return hr_plan_run_gemm(plan, &x->gemm, space, stream, error);
  default: return hr_plan_run_rowwise(plan, &x->rows, space, stream, error);
  }
}

/* One run on the device's own stream; its output. */
static inline void run_alone(const kernel_call *c, char o[CALL_BYTES_MAX])
{
  hr_error error;
  hr_arguments x = arguments_to(c, output_of(c));
  assert_ok(hr_buffer_poison(output_of(c), HR_BF16, &error), error);
  assert_ok(run_arguments(c->plan, &x, c->workspace, hr_device_stream(c->device), &error), error);
  assert_ok(hr_buffer_read(output_of(c), o, output_bytes(c), &error), error);
}

/* Calls `check` for each kernel of the device, or a share of them, that runs its problem there. Returns how many. */
static inline int each_kernel_of(hr_device *device, void (*check)(const kernel_call *c))
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  int checked = 0;
  for (size_t i = 0; i < count; i++) {
    kernel_call c;
    if (strcmp(kernels[i].device, device->backend->name) != 0 || !make_kernel_call(device, &kernels[i], &c))
      continue;
    if (test_takes(checked++))
      check(&c);
    free_kernel_call(&c);
  }
  return checked;
}

#endif
