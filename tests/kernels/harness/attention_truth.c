/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_truth.h"

#include "runtime/measure/error_bounds.h"
#include "shape/number.h"

#include <math.h>

/* One query of one head with its keys and values. */
typedef struct lookup {
  const attention_call *c;
  int64_t batch, query, head, k_head, v_head;
  attention_place at;
  double *scores; /* [kv_len], NaN where masked */
  float *plain_scores;
} lookup;

/* Errors over all compared rows. */
typedef struct extent {
  double off, plain, result, norm;
  int64_t elements;
} extent;

/* The K (or V) head of a query head: each serves q_heads / heads consecutive query heads. */
static int64_t dealt(int64_t q_heads, int64_t heads, int64_t head)
{
  int64_t owner = 0;
  for (int64_t h = 1; h <= head; h++)
    owner += h % (q_heads / heads) == 0;
  return owner;
}

static bool sees(const lookup *l, int64_t key)
{
  const hr_attention *a = &l->c->a;
  const int32_t *first = (const int32_t *)(const void *)l->c->arrays[ARRAY_FIRST_KEYS].host;
  if (a->first_keys && key < first[l->at.q_row + l->query])
    return false;
  if (a->mask == HR_MASK_NONE)
    return true;
  int64_t from_the_end_query = l->at.q_len - 1 - l->query, from_the_end_key = l->at.kv_len - 1 - key;
  int64_t back = from_the_end_key - from_the_end_query; /* 0: the key at the query's own position */
  return back >= 0 && (a->window == 0 || back < a->window);
}

static double bias(const lookup *l, int64_t key)
{
  if (!l->c->a.alibi)
    return 0;
  return (double)l->c->slopes[l->head] * (double)(key - l->query - (l->at.kv_len - l->at.q_len));
}

/* A GEMM input as a plain program reads it: tf32 keeps 10 bits of mantissa, truncated. */
static float factor(hr_dtype dtype, float value)
{
  uint32_t bits;
  if (dtype != HR_TF32)
    return value;
  memcpy(&bits, &value, sizeof bits);
  bits &= 0xFFFFE000;
  memcpy(&value, &bits, sizeof bits);
  return value;
}

static double scale_of(const attention_call *c, int which, int64_t head)
{
  return c->scales[which] ? (double)c->scales[which][head] : 1;
}

static void score(const lookup *l, int64_t key, hr_reference_query *exact)
{
  const hr_attention *a = &l->c->a;
  const double *q = l->c->q + ((l->at.q_row + l->query) * a->q_heads + l->head) * a->qk_dim;
  const double *k = l->c->k + ((l->at.kv_row + key) * a->k_heads + l->k_head) * a->qk_dim;
  double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->qk_dim), sum = 0, squares = 0;
  scale *= scale_of(l->c, ARRAY_Q, l->head) * scale_of(l->c, ARRAY_K, l->k_head);
  float plain = 0;
  for (int64_t d = 0; d < a->qk_dim; d++) {
    sum += q[d] * k[d];
    squares += q[d] * q[d] * k[d] * k[d];
    plain += factor(a->dtype, (float)q[d]) * factor(a->dtype, (float)k[d]);
  }
  double s = sum * scale;
  plain *= (float)scale;
  if (a->softcap > 0) {
    s = (double)a->softcap * tanh(s / (double)a->softcap);
    plain = a->softcap * tanhf(plain / a->softcap);
  }
  l->scores[key] = s + bias(l, key);
  l->plain_scores[key] = plain + (float)bias(l, key);
  exact->largest = fmax(exact->largest, fabs(l->scores[key]));
  exact->score_norm = fmax(exact->score_norm, fabs(scale) * sqrt(squares));
}

/* Computes scores and their log-sum-exp (natural logarithm); −inf if all keys are masked. */
static double score_all(const lookup *l, hr_reference_query *exact, float *plain_largest)
{
  double sum = 0, largest = -(double)INFINITY;
  *plain_largest = -INFINITY;
  for (int64_t key = 0; key < l->at.kv_len; key++) {
    l->scores[key] = (double)NAN;
    if (!sees(l, key))
      continue;
    score(l, key, exact);
    largest = fmax(largest, l->scores[key]);
    *plain_largest = fmaxf(*plain_largest, l->plain_scores[key]);
  }
  for (int64_t key = 0; key < l->at.kv_len; key++) {
    if (!isnan(l->scores[key]))
      sum += exp(l->scores[key] - largest);
  }
  return sum > 0 ? largest + log(sum) : -(double)INFINITY;
}

static float rounded(hr_dtype dtype, double value)
{
  double bits;
  hr_number_store(dtype, &bits, 0, value);
  return (float)hr_number_load(dtype, &bits, 0);
}

/* A softmax weight as a plain program holds it. fp8: the largest is 2^8, near the format's largest number. */
static float weight_held(hr_dtype dtype, float weight)
{
  float unit = dtype == HR_FP8_E4M3 ? 256 : 1;
  return factor(dtype, rounded(dtype, (double)(weight * unit))) / unit;
}

/* Fills `exact` with the float64 result and `plain` with that of the plain program. */
static void work_out(const lookup *l, hr_reference_query *exact, float *plain)
{
  const hr_attention *a = &l->c->a;
  float plain_largest, plain_sum = 0;
  double v_scale = scale_of(l->c, ARRAY_V, l->v_head);
  exact->largest = exact->score_norm = 0;
  for (int64_t d = 0; d < a->v_dim; d++)
    exact->out[d] = exact->norm[d] = 0, plain[d] = 0;
  exact->lse = score_all(l, exact, &plain_largest);
  for (int64_t key = 0; key < l->at.kv_len; key++) {
    if (isnan(l->scores[key]))
      continue;
    const double *v = l->c->v + ((l->at.kv_row + key) * a->v_heads + l->v_head) * a->v_dim;
    double weight = exp(l->scores[key] - exact->lse) * v_scale;
    float plain_weight = expf(l->plain_scores[key] - plain_largest),
          held = weight_held(a->dtype, plain_weight) * (float)v_scale;
    plain_sum += plain_weight;
    for (int64_t d = 0; d < a->v_dim; d++) {
      exact->out[d] += weight * v[d];
      exact->norm[d] += weight * fabs(v[d]);
      plain[d] += held * factor(a->dtype, (float)v[d]);
    }
  }
  for (int64_t d = 0; d < a->v_dim; d++)
    plain[d] = plain_sum > 0 ? rounded(hr_attention_output_dtype(a), (double)(plain[d] / plain_sum)) : 0;
}

static void compare_lse(const lookup *l, const char *kernel, const hr_reference_query *exact)
{
  char text[512];
  if (!l->c->arguments.lse)
    return;
  double found = attention_lse(l->c, l->batch, l->query, l->head);
  double bound = isinf(exact->lse) ? 0 : hr_attention_lse_error_bound(l->c->a.dtype, l->c->a.qk_dim, exact);
  if (found != exact->lse && !(fabs(found - exact->lse) <= bound))
    fail_msg("%s %s: log-sum-exp [%d, %d, %d] is %.9g, exactly %.9g, allowed ±%g", kernel, attention_words(l->c, text),
             (int)l->batch, (int)l->head, (int)l->query, found, exact->lse, bound);
}

static void compare_query(const lookup *l, const char *kernel, const hr_reference_query *exact, const float *plain,
                          extent *all)
{
  const hr_attention *a = &l->c->a;
  char text[512];
  for (int64_t d = 0; d < a->v_dim; d++) {
    double found = attention_result(l->c, l->at.q_row + l->query, l->head, d), off = fabs(found - exact->out[d]);
    double bound =
        isinf(exact->lse) ? 0 : hr_attention_error_bound(a->dtype, hr_attention_output_dtype(a), a->qk_dim, exact, d);
    if (!(off <= bound))
      fail_msg("%s %s: [batch %d, query %d, head %d, %d] is %.9g, exactly %.9g, allowed ±%g", kernel,
               attention_words(l->c, text), (int)l->batch, (int)l->query, (int)l->head, (int)d, found, exact->out[d],
               bound);
    all->off = fmax(all->off, off);
    all->plain = fmax(all->plain, fabs((double)plain[d] - exact->out[d]));
    all->result = fmax(all->result, fabs(exact->out[d]));
    all->norm = fmax(all->norm, exact->norm[d]);
    all->elements++;
  }
  compare_lse(l, kernel, exact);
}

/* Compares the largest error with the plain program's, which is meaningful over many elements. fp32: a kernel's
 * exponential may have a few more rounding errors than the C library's. tf32: the plain program truncates inputs;
 * kernels may truncate or round, which has half the error. fp8: Tensor Cores cut sums to 14 bits, O once in 32 keys. */
static void compare_with_plain(const attention_call *c, const char *kernel, const extent *all)
{
  char text[512];
  if (all->elements < 1024 || c->a.kv_len < 32)
    return;
  double bound = 2 * all->plain + hr_dtype_rounding_error(hr_attention_output_dtype(&c->a), all->result);
  if (c->a.dtype == HR_FP8_E4M3)
    bound += 0x1p-14 * (8 + (double)c->a.kv_len / 64) * all->norm;
  else if (c->a.dtype != HR_FP64)
    bound += 8 * hr_dtype_rounding(HR_FP32) * all->norm;
  if (!(all->off <= bound))
    fail_msg("%s %s: off by up to %g, a plain program by up to %g, allowed ±%g", kernel, attention_words(c, text),
             all->off, all->plain, bound);
}

/* Query `index` of all, heads fastest. Sequences shorter than q_len lack some of them. */
static bool find_query(const attention_call *c, int64_t index, lookup *l)
{
  const hr_attention *a = &c->a;
  l->c = c;
  l->head = index % a->q_heads;
  l->query = index / a->q_heads % a->q_len;
  l->batch = index / a->q_heads / a->q_len;
  l->at = attention_place_of(c, l->batch);
  l->k_head = dealt(a->q_heads, a->k_heads, l->head);
  l->v_head = dealt(a->q_heads, a->v_heads, l->head);
  return l->query < l->at.q_len;
}

/* Rows that are not compared must at least have been written: O was NaN before and must be finite. */
static void assert_written(const attention_call *c, const char *kernel, double *values)
{
  const hr_attention *a = &c->a;
  char text[512];
  for (int64_t batch = 0; batch < a->batch; batch++) {
    attention_place at = attention_place_of(c, batch);
    for (int64_t i = 0; i < at.q_len * a->q_heads; i++) {
      int64_t row = at.q_row + i / a->q_heads, head = i % a->q_heads;
      attention_results(c, row, head, values);
      for (int64_t d = 0; d < a->v_dim; d++)
        if (isnan(values[d]))
          fail_msg("%s %s: row %d, head %d, %d was not written, or is NaN", kernel, attention_words(c, text), (int)row,
                   (int)head, (int)d);
    }
  }
}

void attention_compare(const attention_call *c, const char *kernel, int64_t multiply_adds)
{
  const hr_attention *a = &c->a;
  int64_t queries = a->batch * a->q_len * a->q_heads, most = multiply_adds / ((a->kv_len + 1) * (a->qk_dim + a->v_dim));
  int64_t count = most < queries ? (most < 8 ? 8 : most) : queries;
  double *memory = calloc((size_t)(a->kv_len + 2 * a->v_dim + 1), sizeof *memory);
  float *floats = calloc((size_t)(a->kv_len + a->v_dim + 1), sizeof *floats);
  assert_true(memory && floats);
  lookup l = {.scores = memory, .plain_scores = floats};
  hr_reference_query exact = {.out = memory + a->kv_len, .norm = memory + a->kv_len + a->v_dim};
  extent all = {0};
  uint64_t random = c->setup.seed;
  if (count < queries)
    assert_written(c, kernel, exact.out);
  for (int64_t i = 0; i < count && queries > 0; i++) {
    int64_t index = count == queries ? i : (int64_t)(next_random(&random) % (uint64_t)queries);
    if (count < queries && i < 2)
      index = i == 0 ? 0 : queries - 1;
    if (!find_query(c, index, &l))
      continue;
    work_out(&l, &exact, floats + a->kv_len);
    compare_query(&l, kernel, &exact, floats + a->kv_len, &all);
  }
  compare_with_plain(c, kernel, &all);
  free(memory);
  free(floats);
}

bool attention_try(hr_device *device, const char *kernel, const attention_setup *setup, int64_t multiply_adds)
{
  attention_call call;
  attention_setup placed = *setup;
  placed.at_start =
      placed.at_start || strcmp(kernel, "attention_flash_sm90") == 0; /* TMA takes aligned addresses alone */
  attention_open(device, &placed, &call);
  bool ran = attention_run(&call, kernel);
  if (ran)
    attention_compare(&call, kernel, multiply_adds);
  attention_close(&call);
  return ran;
}
