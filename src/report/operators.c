/* SPDX-License-Identifier: Apache-2.0 */
#include "report/operators.h"

#include "analysis/predict/step.h"
#include "base/checked.h"
#include "base/names.h"
#include "base/quantity.h"
#include "model/layers/operator_builder.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <inttypes.h>
#include <math.h>

/* ---- sizes of an operator ---- */

static bool is_gemm(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM || op->kind == HR_KIND_GROUPED_GEMM;
}

static bool is_communication(const hr_operator *op)
{
  return op->kind == HR_KIND_COMMUNICATION;
}

static bool is_attention(const hr_operator *op)
{
  return op->kind == HR_KIND_ATTENTION;
}

void hr_write_operator_size(char *to, size_t size, const hr_operator *op)
{
  const hr_attention *a = &op->attention;
  if (is_attention(op)) {
    snprintf(to, size, "%" PRId64 "×%" PRId64 "×%" PRId64 " ×%" PRId64, a->q_len, a->kv_len, a->qk_dim,
             a->batch * a->q_heads);
  } else if (is_gemm(op)) {
    int used = snprintf(to, size, "%" PRId64 "×%" PRId64 "×%" PRId64, op->gemm.m, op->gemm.n, op->gemm.k);
    if (op->gemm.batch != 1 && used > 0 && (size_t)used < size)
      snprintf(to + used, size - (size_t)used, " ×%" PRId64, op->gemm.batch);
  } else {
    char bytes[HR_NUMBER_SIZE];
    hr_write_bytes(bytes, sizeof bytes, (double)op->bytes);
    if (is_communication(op))
      snprintf(to, size, "%s ×%" PRId64, bytes, op->devices);
    else
      snprintf(to, size, "%s", bytes);
  }
}

void hr_write_operator_problem(char *to, size_t size, const hr_operator *op)
{
  hr_result result = hr_result_default();
  if (is_gemm(op))
    hr_result_set_gemm(&result, &op->gemm);
  else if (is_attention(op))
    hr_result_set_attention(&result, &op->attention);
  hr_copy_text(to, size, is_gemm(op) || is_attention(op) ? result.problem : "");
}

void hr_operator_name_cell(const void *op, hr_cell *cell)
{
  char name[48];
  hr_operator_name(op, name, sizeof name);
  hr_cell_set_text(cell, name);
}

void hr_operator_size_cell(const void *op, hr_cell *cell)
{
  char size[96];
  hr_write_operator_size(size, sizeof size, op);
  hr_cell_set_text(cell, size);
}

void hr_operator_problem_cell(const void *op, hr_cell *cell)
{
  char problem[512];
  hr_write_operator_problem(problem, sizeof problem, op);
  hr_cell_set_text(cell, problem[0] ? problem : NULL);
}

static void set_size(hr_cell *cell, const hr_operator *op, int64_t of_gemm, int64_t of_attention)
{
  if (is_attention(op))
    hr_cell_set_count(cell, of_attention);
  else if (is_gemm(op))
    hr_cell_set_count(cell, of_gemm);
}

void hr_operator_m_cell(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  set_size(cell, op, op->gemm.m, op->attention.q_len);
}

void hr_operator_n_cell(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  set_size(cell, op, op->gemm.n, op->attention.kv_len);
}

void hr_operator_k_cell(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  set_size(cell, op, op->gemm.k, op->attention.qk_dim);
}

void hr_operator_batch_cell(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  set_size(cell, op, op->gemm.batch, op->attention.batch * op->attention.q_heads);
}

/* What there is beside GEMMs. */
typedef struct present_kinds {
  bool attention, scans, communication;
} present_kinds;

static present_kinds kinds_of(const hr_operators *operators)
{
  present_kinds present = {false, false, false};
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    present.attention = present.attention || is_attention(op) || op->id == HR_OP_ATTENTION_SCORE;
    present.scans = present.scans || op->kind == HR_KIND_SCAN;
    present.communication = present.communication || op->kind == HR_KIND_COMMUNICATION;
  }
  return present;
}

static const char *const words[2][2][2] = {
    {{"GEMMs", "GEMMs and communication"}, {"GEMMs and scans", "GEMMs, scans and communication"}},
    {{"GEMMs and attention", "GEMMs, attention and communication"},
     {"GEMMs, attention and scans", "GEMMs, attention, scans and communication"}}};

const char *hr_words_of_work(const hr_operators *operators)
{
  present_kinds present = kinds_of(operators);
  return words[present.attention][present.scans][0];
}

const char *hr_words_of_operators(const hr_operators *operators)
{
  present_kinds present = kinds_of(operators);
  return words[present.attention][present.scans][present.communication];
}

/* ---- the table ---- */

typedef struct operator_row {
  const hr_operator *op;
  hr_prediction prediction;      /* what does not apply to the operator is NAN */
  double share;                  /* of the step's time as predicted, else of its FLOPs */
  hr_collective_library library; /* of communication as predicted */
} operator_row;

/* Elsewhere the size is the bytes, which have a column of their own. */
static void gemm_size(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  if (is_gemm(op) || is_attention(op))
    hr_operator_size_cell(op, cell);
  else if (is_communication(op))
    hr_cell_format(cell, "%" PRId64 " devices", op->devices);
  else
    hr_cell_set_text(cell, "");
}

static void share(const void *row, hr_cell *cell)
{
  const operator_row *r = row;
  hr_cell_set_number(cell, r->share);
  cell->style = r->share >= 0.1 ? HR_STYLE_BOLD : HR_STYLE_PLAIN;
}

static void alignment(const void *row, hr_cell *cell)
{
  const operator_row *r = row;
  if (is_gemm(r->op))
    hr_cell_set_count(cell, r->prediction.alignment);
}

static void alignment_loss(const void *member, hr_cell *cell)
{
  const double *loss = member;
  hr_cell_set_number(cell, *loss);
  cell->style = *loss >= 0.1 ? HR_STYLE_YELLOW : HR_STYLE_PLAIN;
}

static void collective(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  hr_cell_set_text(cell, is_communication(op) ? hr_collective_name(op->collective) : NULL);
}

static void library(const void *row, hr_cell *cell)
{
  const operator_row *r = row;
  hr_cell_set_text(cell, is_communication(r->op) ? hr_collective_library_name(r->library) : NULL);
}

static void devices(const void *member, hr_cell *cell)
{
  const hr_operator *op = member;
  if (is_communication(op))
    hr_cell_set_count(cell, op->devices);
}

static void bus_rate(const void *row, hr_cell *cell)
{
  const operator_row *r = row;
  double sent = hr_collective_bus_share(r->op->collective, r->op->devices) * (double)r->op->bytes;
  if (is_communication(r->op))
    hr_cell_set_number(cell, sent / r->prediction.time_ns * 1e9);
}

#define OP HR_THROUGH(operator_row, op)
#define PREDICTION(member) HR_MEMBER(operator_row, prediction.member)

#define IDENTITY_COLUMNS(size, drop_size)                                          \
  {"name", "operator", HR_PLAIN, 0, OP, HR_COMPUTED(TEXT, hr_operator_name_cell)}, \
      {"kind", NULL, HR_PLAIN, 0, OP, HR_MEMBER(hr_operator, kind)},               \
      {"pass", NULL, HR_PLAIN, 0, OP, HR_MEMBER(hr_operator, pass)},               \
      {NULL, "m×n×k", HR_PLAIN, drop_size, OP, HR_COMPUTED(TEXT, size)},           \
      {"m", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(COUNT, hr_operator_m_cell)},        \
      {"n", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(COUNT, hr_operator_n_cell)},        \
      {"k", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(COUNT, hr_operator_k_cell)},        \
  {                                                                                \
    "batch", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(COUNT, hr_operator_batch_cell)     \
  }

#define COLLECTIVE_COLUMNS                                              \
  {"collective", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(TEXT, collective)}, \
  {                                                                     \
    "devices", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(COUNT, devices)       \
  }

/* "hidden attention" */
static void list_names(hr_cell *cell, const uint8_t *numbers, size_t most, const char *(*name)(int))
{
  char names[160] = "";
  size_t used = 0;
  for (size_t i = 0; i < most && numbers[i] && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? " " : "", name(numbers[i]));
  hr_cell_set_text(cell, names[0] ? names : NULL);
}

static const char *tensor_name(int tensor)
{
  return hr_step_tensor_name((hr_step_tensor)tensor);
}

static void reads(const void *member, hr_cell *cell)
{
  list_names(cell, ((const hr_operator *)member)->reads, HR_OPERATOR_READS_MAX, tensor_name);
}

static void writes(const void *member, hr_cell *cell)
{
  list_names(cell, ((const hr_operator *)member)->writes, HR_OPERATOR_WRITES_MAX, tensor_name);
}

static void weights(const void *member, hr_cell *cell)
{
  list_names(cell, ((const hr_operator *)member)->weights, HR_OPERATOR_WEIGHTS_MAX, hr_weight_role_name);
}

static const hr_column operator_columns[] = {
    IDENTITY_COLUMNS(gemm_size, 0),
    {"count", "runs", HR_PLAIN, 5, OP, HR_MEMBER(hr_operator, count)},
    {"flops", "work", HR_FLOPS, 0, OP, HR_MEMBER(hr_operator, flops)},
    {"bytes", "bytes", HR_BYTES, 4, OP, HR_MEMBER(hr_operator, bytes)},
    {NULL, "of all work", HR_SHARE, 6, HR_MEMBER(operator_row, share)},
    COLLECTIVE_COLUMNS,
    {"reads", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(TEXT, reads)},
    {"writes", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(TEXT, writes)},
    {"weights", NULL, HR_PLAIN, 0, OP, HR_COMPUTED(TEXT, weights)},
};

/* The terms that GEMMs lack: pairs and splits of decode, copies of K, V and padded operands, rounding. */
static void other_terms(const void *row, hr_cell *cell)
{
  const hr_prediction *p = &((const operator_row *)row)->prediction;
  double sum = p->pair_ns + p->split_ns + p->cache_ns + p->rounding_ns + p->padding_ns;
  if (sum > 0)
    hr_cell_set_number(cell, sum);
}

/* Attention and decode print all of their memory time, which compute overlaps. */
static void memory_term(const void *row, hr_cell *cell)
{
  const operator_row *r = row;
  hr_cell_set_number(cell, is_gemm(r->op) ? r->prediction.exposed_ns : r->prediction.memory_ns);
}

#define TERM_COLUMNS(shown)                                                             \
  {"matrix_ns", shown ? "useful" : NULL, HR_TIME, 0, PREDICTION(matrix_ns)},            \
      {"tile_ns", shown ? "tiles" : NULL, HR_TIME, 1, PREDICTION(tile_ns)},             \
      {"wave_ns", shown ? "waves" : NULL, HR_TIME, 2, PREDICTION(wave_ns)},             \
      {"alignment_ns", shown ? "align." : NULL, HR_TIME, 5, PREDICTION(alignment_ns)},  \
      {"reduction_ns", shown ? "split k" : NULL, HR_TIME, 9, PREDICTION(reduction_ns)}, \
      {"clock_ns", shown ? "clock" : NULL, HR_TIME, 8, PREDICTION(clock_ns)},           \
  {                                                                                     \
    "launch_ns", shown ? "launch" : NULL, HR_TIME, 4, PREDICTION(launch_ns)             \
  }

static const hr_column predicted_columns[] = {
    IDENTITY_COLUMNS(hr_operator_size_cell, 0),
    {"count", "runs", HR_PLAIN, 4, OP, HR_MEMBER(hr_operator, count)},
    {"flops", NULL, HR_FLOPS, 0, OP, HR_MEMBER(hr_operator, flops)},
    {"bytes", NULL, HR_BYTES, 0, OP, HR_MEMBER(hr_operator, bytes)},
    {"predicted_ns", "time each", HR_TIME, 1, PREDICTION(time_ns)},
    {"predicted_low_ns", NULL, HR_TIME, 0, PREDICTION(low_ns)},
    {"predicted_high_ns", NULL, HR_TIME, 0, PREDICTION(high_ns)},
    {"share", "of step", HR_SHARE, 0, HR_COMPUTED(NUMBER, share)},
    {"bound_by", "bound by", HR_PLAIN, 0, PREDICTION(bound_by)},
    {"efficiency", "of peak", HR_SHARE, 2, PREDICTION(efficiency)},
    {"tile_waste", "tile waste", HR_SHARE, 5, PREDICTION(tile_waste)},
    {"wave_waste", "wave waste", HR_SHARE, 5, PREDICTION(wave_waste)},
    {"alignment", "aligned", HR_BYTES, 3, HR_COMPUTED(COUNT, alignment)},
    {"alignment_loss", "align. loss", HR_SHARE, 6,
     HR_COMPUTED_OF(NUMBER, alignment_loss, operator_row, prediction.alignment_loss)},
    {"tile_m", NULL, HR_PLAIN, 0, PREDICTION(tile_m)},
    {"tile_n", NULL, HR_PLAIN, 0, PREDICTION(tile_n)},
    {"tiles", NULL, HR_PLAIN, 0, PREDICTION(tiles)},
    {"waves", NULL, HR_PLAIN, 0, PREDICTION(waves)},
    TERM_COLUMNS(false),
    {"exposed_ns", NULL, HR_TIME, 0, PREDICTION(exposed_ns)},
    {"memory_ns", NULL, HR_TIME, 0, PREDICTION(memory_ns)},
    {"pair_ns", NULL, HR_TIME, 0, PREDICTION(pair_ns)},
    {"split_ns", NULL, HR_TIME, 0, PREDICTION(split_ns)},
    {"cache_ns", NULL, HR_TIME, 0, PREDICTION(cache_ns)},
    {"rounding_ns", NULL, HR_TIME, 0, PREDICTION(rounding_ns)},
    {"padding_ns", NULL, HR_TIME, 0, PREDICTION(padding_ns)},
    COLLECTIVE_COLUMNS,
    {"bus_bytes_per_s", NULL, HR_PLAIN, 0, HR_COMPUTED(NUMBER, bus_rate)},
    {"library", NULL, HR_PLAIN, 0, HR_COMPUTED(TEXT, library)},
};

static const hr_column term_columns[] = {
    IDENTITY_COLUMNS(hr_operator_size_cell, 6),
    {"predicted_ns", "time each", HR_TIME, 0, PREDICTION(time_ns)},
    TERM_COLUMNS(true),
    {NULL, "memory", HR_TIME, 3, HR_COMPUTED(NUMBER, memory_term)},
    {NULL, "other", HR_TIME, 7, HR_COMPUTED(NUMBER, other_terms), .rare = true},
};

hr_table *hr_term_table(const hr_step *step)
{
  hr_table *table = HR_TABLE_OF(term_columns, operator_row);
  for (size_t i = 0; i < step->operators.count; i++) {
    operator_row row = {.op = &step->operators.items[i], .prediction = step->predictions[i]};
    if (row.op->flops > 0)
      hr_table_add(table, &row);
  }
  return table;
}

/* Layers count as p·⌈layers / p⌉ in a microbatch's time: see hr_step. Of the communication between replicas only the
 * exposed part is in the step, and the optimizer is in it once. */
static double share_of_step(const hr_operator *op, const hr_prediction *prediction, const hr_step *step,
                            const hr_model *model, const hr_workload *workload)
{
  double executions = (double)op->count, exposed = step->about.exposed_ns / step->about.time_ns;
  double updated = step->about.optimizer_ns / step->about.time_ns;
  int64_t stages = workload->pipeline_stages, layers = hr_model_layers(model);
  if (hr_operator_between_replicas(op->id))
    return exposed * executions * prediction->time_ns * (double)hr_replica_runs(op->id, workload) /
           step->about.replica_ns;
  if (op->id == HR_OP_OPTIMIZER)
    return executions * prediction->time_ns / step->about.time_ns;
  if (op->in_layer)
    executions *= (double)(stages * hr_ceil_div(layers, stages)) / (double)layers;
  return (1 - exposed - updated) * executions * prediction->time_ns / step->about.microbatch_time_ns;
}

static double share_of_flops(const hr_operator *op, const hr_operators *operators)
{
  return operators->flops > 0 ? (double)op->count * (double)op->flops / (double)operators->flops : (double)NAN;
}

/* Tiles are those of GEMMs and of fused attention, alignment is that of GEMMs. */
static hr_prediction applicable(const hr_operator *op, const hr_prediction *prediction)
{
  hr_prediction p = *prediction;
  if (!is_gemm(op))
    p.alignment_loss = (double)NAN;
  if (!is_gemm(op) && !is_attention(op))
    p.tile_waste = p.wave_waste = (double)NAN;
  return p;
}

hr_table *hr_operator_table(const hr_operators *operators, const hr_step *step, const hr_model *model,
                            const hr_workload *workload, bool brief)
{
  hr_table *table = step ? HR_TABLE_OF(predicted_columns, operator_row) : HR_TABLE_OF(operator_columns, operator_row);
  for (size_t i = 0; i < operators->count; i++) {
    operator_row row = {.op = &operators->items[i]};
    if (brief && row.op->flops == 0 && !is_communication(row.op))
      continue;
    if (step) {
      row.prediction = applicable(row.op, &step->predictions[i]);
      row.library = (hr_collective_library)step->libraries[i];
      row.share = share_of_step(row.op, &step->predictions[i], step, model, workload);
    } else {
      row.share = share_of_flops(row.op, operators);
    }
    hr_table_add(table, &row);
  }
  return table;
}
