#include "base/checked.h"
#include "runtime/device/device.h"
#include "runtime/device/number.h"
#include "runtime/reference/reference.h"

#include <math.h>
#include <string.h>

size_t hr_reference_attention_scratch(const hr_attention *attention)
{
  return (size_t)attention->kv_len + (size_t)attention->qk_dim + (size_t)hr_max64(attention->qk_dim, attention->v_dim);
}

typedef struct key_range {
  int64_t first, end;
} key_range;

/* Query i of q_len stands at position i + kv_len − q_len among the keys. */
static key_range visible_keys(const hr_attention *t, int64_t query)
{
  if (t->mask == HR_MASK_NONE)
    return (key_range){0, t->kv_len};
  int64_t own = query + t->kv_len - t->q_len;
  return (key_range){t->window > 0 ? hr_max64(0, own - t->window + 1) : 0, hr_max64(0, own + 1)};
}

/* scores[j − first] = scale · q · K[j]; returns the largest. A NaN is never the largest. */
static double score_row(const hr_attention *t, const double *q_row, const void *k, int64_t batch, int64_t head,
                        key_range keys, double *k_row, double *scores)
{
  int64_t k_head = head / (t->q_heads / t->k_heads);
  double scale = t->scale != 0 ? (double)t->scale : 1.0 / sqrt((double)t->qk_dim), largest = -(double)INFINITY;
  for (int64_t j = keys.first; j < keys.end; j++) {
    int64_t at = ((batch * t->kv_len + j) * t->k_heads + k_head) * t->qk_dim;
    hr_numbers_load(t->dtype, k, (size_t)at, (size_t)t->qk_dim, k_row);
    double sum = 0;
    for (int64_t d = 0; d < t->qk_dim; d++)
      sum += q_row[d] * k_row[d];
    scores[j - keys.first] = scale * sum;
    if (scores[j - keys.first] > largest)
      largest = scores[j - keys.first];
  }
  return largest;
}

void hr_reference_attention_row(const hr_attention *t, const void *q, const void *k, const void *v, int64_t batch,
                                int64_t query, int64_t head, double *scratch, double *out, double *norm)
{
  double *scores = scratch, *q_row = scores + t->kv_len, *kv_row = q_row + t->qk_dim;
  key_range keys = visible_keys(t, query);
  memset(out, 0, (size_t)t->v_dim * sizeof *out);
  if (norm)
    memset(norm, 0, (size_t)t->v_dim * sizeof *norm);
  if (keys.first >= keys.end)
    return;

  int64_t q_at = ((batch * t->q_len + query) * t->q_heads + head) * t->qk_dim;
  hr_numbers_load(t->dtype, q, (size_t)q_at, (size_t)t->qk_dim, q_row);
  double largest = score_row(t, q_row, k, batch, head, keys, kv_row, scores), total = 0;
  for (int64_t j = 0; j < keys.end - keys.first; j++) {
    scores[j] = exp(scores[j] - largest);
    total += scores[j];
  }

  int64_t v_head = head / (t->q_heads / t->v_heads);
  for (int64_t j = keys.first; j < keys.end; j++) {
    int64_t at = ((batch * t->kv_len + j) * t->v_heads + v_head) * t->v_dim;
    hr_numbers_load(t->dtype, v, (size_t)at, (size_t)t->v_dim, kv_row);
    double weight = scores[j - keys.first] / total;
    for (int64_t d = 0; d < t->v_dim; d++)
      out[d] += weight * kv_row[d];
    for (int64_t d = 0; norm && d < t->v_dim; d++)
      norm[d] += weight * fabs(kv_row[d]);
  }
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  const hr_attention *t = &problem->attention;
  *workspace_bytes = (hr_reference_attention_scratch(t) + (size_t)t->v_dim) * sizeof(double);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  (void)error;
  const hr_attention *t = &plan->problem.attention;
  double *scratch = workspace, *row = scratch + hr_reference_attention_scratch(t);
  int64_t rows = t->batch * t->q_len * t->q_heads;
  for (int64_t i = 0; i < rows; i++) {
    int64_t head = i % t->q_heads, query = i / t->q_heads % t->q_len, batch = i / t->q_heads / t->q_len;
    hr_reference_attention_row(t, inputs[0], inputs[1], inputs[2], batch, query, head, scratch, row, NULL);
    for (int64_t d = 0; d < t->v_dim; d++)
      hr_number_store(t->dtype, output, (size_t)(i * t->v_dim + d), row[d]);
  }
  return HR_OK;
}

const hr_kernel_functions hr_kernel_attention_reference = {.prepare = prepare, .run = run};
