/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a step of a whole model: run after run within the budget, then operator by operator. */
#include <headroom/experimental/step.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/device/clock.h"
#include "runtime/measure/problem_list.h"

#include <headroom/experimental/predict.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define BUDGET_NS 10e9
#define SAMPLES_MIN 3
#define SAMPLES_MAX 1000
#define OPERATOR_RUNS 3

void hr_step_options_init(hr_step_options *options, size_t size)
{
  HR_INIT(options, size, (hr_step_options){.seed = 1, .budget_ns = BUDGET_NS});
}

typedef struct step_run {
  hr_executor *executor;
  const hr_hardware *hardware;
  const hr_model *model;
  hr_workload workload;
  hr_step_options options;
  hr_executor_input input; /* of the step that is measured */
  int32_t *ids;            /* of every sequence, `longest` each */
  int64_t longest;
  double samples[SAMPLES_MAX];
  int64_t count; /* of samples */
  hr_step_times *times;
} step_run;

static bool decodes(const step_run *s)
{
  return s->workload.phase == HR_PHASE_DECODE;
}

static hr_status check_workload(const hr_workload *w, hr_error *error)
{
  const int64_t devices[] = {w->tensor_parallel, w->pipeline_stages, w->expert_parallel, w->context_parallel,
                             w->data_parallel};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    if (devices[i] > 1)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "a step runs on one device, found %" PRId64, devices[i]);
  }
  if (w->phase == HR_PHASE_TRAIN)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a training step cannot be run yet");
  if (w->phase == HR_PHASE_DECODE && w->context < 2)
    return hr_fail(error, HR_ERROR_INVALID, "context: decode needs 2 tokens, the new one included");
  return HR_OK;
}

/* ---- preparation ---- */

/* Ids that depend on the seed: the high bits of a linear congruential generator (Knuth, MMIX). */
static void make_ids(step_run *s)
{
  uint64_t state = s->options.seed;
  for (int64_t i = 0; i < s->workload.batch * s->longest; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    s->ids[i] = (int32_t)((state >> 33) % (uint64_t)s->model->vocabulary);
  }
}

static hr_status open_executor(step_run *s, hr_device *device, hr_error *error)
{
  hr_executor_options options = hr_executor_options_default();
  options.dtype = s->workload.dtype;
  options.slots = s->workload.phase == HR_PHASE_FORWARD ? 1 : s->workload.batch;
  options.tokens = s->longest;
  HR_TRY(hr_executor_open(device, s->model, &options, &s->executor, error));
  double start_ns = hr_clock_ns();
  HR_TRY(hr_executor_load(s->executor, s->options.weights, s->options.seed, s->options.progress, s->options.context,
                          error));
  s->times->load_ns = hr_clock_ns() - start_ns;
  s->times->weight_bytes = hr_executor_bytes(s->executor);
  return HR_OK;
}

/* Fills the caches for a decode step. */
static hr_status prefill(step_run *s, hr_error *error)
{
  hr_executor_input input = hr_executor_input_default();
  input.batch = s->workload.batch;
  input.tokens = s->longest - 1;
  input.ids = s->ids;
  return decodes(s) ? hr_executor_step(s->executor, &input, NULL, error) : HR_OK;
}

static void set_input(step_run *s)
{
  s->input = hr_executor_input_default();
  s->input.phase = s->workload.phase;
  s->input.batch = s->workload.batch;
  s->input.tokens = decodes(s) ? 1 : s->longest;
  s->input.ids = s->ids;
}

/* ---- runs ---- */

/* A decode step runs again behind the same tokens. */
static hr_status run_once(step_run *s, double *time_ns, hr_error *error)
{
  for (int64_t i = 0; decodes(s) && i < s->workload.batch; i++)
    HR_TRY(hr_executor_truncate(s->executor, i, s->longest - 1, error));
  double start_ns = hr_clock_ns();
  HR_TRY(hr_executor_step(s->executor, &s->input, NULL, error));
  *time_ns = hr_clock_ns() - start_ns;
  return HR_OK;
}

static bool stops(const step_run *s, double done)
{
  return s->options.progress && s->options.progress(s->options.context, done, "steps") != 0;
}

static hr_status run_steps(step_run *s, hr_error *error)
{
  double first_ns;
  HR_TRY(run_once(s, &first_ns, error)); /* makes the plans */
  const double start_ns = hr_clock_ns();
  while (s->count < SAMPLES_MAX) {
    const double spent_ns = hr_clock_ns() - start_ns;
    if (s->count >= SAMPLES_MIN && spent_ns > s->options.budget_ns)
      break;
    if (stops(s, spent_ns / s->options.budget_ns))
      return hr_fail(error, HR_ERROR_INTERRUPTED, "interrupted");
    HR_TRY(run_once(s, &s->samples[s->count], error));
    s->count++;
  }
  return HR_OK;
}

static hr_status time_operators(step_run *s, hr_error *error)
{
  double times_ns[HR_OPERATORS_MAX] = {0};
  for (int i = 0; i < OPERATOR_RUNS; i++) {
    hr_status status = hr_executor_time_operators(s->executor, times_ns, error);
    if (status != HR_OK)
      return status == HR_ERROR_UNSUPPORTED ? HR_OK : status;
  }
  for (size_t i = 0; i < s->times->count; i++) {
    s->times->rows[i].measured_ns = times_ns[i] / OPERATOR_RUNS;
    s->times->operators_ns += s->times->rows[i].measured_ns;
  }
  return HR_OK;
}

/* ---- the result ---- */

/* What ran is what is predicted: the executor's own list. */
static hr_status predict_operators(step_run *s, hr_error *error)
{
  const hr_operators *list = hr_executor_operators(s->executor);
  s->times->count = list->count;
  for (size_t i = 0; i < list->count; i++) {
    hr_step_row *row = &s->times->rows[i];
    hr_prediction prediction;
    row->op = list->items[i];
    HR_TRY(hr_predict_operator(s->hardware, &row->op, &prediction, error));
    row->predicted_ns = prediction.time_ns * (double)row->op.count;
    s->times->predicted_ns += row->predicted_ns;
  }
  return HR_OK;
}

static int compare_times(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The sample at a share of all, which are sorted. */
static double sample_at(const step_run *s, double share)
{
  return s->samples[(int64_t)(share * (double)(s->count - 1) + 0.5)];
}

/* Half of the width of the median's 95% interval in samples, as a binomial distribution's of large numbers. */
static double interval_share(int64_t count)
{
  return count < 6 ? 0.5 : 0.98 / sqrt((double)count);
}

static hr_measurement measurement_of(step_run *s)
{
  hr_measurement m = hr_no_measurement(HR_OK, "");
  const double n = (double)s->count, around = interval_share(s->count);
  double squares = 0;
  qsort(s->samples, (size_t)s->count, sizeof *s->samples, compare_times);
  m.samples = s->count;
  m.mean_ns = 0;
  for (int64_t i = 0; i < s->count; i++)
    m.mean_ns += s->samples[i] / n;
  for (int64_t i = 0; i < s->count; i++)
    squares += (s->samples[i] - m.mean_ns) * (s->samples[i] - m.mean_ns);
  m.stddev_ns = sqrt(squares / (n - 1)); /* of at least SAMPLES_MIN */
  m.min_ns = sample_at(s, 0), m.p10_ns = sample_at(s, 0.1), m.median_ns = sample_at(s, 0.5);
  m.p90_ns = sample_at(s, 0.9), m.max_ns = sample_at(s, 1);
  m.median_low_ns = sample_at(s, fmax(0, 0.5 - around)), m.median_high_ns = sample_at(s, fmin(1, 0.5 + around));
  return m;
}

static void sum_up(step_run *s)
{
  hr_step_times *t = s->times;
  t->measurement = measurement_of(s);
  const double median_ns = t->measurement.median_ns;
  t->tokens_per_s = (double)(s->input.batch * s->input.tokens) / median_ns * 1e9;
  if (t->operators_ns > 0)
    t->between_share = (median_ns - t->operators_ns) / median_ns;
  for (size_t i = 0; i < t->count && t->operators_ns > 0; i++)
    t->rows[i].share = t->rows[i].measured_ns / t->operators_ns;
  t->workload = s->workload;
}

static hr_status measure(step_run *s, hr_device *device, hr_error *error)
{
  make_ids(s);
  set_input(s);
  HR_TRY(open_executor(s, device, error));
  HR_TRY(prefill(s, error));
  HR_TRY(run_steps(s, error));
  HR_TRY(predict_operators(s, error));
  HR_TRY(time_operators(s, error));
  sum_up(s);
  return HR_OK;
}

static hr_workload workload_that_runs(const hr_workload *asked)
{
  hr_workload w = *asked;
  w.framework = HR_FRAMEWORK_HEADROOM;
  w.attention = HR_ATTENTION_FUSED;
  w.dropout = HR_DROPOUT_NONE;
  return w;
}

static void free_run(step_run *s)
{
  hr_executor_close(s->executor);
  free(s->times);
  free(s->ids);
  free(s);
}

static step_run *new_run(const hr_workload *workload, hr_error *error)
{
  const int64_t longest = workload->phase == HR_PHASE_DECODE ? workload->context : workload->sequence;
  const bool fits = longest < 1 << 24 && workload->batch < 1 << 24;
  step_run *s = calloc(1, sizeof *s);
  if (s) {
    s->workload = workload_that_runs(workload);
    s->longest = longest;
    s->times = calloc(1, sizeof *s->times);
    s->ids = fits ? calloc((size_t)(workload->batch * longest), sizeof *s->ids) : NULL;
  }
  if (s && s->times && s->ids)
    return s;
  hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the tokens of a step");
  if (s)
    free_run(s);
  return NULL;
}

hr_status hr_step_measure(hr_device *device, const hr_subject *subject, const hr_step_options *options,
                          hr_step_times **times, hr_error *error)
{
  HR_NEED(error, device, subject, times);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, hardware, model, workload);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_step_options, options, error);
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(check_workload(workload, error));
  step_run *s = new_run(workload, error);
  if (!s)
    return HR_ERROR_OUT_OF_MEMORY;
  s->hardware = hardware;
  s->model = model;
  s->options = options ? *options : hr_step_options_default();
  hr_status status = measure(s, device, error);
  if (status == HR_OK) {
    *times = s->times;
    s->times = NULL;
  }
  free_run(s);
  return status;
}

void hr_step_times_free(hr_step_times *times)
{
  free(times);
}
