/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/attention_backward.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "shape/attention_strides.h"

void hr_attention_backward_init(hr_attention_backward *backward, size_t size)
{
  HR_INIT(backward, size, (hr_attention_backward){0});
}

hr_attention hr_backward_gradients(const hr_backward *backward)
{
  hr_attention a = backward->forward;
  a.q_strides = backward->options.dq_strides;
  a.k_strides = backward->options.dk_strides;
  a.v_strides = backward->options.dv_strides;
  a.o_strides = backward->options.do_strides;
  return a;
}

hr_status hr_backward_take(const hr_attention *forward, const hr_attention_backward *options, hr_backward *backward,
                           hr_error *error)
{
  HR_TAKE(hr_attention, forward, error);
  HR_TAKE(hr_attention_backward, options, error);
  *backward = (hr_backward){.forward = *forward, .options = hr_attention_backward_default()};
  if (options)
    backward->options = *options;
  return HR_OK;
}

static hr_status check_gradients(const hr_backward *backward, hr_error *error)
{
  static const char *const names[] = {
      [HR_OPERAND_Q] = "dq", [HR_OPERAND_K] = "dk", [HR_OPERAND_V] = "dv", [HR_OPERAND_O] = "do"};
  hr_attention gradients = hr_backward_gradients(backward);
  for (int which = HR_OPERAND_Q; which <= HR_OPERAND_O; which++)
    HR_TRY(hr_attention_check_operand(&gradients, (hr_attention_operand)which, names[which], which != HR_OPERAND_O,
                                      error));
  return HR_OK;
}

hr_status hr_attention_backward_check(const hr_attention *forward, const hr_attention_backward *backward,
                                      hr_error *error)
{
  int64_t count;
  hr_backward both;
  HR_NEED(error, forward);
  HR_TRY(hr_backward_take(forward, backward, &both, error));
  HR_TRY(hr_attention_check(&both.forward, error));
  if (both.forward.dtype == HR_FP8_E4M3)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: gradients are in a wider format than fp8");
  hr_status flops = hr_attention_backward_flops(&both.forward, &count);
  if (flops == HR_ERROR_OVERFLOW || hr_attention_backward_bytes(&both.forward, &count) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the gradients of this attention call are too large to count");
  return check_gradients(&both, error);
}

hr_status hr_attention_backward_flops(const hr_attention *forward, int64_t *flops)
{
  HR_NEED(NULL, forward, flops);
  hr_attention products = *forward; /* Q Kᵀ, dS K and dSᵀ Q; dO Vᵀ and Pᵀ dO */
  products.qk_dim = hr_times(hr_checked(forward->qk_dim), 3).value;
  products.v_dim = hr_times(hr_checked(forward->v_dim), 2).value;
  return hr_attention_flops(&products, flops);
}

hr_status hr_attention_backward_bytes(const hr_attention *forward, int64_t *bytes)
{
  int64_t tensors = 0, lse = 0;
  HR_NEED(NULL, forward, bytes);
  HR_TRY(hr_attention_bytes(forward, &tensors));
  HR_TRY(hr_attention_lse_elements(forward, &lse));
  hr_checked64 all = hr_plus(hr_times(hr_checked(tensors), 2), hr_times(hr_checked(lse), (int64_t)sizeof(float)));
  return hr_checked_take(all, bytes);
}
