/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions reproduce known facts about real devices, and never exceed physical limits. */
#include "test.h"

#include "analysis/predict/step.h"
#include "hardware/hardware.h"
#include "unit/measured.h"
#include "unit/models.h"

#include <headroom/experimental/operators.h>

static double gemm_ns(const hr_hardware *hardware, int64_t m, int64_t n, int64_t k, hr_dtype dtype)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = m, gemm.n = n, gemm.k = k, gemm.dtype = dtype, gemm.transpose_b = true;
  hr_prediction p;
  hr_error error;
  assert_ok(hr_predict_gemm(hardware, &gemm, &p, &error), error);
  return p.time_ns;
}

static void a_step_shows_its_sums_and_operators_by_index(void **state)
{
  (void)state;
  static hr_step filled;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(2560, 20, 32, 50257);
  hr_workload workload = unfused_workload(&model);
  hr_error error;
  hr_step *step;
  assert_ok(hr_predict_step(&h200, &model, &workload, &step, &error), error);
  assert_ok(hr_fill_step(&h200, &model, &workload, &filled, &error), error);
  const hr_step_about *about = hr_step_describe(step);
  assert_memory_equal(about, &filled.about, sizeof *about);
  assert_int_equal(about->operator_count, filled.operators.count);
  for (size_t i = 0; i < about->operator_count; i++) {
    assert_int_equal(hr_step_operator(step, i)->id, filled.operators.items[i].id);
    assert_true(hr_step_prediction(step, i)->time_ns == filled.predictions[i].time_ns);
  }
  assert_null(hr_step_operator(step, about->operator_count));
  assert_null(hr_step_prediction(step, about->operator_count));
  hr_step_free(step);
  hr_step_free(NULL);
}

static void a_step_that_cannot_be_predicted_is_none(void **state)
{
  (void)state;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(2560, 20, 32, 50257);
  hr_workload workload = unfused_workload(&model);
  hr_error error;
  hr_step *step = NULL;
  workload.batch = 0;
  assert_int_equal(hr_predict_step(&h200, &model, &workload, &step, &error), HR_ERROR_INVALID);
  assert_null(step);
}

/* FLOPs of a layer by the paper's closed form, 24bsh²(1 + s/6h) at b = 4 and s = 2048, over the layer's time. */
static double layer_tflops(const hr_hardware *hardware, int64_t hidden, int64_t heads)
{
  static hr_step step;
  hr_model model = paper_model(hidden, heads, 32, 50257);
  hr_workload workload = unfused_workload(&model);
  assert_int_equal(workload.batch, 4);
  assert_int_equal(workload.sequence, 2048);
  hr_error error;
  assert_ok(hr_fill_step(hardware, &model, &workload, &step, &error), error);
  double h = (double)hidden, s = 2048;
  return 24 * 4 * s * h * h * (1 + s / (6 * h)) / step.about.layer_time_ns / 1e3;
}

/* Anthony et al. 2024, figure 1: 83.4 (C1, a = 64), 108.5 (C2, a = 40), 119.4 (GPT-3 2.7B, a = 32) and 140.7 (a = 20)
 * TFLOP/s a layer on an A100 of 40 GB, h = 2560. */
static void the_shapes_of_figure_1_come_in_its_order_and_near_its_ratios(void **state)
{
  (void)state;
  hr_hardware a100 = measured_hardware("a100-sxm4-40gb");
  double c1 = layer_tflops(&a100, 2560, 64), c2 = layer_tflops(&a100, 2560, 40);
  double gpt3 = layer_tflops(&a100, 2560, 32), fewer = layer_tflops(&a100, 2560, 20);
  assert_true(c1 < c2 && c2 < gpt3 && gpt3 < fewer);
  assert_true(fabs(fewer / gpt3 - 140.7 / 119.4) < 0.06); /* 1.18 */
  assert_true(fabs(c2 / gpt3 - 108.5 / 119.4) < 0.06);    /* 0.91 */
  assert_true(fabs(c1 / gpt3 - 83.4 / 119.4) < 0.06);     /* 0.70 */
  double all[] = {c1 / 83.4, c2 / 108.5, gpt3 / 119.4, fewer / 140.7};
  for (size_t i = 0; i < 4; i++)
    assert_true(all[i] > 1 / (1 + a100.error_band) && all[i] < 1 + a100.error_band);
}

/* Anthony et al. 2024, figures 7 and 21 to 47: of batched GEMMs with similar head sizes, those divisible by a larger
 * power of two are faster. 65 = 5·13, 66 = 2·33, 68 = 4·17, 72 = 8·9, 80 = 16·5, 96 = 32·3, 128. */
static void head_sizes_with_larger_powers_of_two_are_faster_on_an_a100(void **state)
{
  (void)state;
  hr_hardware a100 = measured_hardware("a100-sxm4-40gb");
  const int64_t dims[] = {65, 66, 68, 72, 80, 96, 128};
  double before = 0;
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    hr_gemm gemm = hr_gemm_default();
    gemm.m = gemm.n = 2048, gemm.k = dims[i], gemm.batch = 128, gemm.transpose_b = true;
    hr_prediction p;
    assert_int_equal(hr_predict_gemm(&a100, &gemm, &p, NULL), HR_OK);
    assert_true((double)dims[i] / p.time_ns > before); /* FLOPs a ns, up to a constant */
    before = (double)dims[i] / p.time_ns;
  }
}

/* One H200: 8192 × 2560 × 50257 runs at 107 TFLOP/s, 50304 at 692; 8192 × 4096 × 10922 at 278, 10928 at 711, 11008 at
 * 726: a multiple of 8 elements is enough, one of 64 gains little. */
static void on_an_h200_sixteen_bytes_are_enough_for_plain_gemms(void **state)
{
  (void)state;
  hr_hardware h200 = measured_hardware("h200");
  double vocabulary = gemm_ns(&h200, 8192, 50257, 2560, HR_BF16), padded = gemm_ns(&h200, 8192, 50304, 2560, HR_BF16);
  assert_true(vocabulary / padded > 5 && vocabulary / padded < 8);
  double width = gemm_ns(&h200, 8192, 10922, 4096, HR_BF16),
         multiple_of_16 = gemm_ns(&h200, 8192, 10928, 4096, HR_BF16);
  double multiple_of_256 = gemm_ns(&h200, 8192, 11008, 4096, HR_BF16);
  assert_true(width / multiple_of_16 > 2 && width / multiple_of_16 < 3.2);
  assert_true(fabs(multiple_of_16 / multiple_of_256 - 1) < 0.1);
}

/* Deterministic pseudo-random sizes, spread over the orders of magnitude. */
static uint64_t seed = 20240129;

static int64_t random_size(int64_t most)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  double u = (double)(seed >> 33) / (double)(1u << 31);
  return (int64_t)fmax(1, pow((double)most, u));
}

static const char *const devices[] = {"v100-sxm2-16gb", "a100-sxm4-80gb", "h100-pcie", "h200",
                                      "b200",           "l40s",           "mi300x",    "xeon-sapphire-rapids"};

static hr_gemm random_gemm(void)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = random_size(200000), gemm.n = random_size(200000), gemm.k = random_size(200000);
  gemm.batch = random_size(4) > 2 ? random_size(512) : 1;
  gemm.dtype = HR_FP16; /* every device supports it */
  gemm.transpose_a = random_size(4) > 1, gemm.transpose_b = random_size(4) > 1;
  return gemm;
}

static void no_gemm_is_faster_than_the_datasheet_or_takes_forever(void **state)
{
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    hr_hardware hardware = measured_hardware(devices[d]);
    for (int i = 0; i < 4000; i++) {
      hr_gemm gemm = random_gemm();
      int64_t flops = 0, bytes = 0;
      hr_prediction p;
      assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, NULL), HR_OK);
      assert_int_equal(hr_gemm_flops(&gemm, &flops), HR_OK);
      assert_int_equal(hr_gemm_bytes(&gemm, &bytes), HR_OK);
      double least =
          fmax((double)flops / hardware.dense_flops_per_s[gemm.dtype], (double)bytes / hardware.bandwidth_bytes_per_s) *
          1e9;
      if (!(isfinite(p.time_ns) && p.time_ns >= least && p.low_ns <= p.time_ns && p.high_ns >= p.time_ns))
        fail_msg("%s: m %d n %d k %d batch %d: %g ns, at least %g", devices[d], (int)gemm.m, (int)gemm.n, (int)gemm.k,
                 (int)gemm.batch, p.time_ns, least);
      assert_true(p.efficiency > 0 && p.efficiency <= 1);
      assert_true(p.tile_waste >= 0 && p.tile_waste < 1 && p.wave_waste >= 0 && p.wave_waste < 1);
      assert_true(p.alignment_loss >= 0 && p.alignment_loss < 1);
      assert_true(p.tile_ns >= 0 && p.wave_ns >= 0 && p.alignment_ns >= 0 && p.memory_ns > 0);
      assert_true(p.reduction_ns >= 0 && p.clock_ns <= 0 && p.exposed_ns >= -1e-9 * p.time_ns);
      double sum = p.matrix_ns + p.tile_ns + p.wave_ns + p.alignment_ns + p.reduction_ns + p.clock_ns + p.exposed_ns +
                   p.launch_ns;
      assert_true(fabs(sum - p.time_ns) <= 1e-6 * p.time_ns);
    }
  }
}

/* A burst's clock is at least the settled one, and a cache no slower than memory. */
static void a_burst_or_a_warm_cache_is_never_predicted_slower(void **state)
{
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    hr_hardware settled = measured_hardware(devices[d]), burst = settled, warm = settled;
    burst.about.clock = HR_CLOCK_BURST;
    warm.about.cache = HR_CACHE_WARM;
    for (int i = 0; i < 1000; i++) {
      hr_gemm gemm = random_gemm();
      hr_prediction cold, other;
      assert_int_equal(hr_predict_gemm(&settled, &gemm, &cold, NULL), HR_OK);
      assert_int_equal(hr_predict_gemm(&burst, &gemm, &other, NULL), HR_OK);
      assert_true(other.time_ns <= cold.time_ns * (1 + 1e-9));
      assert_int_equal(hr_predict_gemm(&warm, &gemm, &other, NULL), HR_OK);
      assert_true(other.time_ns <= cold.time_ns * (1 + 1e-9));
    }
  }
}

/* Padding a linear layer's outputs to the next multiple of 64 is predicted to cost at most the added work and another
 * tenth, because the padded result may need one more tile or wave. */
static void padding_the_outputs_is_never_predicted_to_cost_more_than_it_adds(void **state)
{
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    hr_hardware hardware = measured_hardware(devices[d]);
    for (int i = 0; i < 2000; i++) {
      int64_t m = 512 + random_size(16384), n = 512 + random_size(65536), k = 64 * (8 + random_size(128));
      int64_t padded = (n + 63) / 64 * 64;
      double before = gemm_ns(&hardware, m, n, k, HR_FP16), after = gemm_ns(&hardware, m, padded, k, HR_FP16);
      if (after > before * (double)padded / (double)n * 1.1)
        fail_msg("%s: m %d k %d: n %d takes %g ns, %d takes %g ns", devices[d], (int)m, (int)k, (int)n, before,
                 (int)padded, after);
    }
  }
}

static void a_larger_k_never_takes_less_time(void **state)
{
  (void)state;
  hr_hardware h200 = measured_hardware("h200");
  for (int64_t k = 4096; k < 16384; k += 512)
    assert_true(gemm_ns(&h200, 4096, 4096, k + 512, HR_BF16) > gemm_ns(&h200, 4096, 4096, k, HR_BF16));
}

static hr_prediction attention(const hr_hardware *hardware, int64_t q_len, int64_t kv_len, int64_t heads, hr_mask mask)
{
  hr_attention a = hr_attention_default();
  a.batch = 4, a.q_len = q_len, a.kv_len = kv_len, a.q_heads = 32, a.k_heads = a.v_heads = heads;
  a.qk_dim = a.v_dim = 128, a.mask = mask, a.dtype = HR_FP16;
  hr_prediction p;
  hr_error error;
  assert_ok(hr_predict_attention(hardware, &a, &p, &error), error);
  return p;
}

static void decoding_is_bound_by_reading_the_cache_and_gains_from_fewer_heads(void **state)
{
  (void)state;
  hr_hardware h200 = measured_hardware("h200");
  hr_prediction all = attention(&h200, 1, 65536, 32, HR_MASK_CAUSAL);
  hr_prediction grouped = attention(&h200, 1, 65536, 8, HR_MASK_CAUSAL);
  assert_int_equal(all.bound_by, HR_BOUND_MEMORY);
  assert_true(all.time_ns / grouped.time_ns > 3 && all.time_ns / grouped.time_ns < 4);
}

static void a_causal_mask_halves_long_attention_and_nothing_beats_the_datasheet(void **state)
{
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    hr_hardware hardware = measured_hardware(devices[d]);
    hr_prediction full = attention(&hardware, 8192, 8192, 32, HR_MASK_NONE);
    hr_prediction causal = attention(&hardware, 8192, 8192, 32, HR_MASK_CAUSAL);
    /* Half the work and the tiles on the diagonal; calls without a mask are up to 1.25 times as fast on Hopper. */
    assert_true(causal.time_ns / full.time_ns > 0.5 && causal.time_ns / full.time_ns < 0.67);
    /* 4 · 8192² · 128 · 32 heads · 4 sequences */
    assert_true(full.time_ns > 4.0 * 8192 * 8192 * 128 * 32 * 4 / hardware.dense_flops_per_s[HR_FP16] * 1e9);
  }
}

static void unfused_scores_of_small_heads_are_bound_by_memory(void **state)
{
  (void)state;
  hr_hardware h200 = measured_hardware("h200");
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = 2048, gemm.k = 64, gemm.batch = 128, gemm.transpose_b = true;
  hr_prediction p;
  assert_int_equal(hr_predict_gemm(&h200, &gemm, &p, NULL), HR_OK);
  assert_int_equal(p.bound_by, HR_BOUND_MEMORY); /* 62 operations a byte, where the device does 200 */
  assert_true(p.store_ns > 0 && p.store_ns <= p.tile_ns);
}

/* Each GEMM has two gradients of its size; the fused attention backward has five GEMMs, the forward two. */
static void training_takes_about_three_forward_passes(void **state)
{
  (void)state;
  static hr_step forward, train;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  assert_ok(hr_fill_step(&h200, &model, &workload, &forward, &error), error);
  workload.phase = HR_PHASE_TRAIN;
  assert_ok(hr_fill_step(&h200, &model, &workload, &train, &error), error);
  assert_true(train.about.time_ns / forward.about.time_ns > 2.7 && train.about.time_ns / forward.about.time_ns < 3.4);
}

/* Time of all executions of an operator, all passes. */
static double time_of(const hr_step *step, hr_operator_id id)
{
  double sum = 0;
  for (size_t i = 0; i < step->operators.count; i++) {
    if (step->operators.items[i].id == id)
      sum += (double)step->operators.items[i].count * step->predictions[i].time_ns;
  }
  return sum;
}

static void stages_wait_for_the_one_with_the_most_layers(void **state)
{
  (void)state;
  static hr_step alone, staged;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(2560, 20, 30, 50304);
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  assert_ok(hr_fill_step(&h200, &model, &workload, &alone, &error), error);
  workload.pipeline_stages = 4; /* 8, 8, 7, 7: as long as 32 layers */
  assert_ok(hr_fill_step(&h200, &model, &workload, &staged, &error), error);
  double layers = alone.about.time_ns - alone.about.logit_time_ns, sent = time_of(&staged, HR_OP_PIPELINE_SEND);
  assert_true(fabs(staged.about.time_ns - (layers * 32 / 30 + alone.about.logit_time_ns + sent)) <
              1e-6 * alone.about.time_ns);
  assert_true(sent > 0);
  assert_true(fabs(alone.about.tokens_per_s - 8192 / (alone.about.time_ns / 1e9)) < 1);
}

static void assert_near(double found, double expected)
{
  assert_true(fabs(found / expected - 1) < 1e-9);
}

/* Narayanan et al. 2021 (arXiv 2104.04473), section 2.2: with m microbatches through p equal stages (p − 1) / (m + p −
 * 1) of the step is bubble. The head, which would make the stages unequal, is left out. */
static void microbatches_fill_the_pipeline(void **state)
{
  (void)state;
  static hr_step one, many;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(2560, 20, 32, 1);
  model.head = HR_HEAD_NONE;
  model.positions = HR_POSITIONS_ALIBI, model.position_rows = 0, model.final_norm = false;
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  assert_ok(hr_fill_step(&h200, &model, &workload, &one, &error), error);
  double layers = 32 * one.about.layer_time_ns, ends = one.about.logit_time_ns; /* the embedding */
  workload.pipeline_stages = 4, workload.microbatches = 6;
  assert_ok(hr_fill_step(&h200, &model, &workload, &many, &error), error);
  double sent = time_of(&many, HR_OP_PIPELINE_SEND), stage = layers / 4 + ends + sent / 3;
  assert_near(many.about.stage_time_ns, stage);
  assert_near(many.about.time_ns, layers + ends + sent + 5 * stage);
  assert_true(fabs(many.about.bubble - 3.0 / 9) < 0.01);
  assert_near(many.about.tokens_per_s, 6 * 8192 / (many.about.time_ns / 1e9));
  assert_near(many.about.tokens_per_s_per_device, many.about.tokens_per_s / 4);
  workload.pipeline_stages = 1, workload.data_parallel = 2; /* accumulates over 6 microbatches, in two replicas */
  assert_ok(hr_fill_step(&h200, &model, &workload, &many, &error), error);
  assert_near(many.about.time_ns, 6 * one.about.time_ns);
  assert_true(many.about.bubble == 0);
  assert_near(many.about.tokens_per_s, 2 * one.about.tokens_per_s);
  workload.data_parallel = 1, workload.phase = HR_PHASE_DECODE, workload.microbatches = 0;
  assert_ok(hr_fill_step(&h200, &model, &workload, &one, &error), error);
  workload.pipeline_stages = 4, workload.microbatches = 4; /* every stage always has a token of another microbatch */
  assert_ok(hr_fill_step(&h200, &model, &workload, &many, &error), error);
  assert_near(many.about.time_ns, one.about.time_ns + time_of(&many, HR_OP_PIPELINE_SEND));
}

/* Narayanan et al. 2021, section 2.2: v parts of each stage leave a v-th of the bubble, (p − 1) / v stage times, and
 * send v times as often. */
static void parts_of_stages_divide_the_bubble(void **state)
{
  (void)state;
  static hr_step one, many;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(2560, 20, 32, 1);
  model.head = HR_HEAD_NONE;
  model.positions = HR_POSITIONS_ALIBI, model.position_rows = 0, model.final_norm = false;
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.phase = HR_PHASE_TRAIN;
  assert_ok(hr_fill_step(&h200, &model, &workload, &one, &error), error);
  double layers = 32 * one.about.layer_time_ns, ends = one.about.logit_time_ns;
  workload.pipeline_stages = 4, workload.microbatches = 8, workload.virtual_stages = 2;
  assert_ok(hr_fill_step(&h200, &model, &workload, &many, &error), error);
  double sent = time_of(&many, HR_OP_PIPELINE_SEND), stage = layers / 4 + ends + 2 * sent / 7;
  assert_near(many.about.stage_time_ns, stage);
  assert_near(many.about.time_ns - many.about.optimizer_ns, 8 * stage + (layers + ends + sent - stage) / 2);
  assert_true(fabs(many.about.bubble - 1.5 / 9.5) < 0.01);
}

/* Without overlap, the default, a step waits for all that is sent. With it, the backward pass hides what it is long
 * enough for. */
static void replicas_wait_for_what_their_passes_do_not_hide(void **state)
{
  (void)state;
  static hr_step alone, step;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = gpt3_2_7b();
  hr_workload workload = hr_workload_default(&model);
  workload.phase = HR_PHASE_TRAIN;
  hr_error error;
  assert_ok(hr_fill_step(&h200, &model, &workload, &alone, &error), error);
  double passes = alone.about.time_ns - alone.about.optimizer_ns;
  workload.data_parallel = 8;
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  double reduced = time_of(&step, HR_OP_GRADIENT_ALL_REDUCE);
  assert_true(reduced > 0);
  assert_near(step.about.replica_ns, reduced);
  assert_near(step.about.time_ns, alone.about.time_ns + reduced);
  assert_near(step.about.tokens_per_s, 8 * 8192 / (step.about.time_ns / 1e9));
  workload.microbatches = 4; /* once a step */
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  assert_near(step.about.time_ns, 4 * passes + alone.about.optimizer_ns + reduced);
  workload.zero_stage = 3; /* with each microbatch */
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  double sent = time_of(&step, HR_OP_WEIGHT_ALL_GATHER) + time_of(&step, HR_OP_GRADIENT_REDUCE_SCATTER);
  assert_near(step.about.time_ns, 4 * (passes + sent) + step.about.optimizer_ns);
  assert_near(step.about.optimizer_ns - 1700, (alone.about.optimizer_ns - 1700) / 8); /* without the launch */
  assert_near(step.about.exposed_ns, step.about.replica_ns);
  workload.zero_stage = 0, workload.microbatches = 1, workload.overlap = 1;
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  assert_true(step.about.exposed_ns == 0 &&
              step.about.time_ns == alone.about.time_ns); /* 5.3 GB against half a second */
}

/* Full recomputation runs the layers' forward pass once more; the model's own FLOPs stay. */
static void recomputation_takes_a_forward_pass_of_the_layers(void **state)
{
  (void)state;
  static hr_step forward, train, again;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  assert_ok(hr_fill_step(&h200, &model, &workload, &forward, &error), error);
  workload.phase = HR_PHASE_TRAIN;
  assert_ok(hr_fill_step(&h200, &model, &workload, &train, &error), error);
  workload.recompute = HR_RECOMPUTE_FULL;
  assert_ok(hr_fill_step(&h200, &model, &workload, &again, &error), error);
  assert_near(again.about.time_ns, train.about.time_ns + 32 * forward.about.layer_time_ns);
  assert_near(again.about.model_efficiency / train.about.model_efficiency, train.about.time_ns / again.about.time_ns);
  workload.recompute = HR_RECOMPUTE_SELECTIVE; /* fused attention has kept no scores */
  assert_ok(hr_fill_step(&h200, &model, &workload, &again, &error), error);
  assert_true(again.about.time_ns == train.about.time_ns);
}

/* A step whose linear layers are multiplied in fp8 is measured by the rate of fp8 there. */
static void the_peak_rate_is_that_of_the_formats_that_are_multiplied(void **state)
{
  (void)state;
  static hr_step step;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = llama3_8b();
  hr_error error;
  assert_ok(hr_model_set_weights(&model, "fp8", &error), error);
  hr_workload workload = hr_workload_default(&model);
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  double fp8 = 0, rest = 0;
  for (size_t i = 0; i < step.operators.count; i++) {
    const hr_operator *op = &step.operators.items[i];
    *(op->activations == HR_ACTIVATIONS_FP8 ? &fp8 : &rest) += (double)op->count * (double)op->flops;
  }
  assert_true(fp8 > 3 * rest);
  double at_peak = fp8 / h200.dense_flops_per_s[HR_FP8_E4M3] + rest / h200.dense_flops_per_s[HR_BF16];
  assert_near(step.about.model_efficiency, at_peak / (step.about.time_ns / 1e9));
}

/* What a prefill of two devices loses to its sums, and what their operators take. */
static double lost_to_sums(hr_framework framework, int64_t tokens, double *all_ns)
{
  static hr_step step;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = llama3_8b();
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.phase = HR_PHASE_PREFILL, workload.batch = 1, workload.sequence = tokens, workload.tensor_parallel = 2;
  workload.framework = framework;
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  *all_ns = 0;
  for (size_t i = 0; i < step.operators.count; i++)
    if (step.operators.items[i].kind == HR_KIND_COMMUNICATION)
      *all_ns += (double)step.operators.items[i].count * step.predictions[i].time_ns;
  return step.about.communication_ns;
}

static void sums_of_long_prefills_travel_beside_other_rows(void **state)
{
  (void)state;
  double all_ns, lost_ns = lost_to_sums(HR_FRAMEWORK_HEADROOM, 4096, &all_ns);
  assert_true(lost_ns > 0.6 * all_ns && lost_ns < 0.8 * all_ns);
  lost_ns = lost_to_sums(HR_FRAMEWORK_HEADROOM, 1024, &all_ns);
  assert_near(lost_ns, all_ns);
  lost_ns = lost_to_sums(HR_FRAMEWORK_COMPILED, 4096, &all_ns);
  assert_near(lost_ns, all_ns);
}

static void kernels_of_a_decode_step_wait_or_are_parts_of_others(void **state)
{
  (void)state;
  static hr_step step;
  hr_hardware h200 = measured_hardware("h200");
  hr_model model = paper_model(1024, 16, 24, 50304);
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.phase = HR_PHASE_DECODE, workload.batch = 1, workload.framework = HR_FRAMEWORK_HEADROOM;
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &h200};
  assert_ok(hr_fill_step_of(&subject, true, NULL, &step, &error), error);
  for (size_t i = 0; i < step.operators.count; i++) {
    hr_prediction alone;
    assert_ok(hr_predict_operator(&h200, &step.operators.items[i], &alone, &error), error);
    const double time_ns = step.predictions[i].time_ns;
    assert_true(step.operators.items[i].fused ? time_ns < alone.time_ns && time_ns >= 0 : time_ns > alone.time_ns);
  }
}

static const hr_operator *of_step(const hr_step *step, hr_operator_id id)
{
  const hr_operator *op = hr_operators_find(&step->operators, id, HR_PASS_FORWARD);
  assert_non_null(op);
  return op;
}

static void one_kernel_runs_a_decode_step_of_a_dense_model_on_hopper(void **state)
{
  (void)state;
  static hr_step step, apart;
  const hr_hardware h200 = measured_hardware("h200");
  const hr_model model = paper_model(2048, 16, 24, 50304);
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.phase = HR_PHASE_DECODE, workload.batch = 1, workload.context = 2048;
  workload.framework = HR_FRAMEWORK_HEADROOM;
  assert_ok(hr_fill_step(&h200, &model, &workload, &step, &error), error);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = &h200};
  assert_ok(hr_fill_step_of(&subject, true, NULL, &apart, &error), error);
  assert_true(step.about.time_ns < apart.about.time_ns);
  assert_false(of_step(&apart, HR_OP_LINEAR_PROJECTION)->persistent);
  assert_true(of_step(&step, HR_OP_LINEAR_PROJECTION)->persistent);
  assert_false(of_step(&step, HR_OP_LINEAR_PROJECTION)->fused || of_step(&step, HR_OP_ATTENTION)->fused);
  assert_true(of_step(&step, HR_OP_MLP_NORM)->fused && of_step(&step, HR_OP_FINAL_NORM)->fused);
  assert_false(of_step(&step, HR_OP_EMBEDDING)->persistent || of_step(&step, HR_OP_EMBEDDING)->fused);
}

static bool is_one_kernel(const char *architecture, const hr_workload *workload, const hr_model *model)
{
  static hr_step step;
  hr_hardware hardware = measured_hardware("h200");
  hr_error error;
  snprintf(hardware.about.architecture, sizeof hardware.about.architecture, "%s", architecture);
  assert_ok(hr_fill_step(&hardware, model, workload, &step, &error), error);
  return of_step(&step, HR_OP_LINEAR_PROJECTION)->persistent;
}

static void kernels_stay_apart_where_one_is_slower_or_takes_no_such_step(void **state)
{
  (void)state;
  const hr_model model = paper_model(2048, 16, 24, 50304), odd_heads = paper_model(2048, 512, 24, 50304),
                 wide = paper_model(4096, 32, 24, 50304);
  hr_workload decode = hr_workload_default(&model), w;
  decode.phase = HR_PHASE_DECODE, decode.batch = 1, decode.context = 2048;
  decode.framework = HR_FRAMEWORK_HEADROOM;
  assert_true(is_one_kernel("hopper", &decode, &model));
  assert_false(is_one_kernel("ampere", &decode, &model));
  assert_false(is_one_kernel("hopper", &decode, &odd_heads));
  w = decode, w.context = 65536;
  assert_true(is_one_kernel("hopper", &w, &model));
  w.context++;
  assert_false(is_one_kernel("hopper", &w, &model));
  w = decode, w.batch = 2, w.context = 32769;
  assert_false(is_one_kernel("hopper", &w, &model));
  w.context--;
  assert_true(is_one_kernel("hopper", &w, &model));
  w.batch = 4, w.context = 512;
  assert_true(is_one_kernel("hopper", &w, &model));
  assert_false(is_one_kernel("hopper", &w, &wide)); /* rows of four times the hidden size, too wide together */
  w.batch = 3;
  assert_true(is_one_kernel("hopper", &w, &wide));
  w.batch = 5;
  assert_false(is_one_kernel("hopper", &w, &model));
  w = decode, w.dtype = HR_FP32;
  assert_false(is_one_kernel("hopper", &w, &model));
  w = decode, w.tensor_parallel = 2;
  assert_false(is_one_kernel("hopper", &w, &model));
  w = decode, w.framework = HR_FRAMEWORK_COMPILED;
  assert_false(is_one_kernel("hopper", &w, &model));
  w = decode, w.phase = HR_PHASE_PREFILL;
  assert_false(is_one_kernel("hopper", &w, &model));
  hr_model quantized = model;
  hr_error error;
  assert_ok(hr_model_set_weights(&quantized, "int8", &error), error);
  assert_false(is_one_kernel("hopper", &decode, &quantized));
}

static void experts_are_in_the_kernel_if_one_token_chooses_them_by_its_logits(void **state)
{
  (void)state;
  hr_model model = paper_model(2048, 16, 24, 50304), other;
  hr_workload decode = hr_workload_default(&model), w;
  hr_ffn_experts *changed = &other.groups[0].experts;
  decode.phase = HR_PHASE_DECODE, decode.batch = 1, decode.context = 2048;
  decode.framework = HR_FRAMEWORK_HEADROOM;
  model.groups[0].dense.width = 0;
  model.groups[0].experts = (hr_ffn_experts){.experts = 64, .active = 4, .width = 512, .gated = true};
  model.numerics.known = true;
  assert_true(is_one_kernel("hopper", &decode, &model));
  w = decode, w.batch = 2;
  assert_false(is_one_kernel("hopper", &w, &model));
  other = model, other.numerics.known = false;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, other.numerics.router.sigmoid = true;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, changed->shared_width = 512;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, changed->groups = 8, changed->active_groups = 2;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, changed->width = 500;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, changed->experts = 1024;
  assert_false(is_one_kernel("hopper", &decode, &other));
  other = model, other.groups[other.group_count++] = model.groups[0];
  assert_true(is_one_kernel("hopper", &decode, &other));
  other.groups[1].experts.active = 2;
  assert_false(is_one_kernel("hopper", &decode, &other));
}

/* Beside half of the bytes a row of 2048 or more has 4 of a scale. */
static void one_kernel_reads_weights_in_fp8_faster_by_less_than_half(void **state)
{
  (void)state;
  static hr_step wide, narrow;
  const hr_hardware h200 = measured_hardware("h200");
  const hr_model model = paper_model(2048, 16, 24, 50304);
  hr_model quantized = model;
  hr_workload workload = hr_workload_default(&model);
  hr_error error;
  workload.phase = HR_PHASE_DECODE, workload.batch = 1, workload.context = 2048;
  workload.framework = HR_FRAMEWORK_HEADROOM;
  assert_ok(hr_model_set_weights(&quantized, "fp8", &error), error);
  assert_true(is_one_kernel("hopper", &workload, &quantized));
  assert_ok(hr_fill_step(&h200, &model, &workload, &wide, &error), error);
  assert_ok(hr_fill_step(&h200, &quantized, &workload, &narrow, &error), error);
  for (size_t i = 0; i < wide.operators.count; i++) {
    const bool reads = wide.operators.items[i].in_layer && wide.operators.items[i].kind == HR_KIND_GEMM;
    const double before = wide.predictions[i].memory_ns, now = narrow.predictions[i].memory_ns;
    assert_true(reads ? now > 0.6 * before && now < 0.65 * before : now == before);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_shows_its_sums_and_operators_by_index),
      cmocka_unit_test(a_step_that_cannot_be_predicted_is_none),
      cmocka_unit_test(the_peak_rate_is_that_of_the_formats_that_are_multiplied),
      cmocka_unit_test(the_shapes_of_figure_1_come_in_its_order_and_near_its_ratios),
      cmocka_unit_test(head_sizes_with_larger_powers_of_two_are_faster_on_an_a100),
      cmocka_unit_test(on_an_h200_sixteen_bytes_are_enough_for_plain_gemms),
      cmocka_unit_test(a_burst_or_a_warm_cache_is_never_predicted_slower),
      cmocka_unit_test(no_gemm_is_faster_than_the_datasheet_or_takes_forever),
      cmocka_unit_test(padding_the_outputs_is_never_predicted_to_cost_more_than_it_adds),
      cmocka_unit_test(a_larger_k_never_takes_less_time),
      cmocka_unit_test(decoding_is_bound_by_reading_the_cache_and_gains_from_fewer_heads),
      cmocka_unit_test(a_causal_mask_halves_long_attention_and_nothing_beats_the_datasheet),
      cmocka_unit_test(unfused_scores_of_small_heads_are_bound_by_memory),
      cmocka_unit_test(training_takes_about_three_forward_passes),
      cmocka_unit_test(stages_wait_for_the_one_with_the_most_layers),
      cmocka_unit_test(microbatches_fill_the_pipeline),
      cmocka_unit_test(parts_of_stages_divide_the_bubble),
      cmocka_unit_test(replicas_wait_for_what_their_passes_do_not_hide),
      cmocka_unit_test(recomputation_takes_a_forward_pass_of_the_layers),
      cmocka_unit_test(sums_of_long_prefills_travel_beside_other_rows),
      cmocka_unit_test(kernels_of_a_decode_step_wait_or_are_parts_of_others),
      cmocka_unit_test(one_kernel_runs_a_decode_step_of_a_dense_model_on_hopper),
      cmocka_unit_test(kernels_stay_apart_where_one_is_slower_or_takes_no_such_step),
      cmocka_unit_test(experts_are_in_the_kernel_if_one_token_chooses_them_by_its_logits),
      cmocka_unit_test(one_kernel_reads_weights_in_fp8_faster_by_less_than_half),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
