/* SPDX-License-Identifier: Apache-2.0 */
#include "every_kernel.h"
#include "side_by_side.h"

#include <inttypes.h>
#include <string.h>

#define HEAD_DIM 64
#define LENGTH 1024
#define DECODE_KERNELS "decode_split"

/* fp8 as it is used: a scale per head, and O in bf16. */
static void set_dtype(void *call, hr_dtype dtype)
{
  hr_attention *a = call;
  bool fp8 = dtype == HR_FP8_E4M3;
  a->dtype = dtype;
  a->output = fp8 ? HR_OUTPUT_BF16 : HR_OUTPUT_AS_OPERANDS;
  a->head_scales = fp8;
}

static int make_attention(const cli_run *run, hr_attention *a)
{
  const cli_options *o = &run->options;
  hr_error error = {.status = HR_OK};
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "attention: expected no argument, found \"%s\"", run->arguments[0]);
  *a = hr_attention_default();
  a->batch = cli_or_else(o->batch, 1);
  a->q_heads = cli_or_else(o->q_heads, 1);
  a->k_heads = cli_or_else(o->k_heads, cli_or_else(o->kv_heads, a->q_heads));
  a->v_heads = cli_or_else(o->v_heads, cli_or_else(o->kv_heads, a->k_heads));
  a->qk_dim = cli_or_else(o->qk_dim, HEAD_DIM);
  a->v_dim = cli_or_else(o->v_dim, a->qk_dim);
  a->q_len = cli_or_else(o->q_len, cli_or_else(o->seq, cli_or_else(o->kv_len, LENGTH)));
  a->kv_len = cli_or_else(o->kv_len, cli_or_else(o->seq, a->q_len));
  a->mask = o->causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a->window = o->window;
  a->scale = (float)o->scale;
  a->softcap = (float)o->softcap;
  a->alibi = o->alibi;
  if (run->given[CLI_OPTION_dtype])
    set_dtype(a, o->dtype);
  hr_status status = hr_attention_check(a, &error);
  if (status == HR_OK && run->given[CLI_OPTION_layout])
    status = hr_attention_set_layout(a, o->layout, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "attention: %s", error.message);
}

/* ---- a decode step is also a call of the decode kernels, with the same operands as a contiguous cache ---- */

static bool is_decode_kernel(const char *name)
{
  return strncmp(name, DECODE_KERNELS, strlen(DECODE_KERNELS)) == 0;
}

static bool also(const void *call, const hr_kernel_info *kernel)
{
  hr_decode decode = hr_decode_default();
  return is_decode_kernel(kernel->name) && hr_decode_from_attention(call, &decode, NULL) == HR_OK;
}

static hr_status measure(hr_device *device, const void *call, const hr_measure_options *options,
                         hr_measurement *measurement, hr_error *error)
{
  hr_decode decode = hr_decode_default();
  if (!is_decode_kernel(options->kernel))
    return hr_measure_attention(device, call, options, measurement, error);
  hr_status status = hr_decode_from_attention(call, &decode, error);
  return status == HR_OK ? hr_measure_decode(device, &decode, options, measurement, error) : status;
}

static void set_result(hr_result *result, const void *call, const char *kernel)
{
  hr_decode decode = hr_decode_default();
  if (is_decode_kernel(kernel) && hr_decode_from_attention(call, &decode, NULL) == HR_OK)
    hr_result_set_decode(result, &decode);
  else
    hr_result_set_attention(result, call);
}

static hr_status predict(const hr_hardware *hardware, const void *call, hr_prediction *prediction, hr_error *error)
{
  hr_decode decode = hr_decode_default();
  return hr_decode_from_attention(call, &decode, NULL) == HR_OK
             ? hr_predict_decode(hardware, &decode, prediction, error)
             : hr_predict_attention_by(hardware, call, HR_FRAMEWORK_HEADROOM, prediction, error);
}

static hr_status report(FILE *out, const hr_report_options *options, const void *call, const hr_hardware *hardware,
                        const hr_prediction *prediction, const hr_kernel_measurement *runs, size_t count,
                        hr_error *error)
{
  return hr_report_attention(
      out, options, call,
      &(hr_measured_call){.hardware = hardware, .prediction = prediction, .runs = runs, .count = count}, error);
}

static hr_status draw(const void *call, const hr_hardware *hardware, const hr_prediction *prediction,
                      const hr_kernel_measurement *runs, size_t count, hr_figure **figure, hr_error *error)
{
  return hr_figure_of_attention(
      call, &(hr_measured_call){.hardware = hardware, .prediction = prediction, .runs = runs, .count = count}, figure,
      error);
}

/* ---- --backward ---- */

static hr_status measure_gradients(hr_device *device, const void *call, const hr_measure_options *options,
                                   hr_measurement *measurement, hr_error *error)
{
  return hr_measure_attention_backward(device, call, NULL, options, measurement, error);
}

static void set_gradients_result(hr_result *result, const void *call, const char *kernel)
{
  (void)kernel;
  hr_result_set_attention_backward(result, call);
}

static hr_status predict_gradients(const hr_hardware *hardware, const void *call, hr_prediction *prediction,
                                   hr_error *error)
{
  return hr_predict_attention_backward(hardware, call, prediction, error);
}

static hr_status report_gradients(FILE *out, const hr_report_options *options, const void *call,
                                  const hr_hardware *hardware, const hr_prediction *prediction,
                                  const hr_kernel_measurement *runs, size_t count, hr_error *error)
{
  return hr_report_attention_backward(
      out, options, call,
      &(hr_measured_call){.hardware = hardware, .prediction = prediction, .runs = runs, .count = count}, error);
}

static int check_gradients(const cli_run *run, const hr_attention *attention)
{
  hr_error error = {.status = HR_OK};
  if (run->given[CLI_OPTION_plot])
    return cli_fail(EXIT_USAGE, "--plot: draws the forward call; --backward has no picture");
  return hr_attention_backward_check(attention, NULL, &error) == HR_OK
             ? CLI_GO_ON
             : cli_fail(EXIT_USAGE, "attention --backward: %s", error.message);
}

static const cli_call_kind forward_kind = {"attention", also, set_dtype, measure, set_result, predict, report, draw};
static const cli_call_kind backward_kind = {
    "attention_backward", NULL, set_dtype, measure_gradients, set_gradients_result, predict_gradients,
    report_gradients,     NULL};

/* ---- several devices ---- */

/* A call as it is predicted for each device. */
typedef struct attention_work {
  const hr_attention *call;
  const cli_call_kind *kind;
  hr_status (*flops)(const hr_attention *call, int64_t *flops);
} attention_work;

static hr_status offer_attention(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const attention_work *work = context;
  hr_attention call = *work->call;
  hr_prediction prediction;
  int64_t flops = 0;
  offer->dtype = cli_dtype(run, run->hardware);
  set_dtype(&call, offer->dtype);
  hr_status status = work->kind->predict(run->hardware, &call, &prediction, error);
  if (status == HR_OK)
    status = work->flops(&call, &flops);
  if (status == HR_OK)
    cli_offer_call(offer, &prediction, (double)flops);
  return status;
}

static int attention_each(const cli_run *run, const hr_attention *a, bool backward)
{
  char about[160];
  const attention_work work = {a, backward ? &backward_kind : &forward_kind,
                               backward ? hr_attention_backward_flops : hr_attention_flops};
  snprintf(about, sizeof about,
           "%sbatch %" PRId64 ", q %" PRId64 ", kv %" PRId64 ", heads %" PRId64 "/%" PRId64 "/%" PRId64
           ", head sizes %" PRId64 "/%" PRId64 "%s",
           backward ? "gradients, " : "", a->batch, a->q_len, a->kv_len, a->q_heads, a->k_heads, a->v_heads, a->qk_dim,
           a->v_dim, a->mask == HR_MASK_CAUSAL ? ", causal" : "");
  return cli_calls_side_by_side(run, about, offer_attention, &work);
}

/* ---- the command ---- */

int cli_attention(const cli_run *run)
{
  hr_attention attention;
  bool backward = run->options.backward;
  int code = make_attention(run, &attention);
  if (code == CLI_GO_ON && backward)
    code = check_gradients(run, &attention);
  if (code == CLI_GO_ON && cli_has_several_devices(run))
    return attention_each(run, &attention, backward);
  return code == CLI_GO_ON ? cli_measure_every_kernel(run, backward ? &backward_kind : &forward_kind, &attention)
                           : code;
}
