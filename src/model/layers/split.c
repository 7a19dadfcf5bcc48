/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/split.h"

#include "base/checked.h"
#include "base/text.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split_rules.h"

#include <headroom/experimental/quantization.h>
#include <inttypes.h>
#include <string.h>

/* ---- quantized weights ---- */

/* A side of a matrix: all of it, and a device's part. */
typedef struct side {
  const char *name;
  int64_t whole, part, block;
} side;

static void say_blocks(const hr_model *model, const hr_weight_format *format, hr_linear_id id, const side *s,
                       hr_split *split)
{
  const hr_quantization *q = &model->quantization;
  hr_write_text(split->words, sizeof split->words,
                "%s: %" PRId64 " of %" PRId64 " %s are not whole blocks of %" PRId64 " (%s)", hr_linear_name(id),
                s->part, s->whole, s->name, s->block, q->method[0] == '-' ? format->name : q->method);
}

/* Least multiple of outputs that a device may have. */
static int64_t output_block(const hr_split_rule *rule, const hr_weight_format *format)
{
  int64_t packed = !rule->packs_outputs ? 1 : 32 % format->bits == 0 ? 32 / format->bits : 32;
  return hr_max64(format->block_outputs, packed);
}

static bool linear_splits(const hr_model *model, const hr_layer_group *layer, const hr_linear *whole,
                          const hr_linear *part, hr_split *split)
{
  const hr_weight_format *format = hr_format_at(model, layer->formats[whole->id]);
  if (!format)
    return true;
  const hr_split_rule rule = hr_split_rule_of(model, format);
  const side sides[] = {{"inputs", whole->inputs.value, part->inputs.value, hr_max64(format->block_inputs, 1)},
                        {"outputs", whole->outputs.value, part->outputs.value, output_block(&rule, format)}};
  for (size_t i = 0; i < 2 && !rule.flat; i++) {
    if (sides[i].part == sides[i].whole || sides[i].part % sides[i].block == 0)
      continue;
    say_blocks(model, format, whole->id, &sides[i], split);
    return false;
  }
  return true;
}

static bool linears_split(const hr_model *model, const hr_layer_group *layer, const hr_layer_group *share,
                          const hr_layer_kind *kind, hr_split *split)
{
  hr_linears whole = {.count = 0}, part = {.count = 0};
  kind->linears(model, layer, &whole);
  kind->linears(model, share, &part);
  for (size_t i = 0; i < whole.count; i++) {
    if (!linear_splits(model, layer, &whole.items[i], &part.items[i], split))
      return false;
  }
  return true;
}

static hr_split_parts part_of(const hr_layer_kind *kind)
{
  return !kind->is_mixer ? HR_SPLIT_FFN : kind == &hr_mixer_scan_kind ? HR_SPLIT_SCANS : HR_SPLIT_HEADS;
}

static bool blocks_split(const hr_model *model, const hr_layer_group *layer, const hr_workload *workload,
                         unsigned parts, hr_split *split)
{
  const hr_layer_group share = hr_shard_layer(model, layer, workload);
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    const hr_layer_kind *kind = hr_layer_kind_at(i);
    if ((parts & part_of(kind)) && kind->linears && kind->present(layer) &&
        !linears_split(model, layer, &share, kind, split))
      return false;
  }
  return true;
}

/* ---- heads, widths and experts ---- */

/* A number of things that a degree must divide; `copied`: or be a multiple of. */
typedef struct divided {
  const char *what;
  int64_t count, by;
  char degree;
  bool copied;
} divided;

static bool all_divide(const divided *items, size_t count, hr_split *split)
{
  for (size_t i = 0; i < count; i++) {
    const divided *d = &items[i];
    if (d->count == 0 || d->count % d->by == 0 || (d->copied && d->by % d->count == 0))
      continue;
    hr_write_text(split->words, sizeof split->words, "%" PRId64 " %s do not divide by %c = %" PRId64, d->count, d->what,
                  d->degree, d->by);
    return false;
  }
  return true;
}

static bool heads_split(const hr_layer_group *layer, int64_t t, hr_split *split)
{
  const hr_mixer_attention heads = hr_heads_of(layer);
  const divided items[] = {{"query heads", heads.q_heads, t, 't', false},
                           {"K heads", heads.k_heads, t, 't', true},
                           {"V heads", heads.v_heads, t, 't', true}};
  return all_divide(items, sizeof items / sizeof *items, split);
}

bool hr_layer_heads_split(const hr_layer_group *layer, int64_t tensor_parallel)
{
  hr_split split = {.whole = true};
  return heads_split(layer, tensor_parallel, &split);
}

/* Groups share keys and queries, and a single one is copied. Source: vLLM's mamba_mixer2.py. */
static bool scans_split(const hr_layer_group *layer, int64_t t, hr_split *split)
{
  int64_t groups = layer->scan.groups > 1 ? layer->scan.groups : 0;
  const divided items[] = {{"heads of recurrent layers", layer->scan.heads, t, 't', false},
                           {"groups of recurrent layers", groups, t, 't', false}};
  return all_divide(items, sizeof items / sizeof *items, split);
}

static bool networks_split(const hr_model *model, const hr_layer_group *layer, const hr_workload *w, hr_split *split)
{
  int64_t t = w->tensor_parallel;
  bool is_split = w->expert_parallel <= 1 && hr_padded_expert_width(model, layer, 1) == 1;
  const divided items[] = {{"MLP columns", layer->dense.width, t, 't', false},
                           {"columns of shared experts", layer->experts.shared_width, t, 't', false},
                           {"columns of an expert", is_split ? layer->experts.width : 0, t, 't', false},
                           {"experts", layer->experts.experts, hr_max64(w->expert_parallel, 1), 'e', false}};
  return all_divide(items, sizeof items / sizeof *items, split);
}

/* ---- layers ---- */

/* Adds what is padded, once for layers that are alike. */
static void say_padded(hr_split *split, const char *what, int64_t from, int64_t to, const char *unit)
{
  char words[64];
  size_t used = strlen(split->words);
  hr_write_text(words, sizeof words, "%s padded from %" PRId64 " to %" PRId64 "%s", what, from, to, unit);
  if (!strstr(split->words, words))
    hr_write_text(split->words + used, sizeof split->words - used, "%s%s", used ? ", " : "", words);
}

static void say_padding(const hr_model *model, const hr_layer_group *layer, const hr_workload *w, hr_split *split)
{
  int64_t part = w->expert_parallel > 1 ? layer->experts.width : hr_ceil_div(layer->experts.width, w->tensor_parallel);
  int64_t padded = hr_padded_expert_width(model, layer, part);
  if (layer->experts.experts > 0 && padded != part)
    say_padded(split, "experts", part, padded, " columns");
}

/* Devices hold equal rows of the embedding. TensorRT-LLM pads to a multiple of t (pad_vocab_size()), vLLM and SGLang to
 * one of 64 (vocab_parallel_embedding.py). */
static void say_padded_vocabulary(const hr_model *model, int64_t t, hr_split *split)
{
  if (model->vocabulary % t != 0)
    say_padded(split, "vocabulary", model->vocabulary, hr_round_up(model->vocabulary, t), "");
}

hr_split hr_split_of(const hr_model *model, int64_t tensor_parallel, int64_t expert_parallel, unsigned parts)
{
  const hr_workload w = {.tensor_parallel = tensor_parallel, .expert_parallel = expert_parallel};
  hr_split split = {.whole = true};
  for (size_t i = 0; i < model->group_count && split.whole; i++) {
    const hr_layer_group *layer = &model->groups[i];
    if (((parts & HR_SPLIT_HEADS) && !heads_split(layer, tensor_parallel, &split)) ||
        ((parts & HR_SPLIT_SCANS) && !scans_split(layer, tensor_parallel, &split)) ||
        ((parts & HR_SPLIT_FFN) && !networks_split(model, layer, &w, &split)) ||
        !blocks_split(model, layer, &w, parts, &split))
      split.whole = false;
    else if (parts & HR_SPLIT_FFN)
      say_padding(model, layer, &w, &split);
  }
  if ((parts & HR_SPLIT_VOCABULARY) && split.whole)
    say_padded_vocabulary(model, tensor_parallel, &split);
  return split;
}

hr_split hr_split_of_workload(const hr_model *model, const hr_workload *workload)
{
  bool train = workload->phase == HR_PHASE_TRAIN;
  return hr_split_of(model, workload->tensor_parallel, workload->expert_parallel,
                     train ? (unsigned)HR_SPLIT_HEADS : (unsigned)HR_SPLIT_ALL);
}
