/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/persistent/parts.h"

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/persistent/persistent.h"

#define DIM_MAX 256
#define CHUNK 8 /* elements of 16 bytes */

static const struct {
  hr_rowwise_operation operation;
  int activation;
} activations[] = {{HR_ROWWISE_COUNT, HR_PERSISTENT_IDENTITY},
                   {HR_ROWWISE_GELU, HR_PERSISTENT_GELU},
                   {HR_ROWWISE_GELU_TANH, HR_PERSISTENT_GELU_TANH},
                   {HR_ROWWISE_RELU, HR_PERSISTENT_RELU},
                   {HR_ROWWISE_RELU2, HR_PERSISTENT_RELU2},
                   {HR_ROWWISE_SWIGLU, HR_PERSISTENT_SWIGLU},
                   {HR_ROWWISE_SWIGLU_CLAMPED, HR_PERSISTENT_SWIGLU_CLAMPED},
                   {HR_ROWWISE_GEGLU, HR_PERSISTENT_GEGLU},
                   {HR_ROWWISE_GEGLU_TANH, HR_PERSISTENT_GEGLU_TANH}};

#define ACTIVATIONS (sizeof activations / sizeof *activations)

int hr_persistent_activation(hr_rowwise_operation operation)
{
  for (size_t i = 0; i < ACTIVATIONS; i++) {
    if (activations[i].operation == operation)
      return activations[i].activation;
  }
  return -1;
}

hr_linear_arguments hr_persistent_layer(const hr_linear_arguments *x)
{
  hr_linear_arguments all = *x;
  if (x->experts > 0) {
    all.rows = 1;
    all.n *= x->active > 0 ? 1 : x->rows;
    all.k *= x->active > 0 ? x->rows : 1;
  }
  return all;
}

_Static_assert(HR_PERSISTENT_X_PADDING == 8, "hr_linear_x_bytes() counts them");
_Static_assert((int)HR_PERSISTENT_BYTES == 2 * HR_LINEAR_SLOT_COLUMNS, "elements have 16 bits");

/* A tile's rows are those of two blocks at most, whose rows of scales are copied 16 bytes at a time. */
_Static_assert((int)HR_FP8_ROWS_LEAST >= (int)HR_PERSISTENT_ROWS, "of two blocks at most");
_Static_assert((int)HR_PERSISTENT_BYTES / HR_FP8_BLOCK * 4 <= (int)HR_PERSISTENT_PITCH - (int)HR_PERSISTENT_BYTES,
               "a slot has room for scales");

static bool takes_experts(const hr_linear_arguments *x)
{
  return x->most == 1 && x->rows <= HR_LINEAR_ACTIVE_MAX && x->experts <= HR_LINEAR_EXPERTS_MAX && !x->scales &&
         (x->active == 0 || !x->gate);
}

static bool takes_linear(const hr_linear_arguments *linear)
{
  const hr_linear_arguments x = hr_persistent_layer(linear);
  return hr_dtype_bytes(x.dtype) == 2 && (x.experts == 0 || takes_experts(linear)) &&
         x.rows <= HR_LINEAR_PERSISTENT_ROWS_MAX && linear->k % HR_PERSISTENT_STEP == 0 && x.x_stride % CHUNK == 0 &&
         x.alignment % HR_PART_ALIGNMENT == 0 && hr_persistent_activation(x.activation) >= 0 &&
         hr_linear_x_bytes(x.rows, x.k) <= HR_LINEAR_X_BYTES_MAX;
}

/* A router chooses the experts of one token, by the largest logits. */
static bool takes_router(const hr_route_arguments *r)
{
  return r->tokens == 1 && !r->sigmoid && !r->bias && r->groups == 0 && r->held == 0 && !r->weights_of &&
         r->experts <= HR_LINEAR_EXPERTS_MAX && r->active <= HR_LINEAR_ACTIVE_MAX;
}

static bool has_packed_cache(const hr_decode *d)
{
  const hr_kv_strides k = hr_decode_k_strides(d), v = hr_decode_v_strides(d);
  return k.head == d->qk_dim && k.token == d->k_heads * d->qk_dim && k.page == d->page_size * k.token &&
         v.head == d->v_dim && v.token == d->v_heads * d->v_dim && v.page == d->page_size * v.token;
}

static bool takes_attention(const hr_persistent_part *part)
{
  const hr_decode *d = part->decode;
  const hr_strides q = hr_decode_q_strides(d), o = hr_decode_o_strides(d);
  const int64_t groups = hr_persistent_groups(d);
  return hr_dtype_bytes(d->dtype) == 2 && d->cache_format == HR_KV_UNQUANTIZED && !d->latent && d->top_k == 0 &&
         !d->batch_invariant && !d->sinks && d->softcap == 0 && d->q_len == 1 &&
         d->batch <= HR_LINEAR_PERSISTENT_ROWS_MAX && d->qk_dim % CHUNK == 0 && d->v_dim % CHUNK == 0 &&
         d->qk_dim <= DIM_MAX && d->v_dim <= DIM_MAX && groups % d->k_heads == 0 && groups % d->v_heads == 0 &&
         d->q_heads % groups == 0 && has_packed_cache(d) && d->page_size % HR_PERSISTENT_TILE_KEYS == 0 &&
         d->page_count > 0 && q.head == d->qk_dim && o.head == d->v_dim &&
         (!part->heads || part->heads->norm_stride == 0) && part->append->cos == NULL &&
         part->append->k != part->append->v && !part->arguments->page_starts && !part->arguments->lse &&
         d->kv_len < INT32_MAX / 2;
}

/* From compute capability 12.0 on shared memory is smaller. A context of the caller's may have fewer multiprocessors
 * than the device, and blocks that never begin would be waited for. */
bool hr_cuda_persists(const hr_device *device, const hr_persistent_part *part)
{
  const hr_cuda *cuda = device->state;
  if (cuda->capability < 90 || cuda->capability >= 120 || device->context || !cuda->driver.cuTensorMapEncodeTiled)
    return false;
  return part->router   ? takes_router(&part->router->route) && takes_linear(part->linear)
         : part->linear ? takes_linear(part->linear)
                        : takes_attention(part);
}
