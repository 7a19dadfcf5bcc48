/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/terms.h"
#include "hardware/hardware.h"

/* For a device without figures for fused attention: FlashAttention-2 reaches 0.5 to 0.73 of an A100's 312
 * TFLOP/s forward and 0.5 to 0.6 backward (Dao 2023, arXiv 2307.08691, section 4), where the library reaches 0.87. */
#define FORWARD_SHARE_UNKNOWN 0.6
#define BACKWARD_SHARE_UNKNOWN 0.5

hr_attention_share hr_predict_attention_share(const hr_hardware *hardware, int64_t head_dim)
{
  hr_attention_share share = {.forward_share = FORWARD_SHARE_UNKNOWN, .backward_share = BACKWARD_SHARE_UNKNOWN};
  for (size_t i = 0; i < hardware->attention_count; i++) {
    share = hardware->attentions[i];
    if (head_dim <= share.head_dim)
      break;
  }
  return share;
}
