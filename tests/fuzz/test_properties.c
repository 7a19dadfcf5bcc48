/* SPDX-License-Identifier: Apache-2.0 */
/* The properties of properties.h hold for random models and workloads, likely and absurd. A failure prints the
 * property; the seed is fixed, so that it can be reproduced. */
#include "test.h"

#include "hardware/hardware.h"
#include "properties.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>

static uint64_t seed;

/* xorshift64: the same sequence everywhere. */
static uint64_t next_random(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

static int64_t between(int64_t low, int64_t high)
{
  return low + (int64_t)(next_random() % (uint64_t)(high - low + 1));
}

static bool coin(void)
{
  return next_random() % 2;
}

static hr_mixer_attention likely_attention(const hr_model *model)
{
  hr_mixer_attention m = {.q_heads = 16 * between(1, 8), .k_heads = 1 << between(0, 4), .v_heads = 1 << between(0, 4)};
  m.qk_dim = between(1, 256);
  m.v_dim = coin() ? m.qk_dim : between(1, 256);
  m.q_rank = coin() ? between(1, 8000) : 0;
  m.window = coin() ? between(1, 5000) : 0;
  m.window_kind = coin() ? HR_WINDOW_SLIDING : HR_WINDOW_CHUNKED;
  m.rotary_dim = model->positions == HR_POSITIONS_ROTARY ? between(0, m.qk_dim) : 0;
  m.qk_norm = (hr_qk_norm)between(0, HR_QK_NORM_ROTATED);
  m.q_bias = coin();
  m.output_gate = between(0, 3) == 0;
  m.gate_per_head = coin();
  m.gate_unbiased = coin();
  m.sinks = between(0, 3) == 0;
  m.shared_kv = m.q_rank == 0 && between(0, 3) == 0;
  m.shared_k_norm = m.shared_kv && coin();
  if (m.window == 0 && !m.shared_kv && coin()) {
    m.index_block = between(1, 128);
    m.index_topk = m.index_block * between(1, 32);
    m.index_dim = between(1, 256);
  }
  return m;
}

static hr_mixer_compressed likely_compressed(void)
{
  hr_mixer_compressed m = {.o_groups = 1 << between(0, 3), .head_dim = between(1, 512), .q_rank = between(1, 4000)};
  m.q_heads = m.o_groups * between(1, 16);
  m.rope_dim = between(0, m.head_dim);
  m.window = between(1, 500);
  m.ratio = coin() ? between(1, 200) : 0;
  m.overlaps = coin();
  m.o_rank = between(1, 2000);
  if (m.ratio > 0 && coin())
    m.index_topk = between(1, 2000), m.index_heads = between(1, 64), m.index_dim = between(1, 256);
  return m;
}

static hr_mixer_scan likely_scan(void)
{
  hr_mixer_scan m = {.recurrence = (hr_recurrence)between(1, HR_RECURRENCE_KIMI_DELTA), .heads = 8 * between(1, 16)};
  m.head_dim = between(1, 128);
  m.groups = 1 << between(0, 3);
  m.state = between(1, 256);
  m.kernel = m.recurrence == HR_RECURRENCE_CONVOLUTION ? 3 : between(0, 8);
  m.rank = between(1, 500);
  m.chunk = between(1, 512);
  m.in_bias = coin();
  m.conv_bias = coin();
  m.norm = coin();
  m.norm_weight = coin();
  return m;
}

static hr_ffn_dense likely_dense(void)
{
  return (hr_ffn_dense){.width = between(1, 60000), .gated = coin(), .bias = coin()};
}

static hr_ffn_experts likely_experts(void)
{
  int64_t groups = 1 << between(0, 3), experts = groups * between(1, 32);
  hr_ffn_experts m = {.experts = experts, .active = between(1, experts / groups), .width = between(1, 6000)};
  m.groups = coin() ? groups : 0;
  m.active_groups = m.groups > 0 ? between(1, groups) : 0;
  m.shared_width = coin() ? between(1, 9000) : 0;
  m.gated = coin();
  m.bias = coin();
  m.shared_bias = coin();
  m.router_bias = coin();
  m.shared_gate = m.shared_width > 0 && coin();
  m.latent = between(0, 3) == 0 ? between(1, 4096) : 0;
  m.latent_bias = m.latent > 0 && coin();
  return m;
}

/* Some of the later groups have no attention, or no feed-forward network. */
static hr_layer_group likely_group(const hr_model *model, bool first)
{
  hr_layer_group layer = {.count = between(1, 128), .norms = between(0, 4), .parallel_block = coin()};
  int64_t missing = first ? 0 : between(0, 7);
  if (missing != 1)
    layer.attention = likely_attention(model);
  if (missing != 2 && between(0, 2) > 0)
    layer.dense = likely_dense();
  else if (missing != 2)
    layer.experts = likely_experts();
  if (between(0, 3) == 0)
    layer.scan = likely_scan();
  if (!first && between(0, 5) == 0)
    layer.compressed = likely_compressed();
  if (first)
    layer.attention.shared_kv = layer.attention.shared_k_norm = false;
  return layer;
}

static hr_model likely_model(void)
{
  hr_model model = hr_model_default();
  model.positions = (hr_positions)between(0, HR_POSITIONS_ALIBI);
  model.position_rows = model.positions == HR_POSITIONS_LEARNED ? between(1, 5000) : 0;
  model.group_count = coin() ? 1 : (size_t)between(2, coin() ? 4 : 8);
  for (size_t i = 0; i < model.group_count; i++)
    model.groups[i] = likely_group(&model, i == 0);
  const hr_mixer_attention *attention = &model.groups[0].attention;
  model.hidden = coin() ? attention->q_heads * attention->v_dim : between(1, 20000);
  model.vocabulary = between(1, 300000);
  model.max_positions = between(0, 100000);
  model.norm_weight = coin();
  model.final_norm = coin();
  model.embedding_norm = coin();
  model.tied_embeddings = coin();
  model.logit_bias = coin();
  model.embedding_dim = coin() ? between(1, 4096) : 0;
  model.residual_streams = between(0, 3) == 0 ? between(1, 8) : 0;
  for (size_t i = 0; i < model.group_count && model.residual_streams > 0; i++)
    model.groups[i].parallel_block = false;
  return model;
}

static hr_workload likely_workload(const hr_model *model)
{
  hr_workload workload = hr_workload_default(model);
  workload.phase = (hr_phase)between(0, HR_PHASE_DECODE);
  workload.attention = (hr_attention_form)between(0, HR_ATTENTION_FUSED);
  workload.dtype = (hr_dtype)between(0, HR_DTYPE_COUNT - 1);
  workload.dropout = coin() ? HR_DROPOUT_TRAIN : HR_DROPOUT_NONE;
  workload.batch = between(1, 64);
  workload.sequence = between(1, 20000);
  workload.context = between(1, 100000);
  workload.tensor_parallel = between(1, 16);
  workload.pipeline_stages = between(1, hr_model_layers(model));
  workload.expert_parallel = workload.tensor_parallel * between(1, 8);
  workload.expert_imbalance = (double)between(1, 3);
  if (hr_workload_check(&workload, model, NULL) != HR_OK) /* no experts, or a number that does not divide them */
    workload.expert_parallel = 1, workload.expert_imbalance = 1;
  workload.sequence_parallel = coin();
  workload.microbatches = between(0, 8);
  int64_t groups = workload.expert_parallel / workload.tensor_parallel;
  workload.data_parallel = (groups > 1 ? groups : 1) * between(1, 8);
  hr_workload with = workload;
  with.context_parallel = between(2, 4);
  with.sequence = between(1, 2000) * 2 * with.context_parallel;
  with.zero_stage = between(0, 3);
  with.recompute = (hr_recompute)between(0, HR_RECOMPUTE_FULL);
  with.overlap = (double)between(0, 4) / 4;
  return hr_workload_check(&with, model, NULL) == HR_OK ? with : workload;
}

/* Takes one in HEADROOM_TEST_SHARE of `count` models. */
static int share_of(int count)
{
  const char *share = getenv("HEADROOM_TEST_SHARE");
  int n = share && !test_asks_for("whole") ? atoi(share) : 1;
  return n > 1 ? count / n : count;
}

static void likely_models_are_described(void **state)
{
  (void)state;
  seed = 20240126;
  for (int i = 0; i < share_of(6000); i++) {
    hr_model model = likely_model();
    hr_workload workload = likely_workload(&model);
    hr_error error;
    assert_ok(hr_model_check(&model, &error), error);
    static hr_operators operators;
    assert_ok(hr_operators_list(&model, &workload, &operators, &error), error);
    expect_describable(&model, &workload);
    expect_predictable(&fuzz_devices()[i % FUZZ_DEVICES], &model, &workload);
    if (i % 20 == 0)
      expect_reportable(&model, &workload, NULL);
    if (i % 200 == 0) {
      expect_advisable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
      expect_servable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
      expect_trainable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
    }
  }
}

static int64_t absurd_size(void)
{
  static const int64_t sizes[] = {INT64_MIN, -1,        0,         1,         2,
                                  3,         65537,     INT32_MAX, 1LL << 32, (1LL << 40) - 1,
                                  1LL << 40, 1LL << 41, 1LL << 62, INT64_MAX, INT64_MAX - 1};
  return coin() ? sizes[next_random() % (sizeof sizes / sizeof *sizes)] : (int64_t)(next_random() >> between(1, 63));
}

static void absurd_models_are_refused_or_described(void **state)
{
  (void)state;
  seed = 20240127;
  for (int i = 0; i < share_of(50000); i++) {
    hr_model model = likely_model();
    hr_workload workload = likely_workload(&model);
    hr_layer_group *layer = &model.groups[between(0, (int64_t)model.group_count - 1)];
    int64_t *const sizes[] = {
        &layer->count,
        &model.hidden,
        &model.vocabulary,
        &model.max_positions,
        &layer->attention.q_heads,
        &layer->attention.k_heads,
        &layer->attention.v_heads,
        &layer->attention.qk_dim,
        &layer->attention.v_dim,
        &layer->attention.q_rank,
        &layer->attention.window,
        &layer->attention.index_topk,
        &layer->attention.index_dim,
        &layer->compressed.q_heads,
        &layer->compressed.head_dim,
        &layer->compressed.ratio,
        &layer->compressed.index_dim,
        &model.residual_streams,
        &layer->scan.heads,
        &layer->scan.state,
        &layer->scan.chunk,
        &layer->dense.width,
        &model.position_rows,
        &layer->attention.rotary_dim,
        &layer->norms,
        &workload.batch,
        &workload.sequence,
        &model.embedding_dim,
        &workload.context,
        &workload.tensor_parallel,
        &workload.pipeline_stages,
        &workload.context_parallel,
        &workload.data_parallel,
        &workload.zero_stage,
        &workload.microbatches,
    };
    for (int64_t changes = between(1, 3); changes > 0; changes--)
      *sizes[next_random() % (sizeof sizes / sizeof *sizes)] = absurd_size();
    expect_describable(&model, &workload);
    expect_predictable(&fuzz_devices()[i % FUZZ_DEVICES], &model, &workload);
    if (i % 20 == 0)
      expect_reportable(&model, &workload, NULL);
    if (i % 200 == 0) {
      expect_advisable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
      expect_servable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
      expect_trainable(&model, &workload, &fuzz_devices()[i / 200 % FUZZ_DEVICES]);
    }
  }
}

static void any_parts_of_stages_are_refused_or_predicted(void **state)
{
  (void)state;
  seed = 20261128;
  for (int i = 0; i < share_of(5000); i++) {
    hr_model model = likely_model();
    hr_workload workload = likely_workload(&model);
    int64_t *const sizes[] = {&workload.virtual_stages, &workload.pipeline_stages, &workload.microbatches};
    workload.phase = coin() ? HR_PHASE_TRAIN : workload.phase;
    workload.microbatches = workload.pipeline_stages * between(1, 3);
    workload.virtual_stages = between(0, 4);
    if (i % 4 == 0)
      *sizes[next_random() % 3] = absurd_size();
    expect_describable(&model, &workload);
    expect_predictable(&fuzz_devices()[i % FUZZ_DEVICES], &model, &workload);
  }
}

static void enumerators_outside_their_lists_are_refused(void **state)
{
  (void)state;
  seed = 20240128;
  const int phases[] = {-1, HR_PHASE_DECODE + 1, 6, 7, 100, INT32_MAX};
  const int norms[] = {-1, HR_QK_NORM_ROTATED + 1, 6, 7, 100, INT32_MAX};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    hr_model model = likely_model();
    hr_workload workload = likely_workload(&model);
    hr_memory memory;
    hr_error error = {.status = HR_OK};
    workload.phase = (hr_phase)phases[i];
    hr_status status = hr_memory_estimate(&model, &workload, &memory, &error);
    assert_int_equal(status, HR_ERROR_INVALID);
    expect_clear_failure(status, &error);
    model.groups[0].attention.qk_norm = (hr_qk_norm)norms[i];
    assert_int_equal(hr_model_check(&model, &error), HR_ERROR_INVALID);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(likely_models_are_described),
      cmocka_unit_test(absurd_models_are_refused_or_described),
      cmocka_unit_test(any_parts_of_stages_are_refused_or_predicted),
      cmocka_unit_test(enumerators_outside_their_lists_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
