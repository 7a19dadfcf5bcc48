/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of attention. */
#include "harness.h"

static hr_problem plain(hr_dtype dtype)
{
  hr_attention a = hr_attention_default();
  a.dtype = dtype;
  a.output = dtype == HR_FP8_E4M3 ? HR_OUTPUT_BF16 : HR_OUTPUT_AS_OPERANDS;
  return hr_attention_problem(&a);
}

static void small(hr_dtype dtype, problem_taker *take, void *context)
{
  static const struct {
    int64_t q_len, kv_len, heads, kv_heads, qk_dim, v_dim, window;
  } calls[] = {{1, 1, 1, 1, 8, 8, 0},      {3, 17, 4, 2, 40, 40, 0},  {19, 19, 3, 1, 72, 56, 0},
               {65, 70, 2, 2, 64, 64, 20}, {33, 130, 2, 1, 96, 8, 0}, {5, 260, 1, 1, 128, 128, 0}};
  for (int64_t i = 0; i < 2 * LENGTH(calls); i++) {
    hr_attention a = hr_attention_default();
    a.dtype = dtype;
    a.q_len = calls[i / 2].q_len, a.kv_len = calls[i / 2].kv_len;
    a.q_heads = calls[i / 2].heads, a.k_heads = a.v_heads = calls[i / 2].kv_heads;
    a.qk_dim = calls[i / 2].qk_dim, a.v_dim = calls[i / 2].v_dim;
    a.mask = i % 2 || calls[i / 2].window ? HR_MASK_CAUSAL : HR_MASK_NONE;
    a.window = calls[i / 2].window;
    a.alibi = i % 4 == 3;
    a.first_keys = i % 3 == 2;
    const hr_problem problem = hr_attention_problem(&a);
    take(&problem, context);
  }
}

/* A length, all heads or all dims at once. */
static bool set_word(hr_problem *problem, const char *name, const char *value)
{
  hr_attention *a = &problem->attention;
  int64_t number = strtoll(value, NULL, 10);
  if (strcmp(name, "causal") == 0)
    a->mask = number ? HR_MASK_CAUSAL : HR_MASK_NONE;
  else if (strcmp(name, "length") == 0)
    a->q_len = a->kv_len = number;
  else if (strcmp(name, "heads") == 0)
    a->q_heads = a->k_heads = a->v_heads = number;
  else if (strcmp(name, "dim") == 0)
    a->qk_dim = a->v_dim = number;
  else
    return false;
  return true;
}

static hr_status check_problem(const hr_problem *problem, hr_error *error)
{
  return hr_attention_check(&problem->attention, error);
}

static const shape_member members[] = {{"batch", COUNT_MEMBER, offsetof(hr_problem, attention.batch)},
                                       {"q_len", COUNT_MEMBER, offsetof(hr_problem, attention.q_len)},
                                       {"kv_len", COUNT_MEMBER, offsetof(hr_problem, attention.kv_len)},
                                       {"q_heads", COUNT_MEMBER, offsetof(hr_problem, attention.q_heads)},
                                       {"k_heads", COUNT_MEMBER, offsetof(hr_problem, attention.k_heads)},
                                       {"v_heads", COUNT_MEMBER, offsetof(hr_problem, attention.v_heads)},
                                       {"qk_dim", COUNT_MEMBER, offsetof(hr_problem, attention.qk_dim)},
                                       {"v_dim", COUNT_MEMBER, offsetof(hr_problem, attention.v_dim)},
                                       {"window", COUNT_MEMBER, offsetof(hr_problem, attention.window)},
                                       {"alibi", FLAG_MEMBER, offsetof(hr_problem, attention.alibi)},
                                       {"first_keys", FLAG_MEMBER, offsetof(hr_problem, attention.first_keys)}};
static const char *const shapes[] = {"length=2048,heads=12,dim=64,batch=4,causal=0",
                                     "length=2048,heads=32,dim=128,causal=0",
                                     "length=2048,q_heads=32,k_heads=8,v_heads=8,dim=128,causal=0",
                                     "length=2048,q_heads=32,k_heads=4,v_heads=16,dim=64,causal=0",
                                     "length=2048,heads=8,dim=256,causal=0",
                                     "length=2048,heads=32,dim=128,causal=1",
                                     NULL};
const operation_cases attention_cases = {.plain = plain,
                                         .members = members,
                                         .member_count = LENGTH(members),
                                         .set = set_word,
                                         .check = check_problem,
                                         .shapes = shapes,
                                         .small = small};
