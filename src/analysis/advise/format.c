/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/advise/format.h"

#include "base/checked.h"
#include "base/quantity.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "model/layers/layer_kinds.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

hr_text32 hr_format_time(double time_ns)
{
  hr_text32 result;
  hr_write_time(result.text, sizeof result.text, time_ns);
  return result;
}

hr_text32 hr_format_bytes(double bytes)
{
  hr_text32 result;
  hr_write_bytes(result.text, sizeof result.text, bytes);
  return result;
}

hr_text32 hr_format_gain(double gain)
{
  hr_text32 result;
  hr_write_gain(result.text, sizeof result.text, gain);
  return result;
}

hr_text32 hr_format_rate(const hr_step *step, hr_operator_set operators)
{
  hr_text32 result;
  hr_write_rate(result.text, sizeof result.text, hr_flops_per_s_of(step, operators), "FLOP/s");
  return result;
}

hr_text32 hr_format_divisibility(int64_t size)
{
  hr_text32 result;
  int64_t power = hr_power_of_two_in(size, 64);
  if (power == 1)
    snprintf(result.text, sizeof result.text, "odd");
  else
    snprintf(result.text, sizeof result.text, "divisible by %d but not %d", (int)power, (int)(2 * power));
  return result;
}

hr_text192 hr_format_text(const char *format, ...)
{
  hr_text192 result;
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(result.text, sizeof result.text, format, arguments);
  va_end(arguments);
  return result;
}

hr_text192 hr_format_share(int64_t layers, int64_t all)
{
  return layers < all ? hr_format_text(" in %" PRId64 " of %" PRId64 " layers", layers, all) : (hr_text192){""};
}

hr_text192 hr_format_layers_with_heads(const hr_model *model, const hr_mixer_attention *heads)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention other = hr_heads_of(&model->groups[i]);
    if (other.q_heads == heads->q_heads && other.k_heads == heads->k_heads && other.v_heads == heads->v_heads &&
        other.qk_dim == heads->qk_dim && other.v_dim == heads->v_dim)
      layers += model->groups[i].count;
  }
  return hr_format_share(layers, hr_model_layers(model));
}

hr_text192 hr_format_heads(const hr_model *model)
{
  const hr_mixer_attention *main = hr_main_attention(model);
  int64_t k = main->k_heads, v = main->v_heads;
  hr_text192 layers = hr_format_layers_with_heads(model, main);
  hr_text192 heads = hr_format_text("%" PRId64 " heads of %" PRId64, main->q_heads, main->qk_dim);
  if (k != v)
    return hr_format_text("%s, %" PRId64 " K and %" PRId64 " V heads%s", heads.text, k, v, layers.text);
  if (k != main->q_heads)
    return hr_format_text("%s, %" PRId64 " KV head%s%s", heads.text, k, k == 1 ? "" : "s", layers.text);
  return hr_format_text("%s%s", heads.text, layers.text);
}

hr_text192 hr_format_mlp_width(const hr_model *model)
{
  bool experts = hr_ffn_width(hr_model_main_group(model), HR_FFN_EXPERTS) > 0;
  hr_ffn_part part = experts ? HR_FFN_EXPERTS : HR_FFN_DENSE;
  int64_t width = hr_main_mlp_width(model), layers = 0;
  for (size_t i = 0; i < model->group_count; i++)
    layers += hr_ffn_width(&model->groups[i], part) == width ? model->groups[i].count : 0;
  return hr_format_text("%s %" PRId64 "%s", experts ? "experts of" : "MLP width", width,
                        hr_format_share(layers, hr_model_layers(model)).text);
}

#define NEAR_FULL_SPEED 0.9

hr_text192 hr_explain_no_loss(const hr_hardware *hardware, int64_t size, hr_dtype dtype, bool batched)
{
  int64_t fast = hr_hardware_fast_bytes(hardware, NEAR_FULL_SPEED, batched);
  if (hr_power_of_two_in(size, 128) * (int64_t)hr_dtype_bytes(dtype) < fast)
    return hr_format_text("the loss is negligible in this step");
  hr_text192 from =
      fast > 1 ? hr_format_text("from %" PRId64 "-byte alignment on", fast) : hr_format_text("at any alignment");
  return hr_format_text("%s GEMMs reach 90%% of full speed on this device %s", batched ? "batched" : "plain",
                        from.text);
}
