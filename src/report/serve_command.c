/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that starts a server with a plan. Options were read in
 *
 *   vllm    vllm-project/vllm: vllm/engine/arg_utils.py at 99d7eb5d, vllm/config/cache.py at 002f10e0 (formats of the
 *           cache); docs.vllm.ai, features/quantization: fp8 and bitsandbytes quantize while loading
 *   sglang  sgl-project/sglang: python/sglang/srt/server_args.py at 469c63e5; docs.sglang.io, server arguments. With
 *           --enable-dp-attention --tp-size counts all devices, and requests and chunks are divided by --dp-size
 *   trtllm  NVIDIA/TensorRT-LLM: tensorrt_llm/commands/serve.py at 00209af1. Formats, pages and attention data
 *           parallelism are set in a file (--config), or by the checkpoint */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "report/document.h"
#include "report/lines.h"

#include <headroom/experimental/quantization.h>
#include <headroom/experimental/report.h>
#include <headroom/experimental/serve.h>
#include <inttypes.h>
#include <string.h>

#define VALUE_SIZE 64
#define TRTLLM_PAGE 32 /* tokens_per_block of KvCacheConfig where no file sets it */

typedef struct emitted {
  const hr_model *model;
  const hr_workload *workload;
  const hr_serve_options *options;
  const hr_serve_point *point;
} emitted;

/* ---- values: false: the option is left out; "": a flag ---- */

static bool count(char *to, int64_t value)
{
  snprintf(to, VALUE_SIZE, "%" PRId64, value);
  return true;
}

static int64_t groups(const emitted *of)
{
  return of->point->sequences / of->point->batch;
}

static bool tensor_parallel(const emitted *of, char *to)
{
  return count(to, of->point->tensor_parallel);
}

static bool stage_devices(const emitted *of, char *to)
{
  return count(to, of->point->devices / of->point->pipeline_stages);
}

static bool stages(const emitted *of, char *to)
{
  return of->point->pipeline_stages > 1 && count(to, of->point->pipeline_stages);
}

static bool attention_groups(const emitted *of, char *to)
{
  return groups(of) > 1 && count(to, groups(of));
}

static bool has_groups(const emitted *of, char *to)
{
  to[0] = '\0';
  return groups(of) > 1;
}

static bool expert_parallel(const emitted *of, char *to)
{
  return of->point->expert_parallel > 1 && count(to, of->point->expert_parallel);
}

static bool shares_experts(const emitted *of, char *to)
{
  to[0] = '\0';
  return of->point->expert_parallel > 1;
}

static bool batch(const emitted *of, char *to)
{
  return count(to, of->point->batch);
}

static bool all_sequences(const emitted *of, char *to)
{
  return count(to, of->point->sequences);
}

static bool prefill_tokens(const emitted *of, char *to)
{
  return count(to, of->options->prefill_tokens);
}

static bool all_prefill_tokens(const emitted *of, char *to)
{
  return count(to, of->options->prefill_tokens * groups(of));
}

static bool length(const emitted *of, char *to)
{
  return count(to, of->options->prompt_tokens + of->options->output_tokens);
}

static bool page(const emitted *of, char *to)
{
  return count(to, of->options->page_tokens);
}

static bool memory_share(const emitted *of, char *to)
{
  hr_write_text(to, VALUE_SIZE, "%.3g", of->options->memory_share);
  return true;
}

static const char *dtype_of(const emitted *of)
{
  static const char *const names[HR_DTYPE_COUNT] = {
      [HR_BF16] = "bfloat16", [HR_FP16] = "float16", [HR_FP32] = "float32"};
  return names[of->workload->dtype];
}

static bool copy(char *to, const char *text)
{
  snprintf(to, VALUE_SIZE, "%s", text ? text : "");
  return text != NULL;
}

static bool dtype(const emitted *of, char *to)
{
  return copy(to, dtype_of(of));
}

static const char *const vllm_caches[HR_KV_FORMAT_COUNT] = {[HR_KV_FP8] = "fp8", [HR_KV_NVFP4] = "nvfp4"};
static const char *const sglang_caches[HR_KV_FORMAT_COUNT] = {[HR_KV_FP8] = "fp8_e4m3"};

static bool vllm_cache(const emitted *of, char *to)
{
  return copy(to, vllm_caches[of->workload->kv_cache]);
}

static bool sglang_cache(const emitted *of, char *to)
{
  return copy(to, sglang_caches[of->workload->kv_cache]);
}

/* The format that weights are given, "" where the checkpoint has one of its own. */
static const char *given_weights(const emitted *of)
{
  const hr_quantization *q = &of->model->quantization;
  return q->format_count > 0 && strcmp(q->method, "--weights") == 0 ? q->formats[0].name : "";
}

static const char *vllm_method(const emitted *of)
{
  const char *weights = given_weights(of);
  return strcmp(weights, "fp8") == 0 ? "fp8" : strcmp(weights, "nf4") == 0 ? "bitsandbytes" : NULL;
}

static const char *sglang_method(const emitted *of)
{
  return strcmp(given_weights(of), "fp8") == 0 ? "fp8" : NULL;
}

static bool vllm_quantization(const emitted *of, char *to)
{
  return copy(to, vllm_method(of));
}

static bool sglang_quantization(const emitted *of, char *to)
{
  return copy(to, sglang_method(of));
}

static bool eager(const emitted *of, char *to)
{
  to[0] = '\0';
  return of->workload->framework == HR_FRAMEWORK_EAGER;
}

static bool uniform_pages(const emitted *of, char *to)
{
  to[0] = '\0';
  return of->options->uniform_pages;
}

/* ---- what a command line cannot express ---- */

static bool is_disaggregated(const emitted *of)
{
  return of->options->disaggregated;
}

static bool is_headroom(const emitted *of)
{
  return of->workload->framework == HR_FRAMEWORK_HEADROOM;
}

static bool is_eager(const emitted *of)
{
  return of->workload->framework == HR_FRAMEWORK_EAGER;
}

static bool has_no_dtype(const emitted *of)
{
  return !dtype_of(of);
}

static bool is_not_bf16(const emitted *of)
{
  return of->workload->dtype != HR_BF16;
}

static bool quantizes_cache(const emitted *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && of->workload->kv_cache != of->model->quantization.kv_cache;
}

static bool vllm_lacks_cache(const emitted *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && !vllm_caches[of->workload->kv_cache];
}

static bool sglang_lacks_cache(const emitted *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && !sglang_caches[of->workload->kv_cache];
}

static bool quantizes_weights(const emitted *of)
{
  return given_weights(of)[0] != '\0';
}

static bool vllm_lacks_weights(const emitted *of)
{
  return quantizes_weights(of) && !vllm_method(of);
}

static bool sglang_lacks_weights(const emitted *of)
{
  return quantizes_weights(of) && !sglang_method(of);
}

static bool has_more_groups(const emitted *of)
{
  return groups(of) > 1;
}

static bool has_uniform_pages(const emitted *of)
{
  return of->options->uniform_pages;
}

static bool has_other_pages(const emitted *of)
{
  return of->options->page_tokens != TRTLLM_PAGE;
}

/* ---- servers ---- */

typedef struct server_option {
  const char *name;
  bool (*write)(const emitted *of, char *to);
} server_option;

typedef struct refusal {
  bool (*meant)(const emitted *of);
  const char *why;
} refusal;

#define REFUSED_BY_ALL                                                                                        \
  {is_disaggregated, "--disaggregated takes servers of two roles and a transfer between them, not one line"}, \
  {                                                                                                           \
    is_headroom, "--framework headroom: it runs its own kernels"                                              \
  }

static const server_option vllm_options[] = {{"--tensor-parallel-size", tensor_parallel},
                                             {"--pipeline-parallel-size", stages},
                                             {"--data-parallel-size", attention_groups},
                                             {"--enable-expert-parallel", shares_experts},
                                             {"--max-num-seqs", batch},
                                             {"--max-num-batched-tokens", prefill_tokens},
                                             {"--max-model-len", length},
                                             {"--block-size", page},
                                             {"--gpu-memory-utilization", memory_share},
                                             {"--dtype", dtype},
                                             {"--kv-cache-dtype", vllm_cache},
                                             {"--quantization", vllm_quantization},
                                             {"--enforce-eager", eager},
                                             {"--disable-hybrid-kv-cache-manager", uniform_pages},
                                             {NULL, NULL}};
static const refusal vllm_refusals[] = {REFUSED_BY_ALL,
                                        {has_no_dtype, "--dtype: it has bf16, fp16 and fp32"},
                                        {vllm_lacks_cache, "--kv-cache: it has no cache in this format"},
                                        {vllm_lacks_weights,
                                         "--weights: it quantizes to fp8 and nf4 while loading; other formats take a "
                                         "checkpoint that has them"},
                                        {NULL, NULL}};

static const server_option sglang_options[] = {{"--tp-size", stage_devices},
                                               {"--pp-size", stages},
                                               {"--dp-size", attention_groups},
                                               {"--enable-dp-attention", has_groups},
                                               {"--ep-size", expert_parallel},
                                               {"--max-running-requests", all_sequences},
                                               {"--chunked-prefill-size", all_prefill_tokens},
                                               {"--context-length", length},
                                               {"--page-size", page},
                                               {"--mem-fraction-static", memory_share},
                                               {"--dtype", dtype},
                                               {"--kv-cache-dtype", sglang_cache},
                                               {"--quantization", sglang_quantization},
                                               {"--disable-cuda-graph", eager},
                                               {"--disable-hybrid-swa-memory", uniform_pages},
                                               {NULL, NULL}};
static const refusal sglang_refusals[] = {
    REFUSED_BY_ALL,
    {has_no_dtype, "--dtype: it has bf16, fp16 and fp32"},
    {sglang_lacks_cache, "--kv-cache: it has no cache in this format"},
    {sglang_lacks_weights, "--weights: it quantizes to fp8 while loading; other formats take a checkpoint "
                           "that has them"},
    {NULL, NULL}};

static const server_option trtllm_options[] = {{"--tp_size", tensor_parallel},
                                               {"--pp_size", stages},
                                               {"--ep_size", expert_parallel},
                                               {"--max_batch_size", batch},
                                               {"--max_num_tokens", prefill_tokens},
                                               {"--max_seq_len", length},
                                               {"--free_gpu_memory_fraction", memory_share},
                                               {NULL, NULL}};
static const refusal trtllm_refusals[] = {
    REFUSED_BY_ALL,
    {has_more_groups, "more expert than tensor parallelism takes attention data parallelism, which a file sets"},
    {is_not_bf16, "--dtype: it takes the checkpoint's"},
    {quantizes_cache, "--kv-cache: a file or the checkpoint sets the format"},
    {quantizes_weights, "--weights: it takes the checkpoint's"},
    {is_eager, "--framework eager: a file sets it"},
    {has_uniform_pages, "--uniform-pages: a file sets it"},
    {has_other_pages, "--page-size: a file sets other pages than of 32 tokens"},
    {NULL, NULL}};

static const struct server {
  const char *begin; /* of the line, before the model; NULL: not known */
  const server_option *options;
  const refusal *refusals;
} servers[HR_SERVE_ENGINE_COUNT] = {
    [HR_SERVE_VLLM] = {"vllm serve", vllm_options, vllm_refusals},
    [HR_SERVE_SGLANG] = {"python3 -m sglang.launch_server --model-path", sglang_options, sglang_refusals},
    [HR_SERVE_TRTLLM] = {"trtllm-serve", trtllm_options, trtllm_refusals}};

/* ---- the line ---- */

/* A word of a shell's command line. */
static void write_word(FILE *out, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@:+=-";
  if (word[0] && word[0] != '-' && strspn(word, plain) == strlen(word)) {
    fputs(word, out);
    return;
  }
  fputc('\'', out);
  for (; *word; word++)
    fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
  fputc('\'', out);
}

static void write_comments(FILE *out, const hr_serve_result *plan, const hr_serve_point *point)
{
  char ttft[HR_NUMBER_SIZE], tpot[HR_NUMBER_SIZE], load[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  const hr_serve_fleet *fleet = plan->fleet_count > 0 && plan->fleets[0].point == point ? &plan->fleets[0] : NULL;
  hr_write_time(ttft, sizeof ttft, point->ttft_ns);
  hr_write_time(tpot, sizeof tpot, point->tpot_ns);
  fprintf(out, "# %" PRId64 " device%s, %" PRId64 " sequences: TTFT %s, TPOT %s predicted\n", point->devices,
          hr_plural(point->devices), point->sequences, ttft, tpot);
  if (!fleet)
    return;
  hr_write_share(load, sizeof load, fleet->load_share);
  hr_write_text(rate, sizeof rate, "%.3g", plan->options.recommend);
  fprintf(out, "# %" PRId64 " of these on %" PRId64 " devices for %s requests/s, %s of what they carry\n",
          fleet->instances, fleet->devices, rate, load);
}

static void write_command(FILE *out, const struct server *server, const emitted *of, const char *name)
{
  fprintf(out, "%s ", server->begin);
  write_word(out, name);
  for (const server_option *option = server->options; option->name; option++) {
    char value[VALUE_SIZE];
    if (option->write(of, value))
      fprintf(out, " \\\n  %s%s%s", option->name, value[0] ? " " : "", value);
  }
  fputc('\n', out);
}

hr_status hr_report_serve_command(FILE *out, const hr_subject *subject, const hr_serve_result *plan,
                                  const hr_serve_point *point, const char *name, hr_error *error)
{
  HR_NEED(error, out, subject, plan, point, name);
  HR_NEED(error, subject->model, subject->workload);
  const struct server *server = &servers[plan->options.engine];
  const char *engine = hr_serve_engine_name(plan->options.engine);
  const emitted of = {subject->model, subject->workload, &plan->options, point};
  if (!server->begin)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: the options of this server are not known", engine);
  for (const refusal *refused = server->refusals; refused->meant; refused++) {
    if (refused->meant(&of))
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "the command line of %s cannot express this plan: %s", engine,
                     refused->why);
  }
  write_comments(out, plan, point);
  write_command(out, server, &of, name);
  const hr_report_options options = hr_report_options_default();
  hr_document document;
  hr_document_begin(&document, out, &options);
  return hr_document_end(&document, HR_OK, error);
}
