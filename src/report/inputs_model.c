/* SPDX-License-Identifier: Apache-2.0 */
/* The model that a report is about. */
#include "base/names.h"
#include "base/quantity.h"
#include "report/inputs.h"
#include "report/layer_groups.h"
#include "report/layer_kind_reports.h"
#include "report/lines.h"
#include "report/quantization.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <string.h>

/* ---- JSON ---- */

static void positions(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_positions_name(*(const hr_positions *)member));
}

static void norm(const void *member, hr_cell *cell)
{
  static const char *const names[] = {[HR_NORM_LAYER] = "layer", [HR_NORM_RMS] = "rms"};
  hr_cell_set_text(cell, hr_name_of(names, HR_COUNT_OF(names), (int)*(const hr_norm *)member));
}

static void layers(const void *model, hr_cell *cell)
{
  hr_cell_set_count(cell, hr_model_layers(model));
}

/* The window of all layers that have one; 0 if none has. */
static void window(const void *model, hr_cell *cell)
{
  const hr_model *m = model;
  int64_t found = 0;
  for (size_t i = 0; i < m->group_count; i++) {
    const hr_mixer_attention *a = &m->groups[i].attention;
    if (a->q_heads == 0 || a->window == 0)
      continue;
    if ((found > 0 && a->window != found) || a->window_kind != HR_WINDOW_SLIDING)
      return;
    found = a->window;
  }
  hr_cell_set_count(cell, found);
}

static void window_layers(const void *model, hr_cell *cell)
{
  const hr_model *m = model;
  int64_t count = 0;
  for (size_t i = 0; i < m->group_count; i++) {
    const hr_layer_group *group = &m->groups[i];
    count += group->attention.q_heads > 0 && group->attention.window > 0 ? group->count : 0;
  }
  hr_cell_set_count(cell, count);
}

/* A member of the model, or one that all groups of layers may have alike. */
typedef struct model_field {
  hr_column column;
  bool of_groups;
} model_field;

#define FIELD(member)                 \
  {                                   \
    HR_FIELD(hr_model, member), false \
  }
#define COUNTED(function)                                               \
  {                                                                     \
    {#function, NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, function)}, false \
  }
#define NAMED(member)                                                                   \
  {                                                                                     \
    {#member, NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, member, hr_model, member)}, false \
  }
#define COMMON(key, member)                                           \
  {                                                                   \
    {key, NULL, HR_PLAIN, 0, HR_MEMBER(hr_layer_group, member)}, true \
  }
static const model_field model_fields[] = {
    FIELD(name),
    FIELD(family),
    COUNTED(layers),
    FIELD(hidden),
    FIELD(vocabulary),
    FIELD(max_positions),
    COMMON("q_heads", attention.q_heads),
    COMMON("k_heads", attention.k_heads),
    COMMON("v_heads", attention.v_heads),
    COMMON("qk_dim", attention.qk_dim),
    COMMON("v_dim", attention.v_dim),
    COMMON("q_rank", attention.q_rank),
    COUNTED(window),
    COUNTED(window_layers),
    COMMON("mlp_width", dense.width),
    COMMON("mlp_gated", dense.gated),
    FIELD(activation),
    COMMON("parallel_block", parallel_block),
    FIELD(residual_streams),
    NAMED(positions),
    COMMON("rotary_dim", attention.rotary_dim),
    NAMED(norm),
    {{"qk_norm", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hr_qk_norm_cell, hr_layer_group, attention.qk_norm)}, true},
    FIELD(tied_embeddings),
};
#undef FIELD
#undef COUNTED
#undef NAMED
#undef COMMON

/* The model with the heads of latent attention's expanded form where the fields of all groups are read. */
static hr_model with_heads(const hr_model *model)
{
  hr_model shown = *model;
  for (size_t i = 0; i < model->group_count; i++)
    shown.groups[i].attention = hr_heads_of(&model->groups[i]);
  return shown;
}

void hr_json_put_model(hr_json document, const hr_model *model)
{
  hr_json json = hr_json_put_object(document, "model");
  const hr_model shown = with_heads(model);
  for (size_t i = 0; i < HR_COUNT_OF(model_fields); i++) {
    const model_field *field = &model_fields[i];
    if (field->of_groups)
      hr_json_put_common(json, &field->column, &shown);
    else
      hr_json_put_fields(json, &field->column, 1, model);
  }
  hr_json_put_groups(json, model);
  hr_json_put_quantization(json, model);
}

/* ---- the main group in words ---- */

/* The group whose feed-forward network stands for the model: the main group, else the largest one that has one. */
static const hr_layer_group *main_ffn(const hr_model *model)
{
  const hr_layer_group *main = hr_model_main_group(model), *found = NULL;
  if (hr_has_ffn(main))
    return main;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *other = &model->groups[i];
    if (hr_has_ffn(other) && (!found || other->count > found->count))
      found = other;
  }
  return found ? found : main;
}

/* "32 heads of 128, 8 KV heads". */
static void write_mixer(char *to, size_t size, const hr_model *model)
{
  hr_group_words words = hr_words_of_group(hr_model_main_group(model), true);
  snprintf(to, size, "%s", words.sizes[0] ? words.sizes : "no attention");
}

/* "MLP 14336 (gated silu, parallel to attention)". */
static void write_ffn(char *to, size_t size, const hr_model *model)
{
  const hr_layer_group *group = main_ffn(model);
  hr_group_words words = hr_words_of_group(group, false);
  size_t first = strcspn(words.details, ","); /* "gated", beside which the activation stands */
  if (words.sizes[0])
    snprintf(to, size, "%s (%.*s%s%s%s%s)", words.sizes, (int)first, words.details, first > 0 ? " " : "",
             model->activation, words.details + first, group->parallel_block ? ", parallel to attention" : "");
  else
    snprintf(to, size, "no MLP");
}

/* ---- how the layers of other groups differ ---- */

#define TRAIT_SIZE 336
#define DIFFERENCES_MAX 4 /* in a line */

/* Writes what may set the layers of a group apart; leaves *to empty if nothing does. */
typedef void (*trait_writer)(char *to, const hr_model *model, const hr_layer_group *group);

static void window_trait(char *to, const hr_model *model, const hr_layer_group *group)
{
  (void)model;
  hr_append_window(to, TRAIT_SIZE, group, "with a window of", "with chunks of");
}

static void positions_trait(char *to, const hr_model *model, const hr_layer_group *group)
{
  const hr_mixer_attention heads = hr_heads_of(group);
  if (model->positions == HR_POSITIONS_ROTARY && heads.q_heads > 0 && heads.rotary_dim == 0)
    snprintf(to, TRAIT_SIZE, "without positions");
}

static void mixer_trait(char *to, const hr_model *model, const hr_layer_group *group)
{
  hr_group_words own = hr_words_of_group(group, true), of_main = hr_words_of_group(hr_model_main_group(model), true);
  bool same_sizes = strcmp(own.sizes, of_main.sizes) == 0;
  if (!own.sizes[0])
    snprintf(to, TRAIT_SIZE, "without attention");
  else if (!same_sizes || strcmp(own.details, of_main.details) != 0)
    snprintf(to, TRAIT_SIZE, "with %s", same_sizes && own.details[0] ? own.details : own.sizes);
}

static void ffn_trait(char *to, const hr_model *model, const hr_layer_group *group)
{
  hr_group_words own = hr_words_of_group(group, false), of_main = hr_words_of_group(main_ffn(model), false);
  if (!own.sizes[0])
    snprintf(to, TRAIT_SIZE, "without MLP");
  else if (strcmp(own.sizes, of_main.sizes) != 0 || strcmp(own.details, of_main.details) != 0)
    snprintf(to, TRAIT_SIZE, "with %s%s%s", own.sizes, own.details[0] ? " " : "", own.details);
}

/* Adds "13 with a window of 4096" for each value of a trait that some layers have and others have not. Returns their
 * number. */
static size_t add_differences(char *to, size_t size, const hr_model *model, trait_writer trait)
{
  char texts[HR_LAYER_GROUPS_MAX][TRAIT_SIZE] = {{0}};
  size_t found = 0;
  for (size_t i = 0; i < model->group_count; i++)
    trait(texts[i], model, &model->groups[i]);
  for (size_t i = 0; i < model->group_count; i++) {
    int64_t count = texts[i][0] ? model->groups[i].count : 0;
    for (size_t k = i + 1; count > 0 && k < model->group_count; k++) {
      if (strcmp(texts[k], texts[i]) != 0)
        continue;
      count += model->groups[k].count;
      texts[k][0] = '\0';
    }
    if (count > 0 && count < hr_model_layers(model)) {
      hr_append_item(to, size, "%" PRId64 " %s", count, texts[i]);
      found++;
    }
  }
  return found;
}

/* "26 layers (13 with a window of 4096)". */
static void write_layers(char *to, size_t size, const hr_model *model)
{
  static const trait_writer traits[] = {window_trait, positions_trait, mixer_trait, ffn_trait};
  char differences[512] = "";
  size_t found = 0;
  int64_t count = hr_model_layers(model);
  for (size_t i = 0; i < HR_COUNT_OF(traits); i++)
    found += add_differences(differences, sizeof differences, model, traits[i]);
  if (found == 0 || found > DIFFERENCES_MAX)
    snprintf(differences, sizeof differences, "in %zu groups", model->group_count);
  snprintf(to, size, "%" PRId64 " layer%s%s%s%s", count, hr_plural(count), model->group_count > 1 ? " (" : "",
           model->group_count > 1 ? differences : "", model->group_count > 1 ? ")" : "");
}

void hr_print_model(const hr_document *document, const hr_model *model)
{
  char count[560], mixer[192], ffn[448], vocabulary[HR_NUMBER_SIZE];
  write_layers(count, sizeof count, model);
  write_mixer(mixer, sizeof mixer, model);
  write_ffn(ffn, sizeof ffn, model);
  hr_write_count(vocabulary, sizeof vocabulary, model->vocabulary);
  hr_print_field(document, "model", "%s", model->name);
  hr_print_field(document, "shape", "%s: %s, hidden %" PRId64 ", %s, %s, vocabulary %s%s",
                 strcmp(model->family, "short") == 0 ? "short form" : model->family, count, model->hidden, mixer, ffn,
                 vocabulary, model->tied_embeddings ? " (tied)" : "");
  hr_print_quantization(document, model);
}
