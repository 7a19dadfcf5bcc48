/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/model/shard.h"

#include "base/checked.h"
#include "base/error.h"

hr_status hr_shard_sizes(const hr_model *model, const hr_workload *workload, hr_shard *shard, hr_error *error)
{
  bool decode = workload->phase == HR_PHASE_DECODE;
  bool last_token_only = decode || workload->phase == HR_PHASE_PREFILL;
  int64_t t = workload->tensor_parallel;

  shard->q_len = decode ? 1 : workload->sequence;
  shard->kv_len = decode ? workload->context : workload->sequence;
  shard->q_heads = hr_ceil_div(model->q_heads, t);
  shard->k_heads = hr_ceil_div(model->k_heads, t);
  shard->v_heads = hr_ceil_div(model->v_heads, t);
  shard->mlp_width = hr_ceil_div(model->mlp_width, t);
  shard->vocabulary = hr_ceil_div(model->vocabulary, t);
  shard->embedding_dim = model->embedding_dim > 0 ? model->embedding_dim : model->hidden;

  const struct {
    int64_t a, b;
    int64_t *product;
  } products[] = {
      {workload->batch, shard->q_len, &shard->rows},      {shard->q_heads, model->qk_dim, &shard->q_columns},
      {shard->k_heads, model->qk_dim, &shard->k_columns}, {shard->v_heads, model->v_dim, &shard->v_columns},
      {shard->q_heads, model->v_dim, &shard->o_columns},
  };
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    if (hr_checked_take(hr_times(hr_checked(products[i].a), products[i].b), products[i].product) != HR_OK)
      return hr_fail(error, HR_ERROR_OVERFLOW, "%s do not fit into 63 bits",
                     i == 0 ? "the tokens of a step (batch × sequence)" : "heads × head size");
  }
  shard->logit_rows = last_token_only ? workload->batch : shard->rows;
  return HR_OK;
}

int64_t hr_divisor_at_least(int64_t q_heads, int64_t heads)
{
  if (q_heads % heads == 0)
    return heads;
  int64_t best = q_heads;
  for (int64_t low = 1; low <= q_heads / low; low++) { /* divisors come in pairs low · high */
    if (q_heads % low != 0)
      continue;
    if (low >= heads)
      return hr_min64(low, best);
    if (q_heads / low >= heads)
      best = q_heads / low;
  }
  return best;
}
