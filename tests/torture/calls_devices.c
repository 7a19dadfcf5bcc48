/* SPDX-License-Identifier: Apache-2.0 */
/* What no command calls: a plan of each operation, a KV cache, a scratch store, device and buffers. */
#include "calls.h"

#include <headroom/experimental/attention_backward.h>

#include <inttypes.h>

static hr_status make_buffer(hr_device *device, size_t bytes, hr_buffer **buffer, hr_error *error)
{
  hr_status status = hr_buffer_create(device, bytes, buffer, error);
  return status == HR_OK ? hr_buffer_fill_uniform(*buffer, HR_FP32, 1, error) : status;
}

static hr_status print_first(const char *what, const hr_buffer *buffer, hr_error *error)
{
  float first[4];
  hr_status status = hr_buffer_read(buffer, first, sizeof first, error);
  if (status == HR_OK)
    printf("%s %g %g %g %g\n", what, (double)first[0], (double)first[1], (double)first[2], (double)first[3]);
  return status;
}

/* Runs a plan of any operation, whose operands are all in `in`. */
static hr_status run_plan(hr_device *device, hr_plan *plan, const char *what, const hr_buffer *in, hr_buffer *out,
                          hr_status (*run)(const hr_plan *, const void *, void *, void *, hr_error *), hr_error *error)
{
  size_t bytes = hr_plan_workspace_bytes(plan);
  hr_buffer *workspace = NULL;
  hr_status status = HR_OK;
  if (bytes > 0)
    TRY(hr_buffer_create(device, bytes, &workspace, error));
  TRY(run(plan, hr_buffer_data(in), hr_buffer_data(out), workspace ? hr_buffer_data(workspace) : NULL, error));
  TRY(print_first(what, out, error));
end:
  hr_buffer_free(workspace);
  return status;
}

static hr_status run_gemm(const hr_plan *plan, const void *in, void *out, void *workspace, hr_error *error)
{
  return hr_plan_run_gemm(plan, &(hr_gemm_arguments){sizeof(hr_gemm_arguments), in, in, out, NULL}, workspace, NULL,
                          error);
}

static hr_status run_attention(const hr_plan *plan, const void *in, void *out, void *workspace, hr_error *error)
{
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = arguments.k = arguments.v = in;
  arguments.o = out;
  return hr_plan_run_attention(plan, &arguments, workspace, NULL, error);
}

static hr_status run_backward(const hr_plan *plan, const void *in, void *out, void *workspace, hr_error *error)
{
  hr_attention_backward_arguments arguments = hr_attention_backward_arguments_default();
  arguments.q = arguments.k = arguments.v = arguments.o = arguments.d_o = in;
  arguments.lse = in;
  arguments.dq = out, arguments.dk = (char *)out + 1024, arguments.dv = (char *)out + 2048;
  return hr_plan_run_attention_backward(plan, &arguments, workspace, NULL, error);
}

/* dQ, dK and dV of 1 KiB each. */
static hr_status use_gradients(hr_device *device, hr_buffer *in, hr_buffer *out, hr_error *error)
{
  hr_plan *plan = NULL;
  hr_status status = HR_OK;
  int64_t flops, bytes;
  hr_attention attention = hr_attention_default();
  const hr_attention_backward backward = hr_attention_backward_default();
  attention.q_len = attention.kv_len = 4, attention.dtype = HR_FP32;
  TRY(hr_attention_backward_check(&attention, &backward, error));
  TRY(hr_attention_backward_flops(&attention, &flops));
  TRY(hr_attention_backward_bytes(&attention, &bytes));
  TRY(hr_plan_attention_backward(device, &attention, &backward, NULL, &plan, error));
  TRY(run_plan(device, plan, "attention_backward", in, out, run_backward, error));
end:
  hr_plan_free(plan);
  return status;
}

static hr_status run_rowwise(const hr_plan *plan, const void *in, void *out, void *workspace, hr_error *error)
{
  const void *inputs[] = {in, in, in};
  hr_rowwise_arguments arguments = {
      .struct_size = sizeof arguments, .inputs = {inputs[0], inputs[1], inputs[2]}, .output = out};
  return hr_plan_run_rowwise(plan, &arguments, workspace, NULL, error);
}

/* Plans of all operations from a cache, each asked for twice. */
static hr_status use_cached_plans(hr_device *device, hr_error *error)
{
  hr_plans *cache = NULL;
  hr_plan *plans[10] = {NULL};
  hr_status status = HR_OK;
  const hr_gemm gemm = hr_gemm_default();
  const hr_attention attention = hr_attention_default();
  const hr_decode decode = hr_decode_default();
  const hr_rowwise rows = hr_rowwise_default();
  TRY(hr_plans_create(device, 8, &cache, error));
  for (int i = 0; i < 10; i += 5) {
    TRY(hr_plans_gemm(cache, &gemm, &plans[i], error));
    TRY(hr_plans_attention(cache, &attention, &plans[i + 1], error));
    TRY(hr_plans_decode(cache, &decode, &plans[i + 2], error));
    TRY(hr_plans_rowwise(cache, &rows, &plans[i + 3], error));
    TRY(hr_plans_attention_backward(cache, &attention, NULL, &plans[i + 4], error));
  }
  hr_plans_counts counts = hr_plans_count(cache);
  printf("%d plans made, %d found\n", (int)counts.made, (int)counts.found);
end:
  for (int i = 0; i < 10; i++)
    hr_plan_free(plans[i]);
  hr_plans_free(cache);
  return status;
}

static hr_status use_plans(hr_device *device, hr_error *error)
{
  hr_plan *plans[3] = {NULL, NULL, NULL};
  hr_buffer *in = NULL, *out = NULL;
  hr_status status = HR_OK;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 16, gemm.dtype = HR_FP32;
  hr_attention attention = hr_attention_default();
  attention.q_len = attention.kv_len = 8, attention.dtype = HR_FP32;
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = 8, rows.columns = 64, rows.dtype = HR_FP32;
  TRY(make_buffer(device, 4096, &in, error));
  TRY(make_buffer(device, 4096, &out, error));
  TRY(hr_workspace_clear(device, hr_buffer_data(in), NULL, error));
  TRY(hr_plan_gemm(device, &gemm, NULL, &plans[0], error));
  TRY(hr_plan_attention(device, &attention, "attention_flash", &plans[1], error));
  TRY(hr_plan_rowwise(device, &rows, NULL, &plans[2], error));
  TRY(run_plan(device, plans[0], "gemm", in, out, run_gemm, error));
  TRY(run_plan(device, plans[1], "attention", in, out, run_attention, error));
  TRY(run_plan(device, plans[2], "rowwise", in, out, run_rowwise, error));
  TRY(use_gradients(device, in, out, error));
  TRY(use_cached_plans(device, error));
end:
  for (int i = 0; i < 3; i++)
    hr_plan_free(plans[i]);
  hr_buffer_free(in);
  hr_buffer_free(out);
  return status;
}

/* Appends to two slots and attends to them; an append that fails must leave both as long as they were. */
static hr_status use_cache(hr_device *device, hr_kv_cache *cache, hr_buffer *values, hr_buffer *out, hr_error *error)
{
  int64_t slots[2], lengths[2];
  const int64_t tokens[2] = {20, 3};
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_status status = HR_OK;
  TRY(hr_kv_cache_add(cache, &slots[0], error));
  TRY(hr_kv_cache_add(cache, &slots[1], error));
  hr_kv_append append = hr_kv_append_default();
  append.count = 2, append.slots = slots, append.tokens = tokens;
  append.k = append.v = hr_buffer_data(values);
  hr_status appended = hr_kv_cache_append(cache, &append, NULL, error);
  TRY(hr_kv_cache_length(cache, slots[0], &lengths[0], NULL));
  TRY(hr_kv_cache_length(cache, slots[1], &lengths[1], NULL));
  if (lengths[0] != (appended == HR_OK ? 20 : 0) || lengths[1] != (appended == HR_OK ? 3 : 0))
    return HR_ERROR_WRONG_RESULT;
  TRY(appended);
  hr_decode decode = hr_decode_default();
  hr_decode_arguments arguments = hr_decode_arguments_default();
  TRY(hr_kv_cache_select(cache, 2, slots, NULL, error));
  TRY(hr_kv_cache_decode(cache, 2, &decode, &arguments, error));
  arguments.q = hr_buffer_data(values), arguments.o = hr_buffer_data(out);
  TRY(hr_plan_decode(device, &decode, NULL, &plan, error));
  if (hr_plan_workspace_bytes(plan) > 0)
    TRY(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, error));
  TRY(hr_plan_run_decode(plan, &arguments, workspace ? hr_buffer_data(workspace) : NULL, NULL, error));
  TRY(print_first("decode", out, error));
  TRY(hr_kv_cache_truncate(cache, slots[0], 10, error));
  TRY(hr_kv_cache_remove(cache, slots[1], error));
  printf("pages %" PRId64 "\n", hr_kv_cache_pages_free(cache));
end:
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  return status;
}

static hr_status make_and_use_cache(hr_device *device, hr_error *error)
{
  hr_kv_cache *cache = NULL;
  hr_buffer *values = NULL, *out = NULL;
  hr_status status = HR_OK;
  hr_kv_cache_options options = hr_kv_cache_options_default();
  options.dtype = HR_FP32, options.slots = 3, options.tokens = 64;
  TRY(make_buffer(device, 23 * 64 * sizeof(float), &values, error));
  TRY(make_buffer(device, 2 * 64 * sizeof(float), &out, error));
  TRY(hr_kv_cache_create(device, &options, &cache, error));
  TRY(use_cache(device, cache, values, out, error));
end:
  hr_kv_cache_free(cache);
  hr_buffer_free(values);
  hr_buffer_free(out);
  return status;
}

static hr_status use_stores(hr_error *error)
{
  hr_store *first = NULL, *second = NULL;
  hr_status status = HR_OK;
  int64_t count = 0;
  hr_store_change change = {0};
  bool added = false;
  hr_result row = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  hr_result_set_gemm(&row, &gemm);
  TRY(hr_store_open("scratch", HR_STORE_SCRATCH, &first, error));
  TRY(hr_store_open("scratch", HR_STORE_SCRATCH, &second, error));
  hr_status appended = hr_store_append_new(first, &row, &added, error);
  TRY(hr_store_count(first, NULL, &count, error));
  if (count != (appended == HR_OK ? 1 : 0)) /* a row that could not be added is not there, or the other way round */
    return hr_store_close(first), hr_store_close(second), HR_ERROR_WRONG_RESULT;
  TRY(appended);
  TRY(hr_store_copy(second, first, &change, error));
  printf("rows %" PRId64 ", copied %" PRId64 "\n", count, (int64_t)change.added);
end:
  hr_store_close(first);
  hr_store_close(second);
  return status;
}

static hr_status use_all(hr_error *error)
{
  hr_device *device = NULL;
  hr_status status = HR_OK;
  TRY(hr_device_open("cpu", 1, &device, error));
  TRY(use_plans(device, error));
  TRY(make_and_use_cache(device, error));
  TRY(use_stores(error));
end:
  hr_device_close(device);
  return status;
}

int main(void)
{
  return calls_end(use_all);
}
