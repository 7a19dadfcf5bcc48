/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps: the catalogue's files, what a file may contain, its points and their order. */
#include "test.h"

#include "devices.h"
#include "experiment/sweep/sweep.h"

#include <headroom/predict.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hr_sweep *load(const char *what, bool small)
{
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_load(what, small, &sweep, &error), error);
  return sweep;
}

static hr_sweep *read_text(const char *text)
{
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "sweep.json"}, NULL, false,
                               &sweep, &error),
            error);
  return sweep;
}

static hr_sweep_point point_of(const hr_sweep *sweep, size_t index)
{
  hr_sweep_point point;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_point_at(sweep, index, HR_BF16, &point, &error), error);
  return point;
}

/* The axes and the problem of a file whose other fields are in order. */
static void assert_refused(const char *axes, const char *problem, hr_status status, const char *message)
{
  char text[2048];
  hr_sweep *sweep = NULL;
  hr_error error = {.message = ""};
  snprintf(text, sizeof text, "{\"name\":\"s\",\"x\":\"m\",\"axes\":{%s},\"problem\":{%s}}", axes, problem);
  hr_status found = hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "sweep.json"}, NULL,
                                       false, &sweep, &error);
  assert_string_equal(error.message, message);
  assert_int_equal(found, status);
  assert_null(sweep);
}

#define GEMM "\"kind\":\"gemm\",\"m\":\"m\",\"n\":64,\"k\":64"

static void a_gemm_has_the_memory_layout_of_the_file(void **state)
{
  (void)state;
  /* The scores of interleaved heads in [s, a, d]. */
  static const char text[] =
      "{\"name\":\"heads\",\"x\":\"s\",\"axes\":{\"a\":4,\"d\":80,\"s\":[64]},\"problem\":{\"kind\":\"bmm\",\"batch\":"
      "\"a\","
      "\"m\":\"s\",\"n\":\"s\",\"k\":\"d\",\"transpose_b\":true,\"lda\":\"a * d\",\"ldb\":\"a * d\",\"stride_a\":\"d\","
      "\"broadcast_b\":true,\"ldc\":65,\"stride_c\":5000}}";
  hr_sweep *sweep = NULL;
  hr_sweep_point point;
  hr_error error = {.message = ""};
  assert_ok(hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "heads.json"}, NULL, false,
                               &sweep, &error),
            error);
  assert_ok(hr_sweep_point_at(sweep, 0, HR_BF16, &point, &error), error);
  assert_string_equal(point.problem, "gemm m=64 n=64 k=80 batch=4 dtype=bf16 ta=0 tb=1 lda=320 stride_a=80 ldb=320 "
                                     "broadcast_b=1 ldc=65 stride_c=5000");
  hr_sweep_free(sweep);
  assert_refused("\"m\":[8]", GEMM ",\"lda\":63", HR_ERROR_INVALID,
                 "sweep.json: s: point 1 (m=8): lda: 63 is shorter than a row of A, which has 64");
}

/* ---- the catalogue ---- */

/* Every figure of the paper that measures shapes: 3 and 4 are drawings. */
static const char *const figures[] = {
    "1",  "2",  "5a", "5b", "5c", "6a", "6b",  "6c",  "6d", "7a", "7b", "8",  "9",  "10a", "10b", "11", "12", "13",
    "14", "15", "16", "17", "18", "19", "20a", "20b", "21", "22", "23", "24", "25", "26",  "27",  "28", "29", "30",
    "31", "32", "33", "34", "35", "36", "37",  "38",  "39", "40", "41", "42", "43", "44",  "45",  "46", "47"};

static void the_catalogue_has_every_figure_under_its_number_and_in_their_order(void **state)
{
  (void)state;
  for (int small = 0; small < 2; small++) {
    hr_sweep **sweeps;
    size_t count;
    hr_error error = {.status = HR_OK};
    assert_ok(hr_sweep_catalog(small, &sweeps, &count, &error), error);
    const size_t others = 18, figure_count = sizeof figures / sizeof *figures;
    assert_int_equal(count, others + figure_count);
    assert_string_equal(hr_sweep_describe(sweeps[0])->name, "attention-forward");
    assert_string_equal(hr_sweep_describe(sweeps[count - 1])->name, "sigma-train");
    assert_string_equal(hr_sweep_describe(sweeps[1])->name, "collectives");
    for (size_t i = 0, at = 2; i < figure_count; i++, at++) {
      hr_sweep_about about = *hr_sweep_describe(sweeps[at]);
      char name[16];
      while (!about.figure[0]) /* no figure of the paper: of its models training, and whole steps */
        about = *hr_sweep_describe(sweeps[++at]);
      snprintf(name, sizeof name, "fig%s", figures[i]);
      assert_string_equal(about.figure, figures[i]);
      assert_string_equal(about.name, name);
      assert_true(about.title[0] && about.y_label[0]);
      assert_non_null(strstr(about.source, "arXiv 2401.14489"));
      hr_sweep *alone = load(name, small);
      assert_int_equal(hr_sweep_describe(alone)->point_count, about.point_count);
      hr_sweep_free(alone);
    }
    hr_sweep_catalog_free(sweeps, count);
  }
}

static void a_point_of_attention_names_its_kernels(void **state)
{
  (void)state;
  hr_sweep *sweep = load("attention-forward", false);
  hr_sweep_point point;
  hr_error error;
  assert_ok(hr_sweep_point_at(sweep, 0, HR_FP32, &point, &error), error);
  assert_string_equal(point.kernel, "attention_naive");
  assert_string_equal(point.series, "naive XS");
  assert_int_equal(point.attention.batch, 4);
  assert_ok(hr_sweep_point_at(sweep, 119, HR_FP32, &point, &error), error);
  assert_string_equal(point.kernel, "attention_flash");
  assert_string_equal(point.series, "flash SIGMA");
  assert_int_equal(point.attention.v_heads, 16);
  assert_int_equal(point.attention.q_len, 32768);
  hr_sweep_free(sweep);
#define ATTENTION                                                                                                     \
  "{\"name\":\"t\",\"x\":\"m\",\"axes\":{\"m\":[8]},\"problem\":{\"kind\":\"attention\",\"batch\":1,\"q_len\":\"m\"," \
  "\"kv_len\":\"m\",\"q_heads\":1,\"k_heads\":1,\"v_heads\":1,\"qk_dim\":8,\"v_dim\":8,\"implementation\":5}}"
  assert_int_equal(hr_sweep_from_json(&(hr_input){.text = ATTENTION, .length = strlen(ATTENTION), .name = "t.json"},
                                      NULL, false, &sweep, &error),
                   HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "implementation: expected 0 to 4, found 5"));
}

static void figures_have_the_points_counted_by_hand(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    size_t points, series;
  } counted[] = {
      {"fig1", 5, 1},   /* C1, C2, GPT-3 2.7B, two improved ones */
      {"fig13", 20, 2}, /* 10 models, with and without a graph */
      /* 2^8 to 2^30 bytes of 2, 4, 8 GPUs: 5 · 3 · 23, of 2: 23; to 2^26: 3 · 19 */
      {"collectives", 425, 19},
      {"fig1-steps", 5, 1},
      {"fig1-train-steps", 5, 1},
      {"fig2-steps", 2, 1},
      {"fig11-steps", 2, 1},
      {"positions", 36, 12},     /* 3 positions, 2 orders, 3 lengths, 2 phases */
      {"sigma-steps", 12, 4},    /* 2 models, 2 heads, 3 prefixes */
      {"fig-tp", 144, 36},       /* 9 models, 4 GEMMs, 4 degrees */
      {"llama-steps-tp", 32, 8}, /* 2 models, 4 batches, 4 degrees */
      {"sigma-steps-tp", 32, 8}, /* 4 models, 2 batches, 4 degrees */
      {"fig5a", 64, 1},          /* 128 … 8192 by 128 */
      {"fig6a", 24, 4},          /* 4 sizes, b = 1, 2, … 32 */
      {"fig6d", 21, 3},          /* 3 batches, m = 2^6 … 2^12 */
      {"fig16", 84, 4},          /* 4 degrees, h = 2048 … 22528 by 1024: 21 */
      {"fig20a", 129, 1},        /* two steps of 64 and both ends */
      {"fig21", 448, 7},         /* a = 8: head sizes to 4096, 64 of them on each of 7 lines */
      /* a = 20: head sizes p + 64i to 1638: 26 for p up to 32 (p = 32: 32 + 25·64 = 1632), 25 for 64 (64·25 = 1600) */
      {"fig24", 181, 7},
      /* a = 12: to 2730: 43 for p up to 32 (32 + 42·64 = 2720), 42 for 64 (64·42 = 2688) */
      {"fig36", 300, 7},
      {"fig33", 64, 7}, /* a = 512: every head size to 64 */
      {"fig47", 64, 7},
      /* h = 64·a·i to 16384: 21, 10, 8, 6, 4, 3, 2 for a = 12, 24, 32, 40, 64, 80, 96 */
      {"fig8", 54, 7},
      {"attention-forward", 120, 24}, /* 4 ways, 6 tiers, 5 lengths */
      {"fig34", 68, 6},               /* to 32768: 21, 16, 12, 8, 6, 5 from a = 24 on */
      {"sigma-ket", 96, 24},          /* 3 models, 2 batches, 4 parts, 4 prefixes */
      {"sigma-ceet", 48, 4},          /* 2 models, 2 batches, 12 contexts */
      {"sigma-ceet-q", 6, 3},         /* 3 layers, 2 batches */
      {"sigma-sel-v", 56, 8},         /* 7 choices of k, 2 batches, 4 prefixes */
      {"fig1-train", 5, 1},           /* 5 models */
      {"sigma-train", 9, 3},          /* 3 models, 3 lengths */
  };
  for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
    hr_sweep *sweep = load(counted[i].name, false);
    hr_sweep_about about = *hr_sweep_describe(sweep);
    if (about.point_count != counted[i].points || about.series_count != counted[i].series)
      fail_msg("%s: %zu points on %zu lines rather than %zu on %zu", counted[i].name, about.point_count,
               about.series_count, counted[i].points, counted[i].series);
    hr_sweep_free(sweep);
  }
}

/* Figure 24 is the attention score at a = 20, figure 36 attention over value at a = 12, with b = 4 and s = 2048. */
static void figure_24_is_the_score_of_20_heads_and_figure_36_attention_over_value_of_12(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig24", false);
  assert_string_equal(hr_sweep_describe(sweep)->title, "Attention Key Query Score, a=20");
  hr_sweep_point point = point_of(sweep, 80); /* the lines have 26 points each: point 3 of the fourth line, 8 + 2·64 */
  assert_string_equal(point.series, "h/a = 8");
  assert_string_equal(point.axes, "a=20 b=4 s=2048 h_max=32768 power=8 head_dim=136 h=2720");
  assert_int_equal(point.x, 2720);
  assert_int_equal(point.gemm.batch, 80); /* 4 · 20 */
  assert_int_equal(point.gemm.m, 2048);
  assert_int_equal(point.gemm.n, 2048);
  assert_int_equal(point.gemm.k, 136);
  assert_true(point.gemm.transpose_b);
  assert_int_equal(point.gemm.dtype, HR_BF16);
  hr_sweep_free(sweep);

  sweep = load("fig36", false);
  assert_string_equal(hr_sweep_describe(sweep)->title, "Attention over Values, a=12");
  point = point_of(sweep, 0);
  assert_int_equal(point.gemm.batch, 48); /* 4 · 12 */
  assert_int_equal(point.gemm.m, 2048);
  assert_int_equal(point.gemm.n, 1);
  assert_int_equal(point.gemm.k, 2048);
  assert_false(point.gemm.transpose_b);
  hr_sweep_free(sweep);
}

/* Each line of the figures 7 and 21 on is one power of two: the largest that divides h/a, where 64 stands for all
 * beyond. */
static void each_line_of_the_attention_figures_has_its_largest_power_of_two(void **state)
{
  (void)state;
  static const char *const names[] = {"fig7a", "fig24", "fig28", "fig33", "fig36", "fig47"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hr_sweep *sweep = load(names[i], false);
    for (size_t j = 0; j < hr_sweep_describe(sweep)->point_count; j++) {
      hr_sweep_point point = point_of(sweep, j);
      int64_t head_dim = point.gemm.transpose_b ? point.gemm.k : point.gemm.n;
      int64_t power = head_dim & -head_dim;
      char series[32];
      snprintf(series, sizeof series, "h/a = %d", (int)(power < 64 ? power : 64));
      assert_string_equal(point.series, series);
    }
    hr_sweep_free(sweep);
  }
}

static void table_8_of_sigma_is_one_decode_call_of_each_model(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-ket", false);
  hr_sweep_point point = point_of(sweep, 32); /* after those of the standard model */
  assert_string_equal(point.series, "SIGMA, batch 1, part 0");
  assert_string_equal(point.problem, "decode batch=1 q_len=1 kv_len=2054 q_heads=32 k_heads=4 v_heads=16 qk_dim=64 "
                                     "v_dim=64 dtype=bf16 page_size=16");
  hr_sweep_free(sweep);
}

static void selective_v_is_measured_for_100_keys_and_shares_of_the_context(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-sel-v", false); /* 32 points of each case: 2 batches, 4 parts, 4 prefixes */
  static const int64_t top_k[] = {0, 100, 128, 512, 1024, 2048, 4096};
  for (size_t i = 0; i < 7; i++) {
    hr_sweep_point point = point_of(sweep, 8 * i + 1);
    assert_string_equal(point.series, "8192 tokens, batch 1");
    assert_int_equal(point.decode.kv_len, 8192);
    assert_int_equal(point.decode.top_k, top_k[i]);
  }
  hr_sweep_free(sweep);
}

static void parts_of_a_decode_call_are_those_of_a_kernel_with_two_launches(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-ket", false);
  for (size_t i = 0; i < 16; i++) { /* 4 prefixes of each part */
    hr_sweep_point point = point_of(sweep, i);
    assert_string_equal(point.kernel, i < 4 ? "" : "decode_apart");
    assert_int_equal(point.decode_part, i < 8 ? 0 : (int)i / 4 - 1);
  }
  hr_sweep_free(sweep);
}

static void points_are_compared_with_those_of_the_baseline_at_the_same_axes(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-ket", false); /* 32 points of each case: 2 batches, 4 parts, 4 prefixes */
  assert_string_equal(hr_sweep_describe(sweep)->baseline, "STD");
  for (size_t i = 0; i < 96; i++)
    assert_true(hr_sweep_baseline(sweep, i) == (i < 32 ? SIZE_MAX : i % 32));
  hr_sweep_free(sweep);
  sweep = load("attention-forward", false);
  assert_true(hr_sweep_baseline(sweep, 9) == SIZE_MAX);
  hr_sweep_free(sweep);
}

static void figure_1_is_a_layer_of_each_named_model(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig1", false);
  static const int64_t heads[] = {64, 40, 32, 20, 32};
  for (size_t i = 0; i < 5; i++) {
    hr_sweep_point point = point_of(sweep, i);
    assert_int_equal(point.kind, HR_SWEEP_LAYER);
    assert_int_equal(point.model.groups[0].attention.q_heads, heads[i]);
    assert_int_equal(point.model.hidden, i < 4 ? 2560 : 4096);
    assert_int_equal(point.workload.batch, 4);
    assert_int_equal(point.workload.sequence, 2048);
  }
  hr_sweep_free(sweep);
}

static void layers_of_training_steps_have_their_heads_and_their_problem(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-train", false);
  const hr_sweep_point sigma = point_of(sweep, 6); /* the third model at the first length */
  const hr_mixer_attention *heads = &sigma.model.groups[0].attention;
  assert_string_equal(sigma.problem, "layer h=2048 a=32 b=4 s=2048 t=1 attention=fused dtype=bf16 phase=train llama=1 "
                                     "d_ff=6144 k_heads=4 v_heads=16 q_rank=3072");
  assert_true(heads->k_heads == 4 && heads->v_heads == 16 && heads->qk_dim == 64);
  assert_true(sigma.model.norm == HR_NORM_RMS && sigma.model.groups[0].dense.gated);
  assert_int_equal(sigma.workload.phase, HR_PHASE_TRAIN);
  hr_sweep_free(sweep);
  sweep = load("fig1-train", false);
  const hr_sweep_point plain = point_of(sweep, 0);
  assert_string_equal(plain.problem, "layer h=2560 a=64 b=4 s=2048 t=1 attention=fused dtype=bf16 dropout=forward "
                                     "phase=train");
  hr_sweep_free(sweep);
}

static void figure_13_is_the_pythia_suite_as_the_short_form_has_it(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig13", false);
  const hr_sweep_point point = point_of(sweep, 8); /* the fifth model, with a graph */
  hr_parameters parameters;
  hr_error error;
  assert_int_equal(point.kind, HR_SWEEP_STEP);
  assert_string_equal(point.x_name, "pythia-410m");
  assert_ok(hr_model_parameters(&point.model, &parameters, &error), error);
  assert_int_equal(parameters.total, 405334016); /* as published: tests/unit/test_model_shipped.c */
  assert_string_equal(point.problem, "step h=1024 a=16 L=24 v=50304 b=1 s=512 phase=prefill dtype=bf16 output=128 "
                                     "positions=1 parallel=1 tied=0 rotary=16");
  assert_true(point.output == 128 && !point.no_graph && point_of(sweep, 9).no_graph);
  hr_sweep_free(sweep);
}

static void steps_of_sigma_differ_in_k_heads_and_q(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-steps", false);
  const hr_sweep_point standard = point_of(sweep, 0), sigma = point_of(sweep, 3);
  const hr_mixer_attention *a = &standard.model.groups[0].attention, *b = &sigma.model.groups[0].attention;
  assert_true(a->k_heads == 16 && a->v_heads == 16 && a->q_rank == 0);
  assert_true(b->k_heads == 4 && b->v_heads == 16 && b->q_rank == 3072);
  assert_true(sigma.model.norm == HR_NORM_RMS && sigma.model.groups[0].dense.width == 6144 && sigma.output == 256);
  hr_sweep_free(sweep);
}

#define STEP(rest)                                                                                                  \
  "{\"name\":\"t\",\"x\":\"s\",\"axes\":{\"s\":[8]},\"problem\":{\"kind\":\"step\",\"h\":64,\"a\":4,\"L\":2,\"v\":" \
  "100,"                                                                                                            \
  "\"s\":\"s\"," rest "}}"

static void steps_that_cannot_be_are_refused_by_field(void **state)
{
  (void)state;
  static const struct {
    const char *text, *words;
  } rows[] = {{STEP("\"phase\":4"), "phase: expected 0 to 3, found 4"},
              {STEP("\"positions\":-1"), "positions: expected 0 to 2, found -1"},
              {STEP("\"t\":0"), "tensor_parallel: "},
              {STEP("\"graph\":2"), "graph: expected 0 to 1, found 2"},
              {STEP("\"output\":4"), "output: needs phase 1, prefill"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hr_sweep *sweep;
    hr_error error;
    const hr_input input = {.text = rows[i].text, .length = strlen(rows[i].text), .name = "t.json"};
    assert_int_equal(hr_sweep_from_json(&input, NULL, false, &sweep, &error), HR_ERROR_INVALID);
    if (!strstr(error.message, rows[i].words))
      fail_msg("\"%s\" does not say \"%s\"", error.message, rows[i].words);
  }
}

/* The GEMMs of 20 heads and 2560 columns: 8 devices have 2.5 heads each, and parts of 320, 5 · 64. */
static void figure_tp_has_the_gemms_of_a_rank_and_says_where_the_rules_hold(void **state)
{
  (void)state;
  static const struct {
    int64_t t, n[4], k[4], divisible;
  } ranks[] = {{1, {7680, 2560, 10240, 2560}, {2560, 2560, 2560, 10240}, 1},
               {2, {3840, 2560, 5120, 2560}, {2560, 1280, 2560, 5120}, 1},
               {4, {1920, 2560, 2560, 2560}, {2560, 640, 2560, 2560}, 1},
               {8, {960, 2560, 1280, 2560}, {2560, 320, 2560, 1280}, 0}};
  hr_sweep *sweep = load("fig-tp", false);
  for (size_t gemm = 0; gemm < 4; gemm++) {
    for (size_t i = 0; i < 4; i++) {
      const hr_sweep_point point = point_of(sweep, 5 * 16 + gemm * 4 + i);
      char wanted[32];
      snprintf(wanted, sizeof wanted, " divisible=%d ", (int)ranks[i].divisible);
      assert_non_null(strstr(point.axes, wanted));
      assert_true(point.x == ranks[i].t && strncmp(point.series, "Ours 1, ", 8) == 0);
      assert_true(point.gemm.m == 8192 && point.gemm.n == ranks[i].n[gemm] && point.gemm.k == ranks[i].k[gemm]);
    }
  }
  /* 768 columns: parts of 192 are a multiple of 64, of 96 none. */
  assert_non_null(strstr(point_of(sweep, 2).axes, " divisible=1 "));
  assert_non_null(strstr(point_of(sweep, 3).axes, " divisible=0 "));
  hr_sweep_free(sweep);
}

static void steps_of_t_ranks_are_predicted_with_tensor_parallelism(void **state)
{
  (void)state;
  const hr_hardware hardware = device("h200");
  hr_sweep *sweep = load("llama-steps-tp", false);
  double times_ns[4];
  hr_error error;
  for (size_t i = 0; i < 4; i++) { /* 8B, batch 1 */
    const hr_sweep_point point = point_of(sweep, i);
    hr_workload workload = point.workload;
    hr_step *step;
    assert_int_equal(workload.tensor_parallel, 1 << i);
    assert_true(workload.phase == HR_PHASE_DECODE && workload.context == 1024);
    assert_ok(hr_sweep_predict(&hardware, &point, &times_ns[i], &error), error);
    workload.tensor_parallel = (int64_t)1 << i;
    assert_ok(hr_predict_step(&hardware, &point.model, &workload, &step, &error), error);
    assert_true(times_ns[i] == hr_step_describe(step)->time_ns);
    hr_step_free(step);
  }
  assert_true(times_ns[1] < times_ns[0] && times_ns[2] < times_ns[1]);
  assert_true(times_ns[2] > times_ns[0] / 4); /* messages */
  assert_string_equal(point_of(sweep, 2).problem, "step h=4096 a=32 L=32 v=128256 b=1 s=1024 phase=decode dtype=bf16 "
                                                  "llama=1 positions=1 tied=0 t=4 d_ff=14336 k_heads=8 v_heads=8");
  hr_sweep_free(sweep);
}

/* 4 K heads on 8 devices. */
static void k_heads_of_sigma_are_copied_where_devices_are_more(void **state)
{
  (void)state;
  const hr_hardware hardware = device("h200");
  hr_sweep *sweep = load("sigma-steps-tp", false);
  const hr_sweep_point point = point_of(sweep, 11);
  hr_error error;
  double time_ns;
  assert_true(point.workload.tensor_parallel == 8 && point.model.groups[0].attention.k_heads == 4);
  assert_ok(hr_sweep_predict(&hardware, &point, &time_ns, &error), error);
  hr_sweep_free(sweep);
}

/* The prefill of 2048 tokens and 255 decode steps, predicted as the one behind 2048 + 128. */
static void an_output_is_predicted_as_its_steps(void **state)
{
  (void)state;
  hr_sweep *sweep = load("sigma-steps", false);
  hr_sweep_point point = point_of(sweep, 0);
  const hr_hardware hardware = device("h200");
  hr_error error;
  double whole_ns, prefill_ns;
  hr_step *step;
  assert_ok(hr_sweep_predict(&hardware, &point, &whole_ns, &error), error);
  point.output = 0;
  assert_ok(hr_sweep_predict(&hardware, &point, &prefill_ns, &error), error);
  hr_workload decode = point.workload;
  decode.phase = HR_PHASE_DECODE, decode.context = 2048 + 128;
  assert_ok(hr_predict_step(&hardware, &point.model, &decode, &step, &error), error);
  assert_true(fabs(whole_ns - prefill_ns - 255 * hr_step_describe(step)->time_ns) < 1e-6 * whole_ns);
  hr_step_free(step);
  point.no_graph = true;
  assert_int_equal(hr_sweep_predict(&hardware, &point, &whole_ns, &error), HR_ERROR_UNSUPPORTED);
  hr_sweep_free(sweep);
}

static bool has_line(const char *name, const char *series)
{
  hr_sweep *sweep = load(name, false);
  bool found = false;
  for (size_t i = 0; i < hr_sweep_describe(sweep)->point_count && !found; i++)
    found = strcmp(point_of(sweep, i).series, series) == 0;
  hr_sweep_free(sweep);
  return found;
}

/* A plot can then show both. */
static void published_points_are_on_lines_of_the_catalogue_and_say_how_exact_they_are(void **state)
{
  (void)state;
  char line[512], name[32], series[64], accuracy[32], last[128] = "";
  FILE *file = fopen(HEADROOM_SOURCE_DIR "/data/results/published/codesign-figures.csv", "r");
  size_t points = 0;
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#' || strncmp(line, "sweep,", 6) == 0)
      continue;
    char *fields[6] = {line}, *at = line;
    for (size_t i = 1; i < 6; i++) {
      bool quoted = *at == '"';
      fields[i - 1] = at + quoted;
      at = strchr(at + quoted, quoted ? '"' : ',');
      assert_non_null(at);
      *at = '\0';
      at += quoted ? 2 : 1;
      fields[i] = at;
    }
    snprintf(name, sizeof name, "%s", fields[0]);
    snprintf(series, sizeof series, "%s", fields[2]);
    snprintf(accuracy, sizeof accuracy, "%.*s", (int)strcspn(fields[5], "\n"), fields[5]);
    assert_true(strtod(fields[4], NULL) > 0);
    if (strcmp(name, "fig1") == 0)
      assert_string_equal(accuracy, "exact");
    else if (strcmp(accuracy, "doubtful") != 0)
      assert_string_equal(accuracy, "approximate");
    char key[128];
    snprintf(key, sizeof key, "%s %s", name, series);
    if (strcmp(key, last) != 0 && !has_line(name, series))
      fail_msg("%s has no line \"%s\"", name, series);
    snprintf(last, sizeof last, "%s", key);
    points++;
  }
  fclose(file);
  assert_true(points > 1000);
}

/* ---- contents of a file ---- */

static void axes_may_be_in_any_order_and_refer_to_each_other(void **state)
{
  (void)state;
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"h\",\"axes\":{\"h\":\"a * d\",\"d\":{\"from\":\"a\",\"to\":20,"
                              "\"step\":\"a\"},\"a\":[4,8]},\"problem\":{\"kind\":\"gemm\",\"m\":\"h\",\"n\":1,"
                              "\"k\":\"d\"}}");
  /* a = 4: d = 4, 8, 12, 16, 20; a = 8: d = 8, 16 */
  static const int64_t h[] = {16, 32, 48, 64, 80, 64, 128};
  assert_int_equal(hr_sweep_describe(sweep)->point_count, 7);
  for (size_t i = 0; i < 7; i++)
    assert_int_equal(point_of(sweep, i).x, h[i]);
  assert_string_equal(point_of(sweep, 6).axes, "h=128 d=16 a=8");
  hr_sweep_free(sweep);
}

static void circular_axes_are_refused_by_name(void **state)
{
  (void)state;
  assert_refused("\"m\":\"a\",\"a\":\"b + 1\",\"b\":\"a\"", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes: depend on each other in a cycle: a needs b needs a");
  assert_refused("\"m\":\"m\"", GEMM, HR_ERROR_INVALID, "sweep.json: axes: depend on each other in a cycle: m needs m");
}

static void invalid_axes_are_refused_by_name(void **state)
{
  (void)state;
  assert_refused("\"m\":[]", GEMM, HR_ERROR_INVALID, "sweep.json: axes.m: expected 1 to 4096 values, found 0");
  assert_refused("\"m\":[1,\"2\"]", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m: expected a list of integers, found \"2\"");
  assert_refused("\"m\":[8,16,8]", GEMM, HR_ERROR_INVALID, "sweep.json: axes.m: 8 is given twice");
  assert_refused("\"m\":[1],\n\"m\":[2]", GEMM, HR_ERROR_UNREADABLE, "sweep.json: line 2: m: is given twice");
  assert_refused("\"m\":1.5", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m: expected an integer or an expression, found 1.5");
  assert_refused("\"M\":1", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes: \"M\" is not a name: small letters, digits and _, a letter first, at most 31");
  assert_refused("\"m\":{\"from\":1,\"to\":8}", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m: expected either a step or a factor");
  assert_refused("\"m\":{\"from\":1,\"to\":8,\"step\":0}", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m: a step is at least 1");
  assert_refused("\"m\":{\"from\":0,\"to\":8,\"factor\":2}", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m: a factor is at least 2 and starts from at least 1");
  assert_refused("\"m\":{\"from\":1,\"to\":8,\"by\":1}", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes.m.by: there is no such field");
  assert_refused("\"m\":{\"from\":9,\"to\":8,\"step\":1}", GEMM, HR_ERROR_INVALID, "sweep.json: axes: give no point");
  assert_refused("\"m\":\"1 / n\",\"n\":[1,0]", GEMM, HR_ERROR_INVALID, "sweep.json: axes.m: 1 / 0: division by zero");
  assert_refused("\"m\":\"k\"", GEMM, HR_ERROR_INVALID, "sweep.json: axes.m: \"k\": there is no axis \"k\"");
  assert_refused("\"n\":1", "\"kind\":\"gemm\",\"m\":1,\"n\":1,\"k\":1", HR_ERROR_INVALID,
                 "sweep.json: x: there is no axis \"m\"");
}

/* A complete file. */
static void assert_file_refused(const char *text, const char *which, const char *message)
{
  hr_sweep *sweep = NULL;
  hr_error error = {.message = ""};
  assert_int_equal(hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "sweep.json"}, which,
                                      false, &sweep, &error),
                   HR_ERROR_INVALID);
  assert_string_equal(error.message, message);
  assert_null(sweep);
}

static void a_sweep_without_name_or_x_is_refused_with_the_missing_field(void **state)
{
  (void)state;
  assert_file_refused("{\"name\":\"s\",\"axes\":{\"m\":[8]},\"problem\":{" GEMM "}}", NULL,
                      "sweep.json: x: expected the name of an axis, found none");
  assert_file_refused("{\"x\":\"m\",\"axes\":{\"m\":[8]},\"problem\":{" GEMM "}}", NULL,
                      "sweep.json: name: is missing");
}

static void cases_have_unique_names_and_baselines_are_cases(void **state)
{
  (void)state;
  assert_file_refused("{\"name\":\"s\",\"x\":\"case\",\"baseline\":\"B\",\"cases\":[{\"name\":\"A\",\"m\":1}],"
                      "\"problem\":{" GEMM "}}",
                      NULL, "sweep.json: baseline: there is no case \"B\"");
  assert_file_refused("{\"name\":\"s\",\"x\":\"case\",\"cases\":[{\"name\":\"A\",\"m\":1},{\"name\":\"A\",\"m\":2}],"
                      "\"problem\":{" GEMM "}}",
                      NULL, "sweep.json: cases[1]: there is a case \"A\" before");
}

static void several_sweeps_are_a_list_and_each_has_a_name(void **state)
{
  (void)state;
  assert_file_refused("{\"sweeps\":[]}", NULL, "sweep.json: sweeps: expected a list of sweeps, found none in it");
  assert_file_refused("{\"sweeps\":{\"name\":\"s\"}}", "s",
                      "sweep.json: sweeps: expected a list of sweeps, found an object");
  assert_file_refused("{\"x\":\"m\",\"axes\":{\"m\":[8]},\"problem\":{" GEMM "},"
                      "\"sweeps\":[{\"name\":\"s\"},{\"name\":\"s\"}]}",
                      "s", "sweep.json: sweeps[1]: there is a sweep \"s\" before");
}

static void absurdly_many_points_are_refused_at_once(void **state)
{
  (void)state;
  assert_refused("\"m\":{\"from\":1,\"to\":100001,\"step\":1}", GEMM, HR_ERROR_INVALID,
                 "sweep.json: axes: give more than 100000 points");
  /* No valid point, but 10^18 combinations to enumerate. */
  assert_refused("\"m\":{\"from\":1,\"to\":1000000000,\"step\":1},\"n\":{\"from\":2,\"to\":1,\"step\":1}", GEMM,
                 HR_ERROR_INVALID, "sweep.json: axes: take too long to list");
  /* A range that ends at the largest 64-bit integer. */
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"e\",\"axes\":{\"e\":{\"from\":9223372036854775806,"
                              "\"to\":9223372036854775807,\"step\":1}},\"problem\":{\"kind\":\"gemm\",\"m\":1,\"n\":1,"
                              "\"k\":1}}");
  assert_int_equal(hr_sweep_describe(sweep)->point_count, 2);
  hr_sweep_free(sweep);
}

static void invalid_problems_are_refused_by_their_field_or_point(void **state)
{
  (void)state;
  assert_refused("\"m\":1", "\"kind\":\"conv\"", HR_ERROR_INVALID,
                 "sweep.json: problem.kind: expected \"gemm\", \"bmm\", \"attention\", \"decode\", \"layer\" or "
                 "\"step\", found \"conv\"");
  assert_refused("\"m\":1", "\"kind\":\"gemm\",\"m\":\"m\",\"n\":1", HR_ERROR_INVALID,
                 "sweep.json: problem.k: is missing");
  assert_refused("\"m\":1", GEMM ",\"batch\":2", HR_ERROR_INVALID, "sweep.json: problem.batch: there is no such field");
  assert_refused("\"m\":[4,0]", GEMM, HR_ERROR_INVALID,
                 "sweep.json: s: point 2 (m=0): m: expected at least 1, found 0");
}

static void unknown_fields_are_refused(void **state)
{
  (void)state;
  const char *text = "{\"name\":\"s\",\"x\":\"m\",\"axis\":{\"m\":1},\"problem\":{" GEMM "}}";
  hr_sweep *sweep = NULL;
  hr_error error;
  assert_int_equal(hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "sweep.json"}, NULL,
                                      false, &sweep, &error),
                   HR_ERROR_INVALID);
  assert_string_equal(error.message, "sweep.json: axis: there is no such field");
}

static void a_sweep_of_several_replaces_axes_of_the_template_and_the_cpu_those_of_both(void **state)
{
  (void)state;
  const char *text = "{\"axes\":{\"m\":[1,2,3],\"n\":5},\"x\":\"m\",\"title\":\"n is {n}\",\"series\":\"n = {n}\","
                     "\"problem\":{\"kind\":\"gemm\",\"m\":\"m\",\"n\":\"n\",\"k\":1},\"cpu\":{\"axes\":{\"m\":7}},"
                     "\"sweeps\":[{\"name\":\"one\"},{\"name\":\"two\",\"axes\":{\"n\":6}}]}";
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(
      hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "f"}, "two", false, &sweep, &error),
      error);
  assert_string_equal(hr_sweep_describe(sweep)->title, "n is 6");
  assert_int_equal(hr_sweep_describe(sweep)->point_count, 3);
  assert_string_equal(point_of(sweep, 0).series, "n = 6");
  hr_sweep_free(sweep);
  assert_ok(
      hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "f"}, "one", true, &sweep, &error),
      error);
  assert_int_equal(hr_sweep_describe(sweep)->point_count, 1);
  assert_string_equal(point_of(sweep, 0).axes, "m=7 n=5");
  hr_sweep_free(sweep);
  assert_int_equal(
      hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "f"}, NULL, false, &sweep, &error),
      HR_ERROR_INVALID);
  assert_string_equal(error.message, "f: has 2 sweeps; name one of them, as in f#one");
  assert_int_equal(
      hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "f"}, "tow", false, &sweep, &error),
      HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "f: has no sweep \"tow\"; did you mean two?");
}

static void an_unknown_sweep_is_refused_with_similar_names(void **state)
{
  (void)state;
  hr_sweep *sweep = NULL;
  hr_error error;
  assert_int_equal(hr_sweep_load("fig5", false, &sweep, &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "there is no sweep \"fig5\"; did you mean fig5a, fig5b or fig5c?");
}

/* ---- points and their order ---- */

static size_t order_of(const hr_sweep *sweep, hr_sweep_choice choice, size_t **indices)
{
  size_t count;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_order(sweep, &choice, indices, &count, &error), error);
  return count;
}

static void shards_cover_all_points_and_share_none(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig24", false);
  for (int64_t points = 0; points <= 100; points += 100) {
    hr_sweep_choice choice = hr_sweep_choice_default();
    choice.points = points;
    size_t *whole, total = order_of(sweep, choice, &whole);
    assert_int_equal(total, points ? 100 : 181);
    int seen[181] = {0};
    choice.shards = 7;
    for (choice.shard = 1; choice.shard <= 7; choice.shard++) {
      size_t *indices, count = order_of(sweep, choice, &indices);
      assert_in_range(count, total / 7, total / 7 + 1);
      for (size_t i = 0; i < count; i++)
        seen[indices[i]]++;
      free(indices);
    }
    for (size_t i = 0; i < total; i++) {
      assert_int_equal(seen[whole[i]], 1);
      seen[whole[i]] = 0;
    }
    for (size_t i = 0; i < 181; i++)
      assert_int_equal(seen[i], 0);
    free(whole);
  }
  hr_sweep_free(sweep);
}

static void the_order_is_shuffled_and_the_same_for_the_same_seed(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig5a", false);
  hr_sweep_choice choice = hr_sweep_choice_default();
  size_t *first, *again, *other;
  size_t count = order_of(sweep, choice, &first);
  order_of(sweep, choice, &again);
  choice.seed = 2;
  order_of(sweep, choice, &other);
  assert_memory_equal(first, again, count * sizeof *first);
  assert_memory_not_equal(first, other, count * sizeof *first);
  size_t in_place = 0, rising = 0;
  for (size_t i = 0; i < count; i++) {
    in_place += first[i] == i;
    rising += i > 0 && first[i] > first[i - 1];
  }
  assert_true(in_place < 8);       /* one is expected */
  assert_in_range(rising, 20, 43); /* of 63 */
  free(first);
  free(again);
  free(other);
  hr_sweep_free(sweep);
}

static void a_thinned_sweep_keeps_each_line_from_its_first_point_to_its_last(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig24", false);
  hr_sweep_choice choice = hr_sweep_choice_default();
  choice.points = 35;
  size_t *indices, count = order_of(sweep, choice, &indices);
  size_t of_series[7] = {0};
  bool has[181] = {false};
  assert_int_equal(count, 35);
  for (size_t i = 0; i < count; i++) {
    assert_false(has[indices[i]]);
    has[indices[i]] = true;
    of_series[point_of(sweep, indices[i]).series_index]++;
  }
  for (size_t i = 0; i < 7; i++) {
    assert_in_range(of_series[i], 4, 6); /* 35 over 7 lines of about the same length */
    assert_true(has[26 * i]);
    assert_true(has[i < 6 ? 26 * i + 25 : 180]);
  }
  free(indices);
  choice.points = 3; /* fewer than lines */
  assert_int_equal(order_of(sweep, choice, &indices), 3);
  free(indices);
  choice.points = 1000; /* more than there are */
  assert_int_equal(order_of(sweep, choice, &indices), 181);
  free(indices);
  hr_sweep_free(sweep);
}

static void a_shard_beyond_the_count_is_refused(void **state)
{
  (void)state;
  hr_sweep *sweep = load("fig1", false);
  hr_sweep_choice choice = hr_sweep_choice_default();
  size_t *indices, count;
  hr_error error;
  choice.shard = 3;
  choice.shards = 2;
  assert_int_equal(hr_sweep_order(sweep, &choice, &indices, &count, &error), HR_ERROR_INVALID);
  choice.shard = 0;
  assert_int_equal(hr_sweep_order(sweep, &choice, &indices, &count, &error), HR_ERROR_INVALID);
  choice.shard = 9; /* more shards than points: some have none */
  choice.shards = 9;
  assert_int_equal(order_of(sweep, choice, &indices), 0);
  free(indices);
  hr_sweep_free(sweep);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gemm_has_the_memory_layout_of_the_file),
      cmocka_unit_test(the_catalogue_has_every_figure_under_its_number_and_in_their_order),
      cmocka_unit_test(a_point_of_attention_names_its_kernels),
      cmocka_unit_test(figures_have_the_points_counted_by_hand),
      cmocka_unit_test(figure_24_is_the_score_of_20_heads_and_figure_36_attention_over_value_of_12),
      cmocka_unit_test(each_line_of_the_attention_figures_has_its_largest_power_of_two),
      cmocka_unit_test(table_8_of_sigma_is_one_decode_call_of_each_model),
      cmocka_unit_test(parts_of_a_decode_call_are_those_of_a_kernel_with_two_launches),
      cmocka_unit_test(selective_v_is_measured_for_100_keys_and_shares_of_the_context),
      cmocka_unit_test(points_are_compared_with_those_of_the_baseline_at_the_same_axes),
      cmocka_unit_test(figure_1_is_a_layer_of_each_named_model),
      cmocka_unit_test(layers_of_training_steps_have_their_heads_and_their_problem),
      cmocka_unit_test(figure_13_is_the_pythia_suite_as_the_short_form_has_it),
      cmocka_unit_test(steps_of_sigma_differ_in_k_heads_and_q),
      cmocka_unit_test(steps_that_cannot_be_are_refused_by_field),
      cmocka_unit_test(figure_tp_has_the_gemms_of_a_rank_and_says_where_the_rules_hold),
      cmocka_unit_test(steps_of_t_ranks_are_predicted_with_tensor_parallelism),
      cmocka_unit_test(k_heads_of_sigma_are_copied_where_devices_are_more),
      cmocka_unit_test(an_output_is_predicted_as_its_steps),
      cmocka_unit_test(published_points_are_on_lines_of_the_catalogue_and_say_how_exact_they_are),
      cmocka_unit_test(axes_may_be_in_any_order_and_refer_to_each_other),
      cmocka_unit_test(circular_axes_are_refused_by_name),
      cmocka_unit_test(invalid_axes_are_refused_by_name),
      cmocka_unit_test(a_sweep_without_name_or_x_is_refused_with_the_missing_field),
      cmocka_unit_test(cases_have_unique_names_and_baselines_are_cases),
      cmocka_unit_test(several_sweeps_are_a_list_and_each_has_a_name),
      cmocka_unit_test(absurdly_many_points_are_refused_at_once),
      cmocka_unit_test(invalid_problems_are_refused_by_their_field_or_point),
      cmocka_unit_test(unknown_fields_are_refused),
      cmocka_unit_test(a_sweep_of_several_replaces_axes_of_the_template_and_the_cpu_those_of_both),
      cmocka_unit_test(an_unknown_sweep_is_refused_with_similar_names),
      cmocka_unit_test(shards_cover_all_points_and_share_none),
      cmocka_unit_test(the_order_is_shuffled_and_the_same_for_the_same_seed),
      cmocka_unit_test(a_thinned_sweep_keeps_each_line_from_its_first_point_to_its_last),
      cmocka_unit_test(a_shard_beyond_the_count_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
