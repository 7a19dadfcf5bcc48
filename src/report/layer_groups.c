/* SPDX-License-Identifier: Apache-2.0 */
#include "report/layer_groups.h"

#include "analysis/model/layer_kinds.h"
#include "base/names.h"
#include "report/lines.h"

#include <inttypes.h>
#include <string.h>

#define NAME_OF(names, value) hr_name_of(names, HR_COUNT_OF(names), (int)(value))

const char *hr_plural(int64_t count)
{
  return count == 1 ? "" : "s";
}

const char *hr_positions_name(hr_positions positions)
{
  static const char *const names[] = {[HR_POSITIONS_NONE] = "none",
                                      [HR_POSITIONS_LEARNED] = "learned",
                                      [HR_POSITIONS_ROTARY] = "rotary",
                                      [HR_POSITIONS_ALIBI] = "alibi"};
  return NAME_OF(names, positions);
}

/* ---- attention ---- */

void hr_qk_norm_cell(const void *qk_norm, hr_cell *cell)
{
  static const char *const names[] = {[HR_QK_NORM_NONE] = "none",
                                      [HR_QK_NORM_SHARED] = "shared",
                                      [HR_QK_NORM_PER_HEAD] = "per_head",
                                      [HR_QK_NORM_FULL] = "full"};
  hr_cell_set_text(cell, NAME_OF(names, *(const hr_qk_norm *)qk_norm));
}

static void window_kind(const void *attention, hr_cell *cell)
{
  static const char *const names[] = {[HR_WINDOW_SLIDING] = "sliding", [HR_WINDOW_CHUNKED] = "chunked"};
  const hr_mixer_attention *a = attention;
  hr_cell_set_text(cell, a->window > 0 ? NAME_OF(names, a->window_kind) : NULL);
}

#define FIELD(member) HR_FIELD(hr_mixer_attention, member)
static const hr_column attention_fields[] = {
    FIELD(q_heads),
    FIELD(k_heads),
    FIELD(v_heads),
    FIELD(qk_dim),
    FIELD(v_dim),
    FIELD(q_rank),
    FIELD(window),
    {"window_kind", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, window_kind)},
    FIELD(rotary_dim),
    {"qk_norm", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hr_qk_norm_cell, hr_mixer_attention, qk_norm)},
    FIELD(qk_norm_bias),
    FIELD(q_bias),
    FIELD(k_bias),
    FIELD(v_bias),
    FIELD(output_bias),
    FIELD(output_gate),
    FIELD(gate_per_head),
    FIELD(gate_unbiased),
    FIELD(sinks),
    FIELD(shared_kv),
    FIELD(v_is_k),
};
#undef FIELD

/* "32 heads of 80", with K, V heads where they differ. */
static void attention_sizes(char *to, size_t size, const void *member)
{
  const hr_mixer_attention *a = member;
  char values[48] = "";
  if (a->v_dim != a->qk_dim)
    snprintf(values, sizeof values, " (values %" PRId64 ")", a->v_dim);
  hr_append_item(to, size, "%" PRId64 " head%s of %" PRId64 "%s", a->q_heads, hr_plural(a->q_heads), a->qk_dim, values);
  if (a->k_heads != a->v_heads)
    hr_append_item(to, size, "%" PRId64 " K head%s, %" PRId64 " V head%s", a->k_heads, hr_plural(a->k_heads),
                   a->v_heads, hr_plural(a->v_heads));
  else if (a->k_heads != a->q_heads)
    hr_append_item(to, size, "%" PRId64 " KV head%s", a->k_heads, hr_plural(a->k_heads));
}

static void attention_details(char *to, size_t size, const void *member)
{
  const hr_mixer_attention *a = member;
  if (a->q_rank > 0)
    hr_append_item(to, size, "Q rank %" PRId64, a->q_rank);
  if (a->shared_kv)
    hr_append_item(to, size, "shared KV");
  if (a->v_is_k)
    hr_append_item(to, size, "V as K");
  if (a->sinks)
    hr_append_item(to, size, "sinks");
  if (a->output_gate)
    hr_append_item(to, size, "output gate");
}

/* ---- latent attention ---- */

#define FIELD(member) HR_FIELD(hr_mixer_latent, member)
static const hr_column latent_fields[] = {
    FIELD(q_heads),  FIELD(q_rank), FIELD(kv_rank),   FIELD(nope_dim),
    FIELD(rope_dim), FIELD(v_dim),  FIELD(down_bias), FIELD(output_bias),
};
#undef FIELD

/* "128 heads of 128 + 64 (values 128), latent 512 + 64": the rotated part behind the plus. */
static void latent_sizes(char *to, size_t size, const void *member)
{
  const hr_mixer_latent *m = member;
  hr_append_item(to, size, "%" PRId64 " head%s of %" PRId64 " + %" PRId64 " (values %" PRId64 ")", m->q_heads,
                 hr_plural(m->q_heads), m->nope_dim, m->rope_dim, m->v_dim);
  hr_append_item(to, size, "latent %" PRId64 " + %" PRId64, m->kv_rank, m->rope_dim);
}

static void latent_details(char *to, size_t size, const void *member)
{
  const hr_mixer_latent *m = member;
  if (m->q_rank > 0)
    hr_append_item(to, size, "Q rank %" PRId64, m->q_rank);
}

/* ---- scan ---- */

static const char *const recurrence_names[] = {[HR_RECURRENCE_NONE] = "none",
                                               [HR_RECURRENCE_SELECTIVE] = "mamba",
                                               [HR_RECURRENCE_SSD] = "mamba2",
                                               [HR_RECURRENCE_GATED_DELTA] = "gated_delta",
                                               [HR_RECURRENCE_LIGHTNING] = "lightning",
                                               [HR_RECURRENCE_RG_LRU] = "rg_lru",
                                               [HR_RECURRENCE_CONVOLUTION] = "convolution"};
static const char *const recurrence_words[] = {[HR_RECURRENCE_NONE] = "none",
                                               [HR_RECURRENCE_SELECTIVE] = "Mamba",
                                               [HR_RECURRENCE_SSD] = "Mamba-2",
                                               [HR_RECURRENCE_GATED_DELTA] = "gated delta",
                                               [HR_RECURRENCE_LIGHTNING] = "lightning attention",
                                               [HR_RECURRENCE_RG_LRU] = "RG-LRU",
                                               [HR_RECURRENCE_CONVOLUTION] = "convolution"};

static void recurrence(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, NAME_OF(recurrence_names, *(const hr_recurrence *)member));
}

#define FIELD(member) HR_FIELD(hr_mixer_scan, member)
static const hr_column scan_fields[] = {
    {"recurrence", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, recurrence, hr_mixer_scan, recurrence)},
    FIELD(heads),
    FIELD(head_dim),
    FIELD(groups),
    FIELD(state),
    FIELD(kernel),
    FIELD(rank),
    FIELD(chunk),
    FIELD(in_bias),
    FIELD(out_bias),
    FIELD(conv_bias),
    FIELD(norm),
    FIELD(norm_weight),
};
#undef FIELD

/* "Mamba-2 128 heads of 64, state 128". */
static void scan_sizes(char *to, size_t size, const void *member)
{
  const hr_mixer_scan *s = member;
  const char *name = NAME_OF(recurrence_words, s->recurrence);
  if (s->head_dim == 1)
    hr_append_item(to, size, "%s %" PRId64 " channel%s", name, s->heads, hr_plural(s->heads));
  else
    hr_append_item(to, size, "%s %" PRId64 " head%s of %" PRId64, name, s->heads, hr_plural(s->heads), s->head_dim);
  if (s->state > 1)
    hr_append_item(to, size, "state %" PRId64, s->state);
}

static void scan_details(char *to, size_t size, const void *member)
{
  const hr_mixer_scan *s = member;
  if (s->kernel > 0)
    hr_append_item(to, size, "kernel %" PRId64, s->kernel);
}

/* ---- dense feed-forward network ---- */

#define FIELD(member) HR_FIELD(hr_ffn_dense, member)
static const hr_column dense_fields[] = {FIELD(width), FIELD(gated), FIELD(bias), FIELD(activation_parameters)};
#undef FIELD

static void dense_sizes(char *to, size_t size, const void *member)
{
  hr_append_item(to, size, "MLP %" PRId64, ((const hr_ffn_dense *)member)->width);
}

static void dense_details(char *to, size_t size, const void *member)
{
  if (((const hr_ffn_dense *)member)->gated)
    hr_append_item(to, size, "gated");
}

/* ---- experts ---- */

#define FIELD(member) HR_FIELD(hr_ffn_experts, member)
static const hr_column expert_fields[] = {
    FIELD(experts), FIELD(active), FIELD(width),       FIELD(groups),      FIELD(active_groups), FIELD(shared_width),
    FIELD(gated),   FIELD(bias),   FIELD(shared_bias), FIELD(router_bias), FIELD(shared_gate),   FIELD(output_norm),
};
#undef FIELD

static void expert_sizes(char *to, size_t size, const void *member)
{
  const hr_ffn_experts *m = member;
  hr_append_item(to, size, "%" PRId64 " of %" PRId64 " experts of %" PRId64, m->active, m->experts, m->width);
  if (m->shared_width > 0)
    hr_append_item(to, size, "shared %" PRId64, m->shared_width);
}

static void expert_details(char *to, size_t size, const void *member)
{
  const hr_ffn_experts *m = member;
  if (m->gated)
    hr_append_item(to, size, "gated");
  if (m->groups > 1)
    hr_append_item(to, size, "from %" PRId64 " of %" PRId64 " groups", m->active_groups, m->groups);
}

/* ---- the kinds ---- */

static const struct {
  const hr_layer_kind *kind;
  const char *key; /* of its object in the JSON, null where a group has none */
  size_t offset;   /* of its struct in hr_layer_group, which the functions are given */
  const hr_column *fields;
  size_t field_count;
  void (*sizes)(char *to, size_t size, const void *member);   /* appends items: "MLP 14336" */
  void (*details)(char *to, size_t size, const void *member); /* and "gated" */
} kinds[] = {
    {&hr_mixer_attention_kind, "attention", offsetof(hr_layer_group, attention), attention_fields,
     HR_COUNT_OF(attention_fields), attention_sizes, attention_details},
    {&hr_mixer_latent_kind, "latent", offsetof(hr_layer_group, latent), latent_fields, HR_COUNT_OF(latent_fields),
     latent_sizes, latent_details},
    {&hr_mixer_scan_kind, "scan", offsetof(hr_layer_group, scan), scan_fields, HR_COUNT_OF(scan_fields), scan_sizes,
     scan_details},
    {&hr_ffn_dense_kind, "dense", offsetof(hr_layer_group, dense), dense_fields, HR_COUNT_OF(dense_fields), dense_sizes,
     dense_details},
    {&hr_ffn_experts_kind, "experts", offsetof(hr_layer_group, experts), expert_fields, HR_COUNT_OF(expert_fields),
     expert_sizes, expert_details},
};

static const void *struct_of(const hr_layer_group *group, size_t kind)
{
  return (const char *)group + kinds[kind].offset;
}

hr_group_words hr_words_of_group(const hr_layer_group *group, bool mixers)
{
  hr_group_words w = {"", ""};
  for (size_t i = 0; i < HR_COUNT_OF(kinds); i++) {
    if (kinds[i].kind->is_mixer != mixers || !kinds[i].kind->present(group))
      continue;
    kinds[i].sizes(w.sizes, sizeof w.sizes, struct_of(group, i));
    kinds[i].details(w.details, sizeof w.details, struct_of(group, i));
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

/* Of a model that has been checked, whose parameters fit. */
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
    for (size_t k = 0; k < HR_COUNT_OF(kinds); k++) {
      if (kinds[k].kind->present(group))
        hr_json_put_fields(hr_json_put_object(object, kinds[k].key), kinds[k].fields, kinds[k].field_count,
                           struct_of(group, k));
      else
        hr_json_put(object, kinds[k].key, json_null());
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
