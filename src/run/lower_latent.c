/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention: low ranks and their norms, a rotated part that all heads share, and the two forms of attention,
 * which src/model/layers/mixer_latent.c describes. */
#include "run/lower.h"

#include "base/checked.h"
#include "model/layers/layer_kinds.h"

#define RANK_EPSILON 1e-6 /* of ranks' norms, whatever the model's others have: transformers' DeepseekV2RMSNorm */

static const hr_mixer_latent *mixer_of(const hr_lowering *l)
{
  return &l->group->latent;
}

/* ---- low ranks ---- */

/* What is rotated stands behind the latent. */
void hr_lower_kv_down(hr_lowering *l)
{
  const hr_mixer_latent *m = mixer_of(l);
  const hr_run_view both = hr_add_gemm(l, hr_read_view(l, 0), l->op->weights[1] ? hr_own_weight(l, 1) : NULL);
  l->unrotated = hr_columns_of(both, m->kv_rank, m->rope_dim);
  hr_write_view(l, 0, hr_columns_of(both, 0, m->kv_rank));
}

void hr_lower_rank_norm(hr_lowering *l)
{
  const hr_run_view x = hr_packed(l, hr_read_view(l, 0));
  hr_rowwise r = hr_rows_of(HR_ROWWISE_RMS_NORM, x.rows, x.columns);
  r.epsilon = RANK_EPSILON;
  const hr_input_operand inputs[] = {hr_of_view(x), hr_of_address(hr_own_weight(l, 0))};
  hr_write_view(l, 0, hr_add_rowwise(l, r, inputs, x.columns));
}

/* K and V of a head side by side. */
void hr_lower_kv_up(hr_lowering *l)
{
  hr_write_view(l, 0, hr_add_gemm(l, hr_read_view(l, 0), NULL));
}

/* ---- rotated parts ---- */

/* Heads of which the first columns are those of `x`, and the last are rotated ones: of each head, x_row apart, or with
 * z_row 0 of all. */
static hr_run_view joined(hr_lowering *l, hr_run_view x, int64_t x_row, hr_run_view z, int64_t z_row, int64_t heads)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_ROTARY_JOIN, l->rows * heads, x.columns + z.columns);
  r.group = heads;
  r.period = l->rows;
  r.rotated = z.columns;
  r.interleaved = l->x->model.numerics.rotary_interleaved;
  r.x_stride = x.stride, r.x_row = x_row;
  r.z_stride = z.stride, r.z_row = z_row;
  const hr_input_operand inputs[] = {hr_of_view(x), hr_of_view(z), hr_of_view(hr_angles_of(l, false))};
  return hr_add_rowwise(l, r, inputs, heads * r.columns);
}

/* Q's parts, in turn, of the first head. */
static hr_run_view unrotated_q(const hr_lowering *l)
{
  return hr_columns_of(l->tensors[HR_TENSOR_Q], 0, mixer_of(l)->nope_dim);
}

static hr_run_view rotated_q(const hr_lowering *l)
{
  return hr_columns_of(l->tensors[HR_TENSOR_Q], mixer_of(l)->nope_dim, mixer_of(l)->rope_dim);
}

/* What the cache keeps of a token, and in the expanded form Q; the absorbed one rotates Q when its other part is as
 * wide as the latent. */
void hr_lower_latent_rotary(hr_lowering *l)
{
  const hr_mixer_latent *m = mixer_of(l);
  const int64_t width = m->nope_dim + m->rope_dim;
  if (hr_phase_keeps_tokens(l->program->shape.phase))
    l->cached = joined(l, l->tensors[HR_TENSOR_KV_LOW], 0, l->unrotated, 0, 1);
  if (l->program->shape.phase != HR_PHASE_DECODE)
    l->tensors[HR_TENSOR_Q] = joined(l, unrotated_q(l), width, rotated_q(l), width, m->q_heads);
}

/* K of each head, and what all share. */
void hr_lower_k_rotary_copy(hr_lowering *l)
{
  const hr_mixer_latent *m = mixer_of(l);
  const hr_run_view both = l->tensors[HR_TENSOR_K];
  l->tensors[HR_TENSOR_V] = hr_columns_of(both, m->nope_dim, m->v_dim);
  l->tensors[HR_TENSOR_K] =
      joined(l, hr_columns_of(both, 0, m->nope_dim), m->nope_dim + m->v_dim, l->unrotated, 0, m->q_heads);
}

/* ---- the absorbed form ---- */

/* A GEMM for each head: columns of x, `x_row` apart, with a part of the map to K and V. */
static hr_run_view absorbed(hr_lowering *l, hr_run_view x, int64_t x_row, int64_t first_row)
{
  const hr_mixer_latent *m = mixer_of(l);
  hr_gemm g = l->op->gemm;
  const char *map = hr_own_weight(l, 0);
  const int64_t rows = first_row * m->kv_rank;
  g.lda = x.stride, g.stride_a = x_row;
  g.ldb = m->kv_rank, g.stride_b = (m->nope_dim + m->v_dim) * m->kv_rank;
  g.ldc = m->q_heads * g.n, g.stride_c = g.n;
  g.alignment = hr_min64(hr_view_alignment(l, x), hr_view_alignment(l, (hr_run_view){.offset = rows}));
  const hr_run_view y = hr_new_view(l, l->rows, m->q_heads * g.n);
  hr_add_product(l, g,
                 &(hr_product_operands){x, hr_of_address(map + (size_t)rows * hr_element_bytes(l)), {y, NULL}, NULL});
  return y;
}

void hr_lower_q_absorb(hr_lowering *l)
{
  const hr_mixer_latent *m = mixer_of(l);
  const int64_t width = m->nope_dim + m->rope_dim;
  const hr_run_view wide = hr_columns_of(absorbed(l, unrotated_q(l), width, 0), 0, m->kv_rank);
  l->tensors[HR_TENSOR_Q] = joined(l, wide, m->kv_rank, rotated_q(l), width, m->q_heads);
}

void hr_lower_o_absorb(hr_lowering *l)
{
  const hr_mixer_latent *m = mixer_of(l);
  hr_write_view(l, 0, absorbed(l, hr_read_view(l, 0), m->kv_rank, m->nope_dim));
}
