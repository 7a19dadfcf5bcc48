/* SPDX-License-Identifier: Apache-2.0 */
#include "every_kernel.h"

#define HEAD_DIM 64
#define LATENT_K_DIM 576 /* DeepSeek-V2 and V3: 512 of the latent and 64 of the rotary part */
#define LATENT_V_DIM 512
#define LENGTH 1024
#define PAGE_SIZE 16 /* as vLLM has by default */

static void set_heads(const cli_options *o, hr_decode *d)
{
  d->q_heads = cli_or_else(o->q_heads, 1);
  d->k_heads = cli_or_else(o->k_heads, cli_or_else(o->kv_heads, o->latent ? 1 : d->q_heads));
  d->v_heads = cli_or_else(o->v_heads, cli_or_else(o->kv_heads, d->k_heads));
  d->qk_dim = cli_or_else(o->qk_dim, o->latent ? LATENT_K_DIM : HEAD_DIM);
  d->v_dim = cli_or_else(o->v_dim, o->latent ? LATENT_V_DIM : d->qk_dim);
}

static int make_decode(const cli_run *run, hr_decode *d)
{
  const cli_options *o = &run->options;
  hr_error error = {.status = HR_OK};
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "decode: expected no argument, found \"%s\"", run->arguments[0]);
  if (run->given[CLI_OPTION_scales] && o->cache_format == HR_KV_UNQUANTIZED)
    return cli_fail(EXIT_USAGE, "decode: --scales needs --kv-cache fp8 or int8");
  *d = hr_decode_default();
  d->batch = cli_or_else(o->batch, 1);
  d->q_len = cli_or_else(o->q_len, 1);
  d->kv_len = cli_or_else(o->kv_len, LENGTH);
  d->window = o->window;
  d->top_k = o->top_k;
  d->scale = (float)o->scale;
  d->softcap = (float)o->softcap;
  d->sinks = o->sinks;
  d->latent = o->latent;
  d->batch_invariant = o->batch_invariant;
  d->cache_format = o->cache_format;
  d->cache_scales = o->scales;
  set_heads(o, d);
  if (run->given[CLI_OPTION_dtype])
    d->dtype = o->dtype;
  hr_status status = hr_decode_set_pages(d, run->given[CLI_OPTION_page_size] ? o->page_size : PAGE_SIZE, &error);
  if (status == HR_OK)
    status = hr_decode_check(d, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "decode: %s", error.message);
}

static void set_dtype(void *call, hr_dtype dtype)
{
  ((hr_decode *)call)->dtype = dtype;
}

static hr_status measure(hr_device *device, const void *call, const hr_measure_options *options,
                         hr_measurement *measurement, hr_error *error)
{
  return hr_measure_decode(device, call, options, measurement, error);
}

static void set_result(hr_result *result, const void *call, const char *kernel)
{
  (void)kernel;
  hr_result_set_decode(result, call);
}

static hr_status predict(const hr_hardware *hardware, const void *call, hr_prediction *prediction, hr_error *error)
{
  return hr_predict_decode(hardware, call, prediction, error);
}

static hr_status report(FILE *out, const hr_report_options *options, const void *call, const hr_hardware *hardware,
                        const hr_prediction *prediction, const hr_kernel_measurement *runs, size_t count,
                        hr_error *error)
{
  return hr_report_decode(
      out, options, call,
      &(hr_measured_call){.hardware = hardware, .prediction = prediction, .runs = runs, .count = count}, error);
}

int cli_decode(const cli_run *run)
{
  static const cli_call_kind kind = {"decode", NULL, set_dtype, measure, set_result, predict, report, NULL};
  hr_decode decode;
  int code = make_decode(run, &decode);
  return code == CLI_GO_ON ? cli_measure_every_kernel(run, &kind, &decode) : code;
}
