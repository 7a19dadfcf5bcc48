/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "hardware/hardware.h"

#include <string.h>

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

/* Rates of an earlier kernel over those of a later one. */
typedef struct flash_speed {
  double forward, backward;
} flash_speed;

/* FlashAttention-2 over the newest kernels, where these are others. Geometric means over cuDNN 9 of FlashAttention-2
 * in PyTorch 2.11: forward of the calls of 2048 tokens and more with equal heads of 64 and 128 in
 * data/results/h200/attention_gpu_vs_torch.csv; backward of eight calls of an H100 80GB HBM3, 2026-11-27
 * (docs/notes/training.md). */
static const flash_speed hopper_version_2 = {0.579, 0.627};

/* Over FlashAttention-2, on an A100: "around 2x" for the first version; for its form in Triton "1.3-1.5x" forward and
 * "around 2x" backward (Dao 2023, arXiv 2307.08691, section 4.1). */
static const flash_speed over_version_2[] = {
    [HR_FLASH_NEWEST] = {1, 1},
    [HR_FLASH_2] = {1, 1},
    [HR_FLASH_1] = {1 / 2.0, 1 / 2.0},
    [HR_FLASH_TRITON] = {1 / 1.4, 1 / 2.0},
};

/* The kernel for a mask over FlashAttention-2, on Hopper: fitted to the compiled steps of five models
 * (docs/notes/transformers.md#predicted). It computes hidden scores, too. */
#define MASKED_OVER_VERSION_2 0.94

const hr_hardware *hr_predict_flash_device(const hr_hardware *hardware, const hr_operator *op, hr_hardware *older)
{
  if ((op->flash == HR_FLASH_NEWEST && !op->masked) || op->framework == HR_FRAMEWORK_HEADROOM)
    return hardware;
  bool hopper = strcmp(hardware->about.architecture, "hopper") == 0;
  flash_speed speed = over_version_2[op->flash], second = hopper ? hopper_version_2 : over_version_2[0];
  int64_t head_dim = hr_max64(op->attention.qk_dim, op->attention.v_dim);
  hr_attention_share share = hr_predict_attention_share(hardware, head_dim);
  *older = *hardware;
  older->attention_count = 1;
  older->attentions[0] = share;
  older->attentions[0].full_share = older->prefill_full.launch_ns = 0; /* of the newest */
  const double masked = op->masked ? MASKED_OVER_VERSION_2 : 1;
  older->attentions[0].forward_share *= speed.forward * second.forward * masked;
  older->attentions[0].backward_share *= speed.backward * second.backward * masked;
  return older;
}
