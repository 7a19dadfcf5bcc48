/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/decode/version.h"

#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"

double hr_split_loaded_unit(const hr_decode *d)
{
  return d->cache_format == HR_KV_FP8 ? HR_SPLIT_FP8_SCALE : 1;
}

hr_split_scores hr_split_score_rules(const hr_decode *d)
{
  double scale = hr_decode_scale(d) * hr_split_loaded_unit(d);
  return (hr_split_scores){(float)(d->softcap > 0 ? scale / (double)d->softcap : scale), d->softcap, hr_decode_top(d)};
}
