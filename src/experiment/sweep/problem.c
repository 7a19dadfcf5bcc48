/* SPDX-License-Identifier: Apache-2.0 */
/* The problem of a point: its kind and sizes. */
#include "base/error.h"
#include "base/names.h"
#include "experiment/sweep/sweep.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DECODE_OF_TWO_LAUNCHES "decode_apart" /* the family of such kernels */

#define GEMM_FIELDS                                                                                     \
  {"m", true, 0}, {"n", true, 0}, {"k", true, 0}, {"transpose_a", false, 0}, {"transpose_b", false, 0}, \
      {"lda", false, 0}, {"ldb", false, 0},                                                             \
  {                                                                                                     \
    "ldc", false, 0                                                                                     \
  }

static const hr_problem_field gemm_fields[] = {GEMM_FIELDS, {0}};
static const hr_problem_field bmm_fields[] = {GEMM_FIELDS,
                                              {"batch", true, 0},
                                              {"stride_a", false, 0},
                                              {"stride_b", false, 0},
                                              {"stride_c", false, 0},
                                              {"broadcast_a", false, 0},
                                              {"broadcast_b", false, 0},
                                              {0}};
static const hr_problem_field attention_fields[] = {
    {"batch", true, 0},
    {"q_len", true, 0},
    {"kv_len", true, 0},
    {"q_heads", true, 0},
    {"k_heads", true, 0},
    {"v_heads", true, 0},
    {"qk_dim", true, 0},
    {"v_dim", true, 0},
    {"causal", false, 1},
    {"window", false, 0},
    {"implementation", false, 0},
    {"backward", false, 0},
    {0},
};
static const hr_problem_field decode_fields[] = {
    {"batch", true, 0},         {"q_len", false, 1},
    {"kv_len", true, 0},        {"q_heads", true, 0},
    {"k_heads", true, 0},       {"v_heads", true, 0},
    {"qk_dim", true, 0},        {"v_dim", true, 0},
    {"page_size", false, 16},   {"window", false, 0},
    {"sinks", false, 0},        {"latent", false, 0},
    {"top_k", false, 0},        {"cache_format", false, 0},
    {"cache_scales", false, 0}, {"batch_invariant", false, 0},
    {"part", false, 0},         {0},
};
static const hr_problem_field collective_fields[] = {
    {"op", true, 0}, {"bytes", true, 0}, {"gpus", true, 0}, {"library", false, 0}, {0}};
const hr_problem_field *hr_problem_fields(hr_sweep_kind kind)
{
  static const hr_problem_field *const fields[HR_SWEEP_KIND_COUNT] = {
      [HR_SWEEP_GEMM] = gemm_fields,
      [HR_SWEEP_BMM] = bmm_fields,
      [HR_SWEEP_ATTENTION] = attention_fields,
      [HR_SWEEP_DECODE] = decode_fields,
      [HR_SWEEP_COLLECTIVE] = collective_fields,
  };
  if (kind == HR_SWEEP_LAYER || kind == HR_SWEEP_STEP)
    return kind == HR_SWEEP_STEP ? hr_step_fields() : hr_layer_fields();
  return fields[kind];
}

static hr_status make_gemm(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  hr_gemm *gemm = &point->gemm;
  gemm->dtype = dtype;
  gemm->m = sizes[0];
  gemm->n = sizes[1];
  gemm->k = sizes[2];
  gemm->transpose_a = sizes[3] != 0;
  gemm->transpose_b = sizes[4] != 0;
  gemm->lda = sizes[5];
  gemm->ldb = sizes[6];
  gemm->ldc = sizes[7];
  if (point->kind == HR_SWEEP_BMM) {
    gemm->batch = sizes[8];
    gemm->stride_a = sizes[9];
    gemm->stride_b = sizes[10];
    gemm->stride_c = sizes[11];
    gemm->broadcast_a = sizes[12] != 0;
    gemm->broadcast_b = sizes[13] != 0;
  }
  return hr_gemm_check(gemm, error);
}

/* Kernel families of the attention implementations; 0: the best kernel. */
static const char *const implementations[] = {"", "attention_naive", "attention_materialized", "attention_blocked",
                                              "attention_flash"};
#define IMPLEMENTATIONS (int64_t)(sizeof implementations / sizeof *implementations)

static hr_status make_attention(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  hr_attention *attention = &point->attention;
  int64_t *const members[] = {&attention->batch,   &attention->q_len,   &attention->kv_len, &attention->q_heads,
                              &attention->k_heads, &attention->v_heads, &attention->qk_dim, &attention->v_dim};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    *members[i] = sizes[i];
  attention->mask = sizes[8] != 0 ? HR_MASK_CAUSAL : HR_MASK_NONE;
  attention->dtype = dtype;
  attention->output = dtype == HR_FP8_E4M3 ? HR_OUTPUT_BF16 : HR_OUTPUT_AS_OPERANDS;
  attention->head_scales = dtype == HR_FP8_E4M3;
  attention->window = sizes[9];
  if (sizes[10] < 0 || sizes[10] >= IMPLEMENTATIONS)
    return hr_fail(error, HR_ERROR_INVALID, "implementation: expected 0 to %" PRId64 ", found %" PRId64,
                   IMPLEMENTATIONS - 1, sizes[10]);
  hr_copy_text(point->kernel, sizeof point->kernel, implementations[sizes[10]]);
  point->backward = sizes[11] != 0;
  if (point->backward && point->kernel[0])
    return hr_fail(error, HR_ERROR_INVALID, "implementation: expected 0, the best kernel, of gradients, found %" PRId64,
                   sizes[10]);
  return hr_attention_check(attention, error);
}

static hr_status make_decode(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  hr_decode *d = &point->decode;
  int64_t *const members[] = {&d->batch,   &d->q_len,   &d->kv_len, &d->q_heads,
                              &d->k_heads, &d->v_heads, &d->qk_dim, &d->v_dim};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    *members[i] = sizes[i];
  HR_TRY(hr_decode_set_pages(d, sizes[8], error));
  d->dtype = dtype;
  d->window = sizes[9];
  d->sinks = sizes[10] != 0;
  d->latent = sizes[11] != 0;
  d->top_k = sizes[12];
  if (sizes[13] < 0 || sizes[13] >= HR_KV_READABLE_COUNT || sizes[14] < 0 || sizes[14] >= HR_KV_SCALES_COUNT)
    return hr_fail(error, HR_ERROR_INVALID,
                   "cache_format, cache_scales: expected 0 to %d and 0 to %d, found %" PRId64 " and %" PRId64,
                   HR_KV_READABLE_COUNT - 1, HR_KV_SCALES_COUNT - 1, sizes[13], sizes[14]);
  d->cache_format = (hr_kv_format)sizes[13];
  d->cache_scales = (hr_kv_scales)sizes[14];
  d->batch_invariant = sizes[15] != 0;
  if (sizes[16] < 0 || sizes[16] > 3)
    return hr_fail(error, HR_ERROR_INVALID, "part: expected 0 to 3, found %" PRId64, sizes[16]);
  if (sizes[16] > 0)
    hr_copy_text(point->kernel, sizeof point->kernel, DECODE_OF_TWO_LAUNCHES);
  point->decode_part = sizes[16] > 1 ? (int)sizes[16] - 1 : 0;
  return hr_decode_check(d, error);
}

#define RANKS_MAX 64

/* A part of each rank is a whole number of elements. */
static hr_status make_collective(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  hr_collective *c = &point->collective;
  if (sizes[0] < 0 || sizes[0] >= HR_COLLECTIVE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "op: expected 0 to %d, found %" PRId64, HR_COLLECTIVE_COUNT - 1, sizes[0]);
  if (sizes[2] < 2 || sizes[2] > RANKS_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "gpus: expected 2 to %d, found %" PRId64, RANKS_MAX, sizes[2]);
  if (sizes[3] < HR_LIBRARY_NCCL || sizes[3] > HR_LIBRARY_HEADROOM)
    return hr_fail(error, HR_ERROR_INVALID, "library: expected 0 or 1, found %" PRId64, sizes[3]);
  const int64_t part = sizes[2] * (int64_t)hr_dtype_bytes(dtype);
  if (sizes[1] < part || sizes[1] % part != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "bytes: expected a multiple of %" PRId64 ", an element for each rank, found %" PRId64, part,
                   sizes[1]);
  c->kind = (hr_collective_kind)sizes[0];
  c->bytes = sizes[1], c->devices = sizes[2];
  c->library = (hr_collective_library)sizes[3];
  point->gemm.dtype = dtype;
  HR_TRY(hr_collective_check(c, error));
  snprintf(point->problem, sizeof point->problem,
           "collective %s bytes=%" PRId64 " gpus=%" PRId64 " library=%s dtype=%s", hr_collective_name(c->kind),
           c->bytes, c->devices, hr_collective_library_name(c->library), hr_dtype_name(dtype));
  return HR_OK;
}

hr_status hr_sweep_check_gradients(const hr_sweep_point *point, hr_error *error)
{
  hr_error why = {.status = HR_OK};
  return hr_attention_backward_check(&point->attention, NULL, &why) == HR_OK
             ? HR_OK
             : hr_fail(error, HR_ERROR_UNSUPPORTED, "%s", why.message);
}

void hr_sweep_set_attention(hr_result *result, const hr_sweep_point *point)
{
  if (point->backward)
    hr_result_set_attention_backward(result, &point->attention);
  else
    hr_result_set_attention(result, &point->attention);
}

/* Writes the problem as the store does. */
static void write_problem(hr_sweep_point *point)
{
  hr_result row = hr_result_default();
  if (point->kind == HR_SWEEP_LAYER || point->kind == HR_SWEEP_STEP || point->kind == HR_SWEEP_COLLECTIVE)
    return; /* its own functions have */
  if (point->kind == HR_SWEEP_ATTENTION) {
    hr_sweep_set_attention(&row, point);
  } else if (point->kind == HR_SWEEP_DECODE) {
    row.decode_part = point->decode_part;
    hr_result_set_decode(&row, &point->decode);
  } else {
    hr_result_set_gemm(&row, &point->gemm);
  }
  hr_copy_text(point->problem, sizeof point->problem, row.problem);
}

static hr_status make_problem(const hr_sweep *sweep, const int64_t *values, hr_dtype dtype, hr_sweep_point *point,
                              hr_error *error)
{
  const hr_problem_field *fields = hr_problem_fields(sweep->kind);
  int64_t sizes[HR_SWEEP_FIELDS_MAX] = {0};
  char why[HR_EXPRESSION_WHY_SIZE];
  for (size_t i = 0; fields[i].name; i++) {
    hr_status status = hr_expression_value(&sweep->fields[i], values, &sizes[i], why);
    if (status != HR_OK)
      return hr_fail(error, status, "problem.%s: %s", fields[i].name, why);
  }
  if (sweep->kind == HR_SWEEP_ATTENTION)
    return make_attention(sizes, dtype, point, error);
  if (sweep->kind == HR_SWEEP_DECODE)
    return make_decode(sizes, dtype, point, error);
  if (sweep->kind == HR_SWEEP_LAYER)
    return hr_make_layer_point(sizes, dtype, point, error);
  if (sweep->kind == HR_SWEEP_STEP)
    return hr_make_step_point(sizes, dtype, point, error);
  if (sweep->kind == HR_SWEEP_COLLECTIVE)
    return make_collective(sizes, dtype, point, error);
  return make_gemm(sizes, dtype, point, error);
}

static hr_status write_axes(const hr_sweep *sweep, const int64_t *values, hr_sweep_point *point, hr_error *error)
{
  size_t used = 0;
  for (size_t i = 0; i < sweep->axis_count && used < sizeof point->axes; i++)
    used += (size_t)snprintf(point->axes + used, sizeof point->axes - used, "%s%s=%" PRId64, i > 0 ? " " : "",
                             sweep->axes[i].name, values[i]);
  if (used >= sizeof point->axes)
    return hr_fail(error, HR_ERROR_INVALID, "the names and values of the axes have more than %zu bytes together",
                   sizeof point->axes - 1);
  return HR_OK;
}

hr_status hr_sweep_point_at(const hr_sweep *sweep, size_t index, hr_dtype dtype, hr_sweep_point *point, hr_error *error)
{
  HR_NEED(error, sweep, point);
  if (index >= sweep->point_count)
    return hr_fail(error, HR_ERROR_INVALID, "%s: has %zu points, there is none of index %zu", sweep->name,
                   sweep->point_count, index);
  const int64_t *values = sweep->points + index * sweep->axis_count;
  *point = (hr_sweep_point){.index = index,
                            .kind = sweep->kind,
                            .gemm = hr_gemm_default(),
                            .attention = hr_attention_default(),
                            .decode = hr_decode_default(),
                            .collective = hr_collective_default(),
                            .model = hr_model_default(),
                            .x = values[sweep->x],
                            .series_index = sweep->point_series[index]};
  hr_copy_text(point->series, sizeof point->series, sweep->series[point->series_index]);
  if (sweep->case_count > 0 && sweep->x == 0)
    hr_copy_text(point->x_name, sizeof point->x_name, sweep->case_names[point->x]);
  else
    snprintf(point->x_name, sizeof point->x_name, "%" PRId64, point->x);
  HR_TRY(write_axes(sweep, values, point, error));
  HR_TRY(make_problem(sweep, values, dtype, point, error));
  write_problem(point);
  return HR_OK;
}

static const char *const kind_names[] = {
#define ROW(enumerator, name) name,
    HR_SWEEP_KIND_LIST(ROW)
#undef ROW
};

HR_DEFINE_NAME(hr_sweep_kind_name, hr_sweep_kind, kind_names, HR_SWEEP_KIND_COUNT)
