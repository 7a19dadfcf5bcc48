/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of a model as MHA, GQA, MQA and DiffQKV, as SIGMA's figure 1 (arXiv 2501.13629) draws them. */
#include <headroom/plot.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"
#include "figure/figure.h"

#include <headroom/memory.h>

#include <string.h>

#define LANE 0.3 /* between the rows of Q, K and V heads of a kind, whose rows are 1 apart */
#define LANE_HEIGHT 0.26
#define HEADS_MAX 1024 /* more are no picture */
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

static const struct {
  const char *name;
  head_counts (*of)(int64_t q_heads);
} kinds[] = {{"MHA", mha}, {"GQA", gqa}, {"MQA", mqa}, {"DiffQKV", diff_qkv}};

#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static size_t kind_of(const hr_mixer_attention *a)
{
  return a->k_heads != a->v_heads ? 3 : a->k_heads == a->q_heads ? 0 : a->k_heads == 1 ? 2 : 1;
}

/* The heads that are drawn: of the first group of layers that keeps K and V. NULL: there is none. */
static const hr_mixer_attention *drawn_attention(const hr_model *model)
{
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention *a = &model->groups[i].attention;
    if (a->q_heads > 0 && !a->shared_kv)
      return a;
  }
  return NULL;
}

/* The model with heads of this kind in every layer; as it is, if they are its own. */
static hr_model model_with(const hr_model *model, size_t kind)
{
  hr_model changed = *model;
  for (size_t i = 0; i < model->group_count && kind != kind_of(drawn_attention(model)); i++) {
    hr_mixer_attention *a = &changed.groups[i].attention;
    head_counts counts = a->q_heads > 0 ? kinds[kind].of(a->q_heads) : (head_counts){a->k_heads, a->v_heads};
    a->k_heads = counts.k;
    a->v_heads = counts.v;
  }
  return changed;
}

static void add_lane(hr_figure *figure, size_t series, double y, int64_t q_heads, int64_t heads)
{
  double width = (double)q_heads / (double)heads;
  for (int64_t i = 0; i < heads; i++) {
    hr_figure_point box = hr_figure_value(((double)i + 0.5) * width, y);
    box.low = (double)i * width;
    box.high = box.low + width;
    hr_figure_add_point(figure, series, box);
  }
}

static hr_status add_kind(hr_figure *figure, const hr_model *model, const hr_workload *workload, size_t kind,
                          hr_error *error)
{
  hr_memory memory;
  hr_model changed = model_with(model, kind);
  const hr_mixer_attention *a = drawn_attention(&changed);
  HR_TRY(hr_memory_estimate(&changed, workload, &memory, error));
  char name[HR_FIGURE_TEXT], bytes[HR_NUMBER_SIZE];
  hr_write_bytes(bytes, sizeof bytes, (double)memory.kv_cache_bytes_per_token);
  hr_write_text(name, sizeof name, "%s%s: %lld K, %lld V heads, %s", kinds[kind].name,
                kind == kind_of(drawn_attention(model)) ? " (as is)" : "", (long long)a->k_heads, (long long)a->v_heads,
                bytes);
  double y = (double)hr_figure_name(figure, &figure->y, name);
  const int64_t heads[] = {a->q_heads, a->k_heads, a->v_heads};
  for (size_t lane = 0; lane < 3; lane++)
    add_lane(figure, lane, y + LANE * ((double)lane - 1), a->q_heads, heads[lane]);
  return HR_OK;
}

/* A kind that the model cannot have is named below the picture. */
static void note_left_out(hr_figure *figure, size_t kind, const hr_error *why)
{
  size_t used = strlen(figure->note);
  hr_write_text(figure->note + used, sizeof figure->note - used, "; left out: %s (%s)", kinds[kind].name, why->message);
}

static void describe(hr_figure *figure, const hr_model *model, const hr_workload *workload)
{
  figure->form = HR_FIGURE_BOXES;
  figure->box_height = LANE_HEIGHT;
  figure->y.scale = HR_FIGURE_SCALE_NAMES;
  hr_write_text(figure->x.label, sizeof figure->x.label, "Query heads");
  hr_write_text(figure->title, sizeof figure->title, "Heads of %s, and bytes of its KV cache per token", model->name);
  hr_write_text(figure->note, sizeof figure->note,
                "%s; a K or V head is as wide as the query heads that read it; bytes are of all layers",
                workload->kv_cache == HR_KV_UNQUANTIZED ? hr_dtype_name(workload->dtype)
                                                        : hr_kv_format_name(workload->kv_cache));
  static const char *const lanes[] = {"Q heads", "K heads", "V heads"};
  for (size_t lane = 0; lane < 3; lane++)
    hr_figure_add_series(figure, lanes[lane], HR_FIGURE_MARK_POINTS, HR_FIGURE_EXACT);
}

hr_status hr_figure_of_heads(const hr_model *model, const hr_workload *workload, hr_figure **figure, hr_error *error)
{
  HR_NEED(error, model, workload, figure);
  if (!drawn_attention(model))
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no layer has heads of K and V to draw", model->name);
  if (drawn_attention(model)->q_heads > HEADS_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has %lld query heads, and a picture at most %d", model->name,
                   (long long)drawn_attention(model)->q_heads, HEADS_MAX);
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  describe(f, model, workload);
  for (size_t kind = 0; kind < KIND_COUNT; kind++) {
    hr_error why = {.status = HR_OK};
    hr_status status = add_kind(f, model, workload, kind, &why);
    if (status != HR_OK && kind == kind_of(drawn_attention(model))) {
      hr_figure_free(f);
      return hr_fail(error, status, "%s", why.message);
    }
    if (status != HR_OK)
      note_left_out(f, kind, &why);
  }
  return hr_figure_end(f, figure, error);
}
