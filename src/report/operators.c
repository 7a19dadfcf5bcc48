/* The table of a step's operators, which `describe` and `advise` share. */
#include "report/document.h"

#include "base/checked.h"
#include "base/names.h"
#include "report/text.h"

#include <headroom/store.h>

#include <inttypes.h>
#include <math.h>

static const hr_column operator_columns[] = {
    {"name", "operator", HR_CELL_TEXT, 0}, {"kind", NULL, HR_CELL_TEXT, 0},
    {"pass", NULL, HR_CELL_TEXT, 0},       {NULL, "m×n×k", HR_CELL_TEXT, 0},
    {"m", NULL, HR_CELL_COUNT, 0},         {"n", NULL, HR_CELL_COUNT, 0},
    {"k", NULL, HR_CELL_COUNT, 0},         {"batch", NULL, HR_CELL_COUNT, 0},
    {"count", "runs", HR_CELL_COUNT, 5},   {"flops", "work", HR_CELL_FLOPS, 0},
    {"bytes", "bytes", HR_CELL_BYTES, 4},  {NULL, "of all work", HR_CELL_SHARE, 6},
};

static const hr_column predicted_columns[] = {
    {"name", "operator", HR_CELL_TEXT, 0},
    {"kind", NULL, HR_CELL_TEXT, 0},
    {"pass", NULL, HR_CELL_TEXT, 0},
    {NULL, "m×n×k", HR_CELL_TEXT, 0},
    {"m", NULL, HR_CELL_COUNT, 0},
    {"n", NULL, HR_CELL_COUNT, 0},
    {"k", NULL, HR_CELL_COUNT, 0},
    {"batch", NULL, HR_CELL_COUNT, 0},
    {"count", "runs", HR_CELL_COUNT, 4},
    {"flops", NULL, HR_CELL_FLOPS, 0},
    {"bytes", NULL, HR_CELL_BYTES, 0},
    {"predicted_ns", "time each", HR_CELL_TIME, 1},
    {"predicted_low_ns", NULL, HR_CELL_TIME, 0},
    {"predicted_high_ns", NULL, HR_CELL_TIME, 0},
    {"share", "of step", HR_CELL_SHARE, 0},
    {"bound_by", "bound by", HR_CELL_TEXT, 0},
    {"efficiency", "of peak", HR_CELL_SHARE, 2},
    {"tile_waste", "tile waste", HR_CELL_SHARE, 5},
    {"wave_waste", "wave waste", HR_CELL_SHARE, 5},
    {"alignment", "aligned", HR_CELL_BYTES, 3},
    {"alignment_loss", "align. loss", HR_CELL_SHARE, 6},
    {"tile_m", NULL, HR_CELL_COUNT, 0},
    {"tile_n", NULL, HR_CELL_COUNT, 0},
    {"tiles", NULL, HR_CELL_COUNT, 0},
    {"waves", NULL, HR_CELL_COUNT, 0},
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool is_product(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM || op->kind == HR_KIND_BMM;
}

void hr_write_operator_size(char *to, size_t size, const hr_operator *op)
{
  const hr_attention *a = &op->attention;
  if (op->kind == HR_KIND_ATTENTION) {
    snprintf(to, size, "%" PRId64 "×%" PRId64 "×%" PRId64 " ×%" PRId64, a->q_len, a->kv_len, a->qk_dim,
             a->batch * a->q_heads);
  } else if (is_product(op)) {
    int used = snprintf(to, size, "%" PRId64 "×%" PRId64 "×%" PRId64, op->gemm.m, op->gemm.n, op->gemm.k);
    if (op->gemm.batch != 1 && used > 0 && (size_t)used < size)
      snprintf(to + used, size - (size_t)used, " ×%" PRId64, op->gemm.batch);
  } else {
    hr_write_bytes(to, size, (double)op->bytes);
  }
}

void hr_put_operator_sizes(hr_table *table, const hr_operator *op)
{
  const hr_attention *a = &op->attention;
  bool fused = op->kind == HR_KIND_ATTENTION;
  const int64_t sizes[] = {fused ? a->q_len : op->gemm.m, fused ? a->kv_len : op->gemm.n,
                           fused ? a->qk_dim : op->gemm.k, fused ? a->batch * a->q_heads : op->gemm.batch};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    if (fused || is_product(op))
      hr_put_count(table, sizes[i]);
    else
      hr_put_none(table);
  }
}

void hr_write_operator_problem(char *to, size_t size, const hr_operator *op)
{
  hr_result result = hr_result_default();
  if (is_product(op))
    hr_result_set_gemm(&result, &op->gemm);
  else if (op->kind == HR_KIND_ATTENTION)
    hr_result_set_attention(&result, &op->attention);
  hr_copy_text(to, size, is_product(op) || op->kind == HR_KIND_ATTENTION ? result.problem : "");
}

/* Of a fused attention v_dim is told by its own bytes. */
static void put_sizes(hr_table *table, const hr_operator *op, bool bytes_follow)
{
  char size[96];
  hr_write_operator_size(size, sizeof size, op);
  hr_put_text(table, op->flops == 0 && bytes_follow ? "" : size);
  hr_put_operator_sizes(table, op);
}

static void put_prediction(hr_table *table, const hr_operator *op, const hr_prediction *p, double share)
{
  bool fused_or_product = is_product(op) || op->kind == HR_KIND_ATTENTION;
  hr_put(table, p->time_ns);
  hr_put(table, p->low_ns);
  hr_put(table, p->high_ns);
  hr_put(table, share);
  hr_table_style(table, share >= 0.1 ? HR_STYLE_BOLD : HR_STYLE_PLAIN);
  hr_put_text(table, hr_bound_name(p->bound_by));
  hr_put(table, p->efficiency);
  hr_put(table, fused_or_product ? p->tile_waste : NAN);
  hr_put(table, fused_or_product ? p->wave_waste : NAN);
  if (is_product(op))
    hr_put_count(table, p->alignment);
  else
    hr_put_none(table);
  hr_put(table, is_product(op) ? p->alignment_loss : NAN);
  if (is_product(op) && p->alignment_loss >= 0.1)
    hr_table_style(table, HR_STYLE_YELLOW);
  hr_put_count(table, p->tile_m);
  hr_put_count(table, p->tile_n);
  hr_put_count(table, p->tiles);
  hr_put_count(table, p->waves);
}

/* Layers count as p·⌈layers / p⌉ in a step's time: see hr_step. */
static double share_of_step(const hr_operator *op, const hr_step *step, size_t index, const hr_model *model,
                            const hr_workload *workload)
{
  double executions = (double)op->count;
  int64_t stages = workload->pipeline_stages;
  if (op->in_layer && model->layers > 0)
    executions *= (double)(stages * hr_ceil_div(model->layers, stages)) / (double)model->layers;
  return executions * step->predictions[index].time_ns / step->time_ns;
}

hr_table *hr_operator_table(const hr_operators *operators, const hr_step *step, const hr_model *model,
                            const hr_workload *workload, bool products_only)
{
  hr_table *table = step ? hr_table_create(predicted_columns, COUNT_OF(predicted_columns))
                         : hr_table_create(operator_columns, COUNT_OF(operator_columns));
  for (size_t i = 0; i < operators->count; i++) {
    const hr_operator *op = &operators->items[i];
    if (products_only && op->flops == 0)
      continue;
    char name[48];
    hr_operator_name(op, name, sizeof name);
    hr_put_text(table, name);
    hr_put_text(table, hr_operator_kind_name(op->kind));
    hr_put_text(table, hr_pass_name(op->pass));
    put_sizes(table, op, !step);
    hr_put_count(table, op->count);
    hr_put_count(table, op->flops);
    hr_put_count(table, op->bytes);
    if (step)
      put_prediction(table, op, &step->predictions[i], share_of_step(op, step, i, model, workload));
    else
      hr_put(table, operators->flops > 0 ? (double)op->count * (double)op->flops / (double)operators->flops : NAN);
  }
  return table;
}
