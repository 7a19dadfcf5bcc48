/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "advice.h"
#include "analysis/advise/context.h"
#include "model/layers/split.h"
#include "models.h"

#include <headroom/experimental/model.h>
#include <headroom/memory.h>
#include <math.h>
#include <string.h>

static hr_model llama_2_7b(int64_t mlp_width)
{
  hr_model model = llama3_8b();
  model.vocabulary = 32000;
  model.groups[0].attention.k_heads = model.groups[0].attention.v_heads = 32;
  model.groups[0].dense.width = mlp_width;
  return model;
}

static void gpt3_2_7b_gets_findings_on_its_heads_and_vocabulary(void **state)
{
  (void)state;
  const char *const devices[] = {"a100-sxm4-40gb", "h200"};
  for (size_t i = 0; i < 2; i++) {
    hr_model model = gpt3_2_7b();
    hr_advice *advice = advise_unfused(devices[i], &model);
    const hr_finding *heads = found(advice, "head_size");
    assert_true(heads->severity >= HR_SEVERITY_MEDIUM);
    assert_int_equal(heads->model.groups[0].attention.q_heads, 20); /* 2560 / 20 = 128 */
    assert_int_equal(heads->model.groups[0].attention.qk_dim, 128);
    assert_true(heads->parameter_change == 0);
    assert_string_equal(heads->current, "32 heads of 80");
    assert_string_equal(heads->suggested, "20 heads of 128");
    assert_non_null(strstr(heads->operators, "attention_score"));
    const hr_finding *vocabulary = found(advice, "vocabulary_alignment");
    assert_true(vocabulary->severity >= HR_SEVERITY_MEDIUM);
    assert_int_equal(vocabulary->model.vocabulary, 50304); /* 786 · 64 */
    assert_string_equal(vocabulary->operators, "logit");
    assert_true(vocabulary->eager_gain > 0.04);
    assert_true(vocabulary->predicted_gain > 0 && vocabulary->predicted_gain < 0.005); /* torch.compile pads it */
    hr_advice_free(advice);
  }
}

/* Eager mode pads nothing: its own advice is that of the finding, and other findings have one gain only. */
static void the_gain_of_a_padded_matrix_is_told_for_eager_mode_too(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = hr_workload_default(&model);
  hr_hardware hardware = device("h200");
  hr_advice *compiled, *eager;
  hr_error error;
  assert_ok(hr_advise(&hardware, &model, &workload, &compiled, &error), error);
  workload.framework = HR_FRAMEWORK_EAGER;
  assert_ok(hr_advise(&hardware, &model, &workload, &eager, &error), error);
  const hr_finding *both = found(compiled, "vocabulary_alignment"), *one = found(eager, "vocabulary_alignment");
  assert_int_equal(both->severity, one->severity);
  assert_true(fabs(both->eager_gain - one->predicted_gain) < 1e-12 && both->eager_gain > 0.19);
  assert_true(isnan(one->eager_gain) && isnan(found(compiled, "head_size")->eager_gain));
  assert_non_null(strstr(both->why, "torch.compile pads them"));
  hr_advice_free(compiled);
  hr_advice_free(eager);
}

/* Anthony et al. 2024, figure 1: C1 83, C2 109, GPT-3 2.7B 119, 20 heads 141 TFLOP/s on the A100. */
static void the_variants_of_figure_1_come_in_its_order(void **state)
{
  (void)state;
  const int64_t heads[] = {64, 40, 32, 20};
  double before = INFINITY;
  for (size_t i = 0; i < 4; i++) {
    hr_model model = paper_model(2560, heads[i], 32, 50257);
    hr_advice *advice = advise_unfused("a100-sxm4-40gb", &model);
    assert_true(advice->step.about.time_ns < before);
    before = advice->step.about.time_ns;
    hr_advice_free(advice);
  }
}

static void all_variants_of_figure_1_get_20_heads_suggested(void **state)
{
  (void)state;
  const struct {
    int64_t heads;
    const char *rule;
  } variants[] = {{64, "head_size"}, {40, "fewer_heads"}, {32, "head_size"}};
  for (size_t i = 0; i < 3; i++) {
    hr_model model = paper_model(2560, variants[i].heads, 32, 50304);
    hr_advice *advice = advise_unfused("a100-sxm4-40gb", &model);
    assert_int_equal(found(advice, variants[i].rule)->model.groups[0].attention.q_heads, 20);
    hr_advice_free(advice);
  }
  hr_model best = paper_model(2560, 20, 32, 50304);
  hr_advice *advice = advise("a100-sxm4-40gb", &best);
  assert_int_equal(found(advice, "head_size")->severity, HR_SEVERITY_NONE);
  assert_int_equal(found(advice, "fewer_heads")->severity, HR_SEVERITY_NONE);
  hr_advice_free(advice);
}

static hr_advice *advise_over(const hr_model *model, int64_t t)
{
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(model, t);
  return advise_under(&hardware, model, &workload);
}

static hr_model with_heads_of(int64_t dim, int64_t kv_heads)
{
  hr_model model = llama3_8b();
  hr_mixer_attention *heads = &model.groups[0].attention;
  model.hidden = 64 * dim;
  heads->q_heads = 64;
  heads->k_heads = heads->v_heads = kv_heads;
  heads->qk_dim = heads->v_dim = heads->rotary_dim = dim;
  return model;
}

/* 8448 is also 132 heads of 64, 66 of 128, 44 of 192 and 176 of 48, most of which t = 4 does not divide; 64 heads of 64
 * would halve the heads. */
static void heads_of_132_become_as_many_of_128(void **state)
{
  (void)state;
  for (int64_t t = 1; t <= 8; t *= 2) {
    for (int64_t kv_heads = 8; kv_heads <= 64; kv_heads *= 8) {
      hr_model model = with_heads_of(132, kv_heads);
      hr_advice *advice = advise_over(&model, t);
      const hr_finding *finding = found(advice, "head_size");
      const char *said = finding->has_change ? finding->suggested : finding->why;
      assert_non_null(strstr(said, kv_heads == 8 ? "64 heads of 128, 8 KV heads" : "64 heads of 128"));
      hr_advice_free(advice);
    }
  }
}

/* From 128 to 192 the usual sizes are 128 and 256: 181 = 128 · √2 is in the middle. */
static void as_many_heads_have_the_nearest_usual_size(void **state)
{
  (void)state;
  size_t equal = 0;
  for (int64_t dim = 72; dim <= 184; dim += 8) {
    hr_model model = with_heads_of(dim, 8);
    hr_advice *advice = advise_over(&model, 1);
    const hr_finding *finding = found(advice, "head_size");
    const hr_mixer_attention *after = &finding->model.groups[0].attention;
    int64_t usual = dim < 91 ? 64 : dim < 182 ? 128 : 256;
    if (finding->has_change && after->q_heads == 64) {
      assert_true(after->qk_dim == usual || llabs(after->qk_dim - dim) <= 32);
      equal++;
    }
    hr_advice_free(advice);
  }
  assert_true(equal > 0);
}

static void heads_that_are_suggested_split_over_the_given_t(void **state)
{
  (void)state;
  const int64_t dims[] = {40, 72, 80, 88, 100, 132, 160}, counts[] = {16, 24, 32, 48, 64}, shared[] = {1, 2, 4, 8};
  size_t suggested = 0;
  for (size_t i = 0; i < 7 * 5 * 4; i++) {
    hr_model model = llama3_8b();
    hr_mixer_attention *heads = &model.groups[0].attention;
    int64_t t = (int64_t)1 << i % 4;
    heads->q_heads = counts[i / 4 % 5];
    heads->k_heads = heads->v_heads = heads->q_heads / shared[i % 4];
    heads->qk_dim = heads->v_dim = heads->rotary_dim = dims[i / 20];
    model.hidden = heads->q_heads * heads->qk_dim;
    hr_advice *advice = advise_over(&model, t);
    for (size_t j = 0; j < advice->about.finding_count; j++) {
      const hr_finding *finding = &advice->findings[j];
      const hr_mixer_attention *after = &finding->model.groups[0].attention;
      if (!finding->has_change || finding->workload.tensor_parallel != t || after->q_heads < 1 ||
          (after->q_heads == heads->q_heads && after->qk_dim == heads->qk_dim))
        continue;
      assert_true(hr_heads_split(&finding->model, t));
      suggested++;
    }
    hr_advice_free(advice);
  }
  assert_true(suggested > 20);
}

/* 29568 columns are 231 groups of 128, which no even t shares: 38.6 GiB of weights on L4s want no t = 2. */
static void a_degree_that_cuts_quantized_groups_is_not_suggested(void **state)
{
  (void)state;
  hr_model model = shipped_model("qwen2.5-72b");
  hr_hardware hardware = device("l4");
  hr_workload workload = workload_of(&model, 4);
  workload.phase = HR_PHASE_DECODE;
  hr_error error;
  assert_ok(hr_model_set_weights(&model, "int4", &error), error);
  for (int64_t t = 1; t <= 4; t *= 4) {
    workload.tensor_parallel = t;
    hr_advice *advice = advise_under(&hardware, &model, &workload);
    for (size_t i = 0; i < advice->about.finding_count; i++) {
      const hr_finding *finding = &advice->findings[i];
      if (finding->has_change && finding->workload.tensor_parallel != t)
        assert_true(hr_split_of_workload(&finding->model, &finding->workload).whole);
    }
    hr_advice_free(advice);
  }
}

static void the_width_11008_is_among_the_best_near_8h_3_and_10922_is_not(void **state)
{
  (void)state;
  const char *const devices[] = {"a100-sxm4-80gb", "h100-sxm", "h200"};
  for (size_t i = 0; i < 3; i++) {
    hr_model chosen = llama_2_7b(11008), literal = llama_2_7b(10922);
    hr_advice *advice = advise(devices[i], &chosen);
    const hr_finding *finding = found(advice, "mlp_width");
    assert_int_equal(finding->severity, HR_SEVERITY_NONE);
    assert_false(finding->has_change);
    assert_non_null(strstr(finding->why, "ranks"));
    hr_advice_free(advice);
    advice = advise(devices[i], &literal);
    finding = found(advice, "mlp_width");
    assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
    assert_int_equal(finding->model.groups[0].dense.width % 64, 0);
    assert_true(fabs((double)finding->model.groups[0].dense.width / 10922 - 1) <= 0.03);
    hr_advice_free(advice);
  }
}

/* 10928 = 683 · 16: Hopper needs 16 bytes, and reaches 711 TFLOP/s there against 726 at 11008. */
static void a_width_of_a_multiple_of_16_gets_no_suggestion_on_hopper(void **state)
{
  (void)state;
  hr_model model = llama_2_7b(10928);
  hr_advice *advice = advise("h200", &model);
  assert_true(found(advice, "mlp_width")->severity <= HR_SEVERITY_LOW);
  hr_advice_free(advice);
}

static void the_vocabulary_rule_does_not_apply_where_16_bytes_are_enough(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  model.vocabulary = 50288; /* 3143 · 16: 32 bytes, and the same tiles as 50304 */
  hr_advice *advice = advise("h200", &model);
  const hr_finding *finding = found(advice, "vocabulary_alignment");
  assert_true(finding->not_applicable);
  assert_int_equal(finding->severity, HR_SEVERITY_NONE);
  assert_false(finding->has_change);
  assert_non_null(strstr(finding->why, "16-byte alignment"));
  hr_advice_free(advice);
}

static void six_devices_cannot_split_gpt3_2_7b(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("v100-sxm2-16gb");
  hr_workload workload = workload_of(&model, 6);
  workload.dtype = HR_FP16;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *six = found(advice, "six_gpu_node");
  assert_int_equal(six->severity, HR_SEVERITY_HIGH);
  assert_true(six->has_change);
  assert_int_equal(six->model.hidden % 384, 0); /* 6 · 64 */
  assert_int_equal(six->model.groups[0].attention.q_heads % 6, 0);
  assert_int_equal(six->model.groups[0].dense.width % 384, 0);
  assert_true(fabs(six->parameter_change) < 0.05);
  const hr_finding *heads = found(advice, "batch_heads_per_device");
  assert_int_equal(heads->severity, HR_SEVERITY_HIGH);
  assert_int_equal(heads->workload.tensor_parallel, 4); /* 32 heads over 5 do not divide either */
  hr_advice_free(advice);
}

static void a_model_made_for_six_devices_gets_findings_but_no_other_shape(void **state)
{
  (void)state;
  hr_model model = paper_model(2304, 18, 40, 50304); /* 2304 = 6 · 384 */
  hr_hardware hardware = device("a100-sxm4-40gb");
  hr_workload workload = workload_of(&model, 6);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *six = found(advice, "six_gpu_node");
  assert_int_equal(six->severity, HR_SEVERITY_NONE);
  assert_non_null(strstr(six->why, "on 8, h/8 = 288.00 and a/8 = 2.25"));
  hr_advice_free(advice);
}

static void layers_that_stages_do_not_divide_cost_as_much_as_the_largest_stage(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.pipeline_stages = 5;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "pipeline_divides_layers");
  /* ⌈32/5⌉ = 7: the layers take 35/32 of their time, +9.375%; the logits and the embedding do not grow. */
  assert_int_equal(finding->workload.pipeline_stages, 4);
  /* One microbatch keeps 4 of 5 devices waiting, or 3 of 4, so that a device does 5/4 of the work. */
  assert_true(finding->gain_per_device);
  assert_true(finding->predicted_gain > 1.05 * 5 / 4 - 1 && finding->predicted_gain < 1.09375 * 5 / 4 - 1);
  assert_true(fabs(finding->predicted_operator_gain - 0.09375) < 1e-9);
  assert_non_null(strstr(finding->why, "8.6%")); /* 1 − 32/35 */
  hr_advice_free(advice);
}

static void a_prime_number_of_layers_gets_another_depth_suggested(void **state)
{
  (void)state;
  hr_model model = paper_model(2560, 20, 31, 50304);
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.pipeline_stages = 4;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "pipeline_divides_layers");
  assert_int_equal(hr_model_layers(&finding->model), 28);
  assert_string_equal(finding->suggested, "28 layers (or 32 in the same time as now)");
  hr_advice_free(advice);
}

static void a_good_model_gets_no_suggestion_of_another_shape(void **state)
{
  (void)state;
  const char *const models[] = {"llama-3-8b", "mistral-7b-v0.1", "llama-2-7b", "qwen2.5-7b"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_model model = shipped_model(models[i]);
    hr_advice *advice = advise("h200", &model);
    for (size_t j = 0; j < advice->about.finding_count; j++) {
      const hr_finding *finding = &advice->findings[j];
      bool of_the_run = finding->workload.batch != advice->workload.batch ||
                        finding->workload.attention != advice->workload.attention;
      if (finding->severity >= HR_SEVERITY_MEDIUM && !of_the_run)
        fail_msg("%s gets: %s: %s", models[i], finding->rule, finding->why);
    }
    assert_int_equal(advice->about.combined_count, 0);
    hr_advice_free(advice);
  }
}

static void parallel_layers_are_not_suggested_to_parallel_models(void **state)
{
  (void)state;
  const char *const models[] = {"pythia-2.8b", "gpt-j-6b", "falcon-7b", "phi-2"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    hr_model model = shipped_model(models[i]);
    hr_advice *advice = advise("h200", &model);
    const hr_finding *finding = found(advice, "parallel_layers");
    assert_false(finding->has_change);
    assert_int_equal(finding->severity, HR_SEVERITY_NONE);
    hr_advice_free(advice);
  }
}

static void fused_attention_is_suggested_only_to_a_step_without_it(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise_unfused("h200", &model);
  assert_int_equal(found(advice, "fused_attention")->workload.attention, HR_ATTENTION_FUSED);
  assert_int_equal(found(advice, "fused_attention")->severity, HR_SEVERITY_HIGH);
  hr_advice_free(advice);
  advice = advise("h200", &model);
  assert_false(found(advice, "fused_attention")->has_change);
  hr_advice_free(advice);
}

static void fused_attention_is_not_suggested_in_a_format_without_a_kernel(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.attention = HR_ATTENTION_UNFUSED;
  workload.dtype = HR_FP64;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_false(found(advice, "fused_attention")->has_change);
  assert_string_equal(found(advice, "fused_attention")->why, "libraries have no fused attention in fp64 for GPUs");
  hr_advice_free(advice);
}

static void fewer_kv_heads_shrink_the_cache_and_pay_in_decode(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "kv_heads");
  assert_int_equal(finding->model.groups[0].attention.k_heads, 8);
  assert_int_equal(finding->severity, HR_SEVERITY_LOW); /* a forward step only gains what the lost weights would */
  /* 2 · 32 layers · 2560 · 2 bytes, and a quarter of it. */
  assert_non_null(strstr(finding->why, "from 327680 to 81920 bytes"));
  hr_advice_free(advice);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 2048;
  workload.batch = 32;
  advice = advise_under(&hardware, &model, &workload);
  assert_true(found(advice, "kv_heads")->severity >= HR_SEVERITY_MEDIUM);
  hr_advice_free(advice);
}

/* Lists the findings of the rule kv_heads, at most four, and returns their number. */
static size_t kv_heads_findings(const hr_advice *advice, const hr_finding *of_rule[4])
{
  size_t count = 0;
  for (size_t i = 0; i < advice->about.finding_count; i++) {
    if (strcmp(advice->findings[i].rule, "kv_heads") == 0 && count < 4)
      of_rule[count++] = &advice->findings[i];
  }
  return count;
}

static void diffqkv_is_fewer_or_smaller_k_heads_with_sigmas_evidence(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-8b"); /* 8 K and V heads of 128 in 32 layers */
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 8192;
  workload.batch = 32;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *of_rule[4];
  assert_int_equal(kv_heads_findings(advice, of_rule), 2);
  for (size_t i = 0; i < 2; i++) {
    const hr_mixer_attention *heads = &of_rule[i]->model.groups[0].attention;
    bool smaller = heads->qk_dim == 64;
    assert_int_equal(heads->v_heads, 8);
    assert_int_equal(heads->v_dim, 128);
    assert_int_equal(heads->k_heads * heads->qk_dim, 512); /* half of 8 · 128, one way or the other */
    assert_int_equal(heads->rotary_dim, heads->qk_dim);
    assert_non_null(strstr(of_rule[i]->why, "from 131072 to 98304 bytes")); /* 32 · 2 · (1024 + 1024), then 512 */
    assert_non_null(strstr(of_rule[i]->cost_source, smaller ? "2501.13629, tables 2" : "2501.13629, table 1"));
  }
  assert_int_not_equal(of_rule[0]->model.groups[0].attention.qk_dim, of_rule[1]->model.groups[0].attention.qk_dim);
  hr_advice_free(advice);
}

static void k_heads_of_32_are_not_halved(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-8b");
  model.groups[0].attention.qk_dim = model.groups[0].attention.v_dim = model.groups[0].attention.rotary_dim = 32;
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_DECODE;
  workload.context = 8192;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *of_rule[4];
  assert_int_equal(kv_heads_findings(advice, of_rule), 1);
  assert_int_equal(of_rule[0]->model.groups[0].attention.qk_dim, 32);
  hr_advice_free(advice);
}

static void a_step_that_does_not_fit_is_reported(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b"); /* 138 GB of weights */
  hr_advice *advice = advise("a100-sxm4-40gb", &model);
  const hr_finding *finding = found(advice, "microbatch");
  assert_ptr_equal(finding, &advice->findings[0]);
  assert_true(finding->cannot_run && finding->severity == HR_SEVERITY_HIGH);
  assert_non_null(strstr(finding->why, "does not fit"));
  assert_int_equal(finding->workload.tensor_parallel, 4); /* 34.5 GB of weights each, 38.7 GB are usable */
  hr_advice_free(advice);
}

/* 16 sequences in 4 microbatches through 4 equal stages: 3 of 7 stage times are bubble. In 16 it is 3 of 19, with
 * somewhat smaller GEMMs. The global batch stays. */
static void stages_are_filled_with_smaller_microbatches(void **state)
{
  (void)state;
  hr_model model = shipped_model("gpt3-2.7b");
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN, workload.pipeline_stages = 4;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "microbatch");
  assert_true(finding->severity >= HR_SEVERITY_MEDIUM);
  assert_int_equal(finding->workload.batch, 1);
  assert_int_equal(finding->workload.microbatches, 16);
  assert_int_equal(finding->change_class, HR_CHANGE_FREE);
  assert_non_null(strstr(finding->why, "bubble"));
  static hr_step step;
  hr_error error;
  assert_ok(hr_fill_step(&hardware, &model, &finding->workload, &step, &error), error);
  assert_true(fabs(advice->step.about.time_ns / step.about.time_ns - 1 - finding->predicted_gain) < 1e-9);
  hr_advice_free(advice);
}

static hr_memory memory_of(const hr_finding *finding)
{
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(&finding->model, &finding->workload, &memory, &error), error);
  return memory;
}

/* Llama-3-70B on t = 8: 16.4 GiB of weights, as much of gradients and 98.6 GiB of optimizer state are more than the
 * 126 GiB that are usable of an H200 with any activations. An eighth of the state is 12.3 GiB. */
static void a_training_step_that_does_not_fit_names_what_makes_it_fit(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-3-70b");
  hr_hardware hardware = device("h200");
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN, workload.tensor_parallel = 8, workload.data_parallel = 8;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "microbatch");
  assert_int_equal(finding->severity, HR_SEVERITY_HIGH);
  assert_string_equal(finding->suggested, "sequence parallelism, ZeRO stage 1");
  assert_int_equal(memory_of(finding).optimizer_bytes, 6 * memory_of(finding).weight_bytes / 8); /* 12 bytes to 2 */
  assert_true(memory_of(finding).total_bytes <= hardware.memory_bytes / 10 * 9);
  assert_non_null(strstr(finding->why, "for 8192 tokens"));
  hr_advice_free(advice);

  workload.data_parallel = 1; /* nobody to share with: the fewest devices on which it fits */
  advice = advise_under(&hardware, &model, &workload);
  finding = found(advice, "microbatch");
  assert_int_equal(finding->workload.tensor_parallel * finding->workload.pipeline_stages, 16);
  assert_true(memory_of(finding).total_bytes <= hardware.memory_bytes / 10 * 9);
  hr_advice_free(advice);

  model = shipped_model("llama-3-8b"); /* 119.7 GiB of states, 9.2 GiB of activations: of one layer it is much less */
  workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN, workload.batch = 1;
  advice = advise_under(&hardware, &model, &workload);
  finding = found(advice, "microbatch");
  assert_string_equal(finding->suggested, "full recomputation");
  hr_advice_free(advice);
}

static void t_is_made_smaller_only_as_far_as_memory_allows(void **state)
{
  (void)state;
  hr_model model = shipped_model("llama-2-70b");
  hr_hardware hardware = device("a100-sxm4-80gb");
  hr_workload workload = workload_of(&model, 8);
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  const hr_finding *finding = found(advice, "tensor_parallel_small");
  assert_int_equal(finding->workload.tensor_parallel, 2); /* 138 GB over 2 fit into 72 GiB, over 1 not */
  hr_advice_free(advice);
}

static void an_uneven_hidden_size_gets_its_neighbour(void **state)
{
  (void)state;
  hr_model model = paper_model(2500, 20, 32, 50304);
  hr_advice *advice = advise("a100-sxm4-40gb", &model);
  const hr_finding *finding = found(advice, "hidden_per_device");
  assert_true(finding->has_change);
  const hr_mixer_attention *heads = &finding->model.groups[0].attention;
  assert_true(finding->model.hidden == 2496 || finding->model.hidden == 2560);
  assert_int_equal(heads->q_heads * heads->qk_dim, finding->model.hidden);
  hr_advice_free(advice);
}

static void an_uneven_sequence_gets_its_neighbour_within_the_positions(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("a100-sxm4-40gb");
  hr_workload workload = workload_of(&model, 1);
  workload.sequence = 2001;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_int_equal(found(advice, "tokens_alignment")->workload.sequence, 2048);
  hr_advice_free(advice);
  model.max_positions = 2040;
  advice = advise_under(&hardware, &model, &workload);
  assert_int_equal(found(advice, "tokens_alignment")->workload.sequence, 1984);
  hr_advice_free(advice);
}

static void every_model_on_every_device_gets_an_answer_of_every_rule(void **state)
{
  (void)state;
  size_t models, devices;
  const hr_catalog_entry *model_entries = hr_catalog_models(&models), *device_entries = hr_catalog_hardware(&devices);
  for (size_t i = 0; i < models; i++) {
    hr_model model = shipped_model(model_entries[i].name);
    hr_hardware hardware = device(device_entries[i % devices].name); /* each device with a few models */
    hr_workload workload = hr_workload_default(&model);
    workload.dtype = hardware.dense_flops_per_s[HR_BF16] > 0 ? HR_BF16 : HR_FP16;
    workload.phase = (hr_phase)(i % 4);
    workload.attention = i % 3 == 0 ? HR_ATTENTION_FUSED : HR_ATTENTION_UNFUSED;
    workload.tensor_parallel = hardware.interconnect_bytes_per_s > 0 ? 1 + (int64_t)(i % 5) : 1;
    hr_advice *advice = advise_under(&hardware, &model, &workload);
    assert_findings_hold(advice);
    hr_advice_free(advice);
  }
}

/* Built-in models that `advise --strict --only free` fails for on an H200, and why: 50257 = 29 · 1733 logits, an odd
 * number, whose rows are aligned to 2 bytes only. */
static const char *const odd_vocabularies[] = {"gpt-neo-1.3b",       "gpt-neo-125m", "gpt-neo-2.7b", "gpt2",
                                               "gpt2-large",         "gpt2-medium",  "gpt2-xl",      "gpt3-2.7b",
                                               "gpt3-2.7b-20-heads", "gpt3-2.7b-c1", "gpt3-2.7b-c2"};

static bool is_listed(const char *name)
{
  size_t i = 0;
  while (i < sizeof odd_vocabularies / sizeof *odd_vocabularies && strcmp(odd_vocabularies[i], name) != 0)
    i++;
  return i < sizeof odd_vocabularies / sizeof *odd_vocabularies;
}

static void strict_about_free_changes_fails_for_odd_vocabularies_alone(void **state)
{
  (void)state;
  size_t models, failed = 0;
  const hr_catalog_entry *entries = hr_catalog_models(&models);
  hr_hardware hardware = device("h200");
  hr_advise_options options = hr_advise_options_default();
  options.without_classes = 1u << HR_CHANGE_DEPLOY | 1u << HR_CHANGE_RETRAIN;
  for (size_t i = 0; i < models; i++) {
    hr_model model = shipped_model(entries[i].name);
    hr_workload workload = hr_workload_default(&model);
    hr_advice *advice = NULL;
    hr_error error;
    size_t high = 0;
    assert_ok(hr_advise_with(&hardware, &model, &workload, &options, &advice, &error), error);
    for (size_t j = 0; j < advice->about.finding_count; j++) {
      high += advice->findings[j].severity == HR_SEVERITY_HIGH;
      assert_true(advice->findings[j].change_class == HR_CHANGE_FREE);
    }
    if ((high > 0) != is_listed(entries[i].name))
      fail_msg("%s: %s", entries[i].name, high > 0 ? advice->findings[0].why : "nothing high, but it is listed");
    if (high > 0) {
      assert_string_equal(advice->findings[0].rule, "vocabulary_alignment");
      assert_true(high == 1 && model.vocabulary % 2 == 1);
      failed++;
    }
    hr_advice_free(advice);
  }
  assert_int_equal(failed, sizeof odd_vocabularies / sizeof *odd_vocabularies);
}

static void the_combined_suggestion_holds_all_that_agree(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise("h200", &model);
  assert_int_equal(advice->about.combined_count, 1); /* one of the two changes needs new weights */
  const hr_finding *combined = &advice->combined[0];
  assert_int_equal(combined->change_class, HR_CHANGE_RETRAIN);
  assert_int_equal(combined->model.groups[0].attention.q_heads, 20);
  assert_int_equal(combined->model.vocabulary, 50304);
  assert_int_equal(combined->workload.batch, 4);
  assert_true(combined->predicted_gain > found(advice, "head_size")->predicted_gain);
  double gain = advice->step.about.time_ns / step_ns(advice, &combined->model, &combined->workload) - 1;
  assert_true(fabs(gain - combined->predicted_gain) < 1e-9);
  hr_advice_free(advice);
}

/* In training a larger microbatch, fused attention and a padded vocabulary change neither weights nor results. */
static void free_changes_are_combined_by_themselves(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("b200");
  hr_workload workload = workload_of(&model, 1);
  workload.phase = HR_PHASE_TRAIN;
  workload.attention = HR_ATTENTION_UNFUSED;
  workload.batch = 1;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_int_equal(advice->about.combined_count, 2);
  const hr_finding *free = &advice->combined[0], *all = &advice->combined[1];
  assert_string_equal(free->rule, "combined_free");
  assert_int_equal(free->change_class, HR_CHANGE_FREE);
  assert_int_equal(free->workload.attention, HR_ATTENTION_FUSED);
  assert_int_equal(free->model.vocabulary, 50304);
  assert_true(free->workload.batch > 1);
  assert_int_equal(free->model.groups[0].attention.q_heads, 32);
  assert_string_equal(all->rule, "combined_retrain");
  assert_int_equal(all->model.groups[0].attention.q_heads, 20);
  assert_int_equal(all->model.vocabulary, 50304);
  assert_true(all->predicted_gain > free->predicted_gain);
  hr_advice_free(advice);
}

static hr_advice *advise_as(const hr_model *model, bool design, unsigned without_classes, uint64_t without_rules)
{
  hr_advise_options options = hr_advise_options_default();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(model, 1);
  hr_advice *advice = NULL;
  hr_error error;
  options.design = design, options.without_classes = without_classes, options.without_rules = without_rules;
  workload.attention = HR_ATTENTION_UNFUSED;
  assert_ok(hr_advise_with(&hardware, model, &workload, &options, &advice, &error), error);
  return advice;
}

static void trained_weights_put_findings_that_need_new_ones_last(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  model.origin = HR_ORIGIN_FILES;
  hr_advice *trained = advise_as(&model, false, 0, 0), *design = advise_as(&model, true, 0, 0);
  assert_true(trained->about.retrain_last && !design->about.retrain_last);
  assert_int_equal(trained->about.finding_count, design->about.finding_count);
  bool retrain = false;
  for (size_t i = 0; i < trained->about.finding_count && trained->findings[i].severity > HR_SEVERITY_NONE; i++) {
    assert_true(!retrain || trained->findings[i].change_class == HR_CHANGE_RETRAIN);
    retrain = trained->findings[i].change_class == HR_CHANGE_RETRAIN;
  }
  assert_true(retrain);
  for (size_t i = 1; i < design->about.finding_count; i++)
    assert_true(design->findings[i].severity <= design->findings[i - 1].severity);
  hr_advice_free(trained);
  hr_advice_free(design);
}

static void trained_weights_can_be_claimed_for_any_configuration(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  hr_advise_options options = hr_advise_options_default();
  hr_advice *advice;
  hr_error error;
  for (int trained = 0; trained < 2; trained++) {
    options.trained = trained;
    assert_ok(hr_advise_with(&hardware, &model, &workload, &options, &advice, &error), error);
    assert_int_equal(advice->about.retrain_last, trained);
    hr_advice_free(advice);
  }
}

static void an_advice_shows_its_findings_by_index_and_merged_ones_behind_them(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *advice = advise("h200", &model);
  const hr_advice_about *about = hr_advice_describe(advice);
  assert_string_equal(about->hardware->about.name, "h200");
  assert_int_equal(about->model->hidden, model.hidden);
  assert_int_equal(about->workload->sequence, 2048);
  assert_true(hr_step_describe(about->step)->time_ns > 0);
  assert_true(about->finding_count > 0 && about->combined_count > 0);
  for (size_t i = 0; i < about->finding_count; i++)
    assert_ptr_equal(hr_advice_finding(advice, i), &advice->findings[i]);
  for (size_t i = 0; i < about->combined_count; i++)
    assert_non_null(strstr(hr_advice_finding(advice, about->finding_count + i)->rule, "combined_"));
  assert_null(hr_advice_finding(advice, about->finding_count + about->combined_count));
  assert_null(hr_advice_finding(advice, SIZE_MAX));
  hr_advice_free(advice);
}

/* An odd vocabulary costs a fifth of a step in eager mode, and a compiled one, which pads it, next to nothing. */
static void severity_of_its_own_framework_leaves_out_what_only_eager_mode_gains(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1);
  hr_advice *compiled = advise_under(&hardware, &model, &workload);
  workload.framework = HR_FRAMEWORK_EAGER;
  hr_advice *eager = advise_under(&hardware, &model, &workload);
  assert_int_equal(found(compiled, "vocabulary_alignment")->severity, HR_SEVERITY_HIGH);
  assert_true(found(compiled, "vocabulary_alignment")->own_severity <= HR_SEVERITY_LOW);
  assert_int_equal(found(eager, "vocabulary_alignment")->own_severity, HR_SEVERITY_HIGH);
  hr_advice_free(compiled);
  hr_advice_free(eager);
}

/* Rule 0 is vocabulary_alignment. */
static void findings_are_left_out_by_class_and_rule_and_counted(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *all = advise_as(&model, false, 0, 0);
  hr_advice *free = advise_as(&model, false, 1u << HR_CHANGE_DEPLOY | 1u << HR_CHANGE_RETRAIN, 1);
  assert_int_equal(all->about.left_out, 0);
  assert_int_equal(free->about.finding_count, 1); /* fused_attention */
  assert_string_equal(free->findings[0].rule, "fused_attention");
  assert_true(free->findings[0].predicted_gain == found(all, "fused_attention")->predicted_gain);
  assert_int_equal(free->about.combined_count, 0);
  size_t some = 0, high = 0;
  for (size_t i = 0; i < all->about.finding_count; i++) {
    some += all->findings[i].severity > HR_SEVERITY_NONE;
    high += all->findings[i].severity == HR_SEVERITY_HIGH;
  }
  assert_int_equal(free->about.left_out, some - 1);
  assert_int_equal(free->about.left_out_high, high - 1);
  hr_advice_free(all);
  hr_advice_free(free);
}

static void the_same_question_gets_the_same_answer(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_advice *first = advise("h200", &model), *second = advise("h200", &model);
  assert_int_equal(first->about.finding_count, second->about.finding_count);
  for (size_t i = 0; i < first->about.finding_count; i++)
    assert_string_equal(first->findings[i].why, second->findings[i].why);
  hr_advice_free(first);
  hr_advice_free(second);
}

/* 2^20 devices, 2^15 layers, a vocabulary of 2^30: nothing loops over all of them. */
static void absurd_sizes_get_findings_too(void **state)
{
  (void)state;
  hr_model model = paper_model(1 << 20, 1 << 10, 1 << 15, 1 << 30);
  hr_hardware hardware = device("h200");
  hr_workload workload = workload_of(&model, 1 << 20);
  workload.batch = 1;
  workload.pipeline_stages = (1 << 15) - 1;
  hr_advice *advice = advise_under(&hardware, &model, &workload);
  assert_true(advice->about.finding_count > 0);
  hr_advice_free(advice);
}

static void a_device_without_the_format_is_an_error_and_writes_nothing(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_hardware hardware = device("v100-sxm2-16gb"); /* no bf16 */
  hr_workload workload = workload_of(&model, 1);
  hr_advice *advice = NULL;
  hr_error error;
  assert_int_equal(hr_advise(&hardware, &model, &workload, &advice, &error), HR_ERROR_UNSUPPORTED);
  assert_null(advice);
  hr_advice_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_advice_shows_its_findings_by_index_and_merged_ones_behind_them),
      cmocka_unit_test(gpt3_2_7b_gets_findings_on_its_heads_and_vocabulary),
      cmocka_unit_test(the_gain_of_a_padded_matrix_is_told_for_eager_mode_too),
      cmocka_unit_test(the_variants_of_figure_1_come_in_its_order),
      cmocka_unit_test(all_variants_of_figure_1_get_20_heads_suggested),
      cmocka_unit_test(heads_of_132_become_as_many_of_128),
      cmocka_unit_test(as_many_heads_have_the_nearest_usual_size),
      cmocka_unit_test(heads_that_are_suggested_split_over_the_given_t),
      cmocka_unit_test(a_degree_that_cuts_quantized_groups_is_not_suggested),
      cmocka_unit_test(the_width_11008_is_among_the_best_near_8h_3_and_10922_is_not),
      cmocka_unit_test(a_width_of_a_multiple_of_16_gets_no_suggestion_on_hopper),
      cmocka_unit_test(the_vocabulary_rule_does_not_apply_where_16_bytes_are_enough),
      cmocka_unit_test(six_devices_cannot_split_gpt3_2_7b),
      cmocka_unit_test(a_model_made_for_six_devices_gets_findings_but_no_other_shape),
      cmocka_unit_test(layers_that_stages_do_not_divide_cost_as_much_as_the_largest_stage),
      cmocka_unit_test(a_prime_number_of_layers_gets_another_depth_suggested),
      cmocka_unit_test(a_good_model_gets_no_suggestion_of_another_shape),
      cmocka_unit_test(parallel_layers_are_not_suggested_to_parallel_models),
      cmocka_unit_test(fused_attention_is_suggested_only_to_a_step_without_it),
      cmocka_unit_test(fused_attention_is_not_suggested_in_a_format_without_a_kernel),
      cmocka_unit_test(fewer_kv_heads_shrink_the_cache_and_pay_in_decode),
      cmocka_unit_test(diffqkv_is_fewer_or_smaller_k_heads_with_sigmas_evidence),
      cmocka_unit_test(k_heads_of_32_are_not_halved),
      cmocka_unit_test(a_step_that_does_not_fit_is_reported),
      cmocka_unit_test(stages_are_filled_with_smaller_microbatches),
      cmocka_unit_test(a_training_step_that_does_not_fit_names_what_makes_it_fit),
      cmocka_unit_test(t_is_made_smaller_only_as_far_as_memory_allows),
      cmocka_unit_test(an_uneven_hidden_size_gets_its_neighbour),
      cmocka_unit_test(an_uneven_sequence_gets_its_neighbour_within_the_positions),
      cmocka_unit_test(every_model_on_every_device_gets_an_answer_of_every_rule),
      cmocka_unit_test(strict_about_free_changes_fails_for_odd_vocabularies_alone),
      cmocka_unit_test(the_combined_suggestion_holds_all_that_agree),
      cmocka_unit_test(free_changes_are_combined_by_themselves),
      cmocka_unit_test(trained_weights_put_findings_that_need_new_ones_last),
      cmocka_unit_test(trained_weights_can_be_claimed_for_any_configuration),
      cmocka_unit_test(severity_of_its_own_framework_leaves_out_what_only_eager_mode_gains),
      cmocka_unit_test(findings_are_left_out_by_class_and_rule_and_counted),
      cmocka_unit_test(the_same_question_gets_the_same_answer),
      cmocka_unit_test(absurd_sizes_get_findings_too),
      cmocka_unit_test(a_device_without_the_format_is_an_error_and_writes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
