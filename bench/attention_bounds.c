/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: the peers are instruction loops, no kernels.
 *
 * How close attention on the CPU comes to its bounds: one line per problem, with its share of the sum bound, the time
 * of all GEMMs followed by all exponentials at the rates of the ceiling loops of `headroom devices --probe`.
 *   attention_bounds [THREADS] [DTYPE] [KERNEL]
 * The rates of a shared machine change every second. So kernel and loops are interleaved on the same number of threads,
 * each share uses the rates just before and after its run, and the median is reported. Causal FLOPs count unmasked
 * scores only. */
#include "best_loop.h"

#include "base/error.h"
#include "runtime/device/clock.h"
#include "runtime/measure/statistics.h"

#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS 21
#define ROUNDS 3 /* of a loop, 1.5 ms each; the best counts */

static const int64_t dims[] = {128, 64}, lengths[] = {1024, 2048, 4096};
static const int64_t heads[][3] = {{16, 16, 16}, {32, 8, 8}, {32, 4, 16}};

typedef struct turns {
  hr_device *device;
  const hr_cpu_loop *products, *exponentials;
  hr_plan *plan;
  hr_buffer *operands[5]; /* Q, K, V, O, workspace */
  double ns[TURNS], products_per_s[TURNS], exponentials_per_s[TURNS], of_sum[TURNS], of_larger[TURNS];
} turns;

static int fail(const hr_error *error)
{
  fprintf(stderr, "attention_bounds: %s\n", error->message);
  return 1;
}

static hr_status time_loops(const turns *t, double rates[2], hr_error *error)
{
  const hr_cpu *cpu = t->device->state;
  HR_TRY(hr_cpu_time_loop(cpu, t->products, t->device->threads, ROUNDS, &rates[0], error));
  return hr_cpu_time_loop(cpu, t->exponentials, t->device->threads, ROUNDS, &rates[1], error);
}

static hr_status run(const turns *t, hr_error *error)
{
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = hr_buffer_data(t->operands[0]);
  arguments.k = hr_buffer_data(t->operands[1]);
  arguments.v = hr_buffer_data(t->operands[2]);
  arguments.o = hr_buffer_data(t->operands[3]);
  return hr_plan_run_attention(t->plan, &arguments, hr_buffer_data(t->operands[4]), NULL, error);
}

static hr_status take_turns(turns *t, double flops, double exponentials, hr_error *error)
{
  double before[2], after[2];
  HR_TRY(run(t, error));
  HR_TRY(time_loops(t, before, error));
  for (int i = 0; i < TURNS; i++, memcpy(before, after, sizeof before)) {
    double start = hr_clock_ns();
    HR_TRY(run(t, error));
    t->ns[i] = hr_clock_ns() - start;
    HR_TRY(time_loops(t, after, error));
    t->products_per_s[i] = (before[0] + after[0]) / 2;
    t->exponentials_per_s[i] = (before[1] + after[1]) / 2;
    double products_ns = flops / t->products_per_s[i] * 1e9, exp_ns = exponentials / t->exponentials_per_s[i] * 1e9;
    t->of_sum[i] = (products_ns + exp_ns) / t->ns[i];
    t->of_larger[i] = fmax(products_ns, exp_ns) / t->ns[i];
  }
  return HR_OK;
}

static hr_status make(turns *t, const hr_attention *a, const char *kernel, hr_error *error)
{
  const int64_t elements[4] = {a->q_heads * a->q_len * a->qk_dim, a->k_heads * a->kv_len * a->qk_dim,
                               a->v_heads * a->kv_len * a->v_dim, a->q_heads * a->q_len * a->v_dim};
  HR_TRY(hr_plan_attention(t->device, a, kernel, &t->plan, error));
  for (int i = 0; i < 4; i++) {
    HR_TRY(hr_buffer_create(t->device, (size_t)elements[i] * hr_dtype_bytes(a->dtype), &t->operands[i], error));
    HR_TRY(hr_buffer_fill_uniform(t->operands[i], a->dtype, (uint64_t)i + 1, error));
  }
  return hr_buffer_create(t->device, hr_plan_workspace_bytes(t->plan) + 64, &t->operands[4], error);
}

/* Sorts the samples as well. */
static double median(double *x)
{
  return hr_median_of(x, TURNS).value;
}

static void print(turns *t, const hr_attention *a, double flops)
{
  double ns = median(t->ns), of_sum = median(t->of_sum);
  printf("%-4s %3lld %5lld %-6s %2lld/%lld/%-2lld %8.2f ms %5.0f GFLOP/s  products %5.0f GFLOP/s exp %5.2f G/s  "
         "%3.0f%% of the sum bound (%.0f to %.0f), %3.0f%% of the larger  %s\n",
         hr_dtype_name(a->dtype), (long long)a->qk_dim, (long long)a->q_len,
         a->mask == HR_MASK_CAUSAL ? "causal" : "all", (long long)a->q_heads, (long long)a->k_heads,
         (long long)a->v_heads, ns * 1e-6, flops / ns, median(t->products_per_s) * 1e-9,
         median(t->exponentials_per_s) * 1e-9, 100 * of_sum, 100 * t->of_sum[TURNS / 4],
         100 * t->of_sum[TURNS - 1 - TURNS / 4], 100 * median(t->of_larger), hr_plan_kernel(t->plan));
  fflush(stdout);
}

static int compare(turns *t, const hr_attention *a, const char *kernel)
{
  hr_error error = {.message = ""};
  int64_t flops = 0;
  hr_status status = hr_attention_flops(a, &flops);
  if (status == HR_OK)
    status = make(t, a, kernel, &error);
  if (status == HR_OK)
    status = take_turns(t, (double)flops, (double)flops / (4.0 * (double)a->qk_dim), &error);
  if (status == HR_OK)
    print(t, a, (double)flops);
  for (int i = 0; i < 5; i++) {
    hr_buffer_free(t->operands[i]);
    t->operands[i] = NULL;
  }
  hr_plan_free(t->plan);
  t->plan = NULL;
  return status == HR_OK ? 0 : fail(&error);
}

static int compare_all(turns *t, hr_dtype dtype, const char *kernel)
{
  int code = 0;
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
      for (int causal = 0; causal < 2; causal++)
        for (size_t h = 0; code == 0 && h < sizeof heads / sizeof *heads; h++) {
          hr_attention a = hr_attention_default();
          a.batch = 1;
          a.q_len = a.kv_len = lengths[l];
          a.qk_dim = a.v_dim = dims[d];
          a.q_heads = heads[h][0], a.k_heads = heads[h][1], a.v_heads = heads[h][2];
          a.dtype = dtype;
          a.mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
          code = compare(t, &a, kernel);
        }
  return code;
}

int main(int argc, char **argv)
{
  hr_error error;
  hr_dtype dtype = HR_BF16;
  turns t = {.device = NULL};
  if (argc > 2 && hr_dtype_parse(argv[2], &dtype) != HR_OK) {
    fprintf(stderr, "attention_bounds: %s: no such format\n", argv[2]);
    return 1;
  }
  if (hr_device_open("cpu", argc > 1 ? atoi(argv[1]) : 1, &t.device, &error) != HR_OK)
    return fail(&error);
  t.products = best_loop(t.device->state, HR_CEILING_GEMM, dtype);
  t.exponentials = best_loop(t.device->state, HR_CEILING_EXP, HR_FP32);
  int code = 1;
  if (t.products && t.exponentials)
    code = compare_all(&t, dtype, argc > 3 ? argv[3] : NULL);
  else
    fprintf(stderr, "attention_bounds: no loop measures products in %s\n", hr_dtype_name(dtype));
  hr_device_close(t.device);
  return code;
}
