/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_problems.h"

#include <headroom/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct visit {
  hr_device *device;
  const hr_kernel_info *kernel;
  hr_dtype dtype;
  void (*check)(const hr_runner *runner);
  int tried, count;
} visit;

static void try_problem(visit *v, const hr_problem *problem)
{
  hr_runner runner;
  hr_error error = {.message = ""};
  char text[512];
  if (!test_takes(v->tried++))
    return;
  hr_measure_options options = hr_measure_options_default();
  options.warm = true; /* one set of operands */
  options.kernel = v->kernel->name;
  options.seed = 19;
  hr_status status = hr_runner_open(v->device, problem, &options, &runner, &error);
  if (status == HR_OK)
    status = hr_runner_run(&runner, &error);
  if (status == HR_OK) {
    v->check(&runner);
    v->count++;
  } else if (status != HR_ERROR_UNSUPPORTED) {
    fail_msg("%s: %s", problem_words(&runner, text), error.message);
  }
  hr_runner_close(&runner);
}

const char *problem_words(const hr_runner *runner, char text[512])
{
  const hr_problem *p = &runner->problem;
  hr_result row = hr_result_default();
  if (p->operation == HR_OPERATION_GEMM)
    hr_result_set_gemm(&row, &p->gemm);
  else if (p->operation == HR_OPERATION_ATTENTION)
    hr_result_set_attention(&row, &p->attention);
  else if (p->operation == HR_OPERATION_DECODE)
    hr_result_set_decode(&row, &p->decode);
  else
    hr_result_set_rowwise(&row, &p->rows);
  snprintf(text, 512, "%s, %.400s", runner->plan ? hr_plan_kernel(runner->plan) : "no plan", row.problem);
  return text;
}

/* ---- GEMM ---- */

static void try_gemms(visit *v)
{
  static const int64_t sizes[][3] = {{1, 1, 1}, {7, 13, 5}, {33, 50, 40}, {17, 129, 31}, {64, 3, 257}};
  for (int i = 0; i < 5 * 4; i++) {
    hr_gemm g = hr_gemm_default();
    g.m = sizes[i / 4][0], g.n = sizes[i / 4][1], g.k = sizes[i / 4][2];
    g.dtype = v->dtype;
    g.transpose_a = i & 1, g.transpose_b = i & 2;
    g.batch = i % 4 == 0 ? 3 : 1;
    hr_problem problem = hr_gemm_problem(&g);
    try_problem(v, &problem);
  }
}

/* ---- attention ---- */

static void try_attentions(visit *v)
{
  static const struct {
    int64_t q_len, kv_len, heads, kv_heads, qk_dim, v_dim, window;
  } calls[] = {{1, 1, 1, 1, 8, 8, 0},      {3, 17, 4, 2, 40, 40, 0},  {19, 19, 3, 1, 72, 56, 0},
               {65, 70, 2, 2, 64, 64, 20}, {33, 130, 2, 1, 96, 8, 0}, {5, 260, 1, 1, 128, 128, 0}};
  for (size_t i = 0; i < 2 * sizeof calls / sizeof *calls; i++) {
    hr_attention a = hr_attention_default();
    a.dtype = v->dtype;
    a.q_len = calls[i / 2].q_len, a.kv_len = calls[i / 2].kv_len;
    a.q_heads = calls[i / 2].heads, a.k_heads = a.v_heads = calls[i / 2].kv_heads;
    a.qk_dim = calls[i / 2].qk_dim, a.v_dim = calls[i / 2].v_dim;
    a.mask = i % 2 || calls[i / 2].window ? HR_MASK_CAUSAL : HR_MASK_NONE;
    a.window = calls[i / 2].window;
    a.alibi = i % 4 == 3;
    hr_problem problem = hr_attention_problem(&a);
    try_problem(v, &problem);
  }
}

/* ---- row-wise operations ---- */

static void try_rows(visit *v)
{
  static const int64_t columns[] = {2, 6, 30, 34, 62, 66, 126, 130, 1002};
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++) {
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
      hr_rowwise r = hr_rowwise_default();
      r.operation = (hr_rowwise_operation)operation;
      r.columns = columns[i] - (operation != HR_ROWWISE_ROTARY && i % 2); /* odd, too, where they may be */
      r.rows = 1 + (int64_t)i % 4;
      r.dtype = v->dtype;
      r.period = operation == HR_ROWWISE_ROTARY ? 2 : operation == HR_ROWWISE_SOFTMAX && i % 3 == 0 ? r.rows : 0;
      hr_problem problem = hr_rowwise_problem(&r);
      try_problem(v, &problem);
    }
  }
}

/* ---- decode ---- */

static void make_decode(visit *v, size_t i, hr_decode *d)
{
  static const struct {
    int64_t batch, q_len, kv_len, heads, kv_heads, qk_dim, v_dim, page_size, window, top_k;
  } calls[] = {{1, 1, 1, 1, 1, 8, 8, 0, 0, 0},     {2, 1, 37, 4, 2, 64, 64, 16, 0, 0},
               {3, 3, 19, 6, 2, 40, 56, 5, 0, 0},  {1, 2, 130, 8, 1, 128, 128, 0, 50, 0},
               {2, 1, 65, 3, 3, 72, 72, 64, 0, 7}, {1, 1, 90, 16, 1, 80, 96, 32, 0, 0}};
  *d = hr_decode_default();
  d->dtype = v->dtype;
  d->batch = calls[i].batch, d->q_len = calls[i].q_len, d->kv_len = calls[i].kv_len;
  d->q_heads = calls[i].heads, d->k_heads = d->v_heads = calls[i].kv_heads;
  d->qk_dim = calls[i].qk_dim, d->v_dim = calls[i].v_dim;
  d->window = calls[i].window, d->top_k = calls[i].top_k;
  d->sinks = i % 2;
  assert_int_equal(hr_decode_set_pages(d, calls[i].page_size, NULL), HR_OK);
}

static void try_decodes(visit *v)
{
  for (size_t i = 0; i < 6; i++) {
    for (int format = 0; format < HR_KV_FORMAT_COUNT; format++) {
      hr_decode d;
      make_decode(v, i, &d);
      d.cache_format = (hr_kv_format)format;
      d.cache_scales = i % 2 ? HR_KV_SCALE_TOKEN : HR_KV_SCALE_HEAD;
      hr_problem problem = hr_decode_problem(&d);
      try_problem(v, &problem);
    }
  }
  hr_decode latent;
  make_decode(v, 1, &latent);
  latent.latent = true;
  latent.k_heads = latent.v_heads = 1;
  latent.qk_dim = 72, latent.v_dim = 64;
  hr_problem problem = hr_decode_problem(&latent);
  try_problem(v, &problem);
}

static void try_all(visit *v)
{
  if (strcmp(v->kernel->operation, "gemm") == 0)
    try_gemms(v);
  else if (strcmp(v->kernel->operation, "attention") == 0)
    try_attentions(v);
  else if (strcmp(v->kernel->operation, "rowwise") == 0)
    try_rows(v);
  else
    try_decodes(v);
}

int each_cpu_problem(void (*check)(const hr_runner *runner))
{
  const char *only = getenv("HEADROOM_TEST_KERNEL");
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  int checked = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(kernels[i].device, "cpu") != 0 || (only && !hr_kernel_is(&kernels[i], only)))
      continue;
    visit v = {.device = open_for_kernel(&kernels[i]), .kernel = &kernels[i], .check = check};
    for (int dtype = 0; v.device && dtype < HR_DTYPE_COUNT; dtype++) {
      v.dtype = (hr_dtype)dtype;
      if (hr_has_word(kernels[i].dtypes, hr_dtype_name(v.dtype)))
        try_all(&v);
    }
    if (v.device)
      print_message("%s: %d problems\n", kernels[i].name, v.count);
    hr_device_close(v.device);
    checked += v.count;
  }
  return checked;
}
