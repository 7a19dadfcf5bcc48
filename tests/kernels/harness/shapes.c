/* SPDX-License-Identifier: Apache-2.0 */
/* Problems from words, and words from problems. */
#include "harness.h"

#include "base/error.h"

#include <headroom/experimental/store.h>

#include <stdio.h>

static const operation_cases *const cases[HR_OPERATION_COUNT] = {[HR_OPERATION_GEMM] = &gemm_cases,
                                                                 [HR_OPERATION_ATTENTION] = &attention_cases,
                                                                 [HR_OPERATION_ROWWISE] = &rowwise_cases,
                                                                 [HR_OPERATION_DECODE] = &decode_cases,
                                                                 [HR_OPERATION_ATTENTION_BACKWARD] =
                                                                     &attention_backward_cases};

const operation_cases *cases_of(const hr_kernel_info *kernel)
{
  int operation = 0;
  while (strcmp(hr_operation_name((hr_operation)operation), kernel->operation) != 0)
    operation++;
  return cases[operation];
}

static bool set_member(const operation_cases *of, hr_problem *problem, const char *name, const char *value)
{
  char *end = NULL;
  long long number = strtoll(value, &end, 10);
  for (int64_t i = 0; i < of->member_count; i++) {
    const shape_member *member = &of->members[i];
    void *at = (char *)problem + member->offset;
    if (strcmp(member->name, name) != 0)
      continue;
    if (member->kind == COUNT_MEMBER)
      *(int64_t *)at = number;
    else
      *(bool *)at = number != 0;
    return end != value && *end == '\0';
  }
  return of->set && of->set(problem, name, value);
}

hr_status read_shape(const operation_cases *of, hr_dtype dtype, const char *text, hr_problem *problem, hr_error *error)
{
  char words[256], *rest = words;
  snprintf(words, sizeof words, "%s", text);
  *problem = of->plain(dtype);
  for (char *word; (word = strsep(&rest, ","));) {
    char *value = strchr(word, '=');
    if (value)
      *value++ = '\0';
    if (!value || !set_member(of, problem, word, value))
      return hr_fail(error, HR_ERROR_INVALID, "--shape: %s is not NAME=NUMBER of %s", word,
                     hr_operation_name(problem->operation));
  }
  return of->check(problem, error);
}

const char *problem_words(const hr_problem *p, char text[512])
{
  hr_result row = hr_result_default();
  if (p->operation == HR_OPERATION_GEMM)
    hr_result_set_gemm(&row, &p->gemm);
  else if (p->operation == HR_OPERATION_ATTENTION)
    hr_result_set_attention(&row, &p->attention);
  else if (p->operation == HR_OPERATION_ATTENTION_BACKWARD)
    hr_result_set_attention_backward(&row, &p->backward.forward);
  else if (p->operation == HR_OPERATION_DECODE)
    hr_result_set_decode(&row, &p->decode);
  else
    hr_result_set_rowwise(&row, &p->rows);
  snprintf(text, 512, "%s", row.problem);
  return text;
}
