/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of a model as MHA, GQA, MQA and DiffQKV, as SIGMA's figure 1 (arXiv 2501.13629) draws them, and the latents
 * of latent attention. Layers that differ in their heads are drawn as they are. */
#include <headroom/experimental/plot.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "figure/figure.h"
#include "model/layers/layer_kinds.h"

#include <headroom/memory.h>
#include <string.h>

#define LANE 0.3 /* between the rows of Q, K and V heads of a kind, whose rows are 1 apart */
#define LANE_HEIGHT 0.26
#define HEADS_MAX 1024 /* more are no picture */
#define LAYOUTS_MAX 6  /* rows of layers that differ; names of more would overlap */
#define GQA_HEADS 8    /* Llama 3 (arXiv 2407.21783, table 3) */
#define DIFF_K_SHARE 8 /* SIGMA: 32 heads of Q, 4 of K and 16 of V */
#define DIFF_V_SHARE 2

typedef struct head_counts {
  int64_t k, v;
} head_counts;

/* The largest number of heads, at most `most`, among which the query heads are divided equally. */
static int64_t divisor(int64_t q_heads, int64_t most)
{
  int64_t heads = most < q_heads ? most : q_heads;
  while (heads > 1 && q_heads % heads != 0)
    heads--;
  return heads > 1 ? heads : 1;
}

static head_counts mha(int64_t q_heads)
{
  return (head_counts){q_heads, q_heads};
}

static head_counts gqa(int64_t q_heads)
{
  int64_t heads = divisor(q_heads, q_heads > GQA_HEADS ? GQA_HEADS : q_heads / 2);
  return (head_counts){heads, heads};
}

static head_counts mqa(int64_t q_heads)
{
  (void)q_heads;
  return (head_counts){1, 1};
}

static head_counts diff_qkv(int64_t q_heads)
{
  return (head_counts){divisor(q_heads, q_heads / DIFF_K_SHARE), divisor(q_heads, q_heads / DIFF_V_SHARE)};
}

/* The kinds that heads can be changed to, then latent attention. */
static const struct {
  const char *name;
  head_counts (*of)(int64_t q_heads);
} kinds[] = {{"MHA", mha}, {"GQA", gqa}, {"MQA", mqa}, {"DiffQKV", diff_qkv}, {"MLA", NULL}};

enum { KIND_COUNT = sizeof kinds / sizeof *kinds, LATENT = KIND_COUNT - 1 };

/* The series of the figure. */
enum { Q_HEADS, K_HEADS, V_HEADS, LATENT_ROW, ROTATED_K };

/* Layers with the same heads, whatever else differs. */
typedef struct layout {
  hr_mixer_attention heads; /* of latent attention, those that it is computed with */
  hr_mixer_latent latent;   /* q_heads 0: none */
  int64_t layers;
} layout;

typedef struct layouts {
  layout items[HR_LAYER_GROUPS_MAX];
  size_t count;
} layouts;

static size_t kind_of(const layout *l)
{
  const hr_mixer_attention *a = &l->heads;
  if (l->latent.q_heads > 0)
    return LATENT;
  return a->k_heads != a->v_heads ? 3 : a->k_heads == a->q_heads ? 0 : a->k_heads == 1 ? 2 : 1;
}

/* False for layers that keep no K and V of their own. */
static bool layout_of(const hr_layer_group *group, layout *l)
{
  bool latent = group->latent.q_heads > 0;
  *l = (layout){.heads = latent ? hr_expanded_attention(&group->latent) : group->attention, .latent = group->latent};
  return l->heads.q_heads > 0 && !l->heads.shared_kv;
}

static bool same_layout(const layout *one, const layout *other)
{
  const hr_mixer_attention *a = &one->heads, *b = &other->heads;
  return a->q_heads == b->q_heads && a->k_heads == b->k_heads && a->v_heads == b->v_heads && a->qk_dim == b->qk_dim &&
         a->v_dim == b->v_dim && one->latent.kv_rank == other->latent.kv_rank &&
         one->latent.rope_dim == other->latent.rope_dim;
}

static layouts layouts_of(const hr_model *model)
{
  layouts all = {.count = 0};
  for (size_t i = 0; i < model->group_count; i++) {
    layout own;
    size_t at = 0;
    if (!layout_of(&model->groups[i], &own))
      continue;
    while (at < all.count && !same_layout(&all.items[at], &own))
      at++;
    if (at == all.count)
      all.items[all.count++] = own;
    all.items[at].layers += model->groups[i].count;
  }
  return all;
}

/* The layers of one layout alone. */
static hr_model model_of_layout(const hr_model *model, const layout *l)
{
  hr_model part = *model;
  part.group_count = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    layout own;
    if (layout_of(&model->groups[i], &own) && same_layout(l, &own))
      part.groups[part.group_count++] = model->groups[i];
  }
  return part;
}

/* The model with heads of this kind in every layer. */
static hr_model model_with(const hr_model *model, size_t kind)
{
  hr_model changed = *model;
  for (size_t i = 0; i < model->group_count; i++) {
    hr_layer_group *group = &changed.groups[i];
    layout own;
    if (!layout_of(group, &own))
      continue;
    head_counts counts = kinds[kind].of(own.heads.q_heads);
    group->attention = own.heads;
    group->attention.k_heads = counts.k;
    group->attention.v_heads = counts.v;
    group->latent.q_heads = 0;
  }
  return changed;
}

static hr_status write_cache(const hr_model *model, const hr_workload *workload, char *text, size_t size,
                             hr_error *error)
{
  hr_memory memory;
  HR_TRY(hr_memory_estimate(model, workload, &memory, error));
  hr_write_bytes(text, size, (double)memory.kv_cache_bytes_per_token);
  return HR_OK;
}

static void add_box(hr_figure *figure, size_t series, double y, double left, double right)
{
  hr_figure_point box = hr_figure_value((left + right) / 2, y);
  box.low = left;
  box.high = right;
  hr_figure_add_point(figure, series, box);
}

static void add_lane(hr_figure *figure, size_t series, double y, int64_t q_heads, int64_t heads)
{
  double width = (double)q_heads / (double)heads;
  for (int64_t i = 0; i < heads; i++)
    add_box(figure, series, y, (double)i * width, (double)(i + 1) * width);
}

/* One row for all heads: the latent, and beside it K's rotated elements. */
static void add_latent(hr_figure *figure, double y, const hr_mixer_latent *m)
{
  double all = (double)m->q_heads, latent = all * (double)m->kv_rank / (double)(m->kv_rank + m->rope_dim);
  add_box(figure, LATENT_ROW, y, 0, latent);
  if (m->rope_dim > 0)
    add_box(figure, ROTATED_K, y, latent, all);
}

/* `who` follows the name of the kind. */
static void add_row(hr_figure *figure, const layout *l, const char *who, const char *bytes)
{
  char name[HR_FIGURE_TEXT];
  const hr_mixer_attention *a = &l->heads;
  size_t kind = kind_of(l);
  if (kind == LATENT)
    hr_write_text(name, sizeof name, "%s%s: %lld + %lld elements, %s", kinds[kind].name, who,
                  (long long)l->latent.kv_rank, (long long)l->latent.rope_dim, bytes);
  else
    hr_write_text(name, sizeof name, "%s%s: %lld K, %lld V heads, %s", kinds[kind].name, who, (long long)a->k_heads,
                  (long long)a->v_heads, bytes);
  double y = (double)hr_figure_name(figure, &figure->y, name);
  add_lane(figure, Q_HEADS, y - LANE, a->q_heads, a->q_heads);
  if (kind == LATENT) {
    add_latent(figure, y, &l->latent);
    return;
  }
  add_lane(figure, K_HEADS, y, a->q_heads, a->k_heads);
  add_lane(figure, V_HEADS, y + LANE, a->q_heads, a->v_heads);
}

static void add_to_note(hr_figure *figure, const char *separator, const char *text)
{
  size_t used = strlen(figure->note);
  hr_write_text(figure->note + used, sizeof figure->note - used, "%s%s", separator, text);
}

/* A kind that the model cannot have is named below the picture. */
static void note_left_out(hr_figure *figure, size_t kind, const hr_error *why)
{
  char text[sizeof why->message + 32];
  hr_write_text(text, sizeof text, "left out: %s (%s)", kinds[kind].name, why->message);
  add_to_note(figure, "; ", text);
}

/* ---- all layers have the same heads: what they are, between what they could be ---- */

static hr_status add_own(hr_figure *figure, const hr_model *model, const hr_workload *workload, const layout *own,
                         hr_error *error)
{
  char bytes[HR_NUMBER_SIZE];
  HR_TRY(write_cache(model, workload, bytes, sizeof bytes, error));
  add_row(figure, own, " (as is)", bytes);
  return HR_OK;
}

static void add_other(hr_figure *figure, const hr_model *model, const hr_workload *workload, size_t kind)
{
  char bytes[HR_NUMBER_SIZE];
  hr_error why = {.status = HR_OK};
  hr_model changed = model_with(model, kind);
  if (write_cache(&changed, workload, bytes, sizeof bytes, &why) == HR_OK)
    add_row(figure, &layouts_of(&changed).items[0], "", bytes);
  else
    note_left_out(figure, kind, &why);
}

static hr_status add_kinds(hr_figure *figure, const hr_model *model, const hr_workload *workload, const layout *own,
                           hr_error *error)
{
  for (size_t kind = 0; kind < KIND_COUNT; kind++) {
    if (kind == kind_of(own))
      HR_TRY(add_own(figure, model, workload, own, error));
    else if (kind != LATENT)
      add_other(figure, model, workload, kind);
  }
  return HR_OK;
}

/* ---- layers differ: each layout as it is, and what their caches could be in words ---- */

static void note_other(hr_figure *figure, const hr_model *model, const hr_workload *workload, size_t kind)
{
  char bytes[HR_NUMBER_SIZE], text[HR_FIGURE_TEXT];
  hr_error why = {.status = HR_OK};
  hr_model changed = model_with(model, kind);
  if (write_cache(&changed, workload, bytes, sizeof bytes, &why) == HR_OK) {
    hr_write_text(text, sizeof text, "%s %s", kinds[kind].name, bytes);
    add_to_note(figure, kind == 0 ? "; all layers as " : ", ", text);
  }
}

static hr_status add_layouts(hr_figure *figure, const hr_model *model, const hr_workload *workload, const layouts *all,
                             hr_error *error)
{
  char bytes[HR_NUMBER_SIZE], text[HR_FIGURE_TEXT];
  HR_TRY(write_cache(model, workload, bytes, sizeof bytes, error));
  hr_write_text(text, sizeof text, "; together %s", bytes);
  add_to_note(figure, "", text);
  for (size_t kind = 0; kind < LATENT; kind++)
    note_other(figure, model, workload, kind);
  for (size_t i = 0; i < all->count && i < LAYOUTS_MAX; i++) {
    const layout *l = &all->items[i];
    hr_model part = model_of_layout(model, l);
    HR_TRY(write_cache(&part, workload, bytes, sizeof bytes, error));
    hr_write_text(text, sizeof text, ", %lld layer%s of %lld heads", (long long)l->layers, l->layers == 1 ? "" : "s",
                  (long long)l->heads.q_heads);
    add_row(figure, l, text, bytes);
  }
  if (all->count > LAYOUTS_MAX) {
    hr_write_text(text, sizeof text, "; left out: %zu more kinds of layers", all->count - LAYOUTS_MAX);
    add_to_note(figure, "", text);
  }
  return HR_OK;
}

static bool has_latent(const layouts *all)
{
  for (size_t i = 0; i < all->count; i++) {
    if (kind_of(&all->items[i]) == LATENT)
      return true;
  }
  return false;
}

static void describe(hr_figure *figure, const hr_model *model, const hr_workload *workload, const layouts *all)
{
  figure->form = HR_FIGURE_BOXES;
  figure->box_height = LANE_HEIGHT;
  figure->y.scale = HR_FIGURE_SCALE_NAMES;
  hr_write_text(figure->x.label, sizeof figure->x.label, "Query heads");
  hr_write_text(figure->title, sizeof figure->title, "Heads of %s, and bytes of its KV cache per token", model->name);
  hr_write_text(figure->note, sizeof figure->note,
                "%s; a K or V head is as wide as the query heads that read it; bytes are of all %s%s",
                workload->kv_cache == HR_KV_UNQUANTIZED ? hr_dtype_name(workload->dtype)
                                                        : hr_kv_format_name(workload->kv_cache),
                all->count > 1 ? "layers of a row" : "layers",
                has_latent(all) ? "; a token's latent and rotated K are one row that all heads read" : "");
  static const char *const lanes[] = {[Q_HEADS] = "Q heads",
                                      [K_HEADS] = "K heads",
                                      [V_HEADS] = "V heads",
                                      [LATENT_ROW] = "Latent",
                                      [ROTATED_K] = "Rotated K"};
  for (size_t lane = 0; lane <= (has_latent(all) ? ROTATED_K : V_HEADS); lane++)
    hr_figure_add_series(figure, lanes[lane], HR_FIGURE_MARK_POINTS, HR_FIGURE_EXACT);
}

static hr_status check(const hr_model *model, const layouts *all, hr_error *error)
{
  for (size_t i = 0; i < all->count; i++) {
    if (all->items[i].heads.q_heads > HEADS_MAX)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has %lld query heads, and a picture at most %d", model->name,
                     (long long)all->items[i].heads.q_heads, HEADS_MAX);
  }
  return all->count > 0
             ? HR_OK
             : hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no layer has heads of K and V to draw", model->name);
}

hr_status hr_figure_of_heads(const hr_model *model, const hr_workload *workload, hr_figure **figure, hr_error *error)
{
  HR_NEED(error, model, workload, figure);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  layouts all = layouts_of(model);
  HR_TRY(check(model, &all, error));
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  describe(f, model, workload, &all);
  hr_status status = all.count == 1 ? add_kinds(f, model, workload, &all.items[0], error)
                                    : add_layouts(f, model, workload, &all, error);
  if (status == HR_OK)
    return hr_figure_end(f, figure, error);
  hr_figure_free(f);
  return status;
}
