/* SPDX-License-Identifier: Apache-2.0 */
/* Decode steps that one kernel runs: their logits are as near to those of fp32 as those of kernels apart. */
#include "ranks.h"
#include "run_step.h"

#include "run/program.h"
#include "runtime/cuda/kernels/persistent_cycles_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VOCABULARY 61
#define SLOTS_MAX 4
#define TOKENS 21
#define IDS_MAX 300
#define STEPS 4 /* the second is recorded, others replay it */
#define LOGITS (SLOTS_MAX * VOCABULARY)

#define SIZES "\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":61,\"max_position_embeddings\":64,"
#define LLAMA SIZES "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,"
#define FP8(scaled) "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":" scaled "}}"

static const struct {
  const char *name, *config;
  int64_t batch;
  hr_dtype dtype;
  int64_t tokens; /* before the decode steps */
} models[] = {
    {"llama, groups of 2 heads", "{\"model_type\":\"llama\"," LLAMA "\"head_dim\":64}", 1, HR_BF16, TOKENS},
    {"llama, 4 sequences", "{\"model_type\":\"llama\"," LLAMA "\"tie_word_embeddings\":true}", 4, HR_BF16, TOKENS},
    {"llama, fp16, rows of 1120",
     "{\"model_type\":\"llama\"," SIZES "\"num_attention_heads\":2,\"intermediate_size\":1120}", 2, HR_FP16, TOKENS},
    {"llama, several slots of keys", "{\"model_type\":\"llama\"," LLAMA "\"head_dim\":256}", 2, HR_BF16, TOKENS},
    {"qwen3, norms of heads", "{\"model_type\":\"qwen3\"," LLAMA "\"head_dim\":40}", 3, HR_BF16, TOKENS},
    {"qwen2, biases", "{\"model_type\":\"qwen2\"," LLAMA "\"head_dim\":16}", 1, HR_BF16, TOKENS},
    {"llama, 4 splits send more than 1024 numbers to each",
     "{\"model_type\":\"llama\"," SIZES
     "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":128,\"intermediate_size\":96}",
     1, HR_BF16, TOKENS},
    {"gpt2, learned positions, layer norms",
     "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61,\"n_positions\":64}", 2,
     HR_BF16, TOKENS},
    {"gpt_neox, parallel, some rotated",
     "{\"model_type\":\"gpt_neox\"," SIZES "\"num_attention_heads\":4,\"intermediate_size\":256,\"rotary_pct\":0.5}", 1,
     HR_BF16, TOKENS},
    {"gptj, neighbours are rotated",
     "{\"model_type\":\"gptj\",\"n_embd\":64,\"n_layer\":2,\"n_head\":2,\"rotary_dim\":8,\"vocab_size\":61,"
     "\"n_positions\":64}",
     1, HR_BF16, TOKENS},
    {"llama, rows of whole slots, of which few are under way",
     "{\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":2,\"vocab_size\":61,"
     "\"max_position_embeddings\":64,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"intermediate_size\":2048}",
     1, HR_BF16, TOKENS},
    {"falcon, one head of K and V for 9",
     "{\"model_type\":\"falcon\",\"hidden_size\":288,\"num_hidden_layers\":2,\"num_attention_heads\":9,\"vocab_size\":"
     "61,"
     "\"multi_query\":true,\"parallel_attn\":true,\"bias\":false,\"alibi\":false,\"max_position_embeddings\":64}",
     1, HR_BF16, TOKENS},
    {"bloom, ALiBi", "{\"model_type\":\"bloom\",\"hidden_size\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":61}", 2,
     HR_BF16, TOKENS},
    {"llama, a warp has two tiles",
     "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":61,"
     "\"max_position_embeddings\":256,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"intermediate_size\":96,\"head_dim\":64}",
     2, HR_BF16, 150},
    {"mistral, windows", "{\"model_type\":\"mistral\"," LLAMA "\"head_dim\":16,\"sliding_window\":16}", 2, HR_BF16,
     TOKENS},
    {"sigma, fewer heads of K",
     "{\"model_type\":\"sigma\"," SIZES
     "\"num_attention_heads\":4,\"num_key_heads\":1,\"num_value_heads\":2,\"key_head_dim\":16,"
     "\"value_head_dim\":32,\"augmented_q_dim\":96,\"intermediate_size\":96}",
     1, HR_BF16, TOKENS},
    {"qwen3_moe, 3 of 40 experts",
     "{\"model_type\":\"qwen3_moe\"," LLAMA "\"head_dim\":32,\"num_experts\":40,\"num_experts_per_tok\":3,\"moe_"
     "intermediate_size\":96,\"norm_topk_prob\":false}",
     1, HR_BF16, TOKENS},
    {"mixtral, fp16, shares add up to 1",
     "{\"model_type\":\"mixtral\"," LLAMA "\"head_dim\":16,\"num_local_experts\":4,\"num_experts_per_tok\":2}", 1,
     HR_FP16, TOKENS},
    {"qwen3_moe, a dense layer, experts of 1056 columns",
     "{\"model_type\":\"qwen3_moe\"," LLAMA "\"head_dim\":16,\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_"
     "intermediate_size\":1056,\"norm_topk_prob\":true,"
     "\"mlp_only_layers\":[0]}",
     1, HR_BF16, TOKENS},
    {"qwen2, fp8, a scale for each row", "{\"model_type\":\"qwen2\"," LLAMA "\"head_dim\":16," FP8("null"), 1, HR_BF16,
     TOKENS},
    {"llama, fp8, blocks of 16 and 128 rows, 2272 columns",
     "{\"model_type\":\"llama\"," SIZES
     "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":16,\"intermediate_size\":2272," FP8("[128,128]"),
     4, HR_BF16, TOKENS},
};

static void make_ids(int32_t *ids, int64_t count, int seed)
{
  for (int64_t i = 0; i < count; i++)
    ids[i] = (int32_t)((17 * i + i * i / 3 + 5 * seed) % VOCABULARY);
}

/* Logits of all decode steps; returns how many launches one kernel runs in the last program. */
static int run_model(const hr_model *model, hr_dtype dtype, int64_t batch, int64_t tokens, bool apart,
                     float logits[STEPS][LOGITS])
{
  hr_device *device = test_rank_device(0);
  hr_executor_options options = hr_executor_options_default();
  hr_executor *x;
  hr_error error;
  int32_t ids[IDS_MAX];
  int together = 0;
  options.dtype = dtype;
  options.slots = batch;
  options.tokens = tokens + 2 * STEPS;
  options.no_persistent = apart;
  assert_ok(hr_executor_open(device, model, &options, &x, &error), error);
  assert_true(batch * tokens <= IDS_MAX);
  make_ids(ids, batch * tokens, 0);
  step(x, HR_PHASE_PREFILL, batch, tokens, NULL, ids, NULL);
  for (int i = 0; i < STEPS; i++) {
    make_ids(ids, batch, i);
    step(x, HR_PHASE_DECODE, batch, 1, NULL, ids, logits[i]);
  }
  for (int i = 0; i < x->programs[0]->persistent_count; i++)
    together += x->programs[0]->persistent[i].end - x->programs[0]->persistent[i].first;
  assert_int_equal(together > 0, hr_run_persists(x, &x->programs[0]->shape)); /* else layers are fused for nothing */
  hr_executor_close(x);
  hr_device_close(device);
  return together;
}

/* The largest difference over the largest value. */
static double distance(float a[STEPS][LOGITS], float b[STEPS][LOGITS], int64_t count)
{
  double most = 0, far = 0;
  for (int i = 0; i < STEPS; i++)
    for (int64_t n = 0; n < count; n++) {
      const double off = fabs((double)a[i][n] - (double)b[i][n]);
      most = fmax(most, fabs((double)b[i][n]));
      far = isnan(off) ? INFINITY : fmax(far, off);
    }
  return far / most;
}

static float wide[STEPS][LOGITS], apart[STEPS][LOGITS], together[STEPS][LOGITS];

static bool device_persists(void)
{
  hr_device *device = test_rank_device(0);
  const bool found = device && persists(device);
  hr_device_close(device);
  if (!found)
    print_message("there is no GPU that runs a step as one kernel\n");
  return found;
}

/* Kernels apart, with fewer errors of rounding: in fp32, which has no weights in fp8, or then in fp16. */
static int run_wide(const hr_model *model, int64_t batch, int64_t tokens)
{
  const bool fp8 = model->quantization.format_count > 0;
  return run_model(model, fp8 ? HR_FP16 : HR_FP32, batch, tokens, fp8, wide);
}

static void one_kernel_is_as_exact_as_many(void **state)
{
  (void)state;
  if (!device_persists())
    skip();
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const hr_model model = test_model(models[i].name, models[i].config);
    const int64_t batch = models[i].batch, count = batch * VOCABULARY;
    const int64_t tokens = models[i].tokens;
    if (!test_takes((int)i))
      continue;
    memset(together, 0xFF, sizeof together);
    assert_int_equal(run_wide(&model, batch, tokens), 0);
    assert_int_equal(run_model(&model, models[i].dtype, batch, tokens, true, apart), 0);
    if (run_model(&model, models[i].dtype, batch, tokens, false, together) < 2 * 5)
      fail_msg("%s: no kernel runs all layers", models[i].name);
    const double before = distance(apart, wide, count), now = distance(together, wide, count);
    if (!(now <= 1.5 * before + 1e-3))
      fail_msg("%s: a logit is %g away, with kernels apart %g", models[i].name, now, before);
  }
}

/* A soft cap and norms behind layers, a norm of each head's own, layers of columns that are no multiple of 32, experts
 * that all tokens share, and those that a bias chooses. */
static void models_with_other_kernels_have_none_of_all(void **state)
{
  static const char *const configs[] = {
      "{\"model_type\":\"gemma2\"," LLAMA "\"head_dim\":16,\"sliding_window\":16,\"query_pre_attn_scalar\":16,"
      "\"hidden_activation\":\"gelu_pytorch_tanh\"}",
      "{\"model_type\":\"cohere\"," LLAMA "\"use_qk_norm\":true}",
      "{\"model_type\":\"llama\"," SIZES "\"num_attention_heads\":4,\"intermediate_size\":48}",
      "{\"model_type\":\"qwen2_moe\"," LLAMA "\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
      "\"shared_expert_intermediate_size\":64}",
      "{\"model_type\":\"glm4_moe\"," LLAMA
      "\"head_dim\":16,\"n_routed_experts\":4,\"n_shared_experts\":1,\"num_experts_per_tok\":2,"
      "\"moe_intermediate_size\":32,\"first_k_dense_replace\":1,\"n_group\":1,\"topk_group\":1}"};
  (void)state;
  if (!device_persists())
    skip();
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    const hr_model model = test_model("a model", configs[i]);
    if (test_takes((int)i))
      assert_int_equal(run_model(&model, HR_BF16, 1, TOKENS, false, together), 0);
  }
}

/* Returns how many rows `file` has behind its header, and in *blocks and *attends what they are of. */
static int count_rows(const char *path, int *blocks, int *attends)
{
  char line[128];
  int rows = -1, instruction, length;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  for (*attends = 0; fgets(line, sizeof line, file); rows++) {
    if (rows < 0) {
      assert_string_equal(line, "block,instruction,operator,warp,phase,cycles\n");
      continue;
    }
    assert_int_equal(sscanf(line, "%d,%d,%n", blocks, &instruction, &length), 2);
    assert_null(strchr(line, '-')); /* no phase ends before it begins */
    *attends += strncmp(line + length, "attention,computes,keys,", 24) == 0;
  }
  fclose(file);
  ++*blocks;
  return rows;
}

static void cycles_of_all_phases_are_written(void **state)
{
  const hr_model model = test_model("llama", models[0].config);
  char path[] = "/tmp/hr_cycles_XXXXXX";
  int blocks, attends;
  (void)state;
  if (!device_persists())
    skip();
  close(mkstemp(path));
  assert_int_equal(setenv("HEADROOM_CYCLES", path, 1), 0);
  const int launches = run_model(&model, HR_BF16, 1, TOKENS, false, together);
  assert_int_equal(unsetenv("HEADROOM_CYCLES"), 0);
  const int rows = count_rows(path, &blocks, &attends), layers = 2;
  assert_int_equal(attends, layers * blocks);
  assert_int_equal(rows, (launches - layers) * blocks * HR_CYCLES_COUNT); /* attention is two launches */
  remove(path);
}

static void a_file_of_cycles_that_cannot_be_written_is_said(void **state)
{
  const hr_model model = test_model("llama", models[0].config);
  hr_executor_options options = hr_executor_options_default();
  hr_executor_input input = hr_executor_input_default();
  hr_executor *x;
  hr_error error;
  int32_t ids[TOKENS];
  (void)state;
  if (!device_persists())
    skip();
  hr_device *device = test_rank_device(0);
  options.dtype = HR_BF16;
  options.tokens = TOKENS + 1;
  assert_ok(hr_executor_open(device, &model, &options, &x, &error), error);
  make_ids(ids, TOKENS, 0);
  step(x, HR_PHASE_PREFILL, 1, TOKENS, NULL, ids, NULL);
  assert_int_equal(setenv("HEADROOM_CYCLES", "/nowhere/cycles", 1), 0);
  input.phase = HR_PHASE_DECODE;
  input.batch = input.tokens = 1;
  input.ids = ids;
  assert_int_equal(hr_executor_step(x, &input, together[0], &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "HEADROOM_CYCLES: /nowhere/cycles: No such file or directory");
  assert_int_equal(unsetenv("HEADROOM_CYCLES"), 0);
  hr_executor_close(x);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_kernel_is_as_exact_as_many),
                                     cmocka_unit_test(models_with_other_kernels_have_none_of_all),
                                     cmocka_unit_test(cycles_of_all_phases_are_written),
                                     cmocka_unit_test(a_file_of_cycles_that_cannot_be_written_is_said)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
