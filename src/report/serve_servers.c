/* SPDX-License-Identifier: Apache-2.0 */
/* Options of servers were read in
 *
 *   vllm    vllm-project/vllm: vllm/engine/arg_utils.py at 99d7eb5d, vllm/config/cache.py at 002f10e0 (formats of the
 *           cache); docs.vllm.ai, features/quantization: fp8 and bitsandbytes quantize while loading. What the
 *           connector transfers: documentation, nixl_connector_compatibility at 0a5110ef; no stages: issue 52913
 *   sglang  sgl-project/sglang: python/sglang/srt/server_args.py at 469c63e5; documentation, server_arguments at
 *           004813e1 (--pp-size). entrypoints/engine.py starts pp_size · tp_size processes. With
 *           --enable-dp-attention --tp-size counts all devices of a stage, and requests and chunks are divided by
 *           --dp-size
 *   trtllm  NVIDIA/TensorRT-LLM: tensorrt_llm/commands/serve.py at 00209af1. Formats, pages and attention data
 *           parallelism are set in a file (--config), or by the checkpoint; what it transfers:
 *           documentation, features/disagg-serving at 0434b982 */
#include "report/serve_servers.h"

#include "base/text.h"
#include "report/serve_router.h"

#include <headroom/experimental/quantization.h>
#include <inttypes.h>
#include <string.h>

#define TRTLLM_PAGE 32 /* tokens_per_block of KvCacheConfig where no file sets it */

/* ---- values: false: the option is left out; "": a flag ---- */

static bool count(char *to, int64_t value)
{
  snprintf(to, HR_SERVER_VALUE_SIZE, "%" PRId64, value);
  return true;
}

/* Whether it has a layout of its own, of tensor parallelism alone. */
static bool prefills_apart(const hr_served *of)
{
  return of->role == HR_PREFILLS && of->point->prefill_tensor_parallel > 0;
}

static int64_t groups(const hr_served *of)
{
  return prefills_apart(of) ? 1 : of->point->sequences / of->point->batch;
}

static int64_t stage_count(const hr_served *of)
{
  return prefills_apart(of) ? 1 : of->point->pipeline_stages;
}

int64_t hr_served_devices(const hr_served *of)
{
  return prefills_apart(of) ? of->point->prefill_tensor_parallel : of->point->devices;
}

static int64_t experts_on(const hr_served *of)
{
  return prefills_apart(of) ? 1 : of->point->expert_parallel;
}

static int64_t batch_of_group(const hr_served *of)
{
  return of->role == HR_PREFILLS ? of->point->prefill_batch : of->point->batch;
}

static bool tensor_parallel(const hr_served *of, char *to)
{
  return count(to, prefills_apart(of) ? of->point->prefill_tensor_parallel : of->point->tensor_parallel);
}

static bool stage_devices(const hr_served *of, char *to)
{
  return count(to, hr_served_devices(of) / stage_count(of));
}

static bool stages(const hr_served *of, char *to)
{
  return stage_count(of) > 1 && count(to, stage_count(of));
}

static bool attention_groups(const hr_served *of, char *to)
{
  return groups(of) > 1 && count(to, groups(of));
}

static bool has_groups(const hr_served *of, char *to)
{
  to[0] = '\0';
  return groups(of) > 1;
}

static bool expert_parallel(const hr_served *of, char *to)
{
  return experts_on(of) > 1 && count(to, experts_on(of));
}

static bool shares_experts(const hr_served *of, char *to)
{
  to[0] = '\0';
  return experts_on(of) > 1;
}

static bool batch(const hr_served *of, char *to)
{
  return count(to, batch_of_group(of));
}

static bool all_sequences(const hr_served *of, char *to)
{
  return count(to, batch_of_group(of) * groups(of));
}

static bool prefill_tokens(const hr_served *of, char *to)
{
  return count(to, of->options->prefill_tokens);
}

static bool all_prefill_tokens(const hr_served *of, char *to)
{
  return count(to, of->options->prefill_tokens * groups(of));
}

static bool length(const hr_served *of, char *to)
{
  return count(to, of->options->prompt_tokens + of->options->output_tokens);
}

static bool page(const hr_served *of, char *to)
{
  return count(to, of->options->page_tokens);
}

static bool memory_share(const hr_served *of, char *to)
{
  hr_write_text(to, HR_SERVER_VALUE_SIZE, "%.3g", of->options->memory_share);
  return true;
}

static const char *dtype_of(const hr_served *of)
{
  static const char *const names[HR_DTYPE_COUNT] = {
      [HR_BF16] = "bfloat16", [HR_FP16] = "float16", [HR_FP32] = "float32"};
  return names[of->workload->dtype];
}

static bool copy(char *to, const char *text)
{
  snprintf(to, HR_SERVER_VALUE_SIZE, "%s", text ? text : "");
  return text != NULL;
}

static bool dtype(const hr_served *of, char *to)
{
  return copy(to, dtype_of(of));
}

static const char *const vllm_caches[HR_KV_FORMAT_COUNT] = {[HR_KV_FP8] = "fp8", [HR_KV_NVFP4] = "nvfp4"};
static const char *const sglang_caches[HR_KV_FORMAT_COUNT] = {[HR_KV_FP8] = "fp8_e4m3"};

static bool vllm_cache(const hr_served *of, char *to)
{
  return copy(to, vllm_caches[of->workload->kv_cache]);
}

static bool sglang_cache(const hr_served *of, char *to)
{
  return copy(to, sglang_caches[of->workload->kv_cache]);
}

/* The format that weights are given, "" where the checkpoint has one of its own. */
static const char *given_weights(const hr_served *of)
{
  const hr_quantization *q = &of->model->quantization;
  return q->format_count > 0 && strcmp(q->method, "--weights") == 0 ? q->formats[0].name : "";
}

static const char *vllm_method(const hr_served *of)
{
  const char *weights = given_weights(of);
  return strcmp(weights, "fp8") == 0 ? "fp8" : strcmp(weights, "nf4") == 0 ? "bitsandbytes" : NULL;
}

static const char *sglang_method(const hr_served *of)
{
  return strcmp(given_weights(of), "fp8") == 0 ? "fp8" : NULL;
}

static bool vllm_quantization(const hr_served *of, char *to)
{
  return copy(to, vllm_method(of));
}

static bool sglang_quantization(const hr_served *of, char *to)
{
  return copy(to, sglang_method(of));
}

static bool eager(const hr_served *of, char *to)
{
  to[0] = '\0';
  return of->workload->framework == HR_FRAMEWORK_EAGER;
}

static bool uniform_pages(const hr_served *of, char *to)
{
  to[0] = '\0';
  return of->options->uniform_pages;
}

/* ---- roles: values that servers of one role alone have ---- */

static bool by_role(const hr_served *of, char *to, const char *prefills, const char *decodes)
{
  return of->role != HR_SERVES_ALL && copy(to, of->role == HR_PREFILLS ? prefills : decodes);
}

/* Other hosts reach the server. */
static bool any_host(const hr_served *of, char *to)
{
  return by_role(of, to, "0.0.0.0", "0.0.0.0");
}

static bool port(const hr_served *of, char *to)
{
  return of->role != HR_SERVES_ALL && count(to, of->role == HR_PREFILLS ? HR_PREFILL_PORT : HR_DECODE_PORT);
}

static bool vllm_transfer(const hr_served *of, char *to)
{
  return by_role(of, to, "'{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_producer\"}'",
                 "'{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_consumer\"}'");
}

static bool sglang_mode(const hr_served *of, char *to)
{
  return by_role(of, to, "prefill", "decode");
}

static bool sglang_transfer(const hr_served *of, char *to)
{
  return by_role(of, to, "nixl", "nixl");
}

static bool trtllm_file(const hr_served *of, char *to)
{
  return by_role(of, to, "prefill.yml", "decode.yml");
}

/* ---- what a command line cannot express ---- */

static bool sends_stages(const hr_served *of)
{
  return of->options->disaggregated && of->point->pipeline_stages > 1;
}

static bool has_scans(const hr_model *model)
{
  bool scans = false;
  for (size_t i = 0; i < model->group_count; i++)
    scans = scans || model->groups[i].scan.heads > 0;
  return scans;
}

static bool sends_states_to_other_parts(const hr_served *of)
{
  int64_t t = of->point->prefill_tensor_parallel;
  return of->options->disaggregated && t > 0 && t != of->point->tensor_parallel && has_scans(of->model);
}

/* Whether layers have unequal caches. */
static bool sends_unequal_caches(const hr_served *of)
{
  const hr_layer_group *first = &of->model->groups[0];
  bool unequal = has_scans(of->model);
  for (size_t i = 1; i < of->model->group_count; i++) {
    const hr_mixer_attention *a = &first->attention, *b = &of->model->groups[i].attention;
    unequal = unequal || a->k_heads != b->k_heads || a->v_heads != b->v_heads || a->qk_dim != b->qk_dim ||
              a->v_dim != b->v_dim;
  }
  return of->options->disaggregated && unequal;
}

static bool is_headroom(const hr_served *of)
{
  return of->workload->framework == HR_FRAMEWORK_HEADROOM;
}

static bool is_eager(const hr_served *of)
{
  return of->workload->framework == HR_FRAMEWORK_EAGER;
}

static bool has_no_dtype(const hr_served *of)
{
  return !dtype_of(of);
}

static bool is_not_bf16(const hr_served *of)
{
  return of->workload->dtype != HR_BF16;
}

static bool quantizes_cache(const hr_served *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && of->workload->kv_cache != of->model->quantization.kv_cache;
}

static bool vllm_lacks_cache(const hr_served *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && !vllm_caches[of->workload->kv_cache];
}

static bool sglang_lacks_cache(const hr_served *of)
{
  return of->workload->kv_cache != HR_KV_UNQUANTIZED && !sglang_caches[of->workload->kv_cache];
}

static bool quantizes_weights(const hr_served *of)
{
  return given_weights(of)[0] != '\0';
}

static bool vllm_lacks_weights(const hr_served *of)
{
  return quantizes_weights(of) && !vllm_method(of);
}

static bool sglang_lacks_weights(const hr_served *of)
{
  return quantizes_weights(of) && !sglang_method(of);
}

static bool has_more_groups(const hr_served *of)
{
  return groups(of) > 1;
}

static bool has_uniform_pages(const hr_served *of)
{
  return of->options->uniform_pages;
}

static bool has_other_pages(const hr_served *of)
{
  return of->options->page_tokens != TRTLLM_PAGE;
}

/* ---- servers ---- */

#define REFUSED_BY_ALL                                           \
  {                                                              \
    is_headroom, "--framework headroom: it runs its own kernels" \
  }

static const hr_server_option vllm_options[] = {{"--tensor-parallel-size", tensor_parallel},
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
                                                {"--port", port},
                                                {"--kv-transfer-config", vllm_transfer},
                                                {NULL, NULL}};
static const hr_server_refusal vllm_refusals[] = {
    REFUSED_BY_ALL,
    {sends_stages, "--disaggregated -p: NixlConnector transfers no stages' caches"},
    {sends_states_to_other_parts, "--disaggregated: NixlConnector transfers states between equal t alone"},
    {has_no_dtype, "--dtype: it has bf16, fp16 and fp32"},
    {vllm_lacks_cache, "--kv-cache: it has no cache in this format"},
    {vllm_lacks_weights, "--weights: it quantizes to fp8 and nf4 while loading; other formats take a "
                         "checkpoint that has them"},
    {NULL, NULL}};

static const hr_server_option sglang_options[] = {{"--tp-size", stage_devices},
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
                                                  {"--host", any_host},
                                                  {"--port", port},
                                                  {"--disaggregation-mode", sglang_mode},
                                                  {"--disaggregation-transfer-backend", sglang_transfer},
                                                  {NULL, NULL}};
static const hr_server_refusal sglang_refusals[] = {
    REFUSED_BY_ALL,
    {has_no_dtype, "--dtype: it has bf16, fp16 and fp32"},
    {sglang_lacks_cache, "--kv-cache: it has no cache in this format"},
    {sglang_lacks_weights, "--weights: it quantizes to fp8 while loading; other formats take a checkpoint "
                           "that has them"},
    {NULL, NULL}};

static const hr_server_option trtllm_options[] = {{"--tp_size", tensor_parallel},
                                                  {"--pp_size", stages},
                                                  {"--ep_size", expert_parallel},
                                                  {"--max_batch_size", batch},
                                                  {"--max_num_tokens", prefill_tokens},
                                                  {"--max_seq_len", length},
                                                  {"--free_gpu_memory_fraction", memory_share},
                                                  {"--host", any_host},
                                                  {"--port", port},
                                                  {"--config", trtllm_file},
                                                  {NULL, NULL}};
static const hr_server_refusal trtllm_refusals[] = {
    REFUSED_BY_ALL,
    {sends_unequal_caches, "--disaggregated: it transfers caches of equal layers alone"},
    {has_more_groups, "more expert than tensor parallelism takes attention data parallelism, which a file sets"},
    {is_not_bf16, "--dtype: it takes the checkpoint's"},
    {quantizes_cache, "--kv-cache: a file or the checkpoint sets the format"},
    {quantizes_weights, "--weights: it takes the checkpoint's"},
    {is_eager, "--framework eager: a file sets it"},
    {has_uniform_pages, "--uniform-pages: a file sets it"},
    {has_other_pages, "--page-size: a file sets other pages than of 32 tokens"},
    {NULL, NULL}};

static const hr_server servers[HR_SERVE_ENGINE_COUNT] = {
    [HR_SERVE_VLLM] = {"vllm serve", "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname) ", vllm_options, vllm_refusals},
    [HR_SERVE_SGLANG] = {"python3 -m sglang.launch_server --model-path", "", sglang_options, sglang_refusals},
    [HR_SERVE_TRTLLM] = {"trtllm-serve", "", trtllm_options, trtllm_refusals}};

const hr_server *hr_server_of(hr_serve_engine engine)
{
  return servers[engine].begin ? &servers[engine] : NULL;
}
