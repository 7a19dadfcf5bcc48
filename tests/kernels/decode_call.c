/* SPDX-License-Identifier: Apache-2.0 */
#include "decode_operands.h"

#include "base/checked.h"
#include "runtime/device/kernel.h"
#include "runtime/device/number.h"
#include "runtime/device/plan.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/operation/decode_sequences.h"

#include <headroom/buffer.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFINITION_FLOPS_MAX 600000

/* ---- the run ---- */

/* `offset` bytes behind the start of a buffer. */
static hr_buffer *upload_at(hr_device *device, const void *from, size_t bytes, size_t offset)
{
  hr_buffer *buffer = NULL;
  hr_error error;
  size_t size = offset + bytes > 0 ? offset + bytes : 1;
  char *image = poisoned(size);
  if (bytes > 0)
    memcpy(image + offset, from, bytes);
  assert_ok(hr_buffer_create(device, size, &buffer, &error), error);
  assert_ok(hr_buffer_write(buffer, image, size, &error), error);
  free(image);
  return buffer;
}

static hr_buffer *upload(hr_device *device, const void *from, size_t bytes)
{
  return upload_at(device, from, bytes, 0);
}

/* The page numbers that the sequences' tokens need, one after another without gaps. */
static void pass_list(decode_operands *c, hr_device *device, hr_decode_arguments *x)
{
  const hr_decode *d = &c->setup->d;
  int32_t *list = calloc((size_t)(d->batch * d->table_pitch), sizeof *list),
          *starts = calloc((size_t)d->batch, sizeof *starts), count = 0;
  assert_true(list && starts);
  for (int64_t b = d->batch - 1; b >= 0; b--) {
    int64_t pages = hr_ceil_div(length_of(c->setup, b), d->page_size);
    starts[b] = count;
    for (int64_t i = 0; i < pages; i++)
      list[count++] = c->pages[b * d->table_pitch + i];
  }
  c->buffers[c->o + 3] = upload(device, list, (size_t)count * sizeof *list);
  c->buffers[c->o + 4] = upload(device, starts, (size_t)d->batch * sizeof *starts);
  x->pages = hr_buffer_data(c->buffers[c->o + 3]);
  x->page_starts = hr_buffer_data(c->buffers[c->o + 4]);
  free(list);
  free(starts);
}

static hr_decode_arguments make_arguments(decode_operands *c, hr_device *device, const hr_plan *plan)
{
  const hr_decode *d = &c->setup->d;
  const void *inputs[HR_OPERANDS_MAX];
  size_t rows = (size_t)(d->batch * d->q_len * d->q_heads);
  for (size_t i = 0; i < c->operands.count; i++) {
    size_t offset = c->setup->unaligned && i < 3 && i != c->o ? hr_dtype_bytes(d->dtype) : 0;
    c->buffers[i] = upload_at(device, c->images[i], c->operands.bytes[i], offset);
    inputs[i] = (const char *)hr_buffer_data(c->buffers[i]) + offset;
  }
  const hr_operand_addresses at = {inputs, (char *)hr_buffer_data(c->buffers[c->o]) + GUARD};
  hr_decode_arguments x = hr_problem_arguments(&plan->problem, &plan->operands, at).decode;
  if (c->setup->inline_scales) {
    x.k_scales = (const float *)((const char *)x.k + d->qk_dim);
    x.v_scales = (const float *)((const char *)x.v + d->v_dim);
  }
  c->lse = poisoned(rows * sizeof *c->lse);
  c->buffers[c->o + 1] = upload(device, c->lse, rows * sizeof *c->lse);
  x.lse = hr_buffer_data(c->buffers[c->o + 1]);
  if (c->setup->lengths) {
    c->buffers[c->o + 2] = upload(device, c->setup->lengths, (size_t)d->batch * sizeof *c->setup->lengths);
    x.lengths = hr_buffer_data(c->buffers[c->o + 2]);
  }
  x.batch = d->batch;
  x.pages = NULL;
  if (c->setup->shuffled && c->setup->listed) {
    pass_list(c, device, &x);
  } else if (c->setup->shuffled) { /* also where each sequence has one page, which measurements do not shuffle */
    c->buffers[c->o + 3] = upload(device, c->pages, (size_t)(d->batch * d->table_pitch) * sizeof *c->pages);
    x.pages = hr_buffer_data(c->buffers[c->o + 3]);
  }
  return x;
}

static void run(decode_operands *c, hr_device *device, const hr_plan *plan)
{
  hr_buffer *workspace = NULL;
  hr_error error;
  hr_decode_arguments x = make_arguments(c, device, plan);
  if (hr_plan_workspace_bytes(plan) > 0) {
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
    assert_ok(hr_buffer_poison(workspace, HR_FP32, &error), error);
    assert_ok(hr_workspace_clear(device, hr_buffer_data(workspace), NULL, &error), error);
  }
  assert_ok(hr_plan_run_decode(plan, &x, workspace ? hr_buffer_data(workspace) : NULL, NULL, &error), error);
  assert_ok(hr_buffer_read(c->buffers[c->o], c->images[c->o], c->operands.bytes[c->o], &error), error);
  size_t rows = (size_t)(c->setup->d.batch * c->setup->d.q_len * c->setup->d.q_heads);
  assert_ok(hr_buffer_read(c->buffers[c->o + 1], c->lse, rows * sizeof *c->lse, &error), error);
  hr_buffer_free(workspace);
}

/* ---- the comparison ---- */

typedef struct row_place {
  int64_t sequence, query, head;
} row_place;

static char *o_row(const decode_operands *c, row_place at)
{
  const hr_decode *d = &c->setup->d;
  hr_strides s = hr_decode_o_strides(d);
  int64_t offset = at.sequence * s.batch + at.query * s.row + at.head * s.head;
  return (char *)c->images[c->o] + GUARD + (size_t)offset * hr_dtype_bytes(d->dtype);
}

/* With top_k: the same tokens without pages, in fp64. Whole numbers leave no doubt about which keys are chosen. */
static void selected_row(const decode_operands *c, row_place at, double *scratch, hr_reference_query *row,
                         double *swapped)
{
  hr_decode d = c->setup->d;
  hr_decode_arguments x = hr_decode_arguments_default();
  hr_error error;
  d.dtype = HR_FP64, d.cache_format = HR_KV_UNQUANTIZED;
  d.q_strides = (hr_strides){0}, d.k_strides = d.v_strides = (hr_kv_strides){0};
  assert_ok(hr_decode_set_pages(&d, 0, &error), error);
  x.q = c->queries, x.k = c->k_tokens, x.v = c->v_tokens;
  x.lengths = c->setup->lengths, x.sinks = c->sinks;
  hr_reference_decode_row(&d, &x, at.sequence, at.query, at.head, scratch, row);
  double score_error = hr_attention_score_error_bound(c->setup->d.dtype, d.qk_dim, row);
  if (!c->setup->whole_numbers)
    hr_reference_decode_swaps(&d, &x, at.sequence, at.query, at.head, score_error, row->lse, scratch, swapped);
}

/* The same sequence as one attention call, in fp64. */
static void reference_row(const decode_operands *c, row_place at, double *scratch, hr_reference_query *row)
{
  const hr_decode *d = &c->setup->d;
  hr_attention a = hr_attention_default();
  a.q_len = d->q_len, a.kv_len = length_of(c->setup, at.sequence);
  a.q_heads = d->q_heads, a.k_heads = d->k_heads, a.v_heads = d->v_heads;
  a.qk_dim = d->qk_dim, a.v_dim = d->v_dim;
  a.dtype = HR_FP64;
  a.window = d->window;
  a.scale = d->scale, a.softcap = d->softcap;
  if (d->latent)
    a.v_strides = (hr_strides){.batch = 1, .row = d->qk_dim, .head = d->qk_dim};
  int64_t before = at.sequence * d->kv_len;
  hr_attention_arguments x = hr_attention_arguments_default();
  x.q = c->queries + at.sequence * d->q_len * d->q_heads * d->qk_dim;
  x.k = c->k_tokens + before * d->k_heads * d->qk_dim;
  x.v = d->latent ? x.k : c->v_tokens + before * d->v_heads * d->v_dim;
  hr_reference_attention_row(&a, &x, 0, at.query, at.head, scratch, row);
  if (!d->sinks)
    return;
  double sink = (double)c->sinks[at.head], larger = fmax(sink, row->lse);
  double lse = isnan(row->lse) ? row->lse : larger + log(exp(sink - larger) + exp(row->lse - larger));
  double share = isinf(row->lse) ? 1 : exp(row->lse - lse);
  for (int64_t i = 0; i < d->v_dim; i++)
    row->out[i] *= share, row->norm[i] *= share;
  row->lse = lse;
}

/* What is not finite in V of a token that a row does not see may turn its column into NaN: 0 · ∞. One among the scales
 * may do so to all columns. */
static bool may_be_nan(const decode_operands *c, row_place at, int64_t column)
{
  const hr_decode *d = &c->setup->d;
  bool in_v = c->setup->special == (d->latent ? DECODE_NAN_IN_K : DECODE_INFINITY_IN_V);
  return in_v && !c->setup->exactly && (special_is_a_scale(d) || column == 0) && at.query < d->q_len - 1;
}

static bool near(double found, double expected, double bound)
{
  if (!isfinite(expected))
    return isnan(expected) ? isnan(found) : isnan(found) || found == expected;
  return fabs(found - expected) <= bound;
}

/* O is then that key's V, exactly, where V is fp32. */
static bool sees_one_key(const decode_operands *c, row_place at)
{
  const hr_decode *d = &c->setup->d;
  hr_key_range seen = hr_decode_visible(d, length_of(c->setup, at.sequence), at.query);
  return seen.end - seen.first == 1 && !d->sinks && d->dtype == HR_FP32 && d->cache_format == HR_KV_UNQUANTIZED;
}

static void compare_row(const decode_operands *c, const char *kernel, row_place at, double *scratch,
                        hr_reference_query *row)
{
  const hr_decode *d = &c->setup->d;
  double *swapped = row->norm + d->v_dim; /* 0 without top_k */
  if (d->top_k > 0)
    selected_row(c, at, scratch, row, swapped);
  else
    reference_row(c, at, scratch, row);
  char *o = o_row(c, at);
  for (int64_t i = 0; i < d->v_dim; i++) {
    double found = hr_number_load(d->dtype, o, (size_t)i);
    double bound = isfinite(row->out[i]) ? hr_attention_error_bound(d->dtype, d->dtype, d->qk_dim, row, i) : 0;
    if (sees_one_key(c, at))
      bound = 0;
    bool either = !isfinite(swapped[i]); /* an infinity of V may be chosen */
    if (!either && !near(found, row->out[i], bound + swapped[i]) && !(isnan(found) && may_be_nan(c, at, i)))
      fail_msg("%s %s: q %" PRId64 " heads %" PRId64 "/%" PRId64 "/%" PRId64 " dims %" PRId64 "/%" PRId64
               " pages of %" PRId64 ", window %" PRId64 ", top_k %" PRId64
               ", sinks %d, soft cap %g, scale %g: sequence "
               "%" PRId64 " of %" PRId64 " tokens, query %" PRId64 ", head %" PRId64 ", column %" PRId64
               ": %g, expected %g ± %g",
               kernel, hr_dtype_name(d->dtype), d->q_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim,
               d->page_size, d->window, d->top_k, d->sinks, (double)d->softcap, (double)d->scale, at.sequence,
               length_of(c->setup, at.sequence), at.query, at.head, i, found, row->out[i], bound);
  }
  double lse = (double)c->lse[(at.sequence * d->q_len + at.query) * d->q_heads + at.head];
  double bound = isfinite(row->lse) ? hr_attention_lse_error_bound(d->dtype, d->qk_dim, row) : 0;
  if (!near(lse, row->lse, bound))
    fail_msg("%s %s: sequence %" PRId64 ", query %" PRId64 ", head %" PRId64 ": log-sum-exp %g, expected %g ± %g",
             kernel, hr_dtype_name(d->dtype), at.sequence, at.query, at.head, lse, row->lse, bound);
}

/* Clears the rows of O and then expects poison everywhere. */
static void check_gaps(const decode_operands *c, const char *kernel)
{
  const hr_decode *d = &c->setup->d;
  size_t row = (size_t)d->v_dim * hr_dtype_bytes(d->dtype);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t q = 0; q < d->q_len; q++)
      for (int64_t h = 0; h < d->q_heads; h++)
        memset(o_row(c, (row_place){b, q, h}), POISON, row);
  const unsigned char *image = c->images[c->o];
  for (size_t i = 0; i < c->operands.bytes[c->o]; i++)
    if (image[i] != POISON)
      fail_msg("%s: byte %zu of %zu, which is no result, was written", kernel, i, c->operands.bytes[c->o]);
}

static void compare(const decode_operands *c, const char *kernel, int64_t multiply_adds)
{
  const hr_decode *d = &c->setup->d;
  int64_t rows = d->batch * d->q_len * d->q_heads, cost = hr_max64(1, d->kv_len * (d->qk_dim + d->v_dim));
  int64_t step = hr_max64(1, rows / hr_max64(2, multiply_adds / cost));
  double *scratch = calloc(hr_reference_decode_scratch(d) + 3 * (size_t)d->v_dim, sizeof *scratch);
  assert_non_null(scratch);
  hr_reference_query row = {.out = scratch + hr_reference_decode_scratch(d)};
  row.norm = row.out + d->v_dim;
  for (int64_t i = 0; i < rows; i += i + 1 < rows && i + step >= rows ? rows - 1 - i : step)
    compare_row(c, kernel, (row_place){i / d->q_heads / d->q_len, i / d->q_heads % d->q_len, i % d->q_heads}, scratch,
                &row);
  free(scratch);
  check_gaps(c, kernel);
}

/* The definition is too slow for long contexts, of which it needs no test. */
static bool takes_long(const char *kernel, const hr_decode *d)
{
  int64_t flops = 0;
  bool slow = strcmp(kernel, "decode_naive") == 0 || strcmp(kernel, "decode_reference") == 0;
  return slow && (hr_decode_flops(d, &flops) != HR_OK || flops > DEFINITION_FLOPS_MAX);
}

bool decode_try(hr_device *device, const char *kernel, const decode_setup *setup, int64_t multiply_adds)
{
  decode_operands c = {.setup = setup};
  hr_error error;
  assert_ok(hr_decode_check(&setup->d, &error), error);
  if (takes_long(kernel, &setup->d))
    return false;
  hr_plan *plan = NULL;
  hr_decode d = setup->d;
  d.alignment = setup->unaligned ? (int64_t)hr_dtype_bytes(d.dtype) : 0;
  d.batch += setup->seed % 3 == 0 ? 5 : 0; /* a plan for more sequences than its run has */
  hr_status status = hr_plan_decode(device, &d, kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  assert_ok(status, error);
  make_images(&c);
  run(&c, device, plan);
  hr_plan_free(plan);
  compare(&c, kernel, multiply_adds);
  for (size_t i = 0; i < c.operands.count; i++)
    free(c.images[i]);
  for (size_t i = 0; i < sizeof c.buffers / sizeof *c.buffers; i++)
    hr_buffer_free(c.buffers[i]);
  free(c.queries);
  free(c.k_tokens);
  free(c.v_tokens);
  free(c.pages);
  free(c.lse);
  return true;
}

void decode_each_kernel(void (*check)(hr_device *device, const char *kernel, hr_dtype dtype))
{
  size_t count, opened = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  const char *asked = getenv("HEADROOM_TEST_KERNEL");
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].operation, "decode") != 0 || (asked && !hr_kernel_is(&kernels[i], asked)) ||
        (test_asks_for("gpu") && strcmp(kernels[i].device, "cuda") != 0))
      continue;
    hr_device *device = open_for_kernel(&kernels[i]);
    opened += device != NULL;
    int64_t formats = 0;
    for (int dtype = 0; device && dtype < HR_DTYPE_COUNT; dtype++)
      if (hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)) && !test_leaves_out((hr_dtype)dtype) &&
          test_takes(formats++))
        check(device, kernels[i].name, (hr_dtype)dtype);
    hr_device_close(device);
  }
  assert_true(opened > 0 || test_asks_for("gpu"));
}
