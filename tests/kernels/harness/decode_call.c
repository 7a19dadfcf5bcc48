/* SPDX-License-Identifier: Apache-2.0 */
#include "decode_operands.h"

#include "base/checked.h"
#include "runtime/measure/error_bounds.h"
#include "runtime/operation/decode_sequences.h"
#include "shape/number.h"

#include <headroom/buffer.h>
#include <headroom/experimental/decode.h>
#include <inttypes.h>
#include <math.h>

#define DEFINITION_FLOPS_MAX 600000

/* ---- the run ---- */

static place placed(hr_device *device, const void *from, size_t bytes)
{
  place p = place_make(device, bytes, (placing){.alignment = 4, .at_start = device->backend->own_memory});
  if (from)
    memcpy(p.host, from, bytes);
  place_send(&p);
  return p;
}

/* The page numbers that the sequences' tokens need, one after another without gaps. */
static void pass_list(decode_operands *c, hr_device *device)
{
  const hr_decode *d = &c->setup->d;
  int32_t *list = calloc((size_t)(d->batch * d->table_pitch), sizeof *list),
          *starts = calloc((size_t)d->batch, sizeof *starts), count = 0;
  assert_true(list && starts);
  for (int64_t b = d->batch - 1; b >= 0; b--) {
    int64_t pages = hr_ceil_div(decode_length_of(c->setup, b), d->page_size);
    starts[b] = count;
    for (int64_t i = 0; i < pages; i++)
      list[count++] = c->pages[b * d->table_pitch + i];
  }
  c->page_table = placed(device, list, (size_t)count * sizeof *list);
  c->page_starts = placed(device, starts, (size_t)d->batch * sizeof *starts);
  free(list);
  free(starts);
}

static hr_decode_arguments make_arguments(decode_operands *c, hr_device *device, const hr_plan *plan)
{
  const decode_setup *setup = c->setup;
  const hr_decode *d = &setup->d;
  const void *inputs[HR_OPERANDS_MAX];
  for (size_t i = 0; i < c->operands.count; i++) {
    place_send(&c->places[i]);
    inputs[i] = c->places[i].data;
  }
  void *output = c->places[c->o].data;
  const hr_operand_addresses at = {inputs, &output};
  hr_decode_arguments x = hr_problem_arguments(&plan->problem, &plan->operands, at).decode;
  if (setup->inline_scales) {
    x.k_scales = (const float *)((const char *)x.k + d->qk_dim);
    x.v_scales = (const float *)((const char *)x.v + d->v_dim);
  }
  c->lse = placed(device, NULL, (size_t)(d->batch * d->q_len * d->q_heads) * sizeof(float));
  if (setup->lengths)
    c->lengths = placed(device, setup->lengths, (size_t)d->batch * sizeof *setup->lengths);
  if (setup->shuffled && setup->listed)
    pass_list(c, device);
  else if (setup->shuffled) /* also where each sequence has one page, which measurements do not shuffle */
    c->page_table = placed(device, c->pages, (size_t)(d->batch * d->table_pitch) * sizeof *c->pages);
  x.batch = d->batch;
  x.lse = c->lse.data, x.lengths = c->lengths.data;
  x.pages = c->page_table.data, x.page_starts = c->page_starts.data;
  return x;
}

static void run(decode_operands *c, hr_device *device, const hr_plan *plan)
{
  hr_error error;
  const hr_arguments x = {.decode = make_arguments(c, device, plan)};
  assert_ok(run_arguments(plan, &x, c->setup->seed % 2, &error), error);
  place_bring(&c->places[c->o]);
  place_bring(&c->lse);
}

/* ---- the comparison ---- */

typedef struct row_place {
  int64_t sequence, query, head;
} row_place;

/* Index of the first element of a row of O. */
static size_t o_row(const decode_operands *c, row_place at)
{
  hr_strides s = hr_decode_o_strides(&c->setup->d);
  return (size_t)(at.sequence * s.batch + at.query * s.row + at.head * s.head);
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
  a.q_len = d->q_len, a.kv_len = decode_length_of(c->setup, at.sequence);
  a.q_heads = d->q_heads, a.k_heads = d->k_heads, a.v_heads = d->v_heads;
  a.qk_dim = d->qk_dim, a.v_dim = d->v_dim;
  a.dtype = HR_FP64;
  a.window = d->window;
  a.scale = d->scale, a.softcap = d->softcap;
  a.alibi = d->alibi;
  if (d->latent)
    a.v_strides = (hr_strides){.batch = 1, .row = d->qk_dim, .head = d->qk_dim};
  int64_t before = at.sequence * d->kv_len;
  hr_attention_arguments x = hr_attention_arguments_default();
  x.alibi_slopes = c->slopes;
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
  return in_v && !c->setup->exactly && (decode_special_is_a_scale(d) || column == 0) && at.query < d->q_len - 1;
}

static bool near(double found, double expected, double bound)
{
  if (!isfinite(expected))
    return isnan(expected) ? isnan(found) : isnan(found) || found == expected;
  return fabs(found - expected) <= bound;
}

/* O is then that key's V, exactly. */
static bool sees_one_key(const decode_operands *c, row_place at)
{
  const hr_decode *d = &c->setup->d;
  hr_key_range seen = hr_decode_visible(d, decode_length_of(c->setup, at.sequence), at.query);
  return seen.end - seen.first == 1 && !d->sinks && d->cache_format == HR_KV_UNQUANTIZED;
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
  for (int64_t i = 0; i < d->v_dim; i++) {
    double found = hr_number_load(d->dtype, c->places[c->o].host, o_row(c, at) + (size_t)i);
    double bound = isfinite(row->out[i]) ? hr_attention_error_bound(d->dtype, d->dtype, d->qk_dim, row, i) : 0;
    if (sees_one_key(c, at))
      bound = 0;
    bool either = !isfinite(swapped[i]); /* an infinity of V may be chosen */
    if (!either && !near(found, row->out[i], bound + swapped[i]) && !(isnan(found) && may_be_nan(c, at, i)))
      fail_msg("%s %s: q %" PRId64 " heads %" PRId64 "/%" PRId64 "/%" PRId64 " dims %" PRId64 "/%" PRId64
               " pages of %" PRId64 ", window %" PRId64 ", top_k %" PRId64
               ", sinks %d, ALiBi %d, soft cap %g, scale %g: sequence "
               "%" PRId64 " of %" PRId64 " tokens, query %" PRId64 ", head %" PRId64 ", column %" PRId64
               ": %g, expected %g ± %g",
               kernel, hr_dtype_name(d->dtype), d->q_len, d->q_heads, d->k_heads, d->v_heads, d->qk_dim, d->v_dim,
               d->page_size, d->window, d->top_k, d->sinks, d->alibi, (double)d->softcap, (double)d->scale, at.sequence,
               decode_length_of(c->setup, at.sequence), at.query, at.head, i, found, row->out[i], bound);
  }
  int64_t number = (at.sequence * d->q_len + at.query) * d->q_heads + at.head;
  double lse = hr_number_load(HR_FP32, c->lse.host, (size_t)number);
  double bound = isfinite(row->lse) ? hr_attention_lse_error_bound(d->dtype, d->qk_dim, row) : 0;
  if (!near(lse, row->lse, bound))
    fail_msg("%s %s: sequence %" PRId64 ", query %" PRId64 ", head %" PRId64 ": log-sum-exp %g, expected %g ± %g",
             kernel, hr_dtype_name(d->dtype), at.sequence, at.query, at.head, lse, row->lse, bound);
}

static void check_gaps(const decode_operands *c, const char *kernel)
{
  const hr_decode *d = &c->setup->d;
  size_t element = hr_dtype_bytes(d->dtype);
  bool *written = calloc(c->places[c->o].bytes / element, sizeof *written);
  assert_non_null(written);
  for (int64_t i = 0; i < d->batch * d->q_len * d->q_heads; i++) {
    row_place at = {i / d->q_heads / d->q_len, i / d->q_heads % d->q_len, i % d->q_heads};
    memset(written + o_row(c, at), 1, (size_t)d->v_dim);
  }
  place_assert_rest(&c->places[c->o], written, element, kernel);
  place_assert_rest(&c->lse, NULL, 1, kernel);
  free(written);
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
  decode_make_operands(device, &c);
  run(&c, device, plan);
  hr_plan_free(plan);
  compare(&c, kernel, multiply_adds);
  decode_free_operands(&c);
  return true;
}

/* ---- calls ---- */

decode_setup decode_call_of(const int64_t heads[3], const int64_t dim[2], int64_t kv_len, hr_dtype dtype)
{
  decode_setup setup = {.d = hr_decode_default(), .seed = 1};
  hr_decode *d = &setup.d;
  d->dtype = dtype;
  d->kv_len = kv_len;
  d->q_heads = heads[0], d->k_heads = heads[1], d->v_heads = heads[2];
  d->qk_dim = dim[0], d->v_dim = dim[1];
  return setup;
}

void decode_set_pages(decode_setup *setup, int64_t page_size)
{
  hr_error error;
  assert_ok(hr_decode_set_pages(&setup->d, page_size, &error), error);
  setup->shuffled = page_size > 0;
  setup->listed = setup->seed % 2 == 0;
}

bool decode_has_a_turn(int64_t number, hr_dtype dtype)
{
  return (number + (int64_t)dtype) % 3 == 0 || test_asks_for("thorough");
}

int64_t decode_drawn(uint64_t *state, int64_t first, int64_t last)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return first + (int64_t)((*state >> 33) % (uint64_t)(last - first + 1));
}

void decode_draw_scores(decode_setup *setup, uint64_t *state)
{
  hr_decode *d = &setup->d;
  d->window = decode_drawn(state, 0, 2) ? 0 : decode_drawn(state, 1, d->kv_len + 5);
  d->softcap = decode_drawn(state, 0, 2) ? 0 : 0.5f;
  d->scale = decode_drawn(state, 0, 2) ? 0 : decode_drawn(state, 0, 1) ? 0.7f : -0.1f;
  d->sinks = decode_drawn(state, 0, 2) == 0;
  d->alibi = d->softcap == 0 && d->top_k == 0 && !d->latent && decode_drawn(state, 0, 2) == 0;
  bool finite = decode_drawn(state, 0, 3) > 0;
  setup->special = finite ? DECODE_FINITE : (decode_special)decode_drawn(state, 0, DECODE_SPECIALS - 1);
  bool int8_elements = d->cache_format == HR_KV_INT8 && d->cache_scales == HR_KV_SCALE_HEAD;
  if (d->dtype == HR_FP8_E4M3 || int8_elements)
    setup->special = DECODE_FINITE; /* without infinity, or without any special number */
}

void decode_draw_sequences(decode_setup *setup, uint64_t *state, int32_t lengths[DECODE_BATCH_MAX])
{
  static const int64_t page_sizes[] = {0, 16, 32, 256, 7};
  for (int64_t b = 0; b < setup->d.batch; b++)
    lengths[b] = (int32_t)decode_drawn(state, 0, setup->d.kv_len);
  setup->lengths = decode_drawn(state, 0, 1) ? lengths : NULL;
  decode_set_pages(setup, page_sizes[decode_drawn(state, 0, LENGTH(page_sizes) - 1)]);
}

void decode_each_sample(hr_device *device, const char *kernel, hr_dtype dtype, int64_t samples,
                        void (*check)(hr_device *device, const char *kernel, hr_dtype dtype, uint64_t seed))
{
  int64_t seed = from_environment("HEADROOM_TEST_SEED", 1), count = from_environment("HEADROOM_TEST_SAMPLES", samples);
  for (int64_t i = 0; i < count; i++)
    check(device, kernel, dtype, (uint64_t)(seed * 100000 + i));
}
