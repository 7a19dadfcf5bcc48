/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/families.h"

#include "base/checked.h"

#include <headroom/experimental/model.h>
#include <string.h>

#define HR_GPT_NAMES                             \
  {                                              \
    "n_layer", "n_embd", "n_head", "n_positions" \
  }

#define HR_MAMBA_FIELDS                                                                                 \
  {                                                                                                     \
    .recurrence = HR_RECURRENCE_SELECTIVE, .inner.field = "intermediate_size", .expand = {"expand", 2}, \
    .state = {"state_size", 16}, .kernel = {"conv_kernel", 4}, .rank.field = "time_step_rank",          \
    .bias.field = "use_bias", .conv_bias = {                                                            \
      "use_conv_bias",                                                                                  \
      true                                                                                              \
    }                                                                                                   \
  }

#define HR_MAMBA2_FIELDS                                                                                               \
  {                                                                                                                    \
    .recurrence = HR_RECURRENCE_SSD, .expand = {"mamba_expand", 2}, .heads = {"mamba_n_heads", 128},                   \
    .head_dim.field = "mamba_d_head", .groups = {"mamba_n_groups", 1}, .state = {"mamba_d_state", 256},                \
    .kernel = {"mamba_d_conv", 4}, .chunk = {"mamba_chunk_size", 256}, .bias.field = "mamba_proj_bias", .conv_bias = { \
      "mamba_conv_bias",                                                                                               \
      true                                                                                                             \
    }                                                                                                                  \
  }

#define HR_DELTA_FIELDS                                                                                \
  {                                                                                                    \
    .recurrence = HR_RECURRENCE_GATED_DELTA, .heads = {"linear_num_value_heads", 32},                  \
    .head_dim = {"linear_value_head_dim", 128}, .groups = {"linear_num_key_heads", 16},                \
    .state = {"linear_key_head_dim", 128}, .kernel = {"linear_conv_kernel_dim", 4}, .chunk.value = 64, \
    .norm.value = true                                                                                 \
  }

static const hr_family rows[] = {
#define HR_FAMILY(type, class, text, ...) {.model_type = type, .architecture = class, .description = text, __VA_ARGS__},
#include "model/config/families.inc"
#undef HR_FAMILY
};

const hr_family *hr_families(size_t *count)
{
  *count = sizeof rows / sizeof *rows;
  return rows;
}

const hr_family *hr_family_of_type(const char *model_type)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].model_type, model_type) == 0)
      return &rows[i];
  }
  return NULL;
}

const hr_family *hr_family_of_architecture(const char *architecture)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].architecture, architecture) == 0)
      return &rows[i];
  }
  return NULL;
}

bool hr_head_dim_is_free(const hr_model *model)
{
  const hr_mixer_attention *heads = &hr_model_main_group(model)->attention;
  const hr_family *family = hr_family_of_type(model->family);
  if ((double)heads->q_heads * (double)heads->qk_dim != (double)model->hidden)
    return true;
  return family && (family->free_head_dim || family->head_dim.value > 0);
}

bool hr_scan_follows_hidden(const hr_model *model, const hr_mixer_scan *scan)
{
  const hr_family *family = hr_family_of_type(model->family);
  hr_checked64 channels = hr_times(hr_checked(scan->heads), scan->head_dim);
  bool whole = !channels.overflow && channels.value > 0 && channels.value % model->hidden == 0;
  return whole && family && family->scan.expand.field;
}

bool hr_has_latent(const hr_family *family)
{
  return family->latent.kv_rank > 0;
}
