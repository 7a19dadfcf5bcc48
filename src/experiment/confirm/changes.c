/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a changed step with the present one: which operators stay, and which replace which. */
#include "experiment/confirm/jobs.h"
#include "experiment/operator_problem.h"

bool hr_confirm_is_gemm(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM || hr_operator_has_equal_groups(op);
}

bool hr_confirm_is_timed(const hr_operator *op)
{
  return hr_confirm_is_gemm(op) ||
         ((op->kind == HR_KIND_ATTENTION || op->id == HR_OP_SOFTMAX) && op->pass == HR_PASS_FORWARD);
}

static bool same_gemm(const hr_gemm *a, const hr_gemm *b)
{
  return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch && a->dtype == b->dtype &&
         a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b;
}

static bool same_attention(const hr_attention *a, const hr_attention *b)
{
  return a->batch == b->batch && a->q_len == b->q_len && a->kv_len == b->kv_len && a->q_heads == b->q_heads &&
         a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim && a->v_dim == b->v_dim &&
         a->dtype == b->dtype && a->mask == b->mask && a->window == b->window && a->scale == b->scale &&
         a->softcap == b->softcap && a->alibi == b->alibi && a->output == b->output &&
         a->head_scales == b->head_scales && a->first_keys == b->first_keys;
}

/* GEMMs of equal sizes are the same wherever the step has them. No finding changes a softmax and keeps its bytes. */
bool hr_confirm_same(const hr_operator *a, const hr_operator *b)
{
  if (hr_confirm_is_gemm(a) && hr_confirm_is_gemm(b))
    return same_gemm(&a->gemm, &b->gemm);
  if (a->id != b->id || a->pass != b->pass)
    return false;
  return a->kind == HR_KIND_ATTENTION ? same_attention(&a->attention, &b->attention) : a->bytes == b->bytes;
}

static const hr_operator *find_kind(const hr_operators *in, const hr_operators *of, const hr_operator *op,
                                    hr_operator_id id)
{
  size_t place = 0;
  const hr_operator *found = NULL;
  for (const hr_operator *other = of->items; other < op; other++)
    place += other->id == op->id && other->pass == op->pass;
  for (size_t i = 0; i < in->count; i++) {
    const hr_operator *other = &in->items[i];
    if (other->id != id || other->pass != op->pass)
      continue;
    found = other;
    if (place-- == 0)
      break;
  }
  return found;
}

const hr_operator *hr_confirm_counterpart(const hr_operators *in, const hr_operators *of, const hr_operator *op)
{
  return find_kind(in, of, op, op->id);
}

hr_confirm_replaced hr_confirm_replaces(const hr_confirm_run *c, const hr_operator *after)
{
  const hr_operators *in = &c->before.operators, *of = &c->after.operators;
  const hr_operator *same = hr_confirm_counterpart(in, of, after);
  if (same)
    return (hr_confirm_replaced){1, {same}};
  if (after->id != HR_OP_ATTENTION || after->pass != HR_PASS_FORWARD)
    return (hr_confirm_replaced){.count = 0};
  static const hr_operator_id unfused[] = {HR_OP_ATTENTION_SCORE, HR_OP_SOFTMAX, HR_OP_ATTENTION_OVER_VALUE};
  hr_confirm_replaced replaced = {.count = 0};
  for (size_t i = 0; i < sizeof unfused / sizeof *unfused; i++) {
    replaced.items[i] = find_kind(in, of, after, unfused[i]);
    replaced.count += replaced.items[i] != NULL;
  }
  return replaced;
}

bool hr_confirm_unchanged(const hr_confirm_replaced *replaced, const hr_operator *after)
{
  return replaced->count == 1 && hr_confirm_same(replaced->items[0], after);
}
