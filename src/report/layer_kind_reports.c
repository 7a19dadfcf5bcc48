/* SPDX-License-Identifier: Apache-2.0 */
/* What reports show of each kind of layer: its members in the JSON, its sizes and details in words. */
#include "report/layer_kind_reports.h"

#include "base/names.h"
#include "report/lines.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>

#define NAME_OF(names, value) hr_name_of(names, HR_COUNT_OF(names), (int)(value))

/* ---- attention ---- */

void hr_qk_norm_cell(const void *qk_norm, hr_cell *cell)
{
  static const char *const names[] = {[HR_QK_NORM_NONE] = "none",
                                      [HR_QK_NORM_SHARED] = "shared",
                                      [HR_QK_NORM_PER_HEAD] = "per_head",
                                      [HR_QK_NORM_FULL] = "full",
                                      [HR_QK_NORM_ROTATED] = "rotated"};
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
    FIELD(index_topk),
    FIELD(index_block),
    FIELD(index_dim),
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
    FIELD(shared_k_norm),
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
    hr_append_item(to, size, "K as V");
  if (a->sinks)
    hr_append_item(to, size, "sinks");
  if (a->index_topk > 0)
    hr_append_item(to, size, "best %" PRId64 " keys in blocks of %" PRId64 ", indexer of %" PRId64, a->index_topk,
                   a->index_block, a->index_dim);
  if (a->output_gate)
    hr_append_item(to, size, "output gate");
}

/* ---- latent attention ---- */

#define FIELD(member) HR_FIELD(hr_mixer_latent, member)
static const hr_column latent_fields[] = {
    FIELD(q_heads),   FIELD(q_rank),      FIELD(kv_rank),    FIELD(nope_dim),    FIELD(rope_dim),  FIELD(v_dim),
    FIELD(down_bias), FIELD(output_bias), FIELD(index_topk), FIELD(index_heads), FIELD(index_dim),
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
  if (m->index_topk > 0)
    hr_append_item(to, size, "best %" PRId64 " keys", m->index_topk);
  if (m->index_heads > 0)
    hr_append_item(to, size, "indexer %" PRId64 " head%s of %" PRId64, m->index_heads, hr_plural(m->index_heads),
                   m->index_dim);
  else if (m->index_topk > 0)
    hr_append_item(to, size, "those of a layer before");
}

/* ---- attention over compressed entries ---- */

#define FIELD(member) HR_FIELD(hr_mixer_compressed, member)
static const hr_column compressed_fields[] = {
    FIELD(q_heads),    FIELD(head_dim),    FIELD(rope_dim),  FIELD(q_rank),   FIELD(window), FIELD(ratio),
    FIELD(index_topk), FIELD(index_heads), FIELD(index_dim), FIELD(o_groups), FIELD(o_rank), FIELD(overlaps),
};
#undef FIELD

static void compressed_sizes(char *to, size_t size, const void *member)
{
  const hr_mixer_compressed *m = member;
  hr_append_item(to, size, "%" PRId64 " head%s of %" PRId64 ", K is V", m->q_heads, hr_plural(m->q_heads), m->head_dim);
  if (m->ratio > 0)
    hr_append_item(to, size, "an entry for %" PRId64 " tokens", m->ratio);
}

static void compressed_details(char *to, size_t size, const void *member)
{
  const hr_mixer_compressed *m = member;
  hr_append_item(to, size, "Q rank %" PRId64 ", window %" PRId64 ", sinks", m->q_rank, m->window);
  if (m->index_topk > 0)
    hr_append_item(to, size, "best %" PRId64 " entries, indexer %" PRId64 " head%s of %" PRId64, m->index_topk,
                   m->index_heads, hr_plural(m->index_heads), m->index_dim);
}

/* ---- scan ---- */

static const char *const recurrence_words[] = {[HR_RECURRENCE_NONE] = "none",
                                               [HR_RECURRENCE_SELECTIVE] = "Mamba",
                                               [HR_RECURRENCE_SSD] = "Mamba-2",
                                               [HR_RECURRENCE_GATED_DELTA] = "gated delta",
                                               [HR_RECURRENCE_LIGHTNING] = "lightning attention",
                                               [HR_RECURRENCE_RG_LRU] = "RG-LRU",
                                               [HR_RECURRENCE_CONVOLUTION] = "convolution",
                                               [HR_RECURRENCE_KIMI_DELTA] = "Kimi delta"};

static void recurrence(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_recurrence_name(*(const hr_recurrence *)member));
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
    FIELD(experts),      FIELD(active),      FIELD(width),       FIELD(groups),      FIELD(active_groups),
    FIELD(shared_width), FIELD(latent),      FIELD(gated),       FIELD(bias),        FIELD(shared_bias),
    FIELD(router_bias),  FIELD(shared_gate), FIELD(output_norm), FIELD(latent_bias),
};
#undef FIELD

static void expert_sizes(char *to, size_t size, const void *member)
{
  const hr_ffn_experts *m = member;
  hr_append_item(to, size, "%" PRId64 " of %" PRId64 " experts of %" PRId64, m->active, m->experts, m->width);
  if (m->shared_width > 0)
    hr_append_item(to, size, "shared %" PRId64, m->shared_width);
  if (m->latent > 0)
    hr_append_item(to, size, "latent %" PRId64, m->latent);
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

const hr_layer_kind_report hr_layer_kind_reports[HR_LAYER_KIND_REPORTS] = {
    {&hr_mixer_attention_kind, "attention", offsetof(hr_layer_group, attention), attention_fields,
     HR_COUNT_OF(attention_fields), attention_sizes, attention_details},
    {&hr_mixer_latent_kind, "latent", offsetof(hr_layer_group, latent), latent_fields, HR_COUNT_OF(latent_fields),
     latent_sizes, latent_details},
    {&hr_mixer_compressed_kind, "compressed", offsetof(hr_layer_group, compressed), compressed_fields,
     HR_COUNT_OF(compressed_fields), compressed_sizes, compressed_details},
    {&hr_mixer_scan_kind, "scan", offsetof(hr_layer_group, scan), scan_fields, HR_COUNT_OF(scan_fields), scan_sizes,
     scan_details},
    {&hr_ffn_dense_kind, "dense", offsetof(hr_layer_group, dense), dense_fields, HR_COUNT_OF(dense_fields), dense_sizes,
     dense_details},
    {&hr_ffn_experts_kind, "experts", offsetof(hr_layer_group, experts), expert_fields, HR_COUNT_OF(expert_fields),
     expert_sizes, expert_details},
};
