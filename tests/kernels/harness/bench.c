/* SPDX-License-Identifier: Apache-2.0 */
/* Times kernels by the library's own measuring, beside a peer with interleaved samples. */
#include "hardware/hardware.h"
#include "harness.h"

#include "base/error.h"
#include "runtime/measure/check.h"
#include "runtime/measure/problem_list.h"
#include "runtime/measure/runner.h"

#include <headroom/experimental/hardware.h>
#include <headroom/hardware.h>

#include <math.h>
#include <stdio.h>

/* A kernel and a format that is timed. */
typedef struct bench_subject {
  const bench_options *options;
  hr_device *device;
  hr_hardware hardware; /* detected or probed; all rates 0 where they are unknown */
  const hr_kernel_info *kernel;
  hr_dtype dtype;
} bench_subject;

static hr_measure_options options_of(const bench_subject *s)
{
  hr_measure_options o = hr_measure_options_default();
  o.seed = s->options->seed;
  return o;
}

static double rate_of(hr_status (*count)(const hr_problem *problem, int64_t *of), const hr_problem *problem, double ns)
{
  int64_t of = 0;
  return count && count(problem, &of) == HR_OK ? (double)of / ns * 1e9 : 0;
}

static double peak_of(const bench_subject *s, hr_ceiling_kind kind, double otherwise)
{
  double ceiling = hr_hardware_ceiling(&s->hardware, kind, s->dtype);
  return ceiling > 0 ? ceiling : otherwise;
}

/* The larger share of products or of bytes. 0: unknown. */
static double share_of_peak(const bench_subject *s, double flops_per_s, double bytes_per_s)
{
  double flops_peak = peak_of(s, HR_CEILING_GEMM, s->hardware.dense_flops_per_s[s->dtype]);
  double bytes_peak = peak_of(s, HR_CEILING_COPY, s->hardware.bandwidth_bytes_per_s);
  double share = flops_peak > 0 ? flops_per_s / flops_peak : 0;
  return bytes_peak > 0 ? fmax(share, bytes_per_s / bytes_peak) : share;
}

static void print_times(const bench_subject *s, const hr_problem *problem, const hr_measurement *m)
{
  char text[512];
  const hr_operation_row *row = hr_operation_of(problem->operation);
  double flops = rate_of(row->flops, problem, m->median_ns), bytes = rate_of(row->bytes, problem, m->median_ns);
  double share = share_of_peak(s, flops, bytes);
  printf("%-31s %-60s", s->kernel->name, problem_words(problem, text));
  if (m->samples == 0) {
    printf(" %s\n", m->reason);
    return;
  }
  printf(" %10.1f us", m->median_ns * 1e-3);
  if (flops > 0)
    printf(" %9.1f GFLOP/s", flops * 1e-9);
  printf(" %7.1f GB/s", bytes * 1e-9);
  if (share > 0)
    printf(" %5.1f%% of peak", 100 * share);
}

static void print_peer(const bench_options *o, const hr_comparison *c)
{
  if (c->after.samples > 0)
    printf("  %s %.1f us, %.3f (%.3f to %.3f) of it", o->against, c->after.median_ns * 1e-3, c->ratio, c->ratio_low,
           c->ratio_high);
  else
    printf("  %s: %s", o->against, c->after.reason);
}

static hr_status time_shape(const bench_subject *s, const hr_problem *problem, hr_error *error)
{
  const hr_measure_options o = options_of(s);
  const hr_problem_list mine = {.problems = problem, .count = 1, .kernel = s->kernel->name},
                        peer = {.problems = problem, .count = 1, .kernel = s->options->against};
  hr_comparison c;
  if (s->options->against)
    HR_TRY(hr_measure_list_pair(s->device, &mine, &peer, &o, &c, error));
  else
    HR_TRY(hr_measure_list(s->device, &mine, &o, &c.before, error));
  if (c.before.status == HR_ERROR_UNSUPPORTED && !s->options->shape) /* a shape for other kernels */
    return HR_OK;
  print_times(s, problem, &c.before);
  if (s->options->against && c.before.samples > 0)
    print_peer(s->options, &c);
  if (c.before.samples > 0)
    printf("%s%s\n", c.before.status == HR_OK ? "" : "  noisy: ", c.before.reason);
  fflush(stdout);
  return c.before.status == HR_ERROR_WRONG_RESULT ? hr_fail(error, c.before.status, "%s", c.before.reason) : HR_OK;
}

/* Uses the library's check, on fresh operands and a poisoned output; a refusal is a line. */
static hr_status check_problem(const bench_subject *s, const hr_problem *problem, hr_error *error)
{
  hr_measure_options o = options_of(s);
  hr_measurement m = hr_no_measurement(HR_OK, "");
  hr_runner runner;
  char text[512];
  o.warm = true, o.kernel = s->kernel->name;
  hr_status status = hr_runner_open(s->device, problem, &o, &runner, error);
  if (status == HR_OK)
    status = hr_runner_check(&runner, o.seed, &m, error);
  hr_runner_close(&runner);
  printf("%-31s %-60s %s\n", s->kernel->name, problem_words(problem, text),
         status == HR_OK ? "agrees with the reference" : error->message);
  return status == HR_ERROR_UNSUPPORTED ? HR_OK : status;
}

typedef hr_status shape_fn(const bench_subject *s, const hr_problem *problem, hr_error *error);

static int each_shape(const bench_subject *s, shape_fn *fn)
{
  const operation_cases *cases = cases_of(s->kernel);
  const char *const one[] = {s->options->shape, NULL}, *const *shapes = s->options->shape ? one : cases->shapes;
  int failed = 0;
  for (; *shapes; shapes++) {
    hr_problem problem;
    hr_error error = {.message = ""};
    hr_status status = read_shape(cases, s->dtype, *shapes, &problem, &error);
    if (status == HR_OK)
      status = fn(s, &problem, &error);
    if (status != HR_OK)
      fprintf(stderr, "%s: %s\n", s->kernel->name, error.message);
    failed = failed || status != HR_OK;
  }
  return failed;
}

static int each_format(bench_subject *s, shape_fn *fn)
{
  int failed = 0;
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    const char *name = hr_dtype_name((hr_dtype)dtype);
    s->dtype = (hr_dtype)dtype;
    if (hr_has_word(s->kernel->dtypes, name) && (!s->options->dtypes || hr_has_word(s->options->dtypes, name)))
      failed |= each_shape(s, fn);
  }
  return failed;
}

static void describe(bench_subject *s)
{
  hr_error error = {.message = ""};
  if (hr_device_detect(s->device, &s->hardware, &error) != HR_OK)
    memset(&s->hardware, 0, sizeof s->hardware);
  else if (s->options->probe && hr_device_probe(s->device, NULL, NULL, &s->hardware, &error) != HR_OK)
    fprintf(stderr, "%s: peaks are estimates: %s\n", hr_device_name(s->device), error.message);
}

/* Kernels of other machines are left out; float64 is not timed unless it is named. */
static int each_kernel(const bench_options *options, shape_fn *fn, bool references)
{
  size_t count;
  int failed = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    bench_subject s = {.options = options, .kernel = &kernels[i]};
    bool asked = options->kernel
                     ? hr_kernel_is(&kernels[i], options->kernel)
                     : references || (!strstr(kernels[i].name, "naive") && !strstr(kernels[i].name, "_ref"));
    s.device = asked ? open_for_kernel(&kernels[i]) : NULL;
    if (!s.device)
      continue;
    describe(&s);
    failed |= each_format(&s, fn);
    hr_device_close(s.device);
  }
  return failed;
}

int run_bench(const bench_options *options)
{
  return each_kernel(options, time_shape, false);
}

int check_shape(const bench_options *options)
{
  return each_kernel(options, check_problem, true);
}
