/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "runtime/device/kv_format.h"
#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <headroom/experimental/decode.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

size_t hr_reference_decode_scratch(const hr_decode *decode)
{
  size_t row = (size_t)decode->qk_dim + (size_t)hr_max64(decode->qk_dim, decode->v_dim);
  size_t chosen = hr_decode_selects(decode) ? (size_t)decode->kv_len + (size_t)decode->v_dim : 0;
  return (size_t)decode->kv_len + row + chosen;
}

/* The computation of one query of one head. */
typedef struct query_row {
  const hr_decode *d;
  const hr_decode_arguments *arguments;
  int64_t sequence, head, position; /* of the query among the keys */
  hr_key_range keys;
  double *scores, *q_row, *kv_row;
  int64_t chosen; /* keys whose V counts */
  double *places; /* [chosen] their numbers, ascending, from keys.first; NULL: all visible keys */
} query_row;

/* A K or V cache. */
typedef struct cached_rows {
  const void *elements;
  const float *scales; /* of a quantized cache */
  hr_kv_strides at, scale_at;
  int64_t dim;
} cached_rows;

static cached_rows k_rows(const query_row *x)
{
  return (cached_rows){x->arguments->k, x->arguments->k_scales, hr_decode_k_strides(x->d),
                       hr_decode_k_scale_strides(x->d), x->d->qk_dim};
}

static cached_rows v_rows(const query_row *x)
{
  cached_rows k = k_rows(x);
  if (x->d->latent)
    return (cached_rows){k.elements, k.scales, k.at, k.scale_at, x->d->v_dim};
  return (cached_rows){x->arguments->v, x->arguments->v_scales, hr_decode_v_strides(x->d),
                       hr_decode_v_scale_strides(x->d), x->d->v_dim};
}

/* Loads the row of one token's head. */
static void load_token(const query_row *x, const cached_rows *rows, int64_t head, int64_t token)
{
  const hr_decode *d = x->d;
  int64_t at = hr_decode_token(d, x->arguments, &rows->at, x->sequence, token) + head * rows->at.head;
  hr_kv_elements_load(d->cache_format, d->dtype, rows->elements, (size_t)at, (size_t)rows->dim, x->kv_row);
  if (d->cache_format == HR_KV_UNQUANTIZED)
    return;
  int64_t scale_at = hr_decode_token(d, x->arguments, &rows->scale_at, x->sequence, token) + head * rows->scale_at.head;
  double scale = (double)rows->scales[scale_at];
  for (int64_t i = 0; i < rows->dim; i++)
    x->kv_row[i] *= scale;
}

static double score(const query_row *x, double *norm)
{
  double scale = hr_decode_scale(x->d), softcap = (double)x->d->softcap, sum = 0, squares = 0;
  for (int64_t i = 0; i < x->d->qk_dim; i++) {
    double product = x->q_row[i] * x->kv_row[i];
    sum += product;
    squares += product * product;
  }
  *norm = fmax(*norm, fabs(scale) * sqrt(squares));
  return softcap > 0 ? softcap * tanh(scale * sum / softcap) : scale * sum;
}

/* Fills scores[j − first] and returns the largest, ignoring NaN. */
static double score_row(const query_row *x, hr_reference_query *row)
{
  const hr_decode *d = x->d;
  int64_t k_head = x->head / (d->q_heads / d->k_heads);
  double largest = -(double)INFINITY, slope = d->alibi ? (double)x->arguments->alibi_slopes[x->head] : 0;
  const cached_rows k = k_rows(x);
  for (int64_t j = x->keys.first; j < x->keys.end; j++) {
    load_token(x, &k, k_head, j);
    double s = score(x, &row->score_norm) + slope * (double)(j - x->position);
    x->scores[j - x->keys.first] = s;
    largest = fmax(largest, s);
    if (s != -(double)INFINITY)
      row->largest = fmax(row->largest, fabs(s));
  }
  return largest;
}

/* Leaves the scores of chosen keys only, in the order of the keys. */
static void choose(query_row *x)
{
  int64_t count = x->keys.end - x->keys.first;
  x->chosen = count;
  if (x->d->top_k == 0 || x->d->top_k >= count)
    return;
  x->chosen = x->d->top_k;
  x->places = x->kv_row + hr_max64(x->d->qk_dim, x->d->v_dim);
  (void)hr_reference_choose(x->scores, count, x->chosen, x->places);
  for (int64_t i = 0; i < x->chosen; i++)
    x->scores[i] = x->scores[(int64_t)x->places[i]];
}

static void load_value(const query_row *x, int64_t place)
{
  const hr_decode *d = x->d;
  int64_t v_head = x->head / (d->q_heads / d->v_heads);
  const cached_rows v = v_rows(x);
  load_token(x, &v, v_head, x->keys.first + place);
}

static void add_values(const query_row *x, double total, hr_reference_query *row)
{
  const hr_decode *d = x->d;
  for (int64_t j = 0; j < x->chosen; j++) {
    load_value(x, x->places ? (int64_t)x->places[j] : j);
    double weight = x->scores[j] / total;
    for (int64_t i = 0; i < d->v_dim; i++)
      row->out[i] += weight * x->kv_row[i];
    for (int64_t i = 0; row->norm && i < d->v_dim; i++)
      row->norm[i] += weight * fabs(x->kv_row[i]);
  }
}

static void load_query(const query_row *x, int64_t query)
{
  hr_strides s = hr_decode_q_strides(x->d);
  size_t at = (size_t)(x->sequence * s.batch + query * s.row + x->head * s.head);
  hr_numbers_load(x->d->dtype, x->arguments->q, at, (size_t)x->d->qk_dim, x->q_row);
}

static query_row row_of(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence, int64_t query,
                        int64_t head, double *scratch)
{
  query_row x = {.d = d, .arguments = arguments, .sequence = sequence, .head = head};
  const int64_t length = hr_decode_length(d, arguments, sequence);
  x.position = length - d->q_len + query;
  x.keys = hr_decode_visible(d, length, query);
  x.scores = scratch, x.q_row = x.scores + d->kv_len, x.kv_row = x.q_row + d->qk_dim;
  return x;
}

void hr_reference_decode_row(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence, int64_t query,
                             int64_t head, double *scratch, hr_reference_query *row)
{
  query_row x = row_of(d, arguments, sequence, query, head, scratch);
  memset(row->out, 0, (size_t)d->v_dim * sizeof *row->out);
  if (row->norm)
    memset(row->norm, 0, (size_t)d->v_dim * sizeof *row->norm);
  row->largest = row->score_norm = 0;
  double sink = d->sinks ? (double)arguments->sinks[head] : -(double)INFINITY;
  row->lse = sink;
  if (x.keys.first >= x.keys.end)
    return;

  load_query(&x, query);
  double largest = fmax(score_row(&x, row), sink);
  choose(&x);
  double shift = isinf(largest) ? 0 : largest; /* for the log-sum-exp, which is −inf if all scores are −inf */
  double total = d->sinks ? exp(sink - largest) : 0, shifted = d->sinks ? exp(sink - shift) : 0;
  for (int64_t j = 0; j < x.chosen; j++) {
    shifted += exp(x.scores[j] - shift);
    x.scores[j] = exp(x.scores[j] - largest);
    total += x.scores[j];
  }
  row->lse = shift + log(shifted);
  add_values(&x, total, row);
}

/* The k largest of scores that are off by at most e are the same keys but for those within 2e of the k-th largest. Of
 * these at most as many are exchanged as are chosen, or are left. Each weighs what the k-th largest does, within 4e. */
void hr_reference_decode_swaps(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence,
                               int64_t query, int64_t head, double score_error, double lse, double *scratch,
                               double *swapped)
{
  query_row x = row_of(d, arguments, sequence, query, head, scratch);
  int64_t count = x.keys.end - x.keys.first, chosen = 0, left = 0;
  memset(swapped, 0, (size_t)d->v_dim * sizeof *swapped);
  if (d->top_k == 0 || d->top_k >= count)
    return;
  hr_reference_query ignored = {0};
  double *places = x.kv_row + hr_max64(d->qk_dim, d->v_dim), *most = places + d->kv_len, *least = swapped;
  load_query(&x, query);
  score_row(&x, &ignored);
  double kth = hr_reference_choose(x.scores, count, d->top_k, places);
  if (!isfinite(kth)) /* O is NaN, or exchanged keys weigh nothing */
    return;
  for (int64_t j = 0, next = 0; j < count; j++) {
    bool is_chosen = next < d->top_k && (int64_t)places[next] == j;
    next += is_chosen;
    if (!(fabs(x.scores[j] - kth) <= 2 * score_error))
      continue;
    load_value(&x, j);
    for (int64_t i = 0; i < d->v_dim; i++) {
      least[i] = chosen + left == 0 ? x.kv_row[i] : fmin(least[i], x.kv_row[i]);
      most[i] = chosen + left == 0 ? x.kv_row[i] : fmax(most[i], x.kv_row[i]);
    }
    chosen += is_chosen;
    left += !is_chosen;
  }
  double weight = (double)hr_min64(chosen, left) * exp(kth - lse), off = expm1(8 * score_error);
  for (int64_t i = 0; i < d->v_dim; i++)
    swapped[i] = weight > 0 ? weight * (most[i] - least[i] + off * fmax(fabs(most[i]), fabs(least[i]))) : 0;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  const hr_decode *d = &problem->decode;
  *workspace_bytes = (hr_reference_decode_scratch(d) + (size_t)d->v_dim) * sizeof(double);
  return HR_OK;
}

static void run_query(const hr_decode *d, const hr_decode_arguments *arguments, int64_t sequence, int64_t query,
                      int64_t head, double *scratch)
{
  hr_strides s = hr_decode_o_strides(d);
  hr_reference_query row = {.out = scratch + hr_reference_decode_scratch(d)};
  hr_reference_decode_row(d, arguments, sequence, query, head, scratch, &row);
  size_t at = (size_t)(sequence * s.batch + query * s.row + head * s.head);
  for (int64_t i = 0; i < d->v_dim; i++)
    hr_number_store(d->dtype, arguments->o, at + (size_t)i, row.out[i]);
  if (arguments->lse)
    arguments->lse[(sequence * d->q_len + query) * d->q_heads + head] = (float)row.lse;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  (void)plan;
  const hr_decode *d = &run->problem->decode;
  for (int64_t sequence = 0; sequence < d->batch; sequence++)
    for (int64_t query = 0; query < d->q_len; query++)
      for (int64_t head = 0; head < d->q_heads; head++)
        run_query(d, run->arguments, sequence, query, head, run->workspace);
  return HR_OK;
}

const hr_kernel_functions hr_kernel_decode_reference = {.prepare = prepare, .run = run};

/* The same as the CPU's last kernel. It refuses problems that would take minutes. */
#define NAIVE_MULTIPLY_ADDS_MAX ((int64_t)1 << 30)

static bool ends_in_seconds(const hr_device *device, const hr_problem *problem, char *why, size_t why_size)
{
  (void)device;
  int64_t flops = 0;
  if (hr_decode_flops(&problem->decode, &flops) == HR_OK && flops / 2 <= NAIVE_MULTIPLY_ADDS_MAX)
    return true;
  snprintf(why, why_size, "takes at most 2^30 multiply-adds, some seconds");
  return false;
}

const hr_kernel_functions hr_kernel_decode_naive = {.supports = ends_in_seconds, .prepare = prepare, .run = run};
