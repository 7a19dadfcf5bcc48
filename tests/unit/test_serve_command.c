/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of servers for plans. */
#include "test.h"

#include "devices.h"
#include "hardware/hardware.h"
#include "models.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/report.h>
#include <headroom/experimental/serve.h>
#include <stdlib.h>
#include <string.h>

/* What is planned: Mixtral on an H200 by vLLM, which a test changes. */
typedef struct asked {
  hr_model model;
  hr_workload workload;
  hr_serve_options options;
  const char *name;
} asked;

static asked usual(hr_serve_engine engine)
{
  hr_hardware h200 = device("h200");
  asked made = {.model = shipped_model("mixtral-8x7b-v0.1"), .name = "mistralai/Mixtral-8x7B-v0.1"};
  made.workload = hr_workload_default(&made.model);
  made.options = hr_serve_options_default();
  assert_int_equal(hr_serve_options_set_engine(&made.options, engine, &h200, NULL), HR_OK);
  made.options.tensor_parallel = 2, made.options.expert_parallel = 1, made.options.batch = 16;
  return made;
}

/* The text, which the caller frees, or the error. */
static char *write_line(const asked *of, hr_error *error)
{
  hr_hardware h200 = device("h200");
  hr_serve_result *plan;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  const hr_subject subject = {.model = &of->model, .workload = &of->workload, .hardware = &h200};
  assert_ok(hr_serve_plan(&h200, &of->model, &of->workload, &of->options, &plan, error), *error);
  error->status = hr_report_serve_command(out, &subject, plan, plan->points, of->name, error);
  fclose(out);
  hr_serve_result_free(plan);
  return text;
}

static void assert_has(const asked *of, const char *expected)
{
  hr_error error;
  char *text = write_line(of, &error);
  assert_int_equal(error.status, HR_OK);
  if (!strstr(text, expected))
    fail_msg("\"%s\" is not in\n%s", expected, text);
  free(text);
}

static void assert_lacks(const asked *of, const char *other)
{
  hr_error error;
  char *text = write_line(of, &error);
  assert_int_equal(error.status, HR_OK);
  if (strstr(text, other))
    fail_msg("\"%s\" is in\n%s", other, text);
  free(text);
}

static void assert_refused(const asked *of, const char *why)
{
  hr_error error;
  char *text = write_line(of, &error);
  assert_int_equal(error.status, HR_ERROR_UNSUPPORTED);
  if (!strstr(error.message, why))
    fail_msg("\"%s\" is not in \"%s\"", why, error.message);
  assert_string_equal(text, "");
  free(text);
}

static void a_servers_line_has_the_plans_sizes(void **state)
{
  (void)state;
  asked of = usual(HR_SERVE_VLLM);
  assert_has(&of, "vllm serve mistralai/Mixtral-8x7B-v0.1 \\\n  --tensor-parallel-size 2 \\\n  --max-num-seqs 16 \\\n"
                  "  --max-num-batched-tokens 8192 \\\n  --max-model-len 2304 \\\n  --block-size 16 \\\n"
                  "  --gpu-memory-utilization 0.9 \\\n  --dtype bfloat16\n");
  of = usual(HR_SERVE_TRTLLM);
  assert_has(&of, "trtllm-serve mistralai/Mixtral-8x7B-v0.1 \\\n  --tp_size 2 \\\n  --max_batch_size 16 \\\n"
                  "  --max_num_tokens 8192 \\\n  --max_seq_len 2304 \\\n  --free_gpu_memory_fraction 0.9\n");
  assert_lacks(&of, "dtype");
}

/* Four groups of t = 2 share the experts over 8 devices: each has 16 sequences and chunks of 8192 tokens. */
static void groups_that_share_experts_are_data_parallel(void **state)
{
  (void)state;
  asked of = usual(HR_SERVE_VLLM);
  of.options.expert_parallel = 8;
  assert_has(&of, "--tensor-parallel-size 2 \\\n  --data-parallel-size 4 \\\n  --enable-expert-parallel \\\n"
                  "  --max-num-seqs 16 \\\n");
  of = usual(HR_SERVE_SGLANG);
  of.options.expert_parallel = 8;
  assert_has(&of, "--tp-size 8 \\\n  --dp-size 4 \\\n  --enable-dp-attention \\\n  --ep-size 8 \\\n"
                  "  --max-running-requests 64 \\\n  --chunked-prefill-size 32768 \\\n");
  of = usual(HR_SERVE_TRTLLM);
  of.options.expert_parallel = 8;
  assert_refused(&of, "attention data parallelism");
  of.options.expert_parallel = 2;
  assert_has(&of, "--tp_size 2 \\\n  --ep_size 2 \\\n");
}

static void formats_have_each_servers_names(void **state)
{
  (void)state;
  asked vllm = usual(HR_SERVE_VLLM), sglang = usual(HR_SERVE_SGLANG), trtllm = usual(HR_SERVE_TRTLLM);
  asked *all[] = {&vllm, &sglang, &trtllm};
  for (size_t i = 0; i < 3; i++)
    all[i]->workload.kv_cache = HR_KV_FP8;
  assert_has(&vllm, "--kv-cache-dtype fp8\n");
  assert_has(&sglang, "--kv-cache-dtype fp8_e4m3\n");
  assert_refused(&trtllm, "--kv-cache");
  for (size_t i = 0; i < 3; i++) {
    all[i]->workload.kv_cache = HR_KV_UNQUANTIZED;
    assert_int_equal(hr_model_set_weights(&all[i]->model, "fp8", NULL), HR_OK);
  }
  assert_has(&vllm, "--quantization fp8\n");
  assert_has(&sglang, "--quantization fp8\n");
  assert_refused(&trtllm, "--weights");
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(hr_model_set_weights(&all[i]->model, "nf4", NULL), HR_OK);
  assert_has(&vllm, "--quantization bitsandbytes\n");
  assert_refused(&sglang, "--weights");
}

static void a_plan_that_a_line_cannot_express_is_refused_by_its_option(void **state)
{
  (void)state;
  for (hr_serve_engine engine = HR_SERVE_VLLM; engine <= HR_SERVE_TRTLLM; engine++) {
    asked of = usual(engine);
    of.workload.framework = HR_FRAMEWORK_HEADROOM;
    assert_refused(&of, "--framework headroom");
    of = usual(engine);
    of.workload.kv_cache = HR_KV_Q8_0;
    assert_refused(&of, "--kv-cache");
    of = usual(engine);
    of.workload.dtype = HR_TF32;
    assert_refused(&of, "--dtype");
    of = usual(engine);
    assert_int_equal(hr_model_set_weights(&of.model, "int4", NULL), HR_OK);
    assert_refused(&of, "--weights");
  }
  asked of = usual(HR_SERVE_TRTLLM);
  of.options.page_tokens = 64;
  assert_refused(&of, "--page-size");
  of = usual(HR_SERVE_TRTLLM);
  of.options.uniform_pages = true;
  assert_refused(&of, "--uniform-pages");
  of = usual(HR_SERVE_TRTLLM);
  of.workload.framework = HR_FRAMEWORK_EAGER;
  assert_refused(&of, "--framework eager");
  of = usual(HR_SERVE_TURBOMIND);
  assert_refused(&of, "turbomind");
  of = usual(HR_SERVE_NONE);
  assert_refused(&of, "none");
}

/* Mixtral's prompts on pairs of devices: each server of a role has its own t, batch and port. */
static void disaggregated_servers_have_lines_by_role_and_a_router(void **state)
{
  (void)state;
  asked of = usual(HR_SERVE_VLLM);
  of.options.disaggregated = true, of.options.tensor_parallel = 4, of.options.prefill_tensor_parallel = 2;
  assert_has(&of, "# on each host that prefills, with 2 devices\n"
                  "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname) vllm serve mistralai/Mixtral-8x7B-v0.1 \\\n"
                  "  --tensor-parallel-size 2 \\\n  --max-num-seqs 1 \\\n");
  assert_has(&of, "--port 8100 \\\n"
                  "  --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_producer\"}'\n");
  assert_has(&of, "# on each host that decodes, with 4 devices\n"
                  "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname) vllm serve mistralai/Mixtral-8x7B-v0.1 \\\n"
                  "  --tensor-parallel-size 4 \\\n  --max-num-seqs 16 \\\n");
  assert_has(&of, "--decoder-hosts decode-1 \\\n  --decoder-ports 8200\n");
  of.options.pipeline_stages = 2;
  assert_refused(&of, "stages' caches");
  of = usual(HR_SERVE_SGLANG);
  of.options.disaggregated = true, of.options.pipeline_stages = 2;
  assert_has(&of, "--tp-size 2 \\\n  --pp-size 2 \\\n");
  assert_has(&of, "--disaggregation-mode prefill \\\n  --disaggregation-transfer-backend nixl\n");
  assert_has(&of, "--disaggregation-mode decode \\\n");
  assert_has(&of, " \\\n  --decode http://decode-1:8200 \\\n");
}

/* The files of TensorRT-LLM have room for a prompt of 2048 tokens in the transfer's buffer. */
static void servers_of_trtllm_read_files(void **state)
{
  (void)state;
  asked of = usual(HR_SERVE_TRTLLM);
  of.options.disaggregated = true, of.options.recommend = 100;
  assert_has(&of, "cat > prefill.yml <<END\ndisable_overlap_scheduler: true\ncache_transceiver_config:\n"
                  "  backend: NIXL\n  max_tokens_in_buffer: 2048\nEND\n");
  assert_has(&of, "--port 8200 \\\n  --config decode.yml\n");
  assert_has(&of, "    - decode-2:8200\n");
  of.options.recommend = 1e7;
  assert_refused(&of, "a router's line lists");
  of = usual(HR_SERVE_TRTLLM);
  of.options.disaggregated = true, of.options.tensor_parallel = 1;
  of.model = shipped_model("mamba-codestral-7b-v0.1");
  assert_refused(&of, "equal layers");
}

static void flags_follow_the_plan(void **state)
{
  (void)state;
  asked vllm = usual(HR_SERVE_VLLM), sglang = usual(HR_SERVE_SGLANG);
  vllm.workload.framework = sglang.workload.framework = HR_FRAMEWORK_EAGER;
  vllm.options.uniform_pages = sglang.options.uniform_pages = true;
  assert_has(&vllm, "--enforce-eager \\\n  --disable-hybrid-kv-cache-manager\n");
  assert_has(&sglang, "--disable-cuda-graph \\\n  --disable-hybrid-swa-memory\n");
}

static void a_models_name_is_one_word_for_a_shell(void **state)
{
  (void)state;
  asked of = usual(HR_SERVE_VLLM);
  of.name = "my model's $(rm)";
  assert_has(&of, "vllm serve 'my model'\\''s $(rm)' \\\n");
  of.name = "-x";
  assert_has(&of, "vllm serve '-x' \\\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_servers_line_has_the_plans_sizes),
      cmocka_unit_test(groups_that_share_experts_are_data_parallel),
      cmocka_unit_test(formats_have_each_servers_names),
      cmocka_unit_test(a_plan_that_a_line_cannot_express_is_refused_by_its_option),
      cmocka_unit_test(disaggregated_servers_have_lines_by_role_and_a_router),
      cmocka_unit_test(servers_of_trtllm_read_files),
      cmocka_unit_test(flags_follow_the_plan),
      cmocka_unit_test(a_models_name_is_one_word_for_a_shell),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
