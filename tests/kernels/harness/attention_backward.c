/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention against the formulas, computed here from the operands as stored, in float64. */
#include "place.h"

#include "runtime/measure/error_bounds.h"
#include "shape/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define SEQUENCES_MAX 5

/* ---- shapes ---- */

static hr_problem problem_of(const hr_attention *a, bool sinks)
{
  hr_backward b = {*a, hr_attention_backward_default()};
  b.options.sinks = sinks;
  return hr_attention_backward_problem(&b);
}

static hr_problem plain(hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  return problem_of(&a, false);
}

typedef struct taker {
  problem_taker *take;
  void *context;
} taker;

static void take_small(const hr_problem *problem, void *context)
{
  const taker *of = context;
  hr_problem p = problem_of(&problem->attention, problem->attention.alibi);
  of->take(&p, of->context);
}

static void small(hr_dtype dtype, problem_taker *take, void *context)
{
  taker of = {take, context};
  attention_cases.small(dtype, take_small, &of);
}

static bool set_word(hr_problem *problem, const char *name, const char *value)
{
  hr_problem forward = hr_attention_problem(&problem->backward.forward);
  bool known = attention_cases.set(&forward, name, value);
  problem->backward.forward = forward.attention;
  return known;
}

static hr_status check_problem(const hr_problem *problem, hr_error *error)
{
  return hr_attention_backward_check(&problem->backward.forward, &problem->backward.options, error);
}

#define COUNT(member)                                                    \
  {                                                                      \
#member, COUNT_MEMBER, offsetof(hr_problem, backward.forward.member) \
  }
static const shape_member members[] = {
    COUNT(batch),
    COUNT(q_len),
    COUNT(kv_len),
    COUNT(q_heads),
    COUNT(k_heads),
    COUNT(v_heads),
    COUNT(qk_dim),
    COUNT(v_dim),
    COUNT(window),
    {"alibi", FLAG_MEMBER, offsetof(hr_problem, backward.forward.alibi)},
    {"first_keys", FLAG_MEMBER, offsetof(hr_problem, backward.forward.first_keys)},
    {"sinks", FLAG_MEMBER, offsetof(hr_problem, backward.options.sinks)},
    {"deterministic", FLAG_MEMBER, offsetof(hr_problem, backward.options.deterministic)}};
static const char *const shapes[] = {"length=2048,heads=32,dim=128,causal=0", "length=2048,heads=32,dim=128,causal=1",
                                     "length=2048,q_heads=32,k_heads=8,v_heads=8,dim=128,causal=1",
                                     "length=2048,q_heads=32,k_heads=4,v_heads=16,dim=64,causal=1", NULL};
const operation_cases attention_backward_cases = {.plain = plain,
                                                  .members = members,
                                                  .member_count = LENGTH(members),
                                                  .set = set_word,
                                                  .check = check_problem,
                                                  .shapes = shapes,
                                                  .small = small};

/* ---- calls ---- */

typedef struct setup {
  hr_attention a; /* strides 0 */
  hr_attention_backward options;
  int32_t q_offsets[SEQUENCES_MAX + 1], kv_offsets[SEQUENCES_MAX + 1];
  int64_t gap; /* elements added to strides */
  bool at_start;
  uint64_t seed;
} setup;

enum { Q, K, V, O, DO, DQ, DK, DV, TENSORS };
enum { LSE = TENSORS, SLOPES, SINKS, D_SINKS, FIRST_KEYS, Q_OFFSETS, KV_OFFSETS, PLACES };

/* Arrays of numbers have their values, [row][head][dim], in float64. */
typedef struct backward_call {
  hr_device *device;
  const char *kernel;
  setup s;
  place places[PLACES];
  double *values[TENSORS]; /* of the gradients what is expected */
  double *norms[TENSORS];  /* of the gradients */
  double *lse;             /* [row][head], as stored */
  double d_sinks[128], d_sink_norms[128];
  hr_reference_query worst; /* largest and score_norm of all scores */
} backward_call;

static bool is_of_queries(int which)
{
  return which == Q || which == O || which == DO || which == DQ;
}

static int64_t rows_of(const backward_call *c, int which)
{
  const hr_attention *a = &c->s.a;
  if (a->variable_lengths)
    return is_of_queries(which) ? a->q_total : a->kv_total;
  return a->batch * (is_of_queries(which) ? a->q_len : a->kv_len);
}

static int64_t heads_of(const backward_call *c, int which)
{
  const hr_attention *a = &c->s.a;
  return which == K || which == DK ? a->k_heads : which == V || which == DV ? a->v_heads : a->q_heads;
}

static int64_t dim_of(const backward_call *c, int which)
{
  return which == Q || which == K || which == DQ || which == DK ? c->s.a.qk_dim : c->s.a.v_dim;
}

static size_t count_of(const backward_call *c, int which)
{
  return (size_t)(rows_of(c, which) * heads_of(c, which) * dim_of(c, which));
}

static hr_strides *strides_of(backward_call *c, int which)
{
  hr_attention *a = &c->s.a;
  hr_attention_backward *o = &c->s.options;
  hr_strides *const all[] = {&a->q_strides,  &a->k_strides,  &a->v_strides,  &a->o_strides,
                             &o->do_strides, &o->dq_strides, &o->dk_strides, &o->dv_strides};
  return all[which];
}

/* Element d of a row and head in memory. */
static size_t element_at(const backward_call *c, int which, int64_t row, int64_t head, int64_t d)
{
  const hr_strides *s = strides_of((backward_call *)(uintptr_t)c, which);
  int64_t length = is_of_queries(which) ? c->s.a.q_len : c->s.a.kv_len;
  if (c->s.gap == 0)
    return (size_t)((row * heads_of(c, which) + head) * dim_of(c, which) + d);
  int64_t batch = c->s.a.variable_lengths ? 0 : row / length, inside = c->s.a.variable_lengths ? row : row % length;
  return (size_t)(batch * s->batch + inside * s->row + head * s->head + d);
}

static void make_tensor(backward_call *c, int which)
{
  const size_t count = count_of(c, which), element = hr_dtype_bytes(c->s.a.dtype);
  int64_t head = dim_of(c, which) + c->s.gap, row = heads_of(c, which) * head + 2 * c->s.gap;
  if (c->s.gap > 0)
    *strides_of(c, which) =
        (hr_strides){.head = head, .row = row, .batch = (is_of_queries(which) ? c->s.a.q_len : c->s.a.kv_len) * row};
  size_t last =
      count > 0 ? element_at(c, which, rows_of(c, which) - 1, heads_of(c, which) - 1, dim_of(c, which) - 1) + 1 : 1;
  c->places[which] = place_make(c->device, last * element, (placing){.alignment = 16, .at_start = c->s.at_start});
  c->values[which] = calloc(count + 1, sizeof(double));
  c->norms[which] = calloc(count + 1, sizeof(double));
  assert_true(c->values[which] && c->norms[which]);
}

static void each_row(backward_call *c, int which, void (*visit)(backward_call *c, int which, int64_t row, int64_t head))
{
  for (int64_t row = 0; row < rows_of(c, which); row++)
    for (int64_t head = 0; head < heads_of(c, which); head++)
      visit(c, which, row, head);
}

static double *row_of(const backward_call *c, double *const values[TENSORS], int which, int64_t row, int64_t head)
{
  return values[which] + (row * heads_of(c, which) + head) * dim_of(c, which);
}

/* Writes a row of values, and keeps what was stored. */
static void store_row(backward_call *c, int which, int64_t row, int64_t head)
{
  double *values = row_of(c, c->values, which, row, head);
  for (int64_t d = 0; d < dim_of(c, which); d++) {
    size_t at = element_at(c, which, row, head, d);
    hr_number_store(c->s.a.dtype, c->places[which].host, at, values[d]);
    values[d] = hr_number_load(c->s.a.dtype, c->places[which].host, at);
  }
}

static void make_random(backward_call *c, int which)
{
  size_t count = count_of(c, which);
  void *packed = malloc(count * sizeof(double) + 1);
  assert_non_null(packed);
  hr_numbers_uniform(HR_FP64, c->s.seed * TENSORS + (uint64_t)which, 0, count, packed);
  memcpy(c->values[which], packed, count * sizeof(double));
  free(packed);
  each_row(c, which, store_row);
}

/* ---- the formulas ---- */

typedef struct sequence {
  int64_t q_row, q_len, kv_row, kv_len;
} sequence;

static sequence sequence_of(const backward_call *c, int64_t b)
{
  const hr_attention *a = &c->s.a;
  if (!a->variable_lengths)
    return (sequence){b * a->q_len, a->q_len, b * a->kv_len, a->kv_len};
  const int32_t *q = c->s.q_offsets + b, *kv = c->s.kv_offsets + b;
  return (sequence){q[0], q[1] - q[0], kv[0], kv[1] - kv[0]};
}

static const float *floats(const backward_call *c, int which)
{
  return (const float *)(const void *)c->places[which].host;
}

static bool sees(const backward_call *c, const sequence *s, int64_t i, int64_t j)
{
  const hr_attention *a = &c->s.a;
  const int32_t *first = (const int32_t *)(const void *)c->places[FIRST_KEYS].host;
  int64_t back = s->kv_len - s->q_len + i - j;
  if (a->first_keys && j < first[s->q_row + i])
    return false;
  return a->mask == HR_MASK_NONE || (back >= 0 && (a->window == 0 || back < a->window));
}

/* A pair of a query and a key, and its score. */
typedef struct pair {
  const sequence *s;
  int64_t head, i, j;
  double score, slope;
} pair;

static void score(backward_call *c, pair *x)
{
  const hr_attention *a = &c->s.a;
  const double *q = row_of(c, c->values, Q, x->s->q_row + x->i, x->head);
  const double *k = row_of(c, c->values, K, x->s->kv_row + x->j, x->head * a->k_heads / a->q_heads);
  double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->qk_dim), squares = 0, sum = 0;
  for (int64_t d = 0; d < a->qk_dim; d++) {
    sum += q[d] * k[d];
    squares += q[d] * k[d] * q[d] * k[d];
  }
  x->score = scale * sum, x->slope = scale;
  if (a->softcap > 0) {
    double t = tanh(x->score / (double)a->softcap);
    x->score = (double)a->softcap * t;
    x->slope *= 1 - t * t;
  }
  if (a->alibi)
    x->score += (double)floats(c, SLOPES)[x->head] * (double)(x->j - x->i - (x->s->kv_len - x->s->q_len));
  c->worst.score_norm = fmax(c->worst.score_norm, fabs(scale) * sqrt(squares));
  c->worst.largest = fmax(c->worst.largest, fabs(x->score));
}

/* A query that sees no key adds to nothing, whatever it contains. */
static void spoil_query(backward_call *c, int64_t row, int64_t head)
{
  for (int which = Q; which <= DO; which += DO - Q)
    for (int64_t d = 0; d < dim_of(c, which); d++)
      hr_number_store(c->s.a.dtype, c->places[which].host, element_at(c, which, row, head, d), (double)NAN);
}

/* Writes O and the log-sum-exp of a query, as the forward call does. */
static void attend(backward_call *c, const sequence *s, int64_t i, int64_t head)
{
  const hr_attention *a = &c->s.a;
  double *o = row_of(c, c->values, O, s->q_row + i, head), sum = 0;
  bool some = false;
  for (int64_t j = 0; j < s->kv_len; j++) {
    pair x = {s, head, i, j, 0, 0};
    if (!sees(c, s, i, j))
      continue;
    score(c, &x);
    some = true;
    sum += exp(x.score);
    const double *v = row_of(c, c->values, V, s->kv_row + j, head * a->v_heads / a->q_heads);
    for (int64_t d = 0; d < a->v_dim; d++)
      o[d] += exp(x.score) * v[d];
  }
  if (some && c->s.options.sinks)
    sum += exp((double)floats(c, SINKS)[head]);
  for (int64_t d = 0; d < a->v_dim; d++)
    o[d] = some ? o[d] / sum : 0;
  int64_t row = s->q_row + i, at = head * a->q_total + row;
  if (!some)
    spoil_query(c, row, head);
  if (!a->variable_lengths)
    at = (row / a->q_len * a->q_heads + head) * a->q_len + i;
  float stored = some ? (float)log(sum) : -INFINITY;
  memcpy(c->places[LSE].host + (size_t)at * sizeof stored, &stored, sizeof stored);
  c->lse[row * a->q_heads + head] = (double)stored;
}

static void each_query(backward_call *c, void (*visit)(backward_call *c, const sequence *s, int64_t i, int64_t head))
{
  for (int64_t b = 0; b < c->s.a.batch; b++) {
    sequence s = sequence_of(c, b);
    for (int64_t i = 0; i < s.q_len; i++)
      for (int64_t head = 0; head < c->s.a.q_heads; head++)
        visit(c, &s, i, head);
  }
}

static void add(double *to, double *norms, double factor, double norm, const double *values, int64_t count)
{
  for (int64_t d = 0; d < count; d++) {
    to[d] += factor * values[d];
    norms[d] += norm * fabs(values[d]);
  }
}

static double dot(const double *a, const double *b, int64_t count, double *norm)
{
  double sum = 0, squares = 0;
  for (int64_t d = 0; d < count; d++) {
    sum += a[d] * b[d];
    squares += a[d] * b[d] * a[d] * b[d];
  }
  *norm = sqrt(squares);
  return sum;
}

/* What a query adds to the gradients. */
static void differentiate(backward_call *c, const sequence *s, int64_t i, int64_t head)
{
  const hr_attention *a = &c->s.a;
  int64_t row = s->q_row + i, k_head = head * a->k_heads / a->q_heads, v_head = head * a->v_heads / a->q_heads;
  const double *d_o = row_of(c, c->values, DO, row, head), lse = c->lse[row * a->q_heads + head];
  double delta_norm, delta = dot(d_o, row_of(c, c->values, O, row, head), a->v_dim, &delta_norm);
  double least = hr_dtype_rounding_error(a->dtype, 0) / hr_dtype_rounding(a->dtype); /* normal number, of P and dS */
  for (int64_t j = 0; j < s->kv_len; j++) {
    pair x = {s, head, i, j, 0, 0};
    double norm;
    if (!sees(c, s, i, j))
      continue;
    score(c, &x);
    double p = exp(x.score - lse), dp = dot(d_o, row_of(c, c->values, V, s->kv_row + j, v_head), a->v_dim, &norm);
    double ds = p * (dp - delta) * x.slope, scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->qk_dim);
    double ds_norm = (p * (norm + delta_norm + fabs(dp - delta)) + least) * fabs(scale);
#define ROW(which, at, h) row_of(c, c->values, which, at, h)
#define NORM(which, at, h) row_of(c, c->norms, which, at, h)
    add(ROW(DV, s->kv_row + j, v_head), NORM(DV, s->kv_row + j, v_head), p, p + least, d_o, a->v_dim);
    add(ROW(DQ, row, head), NORM(DQ, row, head), ds, ds_norm, ROW(K, s->kv_row + j, k_head), a->qk_dim);
    add(ROW(DK, s->kv_row + j, k_head), NORM(DK, s->kv_row + j, k_head), ds, ds_norm, ROW(Q, row, head), a->qk_dim);
  }
  c->worst.largest = fmax(c->worst.largest, isinf(lse) ? 0 : fabs(lse));
  if (c->s.options.sinks && !isinf(lse)) {
    double p = exp((double)floats(c, SINKS)[head] - lse);
    c->d_sinks[head] -= p * delta;
    c->d_sink_norms[head] += p * delta_norm;
  }
}

/* ---- operands that are not tensors ---- */

static place *make_table(backward_call *c, int which, size_t bytes)
{
  c->places[which] = place_make(c->device, bytes, (placing){.alignment = 4, .at_start = c->s.at_start});
  return &c->places[which];
}

/* Documents: a sequence's queries begin with its first key, or with that of a later one. */
static void make_first_keys(backward_call *c)
{
  uint64_t random = c->s.seed + 5;
  int32_t *first = (int32_t *)(void *)make_table(c, FIRST_KEYS, (size_t)rows_of(c, Q) * sizeof(int32_t) + 4)->host;
  for (int64_t b = 0; b < c->s.a.batch; b++) {
    sequence s = sequence_of(c, b);
    int32_t key = next_random(&random) % 2 ? 0 : -3;
    for (int64_t i = 0; i < s.q_len; i++) {
      int32_t own = (int32_t)(i + s.kv_len - s.q_len + (int64_t)(next_random(&random) % 3));
      key = next_random(&random) % 9 == 0 && own > key ? own : key;
      first[s.q_row + i] = key;
    }
  }
}

static void make_tables(backward_call *c)
{
  const hr_attention *a = &c->s.a;
  const size_t heads = (size_t)a->q_heads * sizeof(float), offsets = (size_t)(a->batch + 1) * sizeof(int32_t);
  int64_t lse = 0;
  assert_int_equal(hr_attention_lse_elements(a, &lse), HR_OK);
  make_table(c, LSE, (size_t)lse * sizeof(float) + 4);
  if (a->alibi)
    hr_attention_alibi_slopes(a->q_heads, (float *)(void *)make_table(c, SLOPES, heads)->host);
  if (a->first_keys)
    make_first_keys(c);
  if (c->s.options.sinks)
    hr_numbers_uniform(HR_FP32, c->s.seed, 0, (size_t)a->q_heads, make_table(c, SINKS, heads)->host);
  if (c->s.options.sinks)
    make_table(c, D_SINKS, heads);
  if (a->variable_lengths) {
    memcpy(make_table(c, Q_OFFSETS, offsets)->host, c->s.q_offsets, offsets);
    memcpy(make_table(c, KV_OFFSETS, offsets)->host, c->s.kv_offsets, offsets);
  }
}

static void open_call(hr_device *device, const char *kernel, const setup *s, backward_call *c)
{
  *c = (backward_call){.device = device, .kernel = kernel, .s = *s};
  for (int which = 0; which < TENSORS; which++)
    make_tensor(c, which);
  c->lse = calloc((size_t)(rows_of(c, Q) * s->a.q_heads) + 1, sizeof(double));
  assert_non_null(c->lse);
  make_random(c, Q), make_random(c, K), make_random(c, V), make_random(c, DO);
  make_tables(c);
  each_query(c, attend);
  each_row(c, O, store_row);
  each_query(c, differentiate);
}

static void close_call(backward_call *c)
{
  for (int i = 0; i < PLACES; i++)
    place_free(&c->places[i]);
  for (int i = 0; i < TENSORS; i++)
    free(c->values[i]), free(c->norms[i]);
  free(c->lse);
}

/* ---- runs ---- */

static const char *words(const backward_call *c, char text[512])
{
  const hr_attention *a = &c->s.a;
  snprintf(text, 512,
           "%s %s batch %" PRId64 " heads %" PRId64 " %" PRId64 " %" PRId64 " dims %" PRId64 " %" PRId64 " q %" PRId64
           " kv %" PRId64 "%s window %" PRId64 " scale %g softcap %g%s%s%s%s%s gap %" PRId64 " seed %" PRIu64,
           c->kernel, hr_dtype_name(a->dtype), a->batch, a->q_heads, a->k_heads, a->v_heads, a->qk_dim, a->v_dim,
           a->q_len, a->kv_len, a->mask == HR_MASK_CAUSAL ? " causal" : "", a->window, (double)a->scale,
           (double)a->softcap, a->alibi ? " alibi" : "", a->first_keys ? " first keys" : "",
           a->variable_lengths ? " variable lengths" : "", c->s.options.sinks ? " sinks" : "",
           c->s.options.deterministic ? " deterministic" : "", c->s.gap, c->s.seed);
  return text;
}

static hr_arguments arguments_of(const backward_call *c)
{
  hr_arguments all = {.backward = hr_attention_backward_arguments_default()};
  hr_attention_backward_arguments *x = &all.backward;
  x->q = c->places[Q].data, x->k = c->places[K].data, x->v = c->places[V].data, x->o = c->places[O].data;
  x->d_o = c->places[DO].data, x->lse = c->places[LSE].data;
  x->dq = c->places[DQ].data, x->dk = c->places[DK].data, x->dv = c->places[DV].data;
  x->alibi_slopes = c->places[SLOPES].data, x->sinks = c->places[SINKS].data, x->d_sinks = c->places[D_SINKS].data;
  x->q_offsets = c->places[Q_OFFSETS].data, x->kv_offsets = c->places[KV_OFFSETS].data;
  x->first_keys = c->places[FIRST_KEYS].data;
  return all;
}

/* Plans every third call for more sequences and rows than it has. */
static hr_status make_plan(const backward_call *c, hr_attention_backward_arguments *x, hr_plan **plan, hr_error *error)
{
  hr_attention larger = c->s.a;
  larger.batch += 2;
  if (larger.variable_lengths)
    larger.q_total += 5, larger.kv_total += 7;
  if (c->s.seed % 3 != 0 ||
      hr_plan_attention_backward(c->device, &larger, &c->s.options, c->kernel, plan, error) != HR_OK)
    return hr_plan_attention_backward(c->device, &c->s.a, &c->s.options, c->kernel, plan, error);
  x->batch = c->s.a.batch, x->q_rows = c->s.a.q_total, x->kv_rows = c->s.a.kv_total;
  return HR_OK;
}

/* NULL if a kernel of a GPU refuses the problem. */
static hr_plan *plan_call(const backward_call *c, hr_attention_backward_arguments *x)
{
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  char text[512];
  hr_status status = make_plan(c, x, &plan, &error);
  if (status != HR_OK && !(status == HR_ERROR_UNSUPPORTED && c->device->backend->own_memory))
    fail_msg("%s: %s", words(c, text), error.message);
  return plan;
}

static void run_plan(backward_call *c, const hr_plan *plan, const hr_arguments *x)
{
  hr_error error = {.message = ""};
  char text[512];
  for (int which = DQ; which <= DV; which++)
    memset(c->places[which].host, POISON, c->places[which].bytes);
  for (int i = 0; i < PLACES; i++)
    place_send(&c->places[i]);
  if (run_arguments(plan, x, c->s.at_start, &error) != HR_OK)
    fail_msg("%s: %s", words(c, text), error.message);
  for (int which = DQ; which <= DV; which++)
    place_bring(&c->places[which]);
  if (c->places[D_SINKS].data)
    place_bring(&c->places[D_SINKS]);
}

static bool run_call(backward_call *c)
{
  hr_arguments x = arguments_of(c);
  hr_plan *plan = plan_call(c, &x.backward);
  if (plan)
    run_plan(c, plan, &x);
  hr_plan_free(plan);
  return plan != NULL;
}

/* ---- results ---- */

static bool is_in_a_sequence(const backward_call *c, int which, int64_t row)
{
  const int32_t *offsets = is_of_queries(which) ? c->s.q_offsets : c->s.kv_offsets;
  return !c->s.a.variable_lengths || (row >= offsets[0] && row < offsets[c->s.a.batch]);
}

static void compare_element(backward_call *c, int which, double found, double expected, double norm, const char *at)
{
  static const char *const names[] = {[DQ] = "dQ", [DK] = "dK", [DV] = "dV", [D_SINKS] = "d_sinks"};
  char text[512];
  hr_reference_query exact = c->worst;
  exact.out = &expected, exact.norm = &norm;
  double bound = norm == 0 ? 0 : hr_gradient_error_bound(&c->s.a, &exact, 0);
  if (!(fabs(found - expected) <= bound))
    fail_msg("%s: %s %s is %.9g, exactly %.9g, allowed ±%g", words(c, text), names[which], at, found, expected, bound);
}

static void compare_row(backward_call *c, int which, int64_t row, int64_t head)
{
  const double *expected = row_of(c, c->values, which, row, head), *norms = row_of(c, c->norms, which, row, head);
  char at[64];
  if (!is_in_a_sequence(c, which, row))
    return;
  for (int64_t d = 0; d < dim_of(c, which); d++) {
    double found = hr_number_load(c->s.a.dtype, c->places[which].host, element_at(c, which, row, head, d));
    snprintf(at, sizeof at, "[row %d, head %d, %d]", (int)row, (int)head, (int)d);
    compare_element(c, which, found, expected[d], norms[d], at);
  }
}

static void assert_gaps(backward_call *c, int which)
{
  const place *p = &c->places[which];
  const size_t element = hr_dtype_bytes(c->s.a.dtype);
  bool *written = calloc(p->bytes / element + 1, sizeof *written);
  char text[512];
  assert_non_null(written);
  for (int64_t row = 0; row < rows_of(c, which); row++)
    for (int64_t head = 0; head < heads_of(c, which) && is_in_a_sequence(c, which, row); head++)
      memset(written + element_at(c, which, row, head, 0), 1, (size_t)dim_of(c, which));
  place_assert_rest(p, written, element, words(c, text));
  free(written);
}

static void compare(backward_call *c)
{
  for (int which = DQ; which <= DV; which++) {
    each_row(c, which, compare_row);
    assert_gaps(c, which);
  }
  for (int64_t head = 0; c->s.options.sinks && head < c->s.a.q_heads; head++)
    compare_element(c, D_SINKS, (double)floats(c, D_SINKS)[head], (double)(float)c->d_sinks[head],
                    c->d_sink_norms[head], "");
}

/* Whether the kernel is plain C in float64 and the problem takes it too long. */
static bool takes_long(const char *kernel, const hr_attention *a)
{
  int64_t multiply_adds = a->batch * a->q_heads * a->q_len * a->kv_len * (a->qk_dim + a->v_dim);
  return (strstr(kernel, "_naive") || strstr(kernel, "_reference")) && multiply_adds > 1000000;
}

static bool try_call(hr_device *device, const char *kernel, const setup *s)
{
  static backward_call c;
  setup placed = *s;
  if (takes_long(kernel, &s->a))
    return false;
  placed.at_start = placed.at_start || strstr(kernel, "_sm90"); /* TMA takes aligned addresses alone */
  open_call(device, kernel, &placed, &c);
  bool ran = run_call(&c);
  if (ran)
    compare(&c);
  close_call(&c);
  return ran;
}

/* ---- facts ---- */

static const int64_t heads[][3] = {{1, 1, 1}, {4, 4, 4}, {4, 1, 1}, {8, 2, 2},
                                   {8, 2, 4}, {8, 4, 2}, {6, 3, 2}, {12, 3, 6}};
static const int64_t dims[][2] = {{64, 64},   {128, 128}, {80, 80},   {96, 96},  {192, 128},
                                  {256, 256}, {32, 64},   {100, 100}, {64, 128}, {8, 24}};
static const int64_t lengths[][2] = {{1, 1},     {64, 128},  {128, 192}, {239, 1},   {70, 3},
                                     {113, 203}, {128, 256}, {300, 256}, {130, 300}, {1, 200}};

static setup plain_setup(const int64_t h[3], const int64_t d[2], const int64_t l[2], hr_dtype dtype)
{
  setup s = {.a = hr_attention_default(), .options = hr_attention_backward_default(), .at_start = true, .seed = 1};
  s.a.dtype = dtype;
  s.a.mask = HR_MASK_NONE;
  s.a.q_heads = h[0], s.a.k_heads = h[1], s.a.v_heads = h[2];
  s.a.qk_dim = d[0], s.a.v_dim = d[1];
  s.a.q_len = l[0], s.a.kv_len = l[1];
  return s;
}

static void check_heads_and_dims(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t h = 0; h < LENGTH(heads); h++)
    for (int64_t d = 0; d < LENGTH(dims); d++) {
      const int64_t length[] = {h % 2 ? 19 : 5, d % 2 ? 37 : 70};
      setup s = plain_setup(heads[h], dims[d], length, dtype);
      s.a.mask = (h + d) % 3 ? HR_MASK_CAUSAL : HR_MASK_NONE;
      s.at_start = (h + d) % 2;
      s.seed = (uint64_t)(h * 100 + d + 1);
      if (test_takes(h * LENGTH(dims) + d))
        try_call(device, kernel, &s);
    }
}

static void check_lengths(hr_device *device, const char *kernel, hr_dtype dtype)
{
  for (int64_t i = 0; i < 2 * LENGTH(lengths); i++) {
    setup s = plain_setup(heads[i % 4 + 1], dims[i % 3], lengths[i / 2], dtype);
    s.a.mask = i % 2 ? HR_MASK_CAUSAL : HR_MASK_NONE;
    s.a.window = i % 2 && i % 3 == 2 ? 65 : 0;
    s.options.deterministic = i % 4 == 0;
    s.seed = (uint64_t)i + 1;
    if (test_takes(i))
      try_call(device, kernel, &s);
  }
}

static int64_t pick(uint64_t *random, int64_t count)
{
  return (int64_t)(next_random(random) % (uint64_t)count);
}

/* Sequences of random lengths, some empty, with unused rows before and behind them. */
static void pick_sequences(setup *s, uint64_t *random)
{
  s->a.variable_lengths = true;
  s->a.batch = 1 + pick(random, SEQUENCES_MAX);
  for (int which = 0; which < 2; which++) {
    int32_t *offsets = which ? s->kv_offsets : s->q_offsets;
    int64_t longest = which ? s->a.kv_len : s->a.q_len, at = pick(random, 3);
    for (int64_t b = 0; b <= s->a.batch; b++) {
      offsets[b] = (int32_t)at;
      at += pick(random, 4) == 0 ? 0 : pick(random, longest + 1);
    }
    *(which ? &s->a.kv_total : &s->a.q_total) = offsets[s->a.batch] + pick(random, 3);
  }
}

static setup pick_setup(hr_dtype dtype, uint64_t *random)
{
  const int64_t length[] = {1 + pick(random, 1 + pick(random, 200)), 1 + pick(random, 1 + pick(random, 200))};
  const float scales[] = {0, 0, 0.3F, 1, -0.5F};
  setup s = plain_setup(heads[pick(random, LENGTH(heads))], dims[pick(random, LENGTH(dims))], length, dtype);
  s.seed = next_random(random) >> 32;
  s.a.batch = 1 + pick(random, 2);
  s.a.mask = pick(random, 3) ? HR_MASK_CAUSAL : HR_MASK_NONE;
  if (s.a.mask == HR_MASK_CAUSAL && pick(random, 3) == 0)
    s.a.window = 1 + pick(random, s.a.kv_len + 10);
  s.a.scale = scales[pick(random, 5)];
  s.a.softcap = pick(random, 4) ? 0 : pick(random, 2) ? 2 : 30;
  s.a.alibi = pick(random, 4) == 0;
  s.a.first_keys = pick(random, 3) == 0;
  s.options.sinks = pick(random, 4) == 0;
  s.options.deterministic = pick(random, 4) == 0;
  s.at_start = pick(random, 2);
  s.gap = pick(random, 3) ? 0 : 8 * (1 + pick(random, 3));
  if (pick(random, 3) == 0)
    pick_sequences(&s, random);
  return s;
}

static void check_combinations(hr_device *device, const char *kernel, hr_dtype dtype)
{
  uint64_t random = (uint64_t)from_environment("HEADROOM_TEST_SEED", 20261128);
  int64_t samples = from_environment("HEADROOM_TEST_SAMPLES", 40);
  for (int64_t i = 0; i < samples; i++) {
    setup s = pick_setup(dtype, &random);
    if (test_takes(i))
      try_call(device, kernel, &s);
  }
}

/* Plans of other head sizes may share a program, and need less shared memory. */
static void check_plans_beside_each_other(hr_device *device, const char *kernel, hr_dtype dtype)
{
  static backward_call first, second;
  const int64_t large[] = {64, 64}, small[] = {40, 40}, length[] = {5, 7};
  const setup of_first = plain_setup(heads[1], large, length, dtype);
  const setup of_second = plain_setup(heads[1], small, length, dtype);
  open_call(device, kernel, &of_first, &first);
  open_call(device, kernel, &of_second, &second);
  hr_arguments x = arguments_of(&first), of_other = arguments_of(&second);
  hr_plan *plan = plan_call(&first, &x.backward), *other = plan_call(&second, &of_other.backward);
  if (plan) {
    run_plan(&first, plan, &x);
    compare(&first);
  }
  hr_plan_free(other);
  hr_plan_free(plan);
  close_call(&second);
  close_call(&first);
}

static const fact facts[] = {FACT(gradients_agree_with_the_formulas_for_all_heads_and_dims, check_heads_and_dims),
                             FACT(gradients_agree_with_the_formulas_for_lengths_that_break_tiles, check_lengths),
                             FACT(gradients_agree_with_the_formulas_for_combinations, check_combinations),
                             FACT(a_plan_keeps_its_shared_memory_when_others_are_made, check_plans_beside_each_other)};
const fact_group attention_backward_facts = {
    .name = "attention_backward", .operation = "attention_backward", .facts = facts, .count = LENGTH(facts)};
