/* SPDX-License-Identifier: Apache-2.0 */
/* `describe`: parameters, memory and operators of a model. */
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "hardware/hardware.h"
#include "model/layers/ffn_experts.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"
#include "report/cache_growth.h"
#include "report/checkpoint.h"
#include "report/inputs.h"
#include "report/layer_groups.h"
#include "report/lines.h"
#include "report/operators.h"

#include <headroom/experimental/hardware.h>
#include <headroom/experimental/memory.h>
#include <headroom/experimental/operators.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct description {
  const hr_model *model;
  const hr_workload *workload;
  const hr_hardware *hardware;     /* may be NULL */
  const hr_checkpoint *checkpoint; /* may be NULL */
  hr_parameters parameters;
  hr_memory memory;
  hr_latent_cache latent; /* kv_heads 0: no latent attention */
  int64_t largest_batch;  /* only with hardware */
  hr_operators operators;
  hr_checkpoint_comparison comparison; /* only with a checkpoint */
} description;

static hr_status gather(description *d, hr_error *error)
{
  HR_TRY(hr_model_parameters(d->model, &d->parameters, error));
  HR_TRY(hr_operators_list(d->model, d->workload, &d->operators, error));
  HR_TRY(hr_memory_estimate(d->model, d->workload, &d->memory, error));
  HR_TRY(hr_memory_latent_cache(d->model, d->workload, &d->latent, error));
  if (d->hardware)
    HR_TRY(hr_memory_largest_batch(d->model, d->workload, hr_hardware_usable_memory_bytes(d->hardware),
                                   &d->largest_batch, error));
  if (d->checkpoint)
    HR_TRY(hr_checkpoint_compare(d->checkpoint, d->model, &d->comparison, error));
  return HR_OK;
}

/* Returns the tokens of the most loaded expert. Where experts are spread, the device with the most tokens is the unit
 * of the imbalance. */
static double max_tokens(const description *d, double tokens_per_expert)
{
  return tokens_per_expert * (d->workload->expert_parallel > 1 ? 1 : d->workload->expert_imbalance);
}

/* The load of the first group with experts; false if there is none. */
static bool load_of(const description *d, double *tokens_per_expert, hr_expert_load *load)
{
  for (size_t i = 0; i < d->model->group_count; i++) {
    hr_layer_group share = hr_shard_layer(d->model, &d->model->groups[i], d->workload);
    hr_shard shard;
    if (share.experts.experts == 0 || hr_shard_sizes(d->model, d->workload, &shard, NULL) != HR_OK ||
        hr_expert_load_of(&share.experts, d->workload, shard.rows, load) != HR_OK)
      continue;
    *tokens_per_expert = (double)load->rows / (double)load->hit;
    return true;
  }
  return false;
}

#define FIELD(member) HR_FIELD(hr_parameters, member)
static const hr_column part_fields[] = {
    FIELD(embedding), FIELD(position), FIELD(attention), FIELD(scan),
    FIELD(mlp),       FIELD(experts),  FIELD(norm),      FIELD(logit),
};
#undef FIELD

#define FIELD(member) HR_FIELD(hr_latent_cache, member)
static const hr_column latent_fields[] = {
    FIELD(multi_head_bytes_per_token),
    FIELD(kv_heads),
    FIELD(grouped_query_bytes_per_token),
};
#undef FIELD

#define FIELD(member) HR_FIELD(hr_memory, member)
static const hr_column memory_fields[] = {
    FIELD(weight_bytes),   FIELD(gradient_bytes), FIELD(optimizer_bytes), FIELD(activation_bytes),
    FIELD(kv_cache_bytes), FIELD(state_bytes),    FIELD(total_bytes),     FIELD(gathered_bytes),
};
#undef FIELD

static void put_load(hr_json json, const description *d)
{
  hr_expert_load load;
  double tokens;
  if (!load_of(d, &tokens, &load)) {
    hr_json_put(json, "expert_load", json_null());
    return;
  }
  hr_json object = hr_json_put_object(json, "expert_load");
  hr_json_put_count(object, "experts_hit", load.hit);
  hr_json_put_number(object, "tokens_per_expert", tokens);
  hr_json_put_number(object, "most_tokens_per_expert", max_tokens(d, tokens));
}

static hr_status write_json(const description *d, FILE *out, hr_error *error)
{
  bool failed;
  hr_json json = hr_json_document("describe/2", &failed);
  hr_json_put_model(json, d->model);
  hr_json_put_workload(json, d->workload);
  hr_json_put_count(json, "parameters", d->parameters.total);
  hr_json_put_count(json, "parameters_excluding_embeddings", d->parameters.excluding_embeddings);
  hr_json_put(json, "active_parameters", d->parameters.experts > 0 ? json_integer(d->parameters.active) : json_null());
  hr_json_put_fields(hr_json_put_object(json, "parameters_by_part"), part_fields, HR_COUNT_OF(part_fields),
                     &d->parameters);
  hr_json_put_checkpoint(json, d->checkpoint, &d->comparison);
  hr_json_put_count(json, "flops", d->operators.flops);
  hr_json_put_count(json, "bytes", d->operators.bytes);
  put_load(json, d);
  hr_json_put_count(json, "kv_cache_bytes_per_token", d->memory.kv_cache_bytes_per_token);
  hr_json_put_count(json, "kv_cache_bytes_of_next_token", d->memory.kv_cache_bytes_of_next_token);
  hr_json_put_cache_growth(json, d->model, d->workload);
  if (d->latent.kv_heads > 0)
    hr_json_put_fields(hr_json_put_object(json, "latent_cache"), latent_fields, HR_COUNT_OF(latent_fields), &d->latent);
  else
    hr_json_put(json, "latent_cache", json_null());
  hr_json_put_count(json, "state_bytes_per_sequence", d->memory.state_bytes_per_sequence);
  hr_json_put_fields(hr_json_put_object(json, "memory"), memory_fields, HR_COUNT_OF(memory_fields), &d->memory);
  const hr_split split = hr_split_of_workload(d->model, d->workload);
  hr_json_put(json, "splits", json_boolean(split.whole));
  hr_json_put_text(json, "split", split.words[0] ? split.words : NULL);
  hr_json_put_text(json, "device", d->hardware ? d->hardware->about.name : NULL);
  hr_json_put(json, "largest_batch", d->hardware ? json_integer(d->largest_batch) : json_null());
  hr_json_put_table(json, "operators", hr_operator_table(&d->operators, NULL, d->model, d->workload, false));
  return hr_json_write(out, json, error);
}

typedef struct part {
  const char *name;
  int64_t value;
} part;

/* "attention 28.3 M, MLP 56.7 M", without those that are 0. */
static void write_parts(char *to, size_t size, const part *parts, size_t count,
                        void (*write)(char *to, size_t size, double value))
{
  to[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    char value[HR_NUMBER_SIZE];
    if (parts[i].value == 0)
      continue;
    write(value, sizeof value, (double)parts[i].value);
    hr_append_item(to, size, "%s %s", parts[i].name, value);
  }
}

static void print_parameters(const hr_document *document, const hr_parameters *p)
{
  const part parts[] = {{"attention", p->attention}, {"scans", p->scan},   {"MLP", p->mlp},
                        {"experts", p->experts},     {"norms", p->norm},   {"embedding", p->embedding},
                        {"positions", p->position},  {"LM head", p->logit}};
  char total[HR_NUMBER_SIZE], brief[HR_NUMBER_SIZE], rest[HR_NUMBER_SIZE], line[256];
  hr_write_count(total, sizeof total, p->total);
  hr_write_short(brief, sizeof brief, (double)p->total);
  hr_write_count(rest, sizeof rest, p->excluding_embeddings);
  hr_print_field(document, "parameters", "%s (%s), %s outside the embeddings", total, brief, rest);
  write_parts(line, sizeof line, parts, HR_COUNT_OF(parts), hr_write_short);
  hr_print_field(document, "", "%s", line);
  if (p->experts > 0) {
    hr_write_count(total, sizeof total, p->active);
    hr_write_short(brief, sizeof brief, (double)p->active);
    hr_print_field(document, "active", "%s (%s) for each token", total, brief);
  }
}

/* "1.16 MiB less than multi-head attention with these heads". */
static void append_saving(char *to, size_t size, int64_t own, int64_t other, const char *what)
{
  char bytes[HR_NUMBER_SIZE];
  hr_write_bytes(bytes, sizeof bytes, fabs((double)other - (double)own));
  hr_append_item(to, size, "%s %s than %s", bytes, own <= other ? "less" : "more", what);
}

static void print_cache(const hr_document *document, const description *d)
{
  const hr_latent_cache *c = &d->latent;
  char line[256] = "", grouped[96];
  const hr_workload *w = d->workload;
  hr_print_cache_growth(document, d->model, w, w->phase == HR_PHASE_DECODE ? w->context : w->sequence);
  if (c->kv_heads == 0)
    return;
  snprintf(grouped, sizeof grouped, "grouped-query attention with %" PRId64 " K/V heads", c->kv_heads);
  append_saving(line, sizeof line, c->bytes_per_token, c->multi_head_bytes_per_token,
                "multi-head attention with heads of these sizes");
  append_saving(line, sizeof line, c->bytes_per_token, c->grouped_query_bytes_per_token, grouped);
  hr_print_field(document, "", "%s", line);
}

static void print_memory(const hr_document *document, const description *d)
{
  const hr_memory *m = &d->memory;
  const part parts[] = {{"weights", m->weight_bytes},      {"gradients", m->gradient_bytes},
                        {"optimizer", m->optimizer_bytes}, {"activations", m->activation_bytes},
                        {"KV cache", m->kv_cache_bytes},   {"states", m->state_bytes},
                        {"gathered", m->gathered_bytes}};
  char line[256], bytes[HR_NUMBER_SIZE];
  write_parts(line, sizeof line, parts, HR_COUNT_OF(parts), hr_write_bytes);
  hr_write_bytes(bytes, sizeof bytes, (double)m->total_bytes);
  hr_print_field(document, "memory", "%s per device: %s", bytes, line);
  print_cache(document, d);
  if (m->state_bytes_per_sequence > 0) {
    hr_write_bytes(bytes, sizeof bytes, (double)m->state_bytes_per_sequence);
    hr_print_field(document, "states", "%s per sequence of any length", bytes);
  }
  if (!d->hardware)
    return;
  hr_write_bytes(bytes, sizeof bytes, (double)hr_hardware_usable_memory_bytes(d->hardware));
  if (d->largest_batch == 0)
    hr_print_field(document, "fits", "not even a batch of 1 on %s, %s usable", d->hardware->about.name, bytes);
  else
    hr_print_field(document, "fits", "a batch of up to %" PRId64 " on %s, %s usable", d->largest_batch,
                   d->hardware->about.name, bytes);
}

static void print_load(const hr_document *document, const description *d)
{
  hr_expert_load load;
  double tokens;
  if (!load_of(d, &tokens, &load))
    return;
  char most[48] = "";
  if (max_tokens(d, tokens) > tokens)
    hr_write_text(most, sizeof most, ", the most loaded one %.4g", max_tokens(d, tokens));
  hr_print_field(document, "experts", "%" PRId64 " active per layer and device, %.4g token%s each%s", load.hit, tokens,
                 tokens == 1 ? "" : "s", most);
}

static void print_split(const hr_document *document, const description *d)
{
  const hr_split split = hr_split_of_workload(d->model, d->workload);
  if (split.words[0])
    hr_print_field(document, "split", "%s%s", split.words, split.whole ? "" : ", which servers and frameworks refuse");
}

static hr_status write_text(const description *d, const hr_document *document, hr_error *error)
{
  char work[HR_NUMBER_SIZE], traffic[HR_NUMBER_SIZE];
  if (document->options->format != HR_FORMAT_CSV) {
    hr_print_model(document, d->model);
    print_parameters(document, &d->parameters);
    if (d->checkpoint)
      hr_print_checkpoint(document, d->checkpoint, &d->comparison);
    if (d->hardware)
      hr_print_hardware(document, d->hardware);
    hr_print_workload(document, d->workload);
    print_split(document, d);
    hr_write_rate(work, sizeof work, (double)d->operators.flops, "FLOP");
    hr_write_bytes(traffic, sizeof traffic, (double)d->operators.bytes);
    hr_print_field(document, "step", "%s in %s, at least %s moved", work, hr_words_of_work(&d->operators), traffic);
    print_load(document, d);
    print_memory(document, d);
    if (d->model->group_count > 1) {
      hr_print_heading(document, "Layers");
      HR_TRY(hr_print_table(document, hr_group_table(d->model), error));
    }
    hr_print_heading(document, "%s of a step",
                     document->options->verbose ? "Operators" : hr_words_of_operators(&d->operators));
  }
  bool brief = document->options->format != HR_FORMAT_CSV && !document->options->verbose;
  return hr_print_table(document, hr_operator_table(&d->operators, NULL, d->model, d->workload, brief), error);
}

static hr_status write(const description *d, FILE *out, const hr_report_options *options, hr_error *error)
{
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status = options->format == HR_FORMAT_JSON ? write_json(d, out, error) : write_text(d, &document, error);
  return hr_document_end(&document, status, error);
}

hr_status hr_report_description(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                const hr_checkpoint *checkpoint, hr_error *error)
{
  HR_NEED(error, out, options, subject);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  const hr_hardware *hardware = subject->hardware;
  HR_NEED(error, model, workload);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  description *d = malloc(sizeof *d); /* too large for the stack of a small thread */
  if (!d)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for the operators of a step");
  d->model = model;
  d->workload = workload;
  d->hardware = hardware;
  d->checkpoint = checkpoint && checkpoint->files > 0 ? checkpoint : NULL;
  hr_status status = gather(d, error);
  if (status == HR_OK)
    status = write(d, out, options, error);
  free(d);
  return status;
}
