/* SPDX-License-Identifier: Apache-2.0 */
/* Measures random points (hr_points_draw) at both clocks: a burst of a few calls after a pause, and settled.
 *
 *   random_points DEVICE SECONDS SEED POINTS > FILE.csv
 *
 * Rows are those of `headroom validate --from`; time_ns is the settled time. No point is begun after SECONDS. Each
 * result is compared with the float64 reference first. */
#include "base/error.h"
#include "hardware/hardware.h"
#include "runtime/device/clock.h"
#include "runtime/device/device.h"
#include "runtime/measure/check.h"
#include "runtime/measure/runner.h"
#include "runtime/measure/settle.h"
#include "runtime/measure/statistics.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_US 15000
#define BURST_NS 1e6
#define WARM_UP_NS 120e6
#define SAMPLES_NS 100e6
#define SAMPLES_MAX 60

typedef struct times {
  double burst_ns, settled_ns, low_ns, high_ns;
  double clock_hz, power_w;
  int64_t samples, sets;
} times;

static hr_status burst(hr_runner *runner, double *burst_ns, hr_error *error)
{
  double samples[64];
  int64_t count = 0;
  for (int round = 0; round < 3; round++) {
    double one, sum = 0;
    usleep(PAUSE_US);
    HR_TRY(hr_runner_sample(runner, &one, error)); /* fills caches of instructions and constants */
    for (int i = 0; i < 16 && (i == 0 || sum < BURST_NS); i++) {
      HR_TRY(hr_runner_sample(runner, &samples[count], error));
      sum += samples[count++] * (double)runner->group;
    }
  }
  *burst_ns = hr_median_of(samples, count).value;
  return HR_OK;
}

static hr_status settled(hr_runner *runner, times *t, hr_error *error)
{
  double samples[SAMPLES_MAX], start = hr_clock_ns(), one;
  while (hr_clock_ns() - start < WARM_UP_NS)
    HR_TRY(hr_runner_sample(runner, &one, error));
  start = hr_clock_ns();
  t->samples = 0;
  while (t->samples < SAMPLES_MAX && (t->samples < 10 || hr_clock_ns() - start < SAMPLES_NS))
    HR_TRY(hr_runner_sample(runner, &samples[t->samples++], error));
  hr_conditions now;
  hr_device_conditions(runner->device, &now);
  t->clock_hz = now.clock_hz, t->power_w = now.power_w;
  hr_median m = hr_median_of(samples, t->samples);
  t->settled_ns = m.value, t->low_ns = m.low, t->high_ns = m.high;
  return HR_OK;
}

static hr_status time_problem(hr_device *device, const hr_problem *problem, const char *kernel, hr_measurement *m,
                              times *t, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  hr_runner runner;
  options.kernel = kernel;
  hr_status status = hr_runner_open(device, problem, &options, &runner, error);
  if (status == HR_OK)
    snprintf(m->kernel, sizeof m->kernel, "%s", hr_plan_kernel(runner.plan));
  double first_ns;
  if (status == HR_OK)
    status = hr_runner_check(&runner, 1, m, error);
  if (status == HR_OK)
    status = hr_runner_first_sample(&runner, &options, &first_ns, error);
  if (status == HR_OK)
    status = hr_runner_choose_group(&runner, first_ns, error);
  t->sets = runner.sets;
  if (status == HR_OK)
    status = burst(&runner, &t->burst_ns, error);
  if (status == HR_OK)
    status = settled(&runner, t, error);
  hr_runner_close(&runner);
  return status;
}

static hr_status problem_of(const hr_point *point, hr_problem *problem, hr_error *error)
{
  hr_decode decode = hr_decode_default();
  if (point->kind == HR_INTERVAL_ATTENTION) {
    *problem = hr_attention_problem(&point->attention);
  } else if (point->kind == HR_INTERVAL_DECODE) {
    HR_TRY(hr_decode_from_attention(&point->attention, &decode, error));
    decode.k_strides = decode.v_strides = (hr_kv_strides){0}; /* those of pages */
    HR_TRY(hr_decode_set_pages(&decode, 16, error));
    *problem = hr_decode_problem(&decode);
  } else {
    *problem = hr_gemm_problem(&point->gemm);
  }
  return HR_OK;
}

static void print_shape(const hr_point *point)
{
  const hr_gemm *g = &point->gemm;
  const hr_attention *a = &point->attention;
  const char *kind = hr_interval_kind_name(point->kind);
  if (point->kind == HR_INTERVAL_ATTENTION || point->kind == HR_INTERVAL_DECODE)
    printf("%s,%" PRId64 ",%" PRId64 ",,%" PRId64 ",,,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%s,%d,", kind, a->q_len,
           a->kv_len, a->batch, a->q_heads, a->k_heads, a->qk_dim, a->mask == HR_MASK_CAUSAL, hr_dtype_name(a->dtype),
           a->kv_len % 8 != 0);
  else
    printf("%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%d,,,,,%s,%d,", kind, g->m, g->n, g->k, g->batch,
           g->transpose_a, g->transpose_b, hr_dtype_name(g->dtype), g->m % 8 != 0);
}

static void print_row(const hr_point *point, const hr_measurement *m, const times *t, const hr_error *error)
{
  print_shape(point);
  if (error->status == HR_OK)
    printf("%.0f,%.0f,%.0f,%.0f,%" PRId64 ",%" PRId64 ",%.0f,%.0f,%.3g,%s,ok\n", t->settled_ns, t->burst_ns, t->low_ns,
           t->high_ns, t->samples, t->sets, t->clock_hz * 1e-6, t->power_w, m->max_error, m->kernel);
  else
    printf(",,,,,,,,,%s,\"%s\"\n", m->kernel, error->message);
  fflush(stdout);
}

static void measure_point(hr_device *device, const hr_point *point)
{
  hr_problem problem;
  hr_measurement m = {.kernel = ""};
  times t = {.samples = 0};
  hr_error error = {.status = HR_OK};
  const char *kernel = point->kind == HR_INTERVAL_DECODE      ? "decode_split"
                       : point->kind == HR_INTERVAL_ATTENTION ? "attention_flash"
                                                              : NULL;
  error.status = problem_of(point, &problem, &error);
  if (error.status == HR_OK)
    error.status = time_problem(device, &problem, kernel, &m, &t, &error);
  print_row(point, &m, &t, &error);
}

int main(int count, char **texts)
{
  hr_device *device;
  hr_hardware hardware;
  hr_point *points;
  hr_error error = {.status = HR_OK};
  if (count != 5)
    return fprintf(stderr, "random_points DEVICE SECONDS SEED POINTS\n"), 2;
  double limit_ns = strtod(texts[2], NULL) * 1e9, begin = hr_clock_ns();
  hr_points_draw_options options = hr_points_draw_options_default();
  options.seed = (uint64_t)strtoull(texts[3], NULL, 10);
  options.count = strtoll(texts[4], NULL, 10);
  size_t drawn;
  hr_measure_options measure = hr_measure_options_default();
  if (hr_resolve_hardware(texts[1], &hardware, &error) != HR_OK ||
      hr_points_draw(&hardware, &options, &points, &drawn, &error) != HR_OK ||
      hr_device_open(texts[1], 0, &device, &error) != HR_OK || hr_device_settle(device, &measure, &error) != HR_OK)
    return fprintf(stderr, "random_points: %s\n", error.message), 1;
  printf("kind,m,n,k,batch,transpose_a,transpose_b,q_heads,kv_heads,head_dim,causal,dtype,odd,time_ns,burst_ns,low_ns,"
         "high_ns,samples,sets,sm_clock_mhz,power_w,max_error,kernel,status\n");
  for (size_t i = 0; i < drawn && hr_clock_ns() - begin < limit_ns; i++)
    measure_point(device, &points[i]);
  free(points);
  hr_device_close(device);
  return 0;
}
