/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention, routed experts and 8 bit GEMMs as others measured them (data/results/published), by device: rows
 * that the device files were not fitted to. The bounds stand a little above docs/notes/prediction.md. */
#include "test.h"

#include "hardware/hardware.h"
#include "unit/measured.h"

#include <headroom/experimental/predict.h>
#include <headroom/experimental/validate.h>

#define TEXT_MAX (1 << 20)

static char text[TEXT_MAX];

static const char *path_of(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/data/results/published/%s", HEADROOM_SOURCE_DIR, name);
  return path;
}

/* The head and the held-out rows of a device that begin with "DEVICE,KIND,DTYPE,". */
static size_t read_rows(const char *name, const char *begin)
{
  char line[512];
  size_t length = 0;
  bool head = true;
  FILE *file = fopen(path_of(name), "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    bool wanted = strncmp(line, begin, strlen(begin)) == 0 && strstr(line, "held_out");
    if (line[0] == '#' || (!head && !wanted))
      continue;
    head = false;
    assert_true(length + strlen(line) < TEXT_MAX);
    length += (size_t)snprintf(text + length, TEXT_MAX - length, "%s", line);
  }
  fclose(file);
  return length;
}

static const struct {
  const char *file, *device, *kind;
  size_t min_rows;
  double median, mean;
} bounds[] = {
    {"latent.csv", "a100-sxm4-80gb", "latent,bf16,", 370, 0.05, 0.065},
    {"latent.csv", "h100-sxm", "latent,bf16,", 370, 0.065, 0.09},
    {"latent.csv", "h200", "latent,bf16,", 370, 0.075, 0.10},
    {"latent.csv", "b200", "latent,bf16,", 370, 0.065, 0.105},
    {"latent.csv", "l40s", "latent,bf16,", 370, 0.135, 0.225},
    {"latent.csv", "a100-sxm4-80gb", "latent_prefill,bf16,", 180, 0.10, 0.135},
    {"latent.csv", "h100-sxm", "latent_prefill,bf16,", 180, 0.075, 0.135},
    {"latent.csv", "h200", "latent_prefill,bf16,", 180, 0.075, 0.125},
    {"latent.csv", "b200", "latent_prefill,bf16,", 180, 0.12, 0.15},
    {"latent.csv", "l40s", "latent_prefill,bf16,", 180, 0.165, 0.26},
    {"experts.csv", "a100-sxm4-80gb", "experts,bf16,", 110, 0.185, 0.225},
    {"experts.csv", "h100-sxm", "experts,bf16,", 35, 0.08, 0.22},
    {"experts.csv", "h200", "experts,bf16,", 35, 0.05, 0.13},
    {"experts.csv", "b200", "experts,bf16,", 60, 0.075, 0.125},
    {"experts.csv", "l40s", "experts,bf16,", 70, 0.058, 0.16},
    {"experts.csv", "h100-sxm", "experts,fp8,", 40, 0.05, 0.195},
    {"experts.csv", "h200", "experts,fp8,", 40, 0.056, 0.23},
    {"experts.csv", "b200", "experts,fp8,", 40, 0.175, 0.19},
    {"experts.csv", "l40s", "experts,fp8,", 50, 0.056, 0.14},
    {"gemms_fp8.csv", "h100-sxm", "gemm,fp8,", 270, 0.125, 0.175},
    {"gemms_fp8.csv", "h200", "gemm,fp8,", 240, 0.13, 0.185},
    {"gemms_fp8.csv", "b200", "gemm,fp8,", 280, 0.13, 0.16},
    {"gemms_fp8.csv", "l40s", "gemm,fp8,", 255, 0.13, 0.20},
};

static void held_out_rows_are_within_the_error_that_the_page_says(void **state)
{
  (void)state;
  hr_validate_options options = hr_validate_options_default();
  options.cache_writes = true;
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    const hr_hardware hardware = measured_hardware(bounds[i].device);
    hr_validation *v = NULL;
    hr_error error;
    char begin[96];
    snprintf(begin, sizeof begin, "%s,%s", bounds[i].device, bounds[i].kind);
    size_t length = read_rows(bounds[i].file, begin);
    assert_ok(hr_validate_csv(&hardware, &(hr_input){.text = text, .length = length, .name = bounds[i].file}, &options,
                              &v, &error),
              error);
    assert_true(v->row_count >= bounds[i].min_rows && v->skipped == 0);
    if (!(v->groups[0].median <= bounds[i].median && v->groups[0].mean <= bounds[i].mean))
      fail_msg("%s: median %.1f%%, mean %.1f%% are over %.1f%%, %.1f%%", begin, 100 * v->groups[0].median,
               100 * v->groups[0].mean, 100 * bounds[i].median, 100 * bounds[i].mean);
    hr_validation_free(v);
  }
}

/* Leaves out the update of a convolution's state by flash-linear-attention, which takes up to ten times as long as the
 * servers' whose figures the files have. */
static void leave_updates_out(const hr_hardware *hardware, hr_validation **v)
{
  hr_validation *all = *v;
  size_t kept = 0;
  hr_error error;
  for (size_t i = 0; i < all->row_count; i++) {
    if (all->rows[i].scan.recurrence != HR_RECURRENCE_CONVOLUTION || !all->rows[i].scan.updates)
      all->rows[kept++] = all->rows[i];
  }
  assert_ok(hr_validate_rows(hardware, all->rows, kept, v, &error), error);
  hr_validation_free(all);
}

/* The rows that the costs of scans are fitted to (docs/notes/prediction.md has errors of fits to the others). */
static void scans_are_within_the_error_of_their_fit(void **state)
{
  (void)state;
  static const struct {
    const char *device, *path;
    size_t rows;
    double median, mean, p90, coverage;
  } sets[] = {
      {"h200", HEADROOM_SOURCE_DIR "/data/results/h200/scans.csv", 42, 0.02, 0.025, 0.055, 0.9},
      {"h100-sxm", HEADROOM_SOURCE_DIR "/data/results/h100/scans.csv", 106, 0.035, 0.065, 0.17, 0.88},
  };
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    const hr_hardware hardware = measured_hardware(sets[i].device);
    const hr_validate_options options = hr_validate_options_default();
    hr_validation *v = NULL;
    hr_error error;
    assert_ok(hr_validate_file(&hardware, sets[i].path, &options, &v, &error), error);
    leave_updates_out(&hardware, &v);
    assert_true(v->row_count == sets[i].rows && v->skipped == 0);
    const hr_validated_group *all = &v->groups[0];
    if (!(all->median <= sets[i].median && all->mean <= sets[i].mean && all->p90 <= sets[i].p90 &&
          all->coverage >= sets[i].coverage))
      fail_msg("%s: median %.1f%%, mean %.1f%%, p90 %.1f%%, coverage %.0f%%", sets[i].device, 100 * all->median,
               100 * all->mean, 100 * all->p90, 100 * all->coverage);
    hr_validation_free(v);
  }
}

/* Worked by hand, with everything but the named cost left out: 4 tokens to 2 of 8 experts each are 8 rows of 8 experts.
 * */
static void the_costs_of_experts_count_once_for_each_grouped_gemm(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_expert_call call = hr_expert_call_default();
  hr_prediction before, after;
  hr_error error;
  call.tokens = 4, call.rows = 8, call.hidden = 2048, call.width = 768, call.experts = 8;
  hardware.interval_count = 0, hardware.experts.expert_ns = 0;
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &before, &error), error);
  hardware.experts.expert_ns = 100; /* 3 GEMMs of 8 experts */
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &after, &error), error);
  assert_true(fabs(after.time_ns - before.time_ns - 2400) < 1e-3);
  hardware.experts.routing_ns += 1000;
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &before, &error), error);
  assert_true(fabs(before.time_ns - after.time_ns - 1000) < 1e-3);
  call.gated = false; /* one GEMM less */
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &after, &error), error);
  assert_true(after.pair_ns == 1600 && after.time_ns < before.time_ns);
}

/* 64 tokens of 22 experts each, of which a quarter of the experts have 352 copies. */
static void choosing_many_experts_and_rows_of_other_devices_take_time(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_expert_call call = hr_expert_call_default();
  hr_prediction before, after;
  hr_error error;
  call.tokens = 64, call.rows = 352, call.hidden = 1024, call.width = 672, call.experts = 128, call.top_k = 22;
  call.gated = false;
  hardware.interval_count = 0, hardware.l2_bytes = 0;
  hardware.experts.sort_ns = hardware.experts.choice_ns = hardware.experts.remote_share = 0;
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &before, &error), error);
  hardware.experts.sort_ns = 1000, hardware.experts.choice_ns = 2; /* 8, 8 and 6 experts */
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &after, &error), error);
  assert_true(fabs(after.time_ns - before.time_ns - (2 * 1000 + 64 * 14 * 2)) < 1e-3);
  hardware.experts.sort_ns = hardware.experts.choice_ns = 0, hardware.experts.remote_share = 0.5;
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &after, &error), error);
  const double copy = 2 * 672 * 2 + 1024 * 2; /* bytes: read and written by the activation, read by the sum */
  const double rate = hardware.bandwidth_bytes_per_s * hardware.experts.moved_share / 1e9;
  assert_true(fabs(after.time_ns - before.time_ns - 0.5 * 1056 * copy / rate) < 1e-3);
  call.top_k = 0; /* rows / tokens: all are this device's */
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &after, &error), error);
  assert_true(fabs(after.time_ns - before.time_ns) < 1e-3);
}

/* 8 gated experts of 2048 × 768 have 75 MB in bf16: more than an H200's cache of 50 MiB, less than an L40S's of 96. */
static void weights_of_all_experts_have_to_fit_into_a_warm_cache(void **state)
{
  (void)state;
  static const char *const names[] = {"h200", "l40s"};
  for (int i = 0; i < 2; i++) {
    hr_hardware hardware = measured_hardware(names[i]);
    hr_expert_call call = hr_expert_call_default();
    hr_prediction cold, warm;
    hr_error error;
    call.tokens = 32, call.rows = 32, call.hidden = 2048, call.width = 768, call.experts = 8, call.top_k = 8;
    hardware.cache_bytes_per_s = hardware.l2_bytes_per_s = 4 * hardware.bandwidth_bytes_per_s;
    assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &cold, &error), error);
    hardware.about.cache = HR_CACHE_WARM;
    assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_COMPILED, &warm, &error), error);
    assert_true(i == 0 ? warm.time_ns == cold.time_ns : warm.time_ns < 0.8 * cold.time_ns);
  }
}

/* FlashInfer's CUTLASS kernels, as SGLang runs them on Hopper, take several times as long as its Triton kernels. */
static void a_server_may_run_other_kernels_of_experts(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_expert_call call = hr_expert_call_default();
  hr_prediction p[3];
  hr_error error;
  call.tokens = 1024, call.rows = 22528, call.hidden = 1024, call.width = 2688, call.experts = 512, call.gated = false;
  for (int i = 0; i < 3; i++) {
    call.kernels = (hr_expert_kernels)i;
    assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_SGLANG, &p[i], &error), error);
  }
  assert_true(p[HR_EXPERTS_CUTLASS].time_ns > 2 * p[HR_EXPERTS_USUAL].time_ns);
  assert_true(p[HR_EXPERTS_TRITON].time_ns == p[HR_EXPERTS_USUAL].time_ns);
  call.kernels = (hr_expert_kernels)3;
  assert_int_equal(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_SGLANG, p, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "kernels: 3 is none of a server's");
  call.kernels = HR_EXPERTS_USUAL, call.top_k = -1;
  assert_int_equal(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_SGLANG, p, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "top_k: expected 0 to 16777216, found -1");
}

/* 132 multiprocessors, blocks of 64 query heads: 3 sequences of 128 heads are 6 blocks in one wave, each of 1024 − 64
 * keys that cost 10 ns; 133 sequences of 64 heads are two waves. */
static void keys_that_are_not_split_cost_a_wave_of_blocks(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_decode decode = hr_decode_default();
  hr_prediction p;
  hr_error error;
  decode.batch = 3, decode.kv_len = 1024, decode.q_heads = 128, decode.k_heads = decode.v_heads = 1;
  decode.qk_dim = 576, decode.v_dim = 512, decode.latent = true;
  assert_ok(hr_decode_set_pages(&decode, 16, &error), error);
  hardware.decode_latent = (hr_decode_cost){.launch_ns = 5000, .key_ns = 10};
  assert_ok(hr_predict_decode_by(&hardware, &decode, HR_FRAMEWORK_COMPILED, &p, &error), error);
  assert_true(p.pair_ns == 9600 && p.split_ns == 0);
  decode.batch = 133, decode.q_heads = 64;
  assert_ok(hr_predict_decode_by(&hardware, &decode, HR_FRAMEWORK_COMPILED, &p, &error), error);
  assert_true(p.pair_ns == 19200);
}

/* 264 rows of 1000 elements are one wave of 2 rows on each of 132 multiprocessors; 265 rows are two. */
static void rounding_few_rows_takes_the_time_of_a_row(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_operator op = {.id = HR_OP_MLP_UP, .kind = HR_KIND_GEMM, .count = 1, .gemm = hr_gemm_default()};
  hr_prediction p;
  hr_error error;
  op.gemm.m = 264, op.gemm.n = 1024, op.gemm.k = 1000, op.gemm.dtype = HR_FP8_E4M3;
  op.activations = HR_ACTIVATIONS_FP8, op.framework = HR_FRAMEWORK_EAGER, op.bytes = 10000000, op.flops = 540672000;
  hardware.rounding = (hr_rounding_cost){.launch_ns = 2000, .bandwidth_share = 1, .element_ns = 3};
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 5000);
  op.gemm.m = 265;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 8000);
  op.framework = HR_FRAMEWORK_COMPILED; /* rounds in the norm before */
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 0);
  op.framework = HR_FRAMEWORK_EAGER, op.id = HR_OP_MLP_GATE; /* shares the rounding of mlp_up */
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 0);
}

/* This library's steps round more than eight rows: 16 of 1000 elements move 48000 bytes at 0.95 of a copy's share, 0.8
 * of 10^12 bytes a second: 63.16 ns behind a launch of 1000. A gate's rows are those of the other matrix. */
static void a_step_of_this_library_rounds_more_than_eight_rows(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_operator op = {.id = HR_OP_MLP_UP, .kind = HR_KIND_GEMM, .count = 1, .gemm = hr_gemm_default()};
  hr_prediction p;
  hr_error error;
  hardware.launch_ns = 1000, hardware.bandwidth_bytes_per_s = 1e12, hardware.bandwidth_share = 0.8;
  op.gemm.m = 16, op.gemm.n = 1024, op.gemm.k = 1000, op.gemm.dtype = HR_FP8_E4M3;
  op.activations = HR_ACTIVATIONS_FP8, op.framework = HR_FRAMEWORK_HEADROOM, op.bytes = 1000000, op.flops = 32768000;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(fabs(p.rounding_ns - (1000 + 48000 / (0.95 * 0.8 * 1000))) < 1e-6);
  op.id = HR_OP_MLP_GATE;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 0);
  op.id = HR_OP_MLP_UP, op.gemm.m = 8;
  assert_ok(hr_predict_operator(&hardware, &op, &p, &error), error);
  assert_true(p.rounding_ns == 0);
}

/* Each of a server's own costs, and what the others have. */
static void a_server_has_its_own_kernels_where_the_device_knows_them(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_operator op = {.id = HR_OP_MLP_UP, .kind = HR_KIND_GEMM, .count = 1, .gemm = hr_gemm_default()};
  hr_prediction own, common;
  hr_error error;
  op.gemm.m = 264, op.gemm.n = 1024, op.gemm.k = 1000, op.gemm.dtype = HR_FP8_E4M3;
  op.activations = HR_ACTIVATIONS_FP8, op.framework = HR_FRAMEWORK_VLLM, op.bytes = 10000000, op.flops = 540672000;
  hardware.rounding = (hr_rounding_cost){.launch_ns = 2000, .bandwidth_share = 1, .element_ns = 3};
  hardware.vllm.rounding = (hr_rounding_cost){.launch_ns = 7000, .bandwidth_share = 1, .element_ns = 3};
  hardware.sglang.rounding.launch_ns = 0;
  assert_ok(hr_predict_operator(&hardware, &op, &own, &error), error);
  assert_true(own.rounding_ns == 10000);
  op.framework = HR_FRAMEWORK_SGLANG;
  assert_ok(hr_predict_operator(&hardware, &op, &common, &error), error);
  assert_true(common.rounding_ns == 5000);
  op.rounded = true; /* by the kernel before */
  assert_ok(hr_predict_operator(&hardware, &op, &common, &error), error);
  assert_true(common.rounding_ns == 0);

  hr_decode decode = hr_decode_default();
  decode.batch = 8, decode.kv_len = 4096, decode.q_heads = 32, decode.k_heads = decode.v_heads = 8;
  assert_ok(hr_decode_set_pages(&decode, 16, &error), error);
  hardware.vllm.decode = hardware.decode_framework, hardware.sglang.decode.launch_ns = 0;
  hardware.vllm.decode.launch_ns = hardware.decode_framework.launch_ns + 3000;
  assert_ok(hr_predict_decode_by(&hardware, &decode, HR_FRAMEWORK_VLLM, &own, &error), error);
  assert_ok(hr_predict_decode_by(&hardware, &decode, HR_FRAMEWORK_SGLANG, &common, &error), error);
  assert_true(own.launch_ns == common.launch_ns + 3000);

  hr_expert_call call = hr_expert_call_default();
  call.tokens = 64, call.rows = 512, call.hidden = 2048, call.width = 768, call.experts = 128;
  hardware.experts.expert_ns_8bit = 0, hardware.vllm.experts_8bit.routing_ns = 0;
  hardware.vllm.experts = hardware.experts, hardware.sglang.experts.routing_ns = 0;
  hardware.vllm.experts.expert_ns_8bit = 100;
  for (int bytes = 1; bytes <= 2; bytes++) { /* three grouped GEMMs of 128 experts each */
    call.dtype = bytes == 1 ? HR_FP8_E4M3 : HR_BF16;
    assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_VLLM, &own, &error), error);
    assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_SGLANG, &common, &error), error);
    double common_ns = 3 * 128 * hardware.experts.expert_ns;
    assert_true(fabs(own.pair_ns - (bytes == 1 ? 3 * 128 * 100.0 : common_ns)) < 1e-6);
    assert_true(fabs(common.pair_ns - common_ns) < 1e-6);
  }
  hardware.vllm.experts_8bit = hardware.experts, hardware.vllm.experts_8bit.expert_ns = 50; /* other kernels */
  call.dtype = HR_FP8_E4M3;
  assert_ok(hr_predict_experts(&hardware, &call, HR_FRAMEWORK_VLLM, &own, &error), error);
  assert_true(fabs(own.pair_ns - 3 * 128 * 50.0) < 1e-6);
}

static double decode_ns(const hr_hardware *hardware, int64_t k_heads, int64_t window, hr_framework framework)
{
  hr_decode d = hr_decode_default();
  hr_prediction p;
  hr_error error;
  d.batch = 1024, d.q_heads = 64, d.k_heads = d.v_heads = k_heads, d.kv_len = 4, d.qk_dim = d.v_dim = 64;
  d.dtype = HR_BF16, d.window = window;
  assert_ok(hr_decode_set_pages(&d, 16, &error), error);
  assert_ok(hr_predict_decode_by(hardware, &d, framework, &p, &error), error);
  return p.time_ns;
}

/* vLLM takes an L40S 2.08 ms for 1024 sequences of 4 tokens with a window, 0.04 without (aiconfigurator 0.12.0). */
static void windows_may_cost_each_query_head_its_own_loads(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("l40s");
  const double one = decode_ns(&hardware, 1, 128, HR_FRAMEWORK_VLLM);
  assert_true(fabs(one / 2.1e6 - 1) < 0.2);
  assert_true(fabs(decode_ns(&hardware, 64, 128, HR_FRAMEWORK_VLLM) / one - 1) < 0.1);
  assert_true(decode_ns(&hardware, 1, 0, HR_FRAMEWORK_VLLM) < 0.1 * one);
  assert_true(decode_ns(&hardware, 1, 128, HR_FRAMEWORK_SGLANG) < 0.1 * one);
}

/* Output names the version; a framework that is no server has none, nor has a device without figures of it. */
static void figures_of_a_server_say_its_version(void **state)
{
  (void)state;
  const hr_hardware known = measured_hardware("h200"), unknown = measured_hardware("v100-sxm2-16gb");
  for (int server = HR_FRAMEWORK_TRTLLM; server <= HR_FRAMEWORK_SGLANG; server++) {
    assert_true(strchr(hr_predict_server_version(&known, (hr_framework)server), '.') != NULL);
    assert_string_equal(hr_predict_server_version(&unknown, (hr_framework)server), "");
  }
  assert_string_equal(hr_predict_server_version(&known, HR_FRAMEWORK_COMPILED), "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(held_out_rows_are_within_the_error_that_the_page_says),
      cmocka_unit_test(scans_are_within_the_error_of_their_fit),
      cmocka_unit_test(the_costs_of_experts_count_once_for_each_grouped_gemm),
      cmocka_unit_test(choosing_many_experts_and_rows_of_other_devices_take_time),
      cmocka_unit_test(weights_of_all_experts_have_to_fit_into_a_warm_cache),
      cmocka_unit_test(a_server_may_run_other_kernels_of_experts),
      cmocka_unit_test(keys_that_are_not_split_cost_a_wave_of_blocks),
      cmocka_unit_test(rounding_few_rows_takes_the_time_of_a_row),
      cmocka_unit_test(a_step_of_this_library_rounds_more_than_eight_rows),
      cmocka_unit_test(a_server_has_its_own_kernels_where_the_device_knows_them),
      cmocka_unit_test(windows_may_cost_each_query_head_its_own_loads),
      cmocka_unit_test(figures_of_a_server_say_its_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
