#include "analysis/advise/format.h"

#include "base/checked.h"
#include "base/quantity.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

hr_text32 hr_format_time(double time_ns)
{
  hr_text32 said;
  hr_write_time(said.text, sizeof said.text, time_ns);
  return said;
}

hr_text32 hr_format_bytes(double bytes)
{
  hr_text32 said;
  hr_write_bytes(said.text, sizeof said.text, bytes);
  return said;
}

hr_text32 hr_format_gain(double gain)
{
  hr_text32 said;
  hr_write_gain(said.text, sizeof said.text, gain);
  return said;
}

hr_text32 hr_format_rate(const hr_step *step, hr_operator_set operators)
{
  hr_text32 said;
  double flops = 0, time_ns = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    const hr_operator *op = &step->operators.items[i];
    if (operators & HR_OPERATOR_BIT(op->id)) {
      flops += (double)op->count * (double)op->flops;
      time_ns += (double)op->count * step->predictions[i].time_ns;
    }
  }
  hr_write_rate(said.text, sizeof said.text, time_ns > 0 ? flops / time_ns * 1e9 : 0, "FLOP/s");
  return said;
}

hr_text32 hr_format_divisibility(int64_t size)
{
  hr_text32 said;
  int64_t power = hr_power_of_two_in(size, 64);
  if (power == 1)
    snprintf(said.text, sizeof said.text, "odd");
  else
    snprintf(said.text, sizeof said.text, "divisible by %d but not %d", (int)power, (int)(2 * power));
  return said;
}

hr_text192 hr_format_text(const char *format, ...)
{
  hr_text192 said;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(said.text, sizeof said.text, format, arguments);
  va_end(arguments);
  return said;
}

hr_text192 hr_format_heads(const hr_model *model)
{
  int64_t k = model->k_heads, v = model->v_heads;
  hr_text192 heads = hr_format_text("%" PRId64 " heads of %" PRId64, model->q_heads, model->qk_dim);
  if (k != v)
    return hr_format_text("%s, %" PRId64 " K and %" PRId64 " V heads", heads.text, k, v);
  if (k != model->q_heads)
    return hr_format_text("%s, %" PRId64 " KV head%s", heads.text, k, k == 1 ? "" : "s");
  return heads;
}
