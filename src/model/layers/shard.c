/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/shard.h"

#include "base/checked.h"
#include "base/error.h"

#include <headroom/experimental/workload.h>

hr_status hr_shard_sizes(const hr_model *model, const hr_workload *workload, hr_shard *shard, hr_error *error)
{
  bool decode = workload->phase == HR_PHASE_DECODE;
  bool last_token_only = decode || workload->phase == HR_PHASE_PREFILL;
  int64_t t = workload->tensor_parallel;

  shard->q_len = decode ? 1 : workload->sequence / workload->context_parallel;
  shard->kv_len = decode ? workload->context : workload->sequence;
  shard->vocabulary = hr_ceil_div(model->vocabulary, t);
  shard->outputs = model->head == HR_HEAD_LANGUAGE ? shard->vocabulary : model->classes;
  shard->embedding_dim = model->embedding_dim > 0 ? model->embedding_dim : model->hidden;

  hr_checked64 rows = hr_times(hr_checked(workload->batch), shard->q_len);
  hr_checked64 all = hr_times(hr_times(rows, workload->context_parallel), hr_workload_microbatches(workload));
  if (hr_checked_take(rows, &shard->rows) != HR_OK || all.overflow)
    return hr_fail(error, HR_ERROR_OVERFLOW,
                   "the tokens of a step (microbatches × batch × sequence) do not fit into 63 bits");
  shard->logit_rows = last_token_only ? workload->batch : shard->rows;
  shard->stream_rows = workload->sequence_parallel ? hr_ceil_div(shard->rows, t) : shard->rows;
  shard->logit_stream_rows = workload->sequence_parallel ? hr_ceil_div(shard->logit_rows, t) : shard->logit_rows;
  return HR_OK;
}

hr_status hr_count_replicas(const hr_workload *workload, hr_replicas *replicas, hr_error *error)
{
  int64_t groups = hr_max64(1, workload->expert_parallel / workload->tensor_parallel), devices;
  hr_checked64 product = hr_times(hr_checked(workload->data_parallel), workload->context_parallel);
  if (hr_checked_take(product, &devices) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the devices (data_parallel × context_parallel) do not fit into 63 bits");
  replicas->devices = devices;
  replicas->devices_of_experts = hr_max64(1, devices / groups);
  return HR_OK;
}

int64_t hr_divisor_at_min(int64_t q_heads, int64_t heads)
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
