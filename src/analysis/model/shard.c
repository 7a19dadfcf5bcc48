#include "analysis/model/shard.h"

#include "base/checked.h"
#include "base/error.h"

hr_status hr_split_sizes(const hr_model *model, const hr_workload *workload, hr_split *split, hr_error *error)
{
  bool decode = workload->phase == HR_PHASE_DECODE;
  bool last_token_only = decode || workload->phase == HR_PHASE_PREFILL;
  int64_t t = workload->tensor_parallel;

  split->q_len = decode ? 1 : workload->sequence;
  split->kv_len = decode ? workload->context : workload->sequence;
  split->q_heads = hr_ceil_div(model->q_heads, t);
  split->k_heads = hr_ceil_div(model->k_heads, t);
  split->v_heads = hr_ceil_div(model->v_heads, t);
  split->mlp_width = hr_ceil_div(model->mlp_width, t);
  split->vocabulary = hr_ceil_div(model->vocabulary, t);
  split->embedding_dim = model->embedding_dim > 0 ? model->embedding_dim : model->hidden;

  const struct {
    int64_t a, b;
    int64_t *product;
  } products[] = {
      {workload->batch, split->q_len, &split->rows},      {split->q_heads, model->qk_dim, &split->q_columns},
      {split->k_heads, model->qk_dim, &split->k_columns}, {split->v_heads, model->v_dim, &split->v_columns},
      {split->q_heads, model->v_dim, &split->o_columns},
  };
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    if (hr_checked_take(hr_times(hr_checked(products[i].a), products[i].b), products[i].product) != HR_OK)
      return hr_fail(error, HR_ERROR_OVERFLOW, "%s do not fit into 63 bits",
                     i == 0 ? "the tokens of a step (batch × sequence)" : "the columns of the heads");
  }
  split->logit_rows = last_token_only ? workload->batch : split->rows;
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
