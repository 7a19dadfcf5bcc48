/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/model/families.h"

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

static const hr_family rows[] = {
#define HR_FAMILY(type, class, text, ...) {.model_type = type, .architecture = class, .description = text, __VA_ARGS__},
#include "analysis/model/families.inc"
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

bool hr_has_latent(const hr_family *family)
{
  return family->latent.kv_rank > 0;
}
