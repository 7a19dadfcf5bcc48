/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/change.h>

#include "base/error.h"
#include "base/names.h"
#include "model/layers/shard.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>

#define DEVICES "another number of devices; latency and memory per device change"
#define SHAPE "new weights; with equal parameters 6 layers of 4288 came within 3% of the loss of 48 layers of 1600"
#define KAPLAN "Kaplan et al. 2020, arXiv 2001.08361, "

static const hr_change_cost costs[] = {
    [HR_CHANGED_ATTENTION] = {"attention", HR_CHANGE_FREE, "the same function with different rounding",
                              "Dao 2023, arXiv 2307.08691, section 3"},
    [HR_CHANGED_VOCABULARY] = {"vocabulary", HR_CHANGE_FREE,
                               "append rows to the embedding and to the logits' weight, also of trained weights, and "
                               "mask their logits",
                               ""},
    [HR_CHANGED_MLP_PADDING] = {"mlp_padding", HR_CHANGE_FREE,
                                "trained weights are padded with zeros, as in Qwen2-72B's GPTQ checkpoints (29568 to "
                                "29696 columns), and give the same results",
                                "github.com/QwenLM/Qwen3, issue 578, 2024-06-17"},
    [HR_CHANGED_RECOMPUTE] = {"recompute", HR_CHANGE_FREE, "the same gradients; activations are kept or computed again",
                              ""},
    [HR_CHANGED_SHARING] = {"sharing", HR_CHANGE_FREE,
                            "the same results; devices keep shards and exchange them instead of full copies", ""},
    [HR_CHANGED_MICROBATCH] = {"microbatch", HR_CHANGE_FREE,
                               "the global batch stays as it is with more or fewer steps of gradient accumulation", ""},
    [HR_CHANGED_BATCH] = {"batch", HR_CHANGE_DEPLOY,
                          "needs that many concurrent sequences, and each waits for the whole step", ""},
    [HR_CHANGED_SEQUENCE] = {"sequence", HR_CHANGE_DEPLOY,
                             "texts have to be packed to this length; padding to it would use up the gain", ""},
    [HR_CHANGED_MICROBATCHES] = {"microbatches", HR_CHANGE_DEPLOY,
                                 "a different global batch, to which the learning rate has to be adapted", ""},
    [HR_CHANGED_DATA_PARALLEL] = {"data_parallel", HR_CHANGE_DEPLOY, DEVICES, ""},
    [HR_CHANGED_CONTEXT_PARALLEL] = {"context_parallel", HR_CHANGE_DEPLOY, DEVICES, ""},
    [HR_CHANGED_EXPERT_PARALLEL] = {"expert_parallel", HR_CHANGE_DEPLOY, DEVICES, ""},
    [HR_CHANGED_PIPELINE_STAGES] = {"pipeline_stages", HR_CHANGE_DEPLOY, DEVICES, ""},
    [HR_CHANGED_TENSOR_PARALLEL] = {"tensor_parallel", HR_CHANGE_DEPLOY, DEVICES, ""},
    [HR_CHANGED_MLP_WIDTH] = {"mlp_width", HR_CHANGE_RETRAIN,
                              "new weights; with equal parameters the loss depends little on the MLP's width",
                              KAPLAN "figure 5"},
    [HR_CHANGED_HEADS] = {"heads", HR_CHANGE_RETRAIN,
                          "new weights; a translation model of h = 512 scored the same with 8 and 16 heads, 0.4 BLEU "
                          "less with 32 and 0.9 less with one",
                          "Vaswani et al. 2017, arXiv 1706.03762, table 3"},
    [HR_CHANGED_KV_HEADS] = {"kv_heads", HR_CHANGE_RETRAIN,
                             "new weights, trained or converted with 5% of the pre-training compute; so converted, "
                             "T5-XXL scored 47.1 with 8 K and V heads and 46.6 with one, before 47.2",
                             "Ainslie et al. 2023, arXiv 2305.13245, table 1"},
    [HR_CHANGED_K_HEADS] =
        {"k_heads", HR_CHANGE_RETRAIN,
         "new weights; in SIGMA's ablations a half or a quarter of the K heads moves the mean of nine "
         "benchmarks by -0.17 to +0.43 points, as many fewer V heads by -0.66 to -0.38",
         "Lin et al. 2025, arXiv 2501.13629, table 1"},
    [HR_CHANGED_K_SIZE] =
        {"k_size", HR_CHANGE_RETRAIN,
         "new weights; in SIGMA's ablations K heads of half the size move the mean of nine benchmarks "
         "by -0.08 to +0.26 points, after fewer K heads or augmented Q by -0.66 to -0.23",
         "Lin et al. 2025, arXiv 2501.13629, tables 2 and 6"},
    [HR_CHANGED_PARALLEL_LAYERS] = {"parallel_layers", HR_CHANGE_RETRAIN,
                                    "new weights; in PaLM's ablations slightly worse at 8B and no worse at 62B "
                                    "parameters",
                                    "Chowdhery et al. 2022, arXiv 2204.02311, section 2"},
    [HR_CHANGED_LAYERS] = {"layers", HR_CHANGE_RETRAIN, SHAPE, KAPLAN "section 3.1"},
    [HR_CHANGED_HIDDEN] = {"hidden", HR_CHANGE_RETRAIN, SHAPE, KAPLAN "section 3.1"},
    [HR_CHANGED_OTHER] = {"other", HR_CHANGE_RETRAIN, "new weights of another architecture", ""},
};

_Static_assert(sizeof costs / sizeof *costs == HR_CHANGED_COUNT, "a row for each member of hr_changed");

#define BIT(changed) ((uint64_t)1 << (changed))

const hr_change_cost *hr_change_cost_of(hr_changed changed)
{
  return &costs[(unsigned)changed < HR_CHANGED_COUNT ? changed : HR_CHANGED_OTHER];
}

hr_changed hr_costliest_change(uint64_t changes)
{
  unsigned last = 0;
  for (unsigned i = 0; i < HR_CHANGED_COUNT; i++)
    last = changes & BIT(i) ? i : last;
  return (hr_changed)last;
}

/* ---- the differences ---- */

/* Counts the sequences of a step of one replica. */
static double sequences_of(const hr_workload *workload)
{
  return (double)workload->batch * (double)hr_workload_microbatches(workload);
}

static uint64_t workload_changes(const hr_workload *a, const hr_workload *b)
{
  const hr_changed batch = b->phase == HR_PHASE_TRAIN ? HR_CHANGED_MICROBATCH : HR_CHANGED_BATCH;
  const bool decode = b->phase == HR_PHASE_DECODE;
  const struct {
    bool differs;
    hr_changed changed;
  } parts[] = {
      {a->attention != b->attention, HR_CHANGED_ATTENTION},
      {a->recompute != b->recompute, HR_CHANGED_RECOMPUTE},
      {a->sequence_parallel != b->sequence_parallel || a->zero_stage != b->zero_stage, HR_CHANGED_SHARING},
      {a->batch != b->batch, batch},
      {decode ? a->context != b->context : a->sequence != b->sequence, HR_CHANGED_SEQUENCE},
      {sequences_of(a) != sequences_of(b) && a->microbatches != b->microbatches, HR_CHANGED_MICROBATCHES},
      {a->data_parallel != b->data_parallel, HR_CHANGED_DATA_PARALLEL},
      {a->context_parallel != b->context_parallel, HR_CHANGED_CONTEXT_PARALLEL},
      {a->expert_parallel != b->expert_parallel, HR_CHANGED_EXPERT_PARALLEL},
      {a->pipeline_stages != b->pipeline_stages || hr_virtual_stages(a) != hr_virtual_stages(b),
       HR_CHANGED_PIPELINE_STAGES},
      {a->tensor_parallel != b->tensor_parallel, HR_CHANGED_TENSOR_PARALLEL},
  };
  uint64_t changes = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    changes |= parts[i].differs ? BIT(parts[i].changed) : 0;
  return changes;
}

static uint64_t attention_changes(const hr_mixer_attention *a, const hr_mixer_attention *b)
{
  const bool k_size = a->qk_dim != b->qk_dim;
  const bool heads = a->q_heads != b->q_heads || a->v_dim != b->v_dim || a->q_rank != b->q_rank ||
                     (!k_size && a->rotary_dim != b->rotary_dim);
  uint64_t changes = 0;
  if (heads)
    return BIT(HR_CHANGED_HEADS);
  changes |= k_size ? BIT(HR_CHANGED_K_SIZE) : 0;
  changes |= a->v_heads != b->v_heads ? BIT(HR_CHANGED_KV_HEADS) : 0;
  changes |= a->v_heads == b->v_heads && a->k_heads != b->k_heads ? BIT(HR_CHANGED_K_HEADS) : 0;
  return changes;
}

static bool same_indexer(const hr_mixer_attention *a, const hr_mixer_attention *b)
{
  return a->index_topk == b->index_topk && a->index_block == b->index_block && a->index_dim == b->index_dim;
}

static bool same_latent(const hr_mixer_latent *a, const hr_mixer_latent *b)
{
  return a->q_heads == b->q_heads && a->q_rank == b->q_rank && a->kv_rank == b->kv_rank && a->nope_dim == b->nope_dim &&
         a->rope_dim == b->rope_dim && a->v_dim == b->v_dim && a->index_topk == b->index_topk &&
         a->index_heads == b->index_heads && a->index_dim == b->index_dim;
}

static bool same_compressed(const hr_mixer_compressed *a, const hr_mixer_compressed *b)
{
  return a->q_heads == b->q_heads && a->head_dim == b->head_dim && a->rope_dim == b->rope_dim &&
         a->q_rank == b->q_rank && a->window == b->window && a->ratio == b->ratio && a->overlaps == b->overlaps &&
         a->index_topk == b->index_topk && a->index_heads == b->index_heads && a->index_dim == b->index_dim &&
         a->o_groups == b->o_groups && a->o_rank == b->o_rank;
}

static bool same_scan(const hr_mixer_scan *a, const hr_mixer_scan *b)
{
  return a->recurrence == b->recurrence && a->heads == b->heads && a->head_dim == b->head_dim &&
         a->groups == b->groups && a->state == b->state && a->kernel == b->kernel && a->rank == b->rank;
}

static uint64_t width_changes(const hr_layer_group *a, const hr_layer_group *b)
{
  const int64_t before[] = {a->dense.width, a->experts.width, a->experts.shared_width};
  const int64_t after[] = {b->dense.width, b->experts.width, b->experts.shared_width};
  uint64_t changes = 0;
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    changes |= after[i] > before[i] ? BIT(HR_CHANGED_MLP_PADDING) : 0;
    changes |= after[i] < before[i] ? BIT(HR_CHANGED_MLP_WIDTH) : 0;
  }
  return changes;
}

static uint64_t layer_changes(const hr_layer_group *a, const hr_layer_group *b)
{
  uint64_t changes = attention_changes(&a->attention, &b->attention);
  bool mixers = same_indexer(&a->attention, &b->attention) && same_latent(&a->latent, &b->latent) &&
                same_compressed(&a->compressed, &b->compressed) && same_scan(&a->scan, &b->scan);
  bool routing = a->experts.experts == b->experts.experts && a->experts.active == b->experts.active &&
                 a->experts.latent == b->experts.latent;
  changes |= a->count != b->count ? BIT(HR_CHANGED_LAYERS) : 0;
  changes |= a->parallel_block != b->parallel_block ? BIT(HR_CHANGED_PARALLEL_LAYERS) : 0;
  changes |= width_changes(a, b);
  changes |= !mixers || !routing ? BIT(HR_CHANGED_OTHER) : 0;
  return changes;
}

uint64_t hr_changes_between(const hr_model *before, const hr_workload *workload_before, const hr_model *after,
                            const hr_workload *workload_after)
{
  uint64_t changes = workload_changes(workload_before, workload_after);
  changes |= before->hidden != after->hidden ? BIT(HR_CHANGED_HIDDEN) : 0;
  changes |= before->vocabulary < after->vocabulary ? BIT(HR_CHANGED_VOCABULARY) : 0;
  changes |= before->vocabulary > after->vocabulary ? BIT(HR_CHANGED_OTHER) : 0;
  changes |= before->residual_streams != after->residual_streams ? BIT(HR_CHANGED_OTHER) : 0;
  if (before->group_count != after->group_count) /* reshaped layers lose groups of less than one layer */
    return changes | BIT(hr_model_layers(before) != hr_model_layers(after) ? HR_CHANGED_LAYERS : HR_CHANGED_OTHER);
  for (size_t i = 0; i < before->group_count; i++)
    changes |= layer_changes(&before->groups[i], &after->groups[i]);
  return changes;
}

/* ---- classes by name ---- */

static const char *const classes[HR_CHANGE_CLASS_COUNT] = {"free", "deploy", "retrain"};

HR_DEFINE_NAME(hr_change_class_name, hr_change_class, classes, HR_CHANGE_CLASS_COUNT)
HR_DEFINE_PARSE(hr_change_class_parse, hr_change_class, classes, HR_CHANGE_CLASS_COUNT)
