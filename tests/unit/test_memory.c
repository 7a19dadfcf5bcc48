/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "devices.h"
#include "models.h"

#include <headroom/memory.h>
#include <stdlib.h>

static hr_memory estimated(const hr_model *model, const hr_workload *workload)
{
  hr_memory memory;
  hr_error error;
  assert_ok(hr_memory_estimate(model, workload, &memory, &error), error);
  return memory;
}

static hr_workload in_phase(const hr_model *model, hr_phase phase)
{
  hr_workload workload = unfused_workload(model);
  workload.phase = phase;
  return workload;
}

/* Korthikanti et al. 2022, equations 1 and 2: sbh(34 + 5as/h) bytes a layer, on t devices sbh(10 + 24/t + 5as/(ht)). */
static void activations_of_the_papers_model_match_korthikanti(void **state)
{
  (void)state;
  srand(2);
  for (int i = 0; i < 300; i++) {
    int64_t t = 1 << rand() % 4, a = t * (1 + rand() % 12), h = a * (1 + rand() % 160);
    hr_model model = paper_model(h, a, 3, 1000);
    hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
    int64_t b = workload.batch = 1 + rand() % 8, s = workload.sequence = 1 + rand() % 4096;
    workload.tensor_parallel = t;
    int64_t three = estimated(&model, &workload).activation_bytes;
    model.groups[0].count = 4;
    int64_t four = estimated(&model, &workload).activation_bytes;
    assert_int_equal(four - three, 10 * s * b * h + 24 * s * b * h / t + 5 * a * s * s * b / t);
    /* Outside: the embedding's mask, inputs of the final norm and the logits, the logits in fp32 (section 4.3). */
    int64_t vocabulary = (1000 + t - 1) / t;
    assert_int_equal(4 * three - 3 * four, s * b * h + 4 * s * b * h + 4 * s * b * vocabulary);
  }
}

/* What another layer of the paper's model saves. */
static int64_t saved_by_a_layer(hr_model model, const hr_workload *workload)
{
  model.groups[0].count = 3;
  int64_t three = estimated(&model, workload).activation_bytes;
  model.groups[0].count = 4;
  return estimated(&model, workload).activation_bytes - three;
}

/* Korthikanti et al. 2022, Table 2, and selective recomputation without sequence parallelism (section 5). */
static void sequence_parallelism_and_recomputation_match_korthikantis_table(void **state)
{
  (void)state;
  srand(3);
  for (int i = 0; i < 40; i++) {
    int64_t t = 1 << rand() % 4, a = t * (1 + rand() % 12), h = a * (1 + rand() % 160);
    hr_model model = paper_model(h, a, 3, 1000);
    hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
    int64_t b = workload.batch = 1 + rand() % 8, s = workload.sequence = t * (1 + rand() % 512);
    workload.attention = HR_ATTENTION_UNFUSED;
    int64_t sbh = s * b * h, scores = 5 * a * s * s * b / t;
    workload.tensor_parallel = t;
    const int64_t saved[2][3] = {{10 * sbh + 24 * sbh / t + scores, 10 * sbh + 24 * sbh / t, 2 * sbh},
                                 {34 * sbh / t + scores, 34 * sbh / t, 2 * sbh / t}};
    for (int j = 0; j < 6; j++) {
      workload.sequence_parallel = j / 3;
      workload.recompute = (hr_recompute)(j % 3);
      assert_int_equal(saved_by_a_layer(model, &workload), saved[j / 3][j % 3]);
    }
  }
}

/* Section 5: of GPT-3's 34 + 5as/h = 34 + 80 bytes selective recomputation saves 70%. Table 3: 96 layers on t = 8 and
 * p = 8, 64 microbatches of one sequence; the first stage has 8 of them in flight, with the embedding's mask. While a
 * layer's backward pass runs, its scores are there again. */
static void gpt_3_fits_as_korthikanti_trained_it(void **state)
{
  (void)state;
  hr_model model = paper_model(12288, 96, 96, 51200);
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  const int64_t sbh = 2048 * 12288, scores = 5LL * 96 * 2048 * 2048;
  workload.batch = 1, workload.sequence = 2048;
  int64_t all = saved_by_a_layer(model, &workload);
  workload.recompute = HR_RECOMPUTE_SELECTIVE;
  int64_t kept = saved_by_a_layer(model, &workload);
  assert_int_equal(100 * (all - kept) / all, 70);

  workload.tensor_parallel = 8, workload.pipeline_stages = 8, workload.microbatches = 64;
  workload.sequence_parallel = true;
  hr_memory memory = estimated(&model, &workload);
  assert_int_equal(memory.activation_bytes, 8 * (12 * 34 * sbh / 8 + sbh / 8) + scores / 8);
  assert_true(memory.total_bytes < 80000000000); /* it ran on A100s of 80 GB */
  workload.recompute = HR_RECOMPUTE_NONE;
  assert_true(estimated(&model, &workload).total_bytes < 80000000000); /* 5as/h = 80 of 114 bytes more: 75 GB */
  workload.sequence_parallel = false;
  assert_true(estimated(&model, &workload).total_bytes > 80000000000);
}

/* Llama-3-70B, 70,553,706,496 parameters, over 64 replicas: 1,102,401,664 each. Gathered: an end of the model, the
 * logits and the norm before them with 128256·8192 + 8192, and a layer of 855,654,400. */
static void zero_divides_what_its_stage_says(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.hidden = 8192;
  model.groups[0].count = 80;
  model.groups[0].attention.q_heads = 64;
  model.groups[0].dense.width = 28672;
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  workload.data_parallel = 64;
  const int64_t all = 70553706496, part = 1102401664, end = 128256 * 8192 + 8192, layer = 855654400;
  const int64_t expected[4][4] = {{2 * all, 2 * all, 12 * all, 0},
                                  {2 * all, 2 * all, 12 * part, 0},
                                  {2 * all, 2 * part, 12 * part, 2 * end},
                                  {2 * part, 2 * part, 12 * part, 2 * (end + end + layer)}};
  for (int stage = 0; stage < 4; stage++) {
    workload.zero_stage = stage;
    hr_memory memory = estimated(&model, &workload);
    assert_int_equal(memory.weight_bytes, expected[stage][0]);
    assert_int_equal(memory.gradient_bytes, expected[stage][1]);
    assert_int_equal(memory.optimizer_bytes, expected[stage][2]);
    assert_int_equal(memory.gathered_bytes, expected[stage][3]);
  }
  workload.data_parallel = 32, workload.context_parallel = 2; /* its devices have the same weights */
  assert_int_equal(estimated(&model, &workload).optimizer_bytes, 12 * part);
  workload.data_parallel = workload.context_parallel = 1; /* nobody to share with */
  assert_int_equal(estimated(&model, &workload).optimizer_bytes, 12 * all);
  assert_int_equal(estimated(&model, &workload).gathered_bytes, 0);
}

/* 8 experts on 8 devices: each expert has one copy among 8 replicas, and two among 16. */
static void replicas_share_experts_only_with_those_that_hold_them(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  model.groups[0].dense.width = 0;
  model.groups[0].experts = (hr_ffn_experts){.experts = 8, .active = 2, .width = 14336, .gated = true};
  hr_parameters parameters;
  assert_int_equal(hr_model_parameters(&model, &parameters, NULL), HR_OK);
  int64_t routed = 32LL * 3 * 4096 * 14336, dense = parameters.total - 8 * routed;
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  workload.expert_parallel = 8, workload.zero_stage = 1;
  workload.data_parallel = 8;
  assert_int_equal(estimated(&model, &workload).optimizer_bytes, 12 * (dense / 8 + routed));
  workload.data_parallel = 16;
  assert_int_equal(estimated(&model, &workload).optimizer_bytes, 12 * (dense / 16 + routed / 2));
}

/* A quarter of the tokens a device; K and V of all, and their gradients, of the layer that runs, once the head's inputs
 * and its logits, here of 256 words, are gone. */
static void context_parallelism_splits_tokens_and_gathers_keys_and_values(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  workload.attention = HR_ATTENTION_FUSED;
  workload.batch = 2, workload.sequence = 8192;
  model.vocabulary = 256;
  const int64_t head = 2 * 8192LL * (2 * 2 * 4096 + 4 * 256), keys = 2 * 2 * 2 * 8192LL * (8 + 8) * 128;
  const int64_t whole = estimated(&model, &workload).activation_bytes;
  workload.context_parallel = 4;
  assert_int_equal(estimated(&model, &workload).activation_bytes, (whole - head) / 4 + keys);
  model.vocabulary = 128256; /* whose logits are larger than keys and values */
  assert_int_equal(estimated(&model, &workload).activation_bytes,
                   (whole - head) / 4 + 2 * 2048LL * (2 * 2 * 4096 + 4 * 128256));
}

/* Llama-3-8B at b 1, s 4096, fused, bf16: a token keeps 2·(4h + Q 4096 + K 1024 + V 1024 + O 4096 + 3·14336) bytes and
 * 4·32 for the rows' log-sum-exp: 2·(16384 + 10240 + 43008) + 128 = 139392. */
static void a_layer_with_grouped_heads_and_a_gate_saves_its_own_widths(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  workload.attention = HR_ATTENTION_FUSED;
  workload.batch = 1, workload.sequence = 4096;
  /* 32 layers, then inputs of norm and logits 2·2·4096 and logits 4·128256 a token */
  assert_int_equal(estimated(&model, &workload).activation_bytes, 4096LL * (32 * 139392 + 16384 + 513024));
}

static void weights_gradients_and_adam_take_two_two_and_twelve_bytes(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_parameters parameters;
  hr_error error;
  assert_ok(hr_model_parameters(&model, &parameters, &error), error);
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  hr_memory memory = estimated(&model, &workload);
  assert_int_equal(memory.weight_bytes, 2 * parameters.total);
  assert_int_equal(memory.gradient_bytes, 2 * parameters.total);
  assert_int_equal(memory.optimizer_bytes, 12 * parameters.total);
  assert_int_equal(memory.total_bytes, 16 * parameters.total + memory.activation_bytes);
  workload.dtype = HR_FP32; /* no second copy of the weights */
  assert_int_equal(estimated(&model, &workload).optimizer_bytes, 8 * parameters.total);
  workload.phase = HR_PHASE_FORWARD;
  memory = estimated(&model, &workload);
  assert_int_equal(memory.gradient_bytes + memory.optimizer_bytes + memory.kv_cache_bytes, 0);
}

/* 16 of 32 layers of 12h² + 13h, and the larger end: table and positions, against a copy of the table and a norm. */
static void the_most_loaded_stage_has_its_layers_and_the_larger_end(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = in_phase(&model, HR_PHASE_FORWARD);
  workload.pipeline_stages = 2;
  const int64_t h = 2560, v = 50257, s = 2048;
  assert_int_equal(estimated(&model, &workload).weight_bytes, 2 * (16 * (12 * h * h + 13 * h) + (v + s) * h));
  model.positions = HR_POSITIONS_ROTARY, model.position_rows = 0;
  assert_int_equal(estimated(&model, &workload).weight_bytes, 2 * (16 * (12 * h * h + 13 * h) + v * h + 2 * h));
  workload.pipeline_stages = 5; /* ⌈32 / 5⌉ = 7 */
  assert_int_equal(estimated(&model, &workload).weight_bytes, 2 * (7 * (12 * h * h + 13 * h) + v * h + 2 * h));
}

/* On 2 devices a layer's matrices are halved: 6h². The biases of QKV and up are split, (3h + 4h)/2; those of the
 * projection and down (2h) are on each device, as are the norms' 4h. */
static void tensor_parallelism_splits_matrices_but_not_norms(void **state)
{
  (void)state;
  hr_model model = paper_model(2560, 32, 32, 50304);
  hr_workload workload = in_phase(&model, HR_PHASE_FORWARD);
  workload.tensor_parallel = 2;
  const int64_t h = 2560;
  int64_t layer = 6 * h * h + 7 * h / 2 + 2 * h + 4 * h;
  assert_int_equal(estimated(&model, &workload).weight_bytes, 2 * (32 * layer + 25152 * h + 2048 * h + 2 * h));
}

/* 4 stages of 8 layers in 2 parts: 4 · 2 + 3 parts are in flight, 11/2 of a stage (Korthikanti et al. 2022, section
 * 4.2.3: L (1 + (p − 1) / (p v)) = 32 · 11/8 = 8 · 11/2 layers). */
static void the_first_of_stages_with_parts_saves_more_microbatches(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  const int64_t s = 2048, b = 4, h = 2560, a = 32;
  workload.pipeline_stages = 4, workload.microbatches = 64, workload.virtual_stages = 2;
  int64_t layer = s * b * h * 34 + 5 * a * s * s * b;
  assert_int_equal(estimated(&model, &workload).activation_bytes, (8 * layer + s * b * h) * 11 / 2);
  workload.microbatches = 4; /* 8 parts are all there are */
  assert_int_equal(estimated(&model, &workload).activation_bytes, 4 * (8 * layer + s * b * h));
}

static void the_first_of_p_stages_saves_p_microbatches(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  const int64_t s = 2048, b = 4, h = 2560, a = 32;
  workload.pipeline_stages = 4;
  int64_t layer = s * b * h * 34 + 5 * a * s * s * b;
  assert_int_equal(estimated(&model, &workload).activation_bytes, 4 * (8 * layer + s * b * h));
  workload.microbatches = 64;
  assert_int_equal(estimated(&model, &workload).activation_bytes, 4 * (8 * layer + s * b * h));
  workload.microbatches = 2; /* no more are there */
  assert_int_equal(estimated(&model, &workload).activation_bytes, 2 * (8 * layer + s * b * h));
}

/* 10·2^32 tokens of 2^40 / 15 logits in fp32 overflow, though the first stage's activations do not. */
static void a_last_stage_that_overflows_is_an_error_even_if_the_first_does_not(void **state)
{
  (void)state;
  hr_model model = paper_model(64, 1, 16, HR_WORKLOAD_SIZE_MAX - 1);
  hr_workload workload = in_phase(&model, HR_PHASE_TRAIN);
  workload.attention = HR_ATTENTION_FUSED;
  workload.batch = 10, workload.sequence = 1LL << 32, workload.tensor_parallel = 15, workload.pipeline_stages = 15;
  hr_memory memory;
  assert_int_equal(hr_memory_estimate(&model, &workload, &memory, NULL), HR_ERROR_OVERFLOW);
}

static void a_token_of_llama_3_8b_takes_131072_bytes_of_cache(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  workload.batch = 8, workload.context = 4096;
  hr_memory memory = estimated(&model, &workload);
  assert_int_equal(memory.kv_cache_bytes_per_token, 131072); /* 32 layers · (8 + 8) heads · 128 · 2 bytes */
  assert_int_equal(memory.kv_cache_bytes, 131072LL * 8 * 4096);
  workload.tensor_parallel = 16; /* 8 heads on 16 devices: one on each */
  memory = estimated(&model, &workload);
  assert_int_equal(memory.kv_cache_bytes_per_token, 131072);
  assert_int_equal(memory.kv_cache_bytes, 131072LL * 8 * 4096 / 8);
  workload.microbatches = 3; /* 24 sequences */
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 131072LL * 24 * 4096 / 8);
  workload.microbatches = 0;
  workload.phase = HR_PHASE_PREFILL;
  workload.tensor_parallel = 1, workload.sequence = 100;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 131072LL * 8 * 100);

  model = sigma_1_5b();
  workload = in_phase(&model, HR_PHASE_FORWARD);
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes_per_token, 66560); /* 26 · (4 + 16) · 64 · 2 */
}

/* Gemma 3 1B: 22 of 26 layers have windows of 512; a token keeps (1 + 1) heads · 256 · 2 B = 1 KiB in a layer. */
/* 5000 tokens are 79 pages of 64, 5056 tokens. */
static void a_sequence_takes_whole_pages(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  hr_error error;
  workload.batch = 8, workload.context = 5000;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 131072LL * 8 * 5000);
  workload.page_size = 64;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 131072LL * 8 * 5056);
  workload.phase = HR_PHASE_PREFILL; /* writes the tokens */
  workload.sequence = 100;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 131072LL * 8 * 100);
  workload.page_size = -1;
  assert_int_equal(hr_workload_check(&workload, &model, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "page_size: expected 0 to 2^31 - 1, found -1");
}

static void a_cache_in_q8_0_takes_34_bytes_for_32_values(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  hr_memory memory;
  hr_error error;
  workload.batch = 8, workload.context = 4096, workload.kv_cache = HR_KV_Q8_0;
  memory = estimated(&model, &workload);
  assert_int_equal(memory.kv_cache_bytes_per_token, 65536 / 32 * 34); /* 32 layers · (8 + 8) heads · 128 values */
  assert_int_equal(memory.kv_cache_bytes, 69632LL * 8 * 4096);
  model.groups[0].attention.v_dim = 80;
  assert_int_equal(hr_memory_estimate(&model, &workload, &memory, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "kv_cache: q8_0 has blocks of 32 values, which do not divide a head of 80");
}

static void a_token_behind_a_full_window_adds_nothing_in_its_layers(void **state)
{
  (void)state;
  hr_model model = shipped_model("gemma-3-1b");
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  workload.context = 511;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes_of_next_token, 26 * 1024);
  workload.context = 512;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes_of_next_token, 4 * 1024);
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes_per_token, 26 * 1024);
  workload.phase = HR_PHASE_PREFILL;
  workload.sequence = 511;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes_of_next_token, 26 * 1024);
}

/* Gemma 3 1B: 26 layers with 1 KiB a token, of which 22 have a window of 512. */
static void the_next_token_takes_a_page_or_nothing(void **state)
{
  (void)state;
  static const struct {
    int64_t page_size, context, bytes;
  } cases[] = {{16, 495, 0},       {16, 496, 16 * 26 * 1024}, {16, 497, 0},
               {16, 511, 0},       {16, 512, 16 * 4 * 1024},  {64, 448, 64 * 26 * 1024},
               {1, 100, 26 * 1024}};
  hr_model model = shipped_model("gemma-3-1b");
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  workload.batch = 1;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    workload.page_size = cases[i].page_size, workload.context = cases[i].context;
    const hr_memory before = estimated(&model, &workload);
    assert_int_equal(before.kv_cache_bytes_of_next_token, cases[i].bytes);
    assert_int_equal(before.kv_cache_bytes_per_token, 26 * 1024);
    workload.context++;
    assert_int_equal(estimated(&model, &workload).kv_cache_bytes - before.kv_cache_bytes, cases[i].bytes);
  }
}

static void a_window_bounds_the_cache_of_its_layers(void **state)
{
  (void)state;
  hr_model model = mistral_7b();
  hr_workload workload = in_phase(&model, HR_PHASE_DECODE);
  workload.batch = 1, workload.context = 16384;
  const int64_t layer_token = (8 + 8) * 128 * 2;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 32 * layer_token * 4096);
  model.groups[0].attention.window = 0;
  give_window(&model, 16, 4096);
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 16 * layer_token * (4096 + 16384));
  workload.context = 1000;
  assert_int_equal(estimated(&model, &workload).kv_cache_bytes, 32 * layer_token * 1000);
}

/* Llama-3-8B at b·s = 8192, fused: the residual stream, and also the activation's h + 3·14336 columns; unfused the
 * scores of 4 · 32 heads, read and written, and Q, K, V and O. */
static void without_a_backward_pass_only_the_largest_operator_is_live(void **state)
{
  (void)state;
  hr_model model = llama3_8b();
  hr_workload workload = in_phase(&model, HR_PHASE_PREFILL);
  workload.attention = HR_ATTENTION_FUSED;
  assert_int_equal(estimated(&model, &workload).activation_bytes, 2LL * 8192 * (4096 + 4096 + 3 * 14336));
  workload.attention = HR_ATTENTION_UNFUSED;
  assert_int_equal(estimated(&model, &workload).activation_bytes,
                   2LL * (8192LL * 4096 + 8192LL * (4096 + 1024 + 1024 + 4096) + 2LL * 128 * 2048 * 2048));
}

static void the_largest_batch_is_the_last_that_fits(void **state)
{
  (void)state;
  hr_model model = gpt3_2_7b();
  const hr_phase phases[] = {HR_PHASE_FORWARD, HR_PHASE_TRAIN, HR_PHASE_PREFILL, HR_PHASE_DECODE};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    hr_workload workload = in_phase(&model, phases[i]);
    for (int64_t wanted = 1; wanted < 40; wanted += 3) {
      workload.batch = wanted;
      int64_t bytes = estimated(&model, &workload).total_bytes, batch = -1;
      workload.batch = 0; /* is ignored */
      assert_int_equal(hr_memory_largest_batch(&model, &workload, bytes, &batch, NULL), HR_OK);
      assert_int_equal(batch, wanted);
      assert_int_equal(hr_memory_largest_batch(&model, &workload, bytes - 1, &batch, NULL), HR_OK);
      assert_int_equal(batch, wanted - 1);
    }
  }
}

static void the_largest_batch_of_an_endless_device_is_bounded(void **state)
{
  (void)state;
  hr_model model = paper_model(1, 1, 1, 1);
  hr_workload workload = in_phase(&model, HR_PHASE_FORWARD);
  workload.sequence = 1;
  int64_t batch = -1;
  assert_int_equal(hr_memory_largest_batch(&model, &workload, INT64_MAX, &batch, NULL), HR_OK);
  assert_int_equal(batch, HR_WORKLOAD_SIZE_MAX);
  workload.sequence = HR_WORKLOAD_SIZE_MAX; /* the scores of one sequence overflow */
  assert_int_equal(hr_memory_largest_batch(&model, &workload, INT64_MAX, &batch, NULL), HR_OK);
  assert_int_equal(batch, 0);
  hr_error error;
  workload.batch = 1;
  hr_memory memory;
  assert_int_equal(hr_memory_estimate(&model, &workload, &memory, &error), HR_ERROR_OVERFLOW);
  assert_string_equal(error.message, "the bytes of the activations do not fit into 63 bits");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations_of_the_papers_model_match_korthikanti),
      cmocka_unit_test(sequence_parallelism_and_recomputation_match_korthikantis_table),
      cmocka_unit_test(gpt_3_fits_as_korthikanti_trained_it),
      cmocka_unit_test(zero_divides_what_its_stage_says),
      cmocka_unit_test(replicas_share_experts_only_with_those_that_hold_them),
      cmocka_unit_test(context_parallelism_splits_tokens_and_gathers_keys_and_values),
      cmocka_unit_test(a_layer_with_grouped_heads_and_a_gate_saves_its_own_widths),
      cmocka_unit_test(weights_gradients_and_adam_take_two_two_and_twelve_bytes),
      cmocka_unit_test(the_most_loaded_stage_has_its_layers_and_the_larger_end),
      cmocka_unit_test(tensor_parallelism_splits_matrices_but_not_norms),
      cmocka_unit_test(the_first_of_p_stages_saves_p_microbatches),
      cmocka_unit_test(the_first_of_stages_with_parts_saves_more_microbatches),
      cmocka_unit_test(a_last_stage_that_overflows_is_an_error_even_if_the_first_does_not),
      cmocka_unit_test(a_token_of_llama_3_8b_takes_131072_bytes_of_cache),
      cmocka_unit_test(a_sequence_takes_whole_pages),
      cmocka_unit_test(a_cache_in_q8_0_takes_34_bytes_for_32_values),
      cmocka_unit_test(a_token_behind_a_full_window_adds_nothing_in_its_layers),
      cmocka_unit_test(the_next_token_takes_a_page_or_nothing),
      cmocka_unit_test(a_window_bounds_the_cache_of_its_layers),
      cmocka_unit_test(without_a_backward_pass_only_the_largest_operator_is_live),
      cmocka_unit_test(the_largest_batch_is_the_last_that_fits),
      cmocka_unit_test(the_largest_batch_of_an_endless_device_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
