/* SPDX-License-Identifier: Apache-2.0 */
#include "report/layer_groups.h"

#include "base/names.h"
#include "report/layer_kind_reports.h"
#include "report/lines.h"

#include <inttypes.h>
#include <string.h>

#define NAME_OF(names, value) hr_name_of(names, HR_COUNT_OF(names), (int)(value))

const char *hr_positions_name(hr_positions positions)
{
  static const char *const names[] = {[HR_POSITIONS_NONE] = "none",
                                      [HR_POSITIONS_LEARNED] = "learned",
                                      [HR_POSITIONS_ROTARY] = "rotary",
                                      [HR_POSITIONS_ALIBI] = "alibi"};
  return NAME_OF(names, positions);
}

static const void *struct_of(const hr_layer_group *group, size_t kind)
{
  return (const char *)group + hr_layer_kind_reports[kind].offset;
}

hr_group_words hr_words_of_group(const hr_layer_group *group, bool mixers)
{
  hr_group_words w = {"", ""};
  for (size_t i = 0; i < HR_LAYER_KIND_REPORTS; i++) {
    if (hr_layer_kind_reports[i].kind->is_mixer != mixers || !hr_layer_kind_reports[i].kind->present(group))
      continue;
    hr_layer_kind_reports[i].sizes(w.sizes, sizeof w.sizes, struct_of(group, i));
    hr_layer_kind_reports[i].details(w.details, sizeof w.details, struct_of(group, i));
  }
  return w;
}

void hr_append_window(char *to, size_t size, const hr_layer_group *group, const char *sliding, const char *chunked)
{
  const hr_mixer_attention *a = &group->attention;
  if (a->q_heads > 0 && a->window > 0)
    hr_append_item(to, size, "%s %" PRId64, a->window_kind == HR_WINDOW_CHUNKED ? chunked : sliding, a->window);
}

static void append_words(char *to, size_t size, const char *text)
{
  if (text[0])
    hr_append_item(to, size, "%s", text);
}

void hr_write_group(char *to, size_t size, const hr_layer_group *group)
{
  hr_group_words mixer = hr_words_of_group(group, true), ffn = hr_words_of_group(group, false);
  const char *const before[] = {mixer.sizes, mixer.details}, *const behind[] = {ffn.sizes, ffn.details};
  to[0] = '\0';
  hr_append_item(to, size, "%" PRId64 " layer%s", group->count, hr_plural(group->count));
  for (size_t i = 0; i < HR_COUNT_OF(before); i++)
    append_words(to, size, before[i]);
  hr_append_window(to, size, group, "window", "chunks of");
  for (size_t i = 0; i < HR_COUNT_OF(behind); i++)
    append_words(to, size, behind[i]);
}

/* ---- the table ---- */

typedef struct group_row {
  size_t index;
  const hr_model *model;
  const hr_layer_group *group;
  int64_t layer_parameters, parameters;
} group_row;

static void set_words(hr_cell *cell, const hr_layer_group *group, bool mixers)
{
  hr_group_words w = hr_words_of_group(group, mixers);
  if (w.sizes[0])
    hr_cell_format(cell, "%s%s%s%s", w.sizes, w.details[0] ? ", " : "", w.details,
                   !mixers && group->parallel_block ? ", parallel" : "");
}

static void mixer(const void *group, hr_cell *cell)
{
  set_words(cell, group, true);
}

static void ffn(const void *group, hr_cell *cell)
{
  set_words(cell, group, false);
}

static void window(const void *group, hr_cell *cell)
{
  char text[64] = "";
  hr_append_window(text, sizeof text, group, "", "chunks of");
  hr_cell_set_text(cell, text[0] ? text + strspn(text, " ") : NULL);
}

static void positions(const void *row, hr_cell *cell)
{
  const group_row *r = row;
  const hr_mixer_attention heads = hr_heads_of(r->group);
  if (heads.q_heads == 0)
    return;
  if (r->model->positions == HR_POSITIONS_ROTARY && heads.rotary_dim > 0)
    hr_cell_format(cell, "rotary %" PRId64, heads.rotary_dim);
  else
    hr_cell_set_text(
        cell, hr_positions_name(r->model->positions == HR_POSITIONS_ROTARY ? HR_POSITIONS_NONE : r->model->positions));
}

#define GROUP HR_THROUGH(group_row, group)
static const hr_column group_columns[] = {
    {NULL, "group", HR_PLAIN, 0, HR_MEMBER(group_row, index)},
    {NULL, "layers", HR_PLAIN, 0, GROUP, HR_MEMBER(hr_layer_group, count)},
    {NULL, "mixer", HR_PLAIN, 0, GROUP, HR_COMPUTED(TEXT, mixer)},
    {NULL, "window", HR_PLAIN, 0, GROUP, HR_COMPUTED(TEXT, window)},
    {NULL, "positions", HR_PLAIN, 3, HR_COMPUTED(TEXT, positions)},
    {NULL, "feed-forward", HR_PLAIN, 0, GROUP, HR_COMPUTED(TEXT, ffn)},
    {NULL, "parameters per layer", HR_PLAIN, 2, HR_MEMBER(group_row, layer_parameters)},
    {NULL, "parameters", HR_PLAIN, 1, HR_MEMBER(group_row, parameters)},
};

/* The model has been checked, so that its parameters fit. */
static int64_t layer_parameters(const hr_model *model, const hr_layer_group *group)
{
  hr_model alone = *model;
  hr_parameters parameters = {.attention = 0};
  alone.final_norm = alone.embedding_norm = false;
  alone.groups[0] = *group;
  alone.groups[0].count = 1;
  alone.group_count = 1;
  hr_model_parameters(&alone, &parameters, NULL);
  return parameters.attention + parameters.scan + parameters.mlp + parameters.experts + parameters.norm;
}

hr_table *hr_group_table(const hr_model *model)
{
  hr_table *table = HR_TABLE_OF(group_columns, group_row);
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group *group = &model->groups[i];
    int64_t each = layer_parameters(model, group);
    hr_table_add(table, &(group_row){i, model, group, each, each * group->count});
  }
  return table;
}

/* ---- JSON ---- */

void hr_json_put_groups(hr_json json, const hr_model *model)
{
  json_t *list = json_array();
  hr_json_put(json, "groups", list);
  for (size_t i = 0; list && i < model->group_count; i++) {
    const hr_layer_group *group = &model->groups[i];
    hr_json object = hr_json_append_object(json, list);
    hr_json_put_count(object, "layers", group->count);
    hr_json_put_count(object, "parameters_per_layer", layer_parameters(model, group));
    hr_json_put_count(object, "norms", group->norms);
    hr_json_put_flag(object, "parallel_block", group->parallel_block);
    for (size_t k = 0; k < HR_LAYER_KIND_REPORTS; k++) {
      if (hr_layer_kind_reports[k].kind->present(group))
        hr_json_put_fields(hr_json_put_object(object, hr_layer_kind_reports[k].key), hr_layer_kind_reports[k].fields,
                           hr_layer_kind_reports[k].field_count, struct_of(group, k));
      else
        hr_json_put(object, hr_layer_kind_reports[k].key, json_null());
    }
  }
}

static bool same_cell(const hr_cell *a, const hr_cell *b)
{
  if (a->type != b->type)
    return false;
  switch (a->type) {
  case HR_CELL_COUNT: return a->count == b->count;
  case HR_CELL_FLAG: return a->flag == b->flag;
  case HR_CELL_TEXT: return strcmp(a->text, b->text) == 0;
  case HR_CELL_NUMBER: return a->number == b->number;
  case HR_CELL_NONE: break;
  }
  return true;
}

void hr_json_put_common(hr_json json, const hr_column *column, const hr_model *model)
{
  hr_cell first, other;
  hr_column_read(column, &model->groups[0], &first);
  for (size_t i = 1; i < model->group_count; i++) {
    hr_column_read(column, &model->groups[i], &other);
    if (!same_cell(&first, &other)) {
      hr_json_put(json, column->key, json_null());
      return;
    }
  }
  hr_json_put_fields(json, column, 1, &model->groups[0]);
}
