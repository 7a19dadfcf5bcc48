/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/workload.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "model/layers/ffn_experts.h"
#include "model/layers/frameworks.h"
#include "model/layers/shard.h"
#include "shape/kv_format.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>

static const char *const phases[] = {"forward", "train", "prefill", "decode"};
static const char *const forms[] = {"unfused", "fused"};
static const char *const recomputes[] = {"none", "selective", "full"};
static const char *const frameworks[] = {"compiled", "eager", "headroom", "transformers", "transformers-compiled",
                                         "trtllm",   "vllm",  "sglang"};
static const char *const flash_libraries[] = {"newest", "2", "1", "triton"};

#define PHASE_COUNT (sizeof phases / sizeof *phases)
#define FORM_COUNT (sizeof forms / sizeof *forms)
#define RECOMPUTE_COUNT (sizeof recomputes / sizeof *recomputes)
#define FRAMEWORK_COUNT (sizeof frameworks / sizeof *frameworks)
#define FLASH_LIBRARY_COUNT (sizeof flash_libraries / sizeof *flash_libraries)

static int64_t positive_or(int64_t value, int64_t fallback)
{
  return value > 0 ? value : fallback;
}

/* The GPT-2 generation (learned positions, ungated MLP) was trained with dropout, later models without. */
static bool usual_dropout(const hr_model *model)
{
  return model->positions == HR_POSITIONS_LEARNED && !hr_model_main_group(model)->dense.gated;
}

void hr_workload_init(hr_workload *workload, size_t size, const hr_model *model)
{
  int64_t longest = model->max_positions > 0 ? hr_min64(2048, model->max_positions) : 2048;
  int64_t sequence = positive_or(model->default_sequence, longest);
  HR_INIT(workload, size,
          (hr_workload){
              .phase = HR_PHASE_FORWARD,
              .attention = HR_ATTENTION_FUSED,
              .dtype = HR_BF16,
              .dropout = usual_dropout(model) ? HR_DROPOUT_TRAIN : HR_DROPOUT_NONE,
              .batch = positive_or(model->default_batch, 4),
              .sequence = sequence,
              .context = sequence,
              .tensor_parallel = positive_or(model->default_tensor_parallel, 1),
              .pipeline_stages = positive_or(model->default_pipeline_stages, 1),
              .expert_parallel = 1,
              .expert_imbalance = 1,
              .kv_cache = model->quantization.kv_cache,
              .context_parallel = 1,
              .data_parallel = 1,
          });
}

static hr_status check_size(const char *name, int64_t value, hr_error *error)
{
  if (value < 1)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least 1, found %" PRId64, name, value);
  if (value > HR_WORKLOAD_SIZE_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected at most %" PRId64 ", found %" PRId64, name,
                   HR_WORKLOAD_SIZE_MAX, value);
  return HR_OK;
}

static hr_status check_experts(const hr_workload *workload, const hr_model *model, hr_error *error)
{
  bool any = false;
  HR_TRY(check_size("expert_parallel", workload->expert_parallel, error));
  if (!(workload->expert_imbalance >= 1))
    return hr_fail(error, HR_ERROR_INVALID, "expert_imbalance: expected at least 1, found %g",
                   workload->expert_imbalance);
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].experts.experts == 0)
      continue;
    any = true;
    HR_TRY(hr_check_expert_workload(&model->groups[i].experts, workload, error));
  }
  if (!any && workload->expert_parallel > 1)
    return hr_fail(error, HR_ERROR_INVALID, "expert_parallel: the model has no experts");
  if (!any && workload->expert_imbalance > 1)
    return hr_fail(error, HR_ERROR_INVALID, "expert_imbalance: the model has no experts");
  return HR_OK;
}

static bool has_scans(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].scan.heads > 0)
      return true;
  }
  return false;
}

static bool has_chosen_keys(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &model->groups[i];
    if (layer->latent.index_topk > 0 || layer->attention.index_topk > 0 || layer->compressed.q_heads > 0)
      return true;
  }
  return false;
}

static hr_status check_context_parallel(const hr_workload *workload, const hr_model *model, hr_error *error)
{
  int64_t cp = workload->context_parallel;
  HR_TRY(check_size("context_parallel", cp, error));
  if (cp == 1)
    return HR_OK;
  if (workload->phase == HR_PHASE_DECODE)
    return hr_fail(error, HR_ERROR_INVALID, "context_parallel: a decode step has one token of a sequence to split");
  if (has_scans(model))
    return hr_fail(error, HR_ERROR_INVALID, "context_parallel: layers with scans are not supported");
  if (has_chosen_keys(model))
    return hr_fail(error, HR_ERROR_INVALID,
                   "context_parallel: keys that an indexer chooses and compressed ones are not supported");
  if (workload->sequence % (2 * cp) != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "context_parallel: sequence, %" PRId64 ", is not a multiple of 2 · %" PRId64
                   ": each device takes two equal parts of a sequence",
                   workload->sequence, cp);
  return HR_OK;
}

static hr_status check_replicas(const hr_workload *workload, hr_error *error)
{
  int64_t dp = workload->data_parallel, e = workload->expert_parallel, t = workload->tensor_parallel;
  HR_TRY(check_size("data_parallel", dp, error));
  if (dp > 1 && e > t && dp % (e / t) != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "data_parallel: %" PRId64 " is not a multiple of expert_parallel / tensor_parallel, %" PRId64
                   " groups that share the experts",
                   dp, e / t);
  if (workload->zero_stage < 0 || workload->zero_stage > 3)
    return hr_fail(error, HR_ERROR_INVALID, "zero_stage: expected 0 to 3, found %" PRId64, workload->zero_stage);
  if (!(workload->overlap >= 0 && workload->overlap <= 1))
    return hr_fail(error, HR_ERROR_INVALID, "overlap: expected 0 to 1, found %g", workload->overlap);
  return HR_OK;
}

/* The parts are equal, and run in rounds of p microbatches. Sources: Narayanan et al. 2021 (arXiv 2104.04473), section
 * 2.2; Megatron-LM's forward_backward_pipelining_with_interleaving(). */
static hr_status check_virtual_stages(const hr_workload *w, const hr_model *model, hr_error *error)
{
  int64_t p = w->pipeline_stages, v = hr_virtual_stages(w), layers = hr_model_layers(model),
          m = hr_workload_microbatches(w);
  if (w->virtual_stages != 0)
    HR_TRY(check_size("virtual_stages", w->virtual_stages, error));
  if (v == 1)
    return HR_OK;
  if (w->phase != HR_PHASE_TRAIN || p == 1)
    return hr_fail(error, HR_ERROR_INVALID,
                   "virtual_stages: %" PRId64 " need the phase train and several pipeline stages", v);
  if (layers % p != 0 || layers / p % v != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "virtual_stages: %" PRId64 " layers do not divide by %" PRId64 " stages of %" PRId64 " parts",
                   layers, p, v);
  if (m % p != 0)
    return hr_fail(error, HR_ERROR_INVALID,
                   "virtual_stages: %" PRId64 " microbatches are not a multiple of %" PRId64 " stages", m, p);
  return HR_OK;
}

/* What only a training step has: optimizer state, gradients, activations to compute again. */
static hr_status check_training(const hr_workload *workload, hr_error *error)
{
  const hr_framework by = workload->framework;
  if (workload->fp8_linears && (by == HR_FRAMEWORK_HEADROOM || hr_is_transformers(by)))
    return hr_fail(error, HR_ERROR_INVALID, "fp8_linears: %s trains in 16 bits", hr_framework_name(by));
  if ((unsigned)workload->recompute >= RECOMPUTE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "recompute: %d is not a kind of recomputation", (int)workload->recompute);
  if (workload->phase == HR_PHASE_TRAIN)
    return HR_OK;
  if (workload->zero_stage > 0)
    return hr_fail(error, HR_ERROR_INVALID, "zero_stage: needs the phase train");
  if (workload->recompute != HR_RECOMPUTE_NONE)
    return hr_fail(error, HR_ERROR_INVALID, "recompute: needs the phase train");
  if (workload->fp8_linears)
    return hr_fail(error, HR_ERROR_INVALID, "fp8_linears: needs the phase train");
  return HR_OK;
}

static hr_status check_parallelism(const hr_workload *workload, const hr_model *model, hr_error *error)
{
  HR_TRY(check_context_parallel(workload, model, error));
  HR_TRY(check_replicas(workload, error));
  HR_TRY(check_training(workload, error));
  if (workload->microbatches != 0)
    HR_TRY(check_size("microbatches", workload->microbatches, error));
  return check_virtual_stages(workload, model, error);
}

/* Heads are whole blocks of a cache in blocks: llama.cpp refuses others. */
static hr_status check_cache(const hr_workload *workload, const hr_model *model, hr_error *error)
{
  HR_TRY(hr_kv_format_check("kv_cache", workload->kv_cache, error));
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *layer = &model->groups[i];
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->attention.qk_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->attention.v_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->attention.index_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->latent.kv_rank + layer->latent.rope_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->latent.index_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->compressed.head_dim, error));
    HR_TRY(hr_kv_dim_check("kv_cache", workload->kv_cache, layer->compressed.index_dim, error));
  }
  return HR_OK;
}

hr_status hr_workload_check(const hr_workload *workload, const hr_model *model, hr_error *error)
{
  HR_NEED(error, workload, model);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_model, model, error);
  if ((unsigned)workload->phase >= PHASE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "phase: %d is not a phase", (int)workload->phase);
  if ((unsigned)workload->attention >= FORM_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "attention: %d is neither unfused nor fused", (int)workload->attention);
  if (hr_dtype_bytes(workload->dtype) == 0)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)workload->dtype);
  HR_TRY(check_cache(workload, model, error));
  if ((unsigned)workload->framework >= FRAMEWORK_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "framework: %d is not in the list", (int)workload->framework);
  if (workload->phase == HR_PHASE_TRAIN && hr_is_server(workload->framework))
    return hr_fail(error, HR_ERROR_INVALID, "framework: %s does not train", hr_framework_name(workload->framework));
  if ((unsigned)workload->flash >= FLASH_LIBRARY_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "flash: %d is not in the list", (int)workload->flash);
  if (workload->flash != HR_FLASH_NEWEST && workload->framework == HR_FRAMEWORK_HEADROOM)
    return hr_fail(error, HR_ERROR_INVALID, "flash: %s: the framework headroom has attention kernels of its own",
                   hr_flash_library_name(workload->flash));
  if ((unsigned)workload->dropout > HR_DROPOUT_FORWARD)
    return hr_fail(error, HR_ERROR_INVALID, "dropout: %d is not in the list", (int)workload->dropout);
  HR_TRY(check_size("batch", workload->batch, error));
  if (workload->phase == HR_PHASE_DECODE)
    HR_TRY(check_size("context", workload->context, error));
  else
    HR_TRY(check_size("sequence", workload->sequence, error));
  if (workload->page_size < 0 || workload->page_size > INT32_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "page_size: expected 0 to 2^31 - 1, found %" PRId64, workload->page_size);
  HR_TRY(check_size("tensor_parallel", workload->tensor_parallel, error));
  HR_TRY(check_size("pipeline_stages", workload->pipeline_stages, error));
  HR_TRY(check_experts(workload, model, error));
  if (workload->pipeline_stages > hr_model_layers(model))
    return hr_fail(error, HR_ERROR_INVALID,
                   "pipeline_stages: %" PRId64 " stages need at least as many layers, the model has %" PRId64,
                   workload->pipeline_stages, hr_model_layers(model));
  return check_parallelism(workload, model, error);
}

HR_DEFINE_NAME(hr_phase_name, hr_phase, phases, PHASE_COUNT)
HR_DEFINE_NAME(hr_attention_form_name, hr_attention_form, forms, FORM_COUNT)
HR_DEFINE_NAME(hr_recompute_name, hr_recompute, recomputes, RECOMPUTE_COUNT)
HR_DEFINE_NAME(hr_framework_name, hr_framework, frameworks, FRAMEWORK_COUNT)
HR_DEFINE_NAME(hr_flash_library_name, hr_flash_library, flash_libraries, FLASH_LIBRARY_COUNT)
HR_DEFINE_PARSE(hr_phase_parse, hr_phase, phases, PHASE_COUNT)
HR_DEFINE_PARSE(hr_attention_form_parse, hr_attention_form, forms, FORM_COUNT)
HR_DEFINE_PARSE(hr_recompute_parse, hr_recompute, recomputes, RECOMPUTE_COUNT)
HR_DEFINE_PARSE(hr_framework_parse, hr_framework, frameworks, FRAMEWORK_COUNT)
HR_DEFINE_PARSE(hr_flash_library_parse, hr_flash_library, flash_libraries, FLASH_LIBRARY_COUNT)
