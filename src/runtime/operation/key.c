/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/key.h"

#include <stddef.h>
#include <string.h>

/* tests/unit/test_plans.c holds these lists to be complete. */
#define M(type, member)                                 \
  {                                                     \
    offsetof(type, member), sizeof(((type *)0)->member) \
  }

static const hr_problem_member gemm_members[] = {
    M(hr_gemm, m),           M(hr_gemm, n),           M(hr_gemm, k),           M(hr_gemm, batch),
    M(hr_gemm, dtype),       M(hr_gemm, transpose_a), M(hr_gemm, transpose_b), M(hr_gemm, broadcast_a),
    M(hr_gemm, broadcast_b), M(hr_gemm, lda),         M(hr_gemm, ldb),         M(hr_gemm, ldc),
    M(hr_gemm, stride_a),    M(hr_gemm, stride_b),    M(hr_gemm, stride_c),    M(hr_gemm, alignment),
    M(hr_gemm, bias)};

/* hr_backward begins with them, too. */
#define ATTENTION_MEMBERS(OF)                                                                                          \
  OF(batch), OF(q_len), OF(kv_len), OF(q_heads), OF(k_heads), OF(v_heads), OF(qk_dim), OF(v_dim), OF(dtype), OF(mask), \
      OF(window), OF(scale), OF(softcap), OF(alibi), OF(variable_lengths), OF(q_total), OF(kv_total),                  \
      OF(q_strides.batch), OF(q_strides.row), OF(q_strides.head), OF(k_strides.batch), OF(k_strides.row),              \
      OF(k_strides.head), OF(v_strides.batch), OF(v_strides.row), OF(v_strides.head), OF(o_strides.batch),             \
      OF(o_strides.row), OF(o_strides.head), OF(output), OF(head_scales), OF(alignment), OF(first_keys)

#define OF_ATTENTION(member) M(hr_attention, member)
static const hr_problem_member attention_members[] = {ATTENTION_MEMBERS(OF_ATTENTION)};

#define OF_FORWARD(member) M(hr_backward, forward.member)
static const hr_problem_member backward_members[] = {ATTENTION_MEMBERS(OF_FORWARD),
                                                     M(hr_backward, options.do_strides.batch),
                                                     M(hr_backward, options.do_strides.row),
                                                     M(hr_backward, options.do_strides.head),
                                                     M(hr_backward, options.dq_strides.batch),
                                                     M(hr_backward, options.dq_strides.row),
                                                     M(hr_backward, options.dq_strides.head),
                                                     M(hr_backward, options.dk_strides.batch),
                                                     M(hr_backward, options.dk_strides.row),
                                                     M(hr_backward, options.dk_strides.head),
                                                     M(hr_backward, options.dv_strides.batch),
                                                     M(hr_backward, options.dv_strides.row),
                                                     M(hr_backward, options.dv_strides.head),
                                                     M(hr_backward, options.sinks),
                                                     M(hr_backward, options.deterministic)};

static const hr_problem_member rows_members[] = {
    M(hr_rowwise, operation),   M(hr_rowwise, rows),    M(hr_rowwise, columns),       M(hr_rowwise, dtype),
    M(hr_rowwise, period),      M(hr_rowwise, group),   M(hr_rowwise, rate),          M(hr_rowwise, seed),
    M(hr_rowwise, alignment),   M(hr_rowwise, scale),   M(hr_rowwise, learning_rate), M(hr_rowwise, beta1),
    M(hr_rowwise, beta2),       M(hr_rowwise, epsilon), M(hr_rowwise, weight_decay),  M(hr_rowwise, max_norm),
    M(hr_rowwise, step),        M(hr_rowwise, factor),  M(hr_rowwise, x_stride),      M(hr_rowwise, rotated),
    M(hr_rowwise, interleaved), M(hr_rowwise, x_row),   M(hr_rowwise, z_row),         M(hr_rowwise, z_stride),
    M(hr_rowwise, y_stride)};

static const hr_problem_member decode_members[] = {M(hr_decode, batch),
                                                   M(hr_decode, q_len),
                                                   M(hr_decode, kv_len),
                                                   M(hr_decode, q_heads),
                                                   M(hr_decode, k_heads),
                                                   M(hr_decode, v_heads),
                                                   M(hr_decode, qk_dim),
                                                   M(hr_decode, v_dim),
                                                   M(hr_decode, dtype),
                                                   M(hr_decode, page_size),
                                                   M(hr_decode, page_count),
                                                   M(hr_decode, table_pitch),
                                                   M(hr_decode, window),
                                                   M(hr_decode, top_k),
                                                   M(hr_decode, scale),
                                                   M(hr_decode, softcap),
                                                   M(hr_decode, sinks),
                                                   M(hr_decode, alibi),
                                                   M(hr_decode, latent),
                                                   M(hr_decode, batch_invariant),
                                                   M(hr_decode, q_strides.batch),
                                                   M(hr_decode, q_strides.row),
                                                   M(hr_decode, q_strides.head),
                                                   M(hr_decode, o_strides.batch),
                                                   M(hr_decode, o_strides.row),
                                                   M(hr_decode, o_strides.head),
                                                   M(hr_decode, k_strides.page),
                                                   M(hr_decode, k_strides.token),
                                                   M(hr_decode, k_strides.head),
                                                   M(hr_decode, v_strides.page),
                                                   M(hr_decode, v_strides.token),
                                                   M(hr_decode, v_strides.head),
                                                   M(hr_decode, cache_format),
                                                   M(hr_decode, cache_scales),
                                                   M(hr_decode, k_scale_strides.page),
                                                   M(hr_decode, k_scale_strides.token),
                                                   M(hr_decode, k_scale_strides.head),
                                                   M(hr_decode, v_scale_strides.page),
                                                   M(hr_decode, v_scale_strides.token),
                                                   M(hr_decode, v_scale_strides.head),
                                                   M(hr_decode, alignment)};

#define LIST(members)                           \
  {                                             \
    members, sizeof members / sizeof *(members) \
  }

static const struct {
  const hr_problem_member *members;
  size_t count;
} lists[HR_OPERATION_COUNT] = {[HR_OPERATION_GEMM] = LIST(gemm_members),
                               [HR_OPERATION_ATTENTION] = LIST(attention_members),
                               [HR_OPERATION_ROWWISE] = LIST(rows_members),
                               [HR_OPERATION_DECODE] = LIST(decode_members),
                               [HR_OPERATION_ATTENTION_BACKWARD] = LIST(backward_members)};

const hr_problem_member *hr_problem_members(hr_operation operation, size_t *count)
{
  *count = lists[operation].count;
  return lists[operation].members;
}

static uint64_t value_of(const char *from, size_t size)
{
  uint64_t wide;
  uint32_t word;
  if (size == sizeof wide) {
    memcpy(&wide, from, sizeof wide);
    return wide;
  }
  if (size == sizeof word) {
    memcpy(&word, from, sizeof word);
    return word;
  }
  return (unsigned char)*from;
}

/* Mixes as the finalizer of MurmurHash3 does (Appleby, public domain). */
static uint64_t mixed(uint64_t x)
{
  x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
  x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ (x >> 33);
}

void hr_problem_key_of(const hr_problem *problem, hr_problem_key *key)
{
  const char *from = (const char *)&problem->gemm; /* where all members of the union begin */
  size_t count;
  const hr_problem_member *members = hr_problem_members(problem->operation, &count);
  uint64_t sum = (uint64_t)problem->operation;
  key->word[0] = sum;
  for (size_t i = 0; i < count; i++) {
    uint64_t word = value_of(from + members[i].offset, members[i].size);
    key->word[i + 1] = word;
    sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    sum ^= sum >> 32;
  }
  key->words = count + 1;
  key->hash = mixed(sum);
}

bool hr_problem_keys_equal(const hr_problem_key *a, const hr_problem_key *b)
{
  return a->hash == b->hash && a->words == b->words && memcmp(a->word, b->word, a->words * sizeof *a->word) == 0;
}
