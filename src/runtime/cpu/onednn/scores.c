/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/onednn/scores.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

static const hr_scores_version *version_for(const hr_isa *isa)
{
#if defined(__x86_64__)
  if (hr_isa_has(isa, "avx512"))
    return &hr_scores_avx512;
  if (hr_isa_has(isa, "avx2"))
    return &hr_scores_avx2;
#elif defined(__aarch64__)
  if (hr_isa_has(isa, "neon"))
    return &hr_scores_neon;
#else
  (void)isa;
#endif
  return &hr_scores_portable;
}

hr_scores hr_scores_make(const hr_attention *attention, const hr_isa *isa)
{
  return (hr_scores){.attention = *attention,
                     .scale = (float)hr_attention_scale(attention),
                     .factors = attention->dtype,
                     .version = version_for(isa)};
}

/* fp16 is never passed as it is: oneDNN has fp16 GEMMs only with AVX512-FP16, at the rate of fp32 with fp32
 * accumulators. */
hr_status hr_scores_choose_operands(hr_scores *s, hr_status (*make)(void *kernel, hr_error *error), void *kernel,
                                    hr_error *error)
{
  const struct {
    bool packed;
    hr_dtype factors;
  } ways[] = {{false, s->attention.dtype}, {true, s->attention.dtype}, {true, HR_FP32}};
  hr_status status = HR_ERROR_UNSUPPORTED;
  for (size_t i = 0; i < sizeof ways / sizeof *ways && status == HR_ERROR_UNSUPPORTED; i++) {
    if (ways[i].factors == HR_FP16 || (!ways[i].packed && s->attention.variable_lengths))
      continue;
    s->packed = ways[i].packed;
    s->factors = ways[i].factors;
    status = make(kernel, error);
  }
  return status;
}

const char *hr_scores_describe_operands(const hr_scores *s)
{
  if (!s->packed)
    return "operands read in place";
  return s->factors == s->attention.dtype ? "operands copied" : "operands copied to fp32";
}

void hr_scores_pack(const hr_scores *s, const void *from, int64_t stride, int64_t dim, int64_t rows, int64_t all,
                    void *to)
{
  hr_dtype dtype = s->attention.dtype;
  size_t step = (size_t)stride * hr_dtype_bytes(dtype), row = (size_t)dim * hr_dtype_bytes(s->factors);
  for (int64_t i = 0; i < rows; i++) {
    const void *at = (const char *)from + (size_t)i * step;
    void *place = (char *)to + (size_t)i * row;
    if (dtype == s->factors)
      memcpy(place, at, row);
    else
      s->version->widen(dtype, at, dim, place);
  }
  memset((char *)to + (size_t)rows * row, 0, (size_t)(all - rows) * row);
}

static void write_lse(const hr_sequence *sequence, int64_t head, int64_t query, float lse)
{
  if (sequence->lse)
    sequence->lse[head * sequence->lse_head + query] = lse;
}

float hr_scores_softmax(const hr_scores *s, const hr_attention_arguments *arguments, const hr_sequence *sequence,
                        int64_t head, int64_t query, float *row, int64_t columns, bool normalise)
{
  const hr_attention *a = &s->attention;
  const hr_score_row how = {.seen = hr_attention_visible(a, sequence, query),
                            .scale = s->scale,
                            .softcap = a->softcap,
                            .slope = a->alibi ? arguments->alibi_slopes[head] : 0,
                            .position = query + sequence->kv_len - sequence->q_len,
                            .top = normalise || s->factors == HR_FP16 ? 0 : hr_log2_of_share(columns)};
  hr_score_sum sum = s->version->softmax(&how, row, columns, normalise);
  if (s->factors != HR_FP32)
    s->version->narrow(s->factors, row, 1, columns, row);
  write_lse(sequence, head, query, sum.lse);
  return how.seen.first >= how.seen.end ? 0 : 1 / sum.sum;
}

const void *hr_scores_row(const hr_scores *s, hr_attention_operand operand, const hr_sequence *sequence, int64_t head,
                          int64_t row)
{
  const void *const bases[] = {[HR_OPERAND_Q] = sequence->q,
                               [HR_OPERAND_K] = sequence->k,
                               [HR_OPERAND_V] = sequence->v,
                               [HR_OPERAND_O] = sequence->o};
  hr_strides strides = hr_attention_strides(&s->attention, operand);
  int64_t elements = row * strides.row + head * strides.head;
  return (const char *)bases[operand] + elements * (int64_t)hr_dtype_bytes(s->attention.dtype);
}

void hr_scores_write(const hr_scores *s, const hr_sequence *sequence, int64_t head, int64_t query, const float *from,
                     float factor)
{
  const hr_attention *a = &s->attention;
  void *to = (void *)(uintptr_t)hr_scores_row(s, HR_OPERAND_O, sequence, head, query);
  if (factor == 0)
    memset(to, 0, (size_t)a->v_dim * hr_dtype_bytes(a->dtype));
  else
    s->version->narrow(a->dtype, from, factor, a->v_dim, to);
}

void hr_scores_write_masked(const hr_scores *s, const hr_sequence *sequence, int64_t head, int64_t query)
{
  hr_scores_write(s, sequence, head, query, NULL, 0);
  write_lse(sequence, head, query, -INFINITY);
}
