/* What a confirmation measured, as tables. */
#include "report/advice.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const hr_column measured_columns[] = {
    {"rule", "finding", HR_CELL_TEXT, 3},
    {"operator", "operator", HR_CELL_TEXT, 0},
    {NULL, "size now", HR_CELL_TEXT, 5},
    {NULL, "changed to", HR_CELL_TEXT, 2},
    {"before_ns", "time now", HR_CELL_TIME, 4},
    {"after_ns", "changed", HR_CELL_TIME, 4},
    {"before_m", NULL, HR_CELL_COUNT, 0},
    {"before_n", NULL, HR_CELL_COUNT, 0},
    {"before_k", NULL, HR_CELL_COUNT, 0},
    {"before_batch", NULL, HR_CELL_COUNT, 0},
    {"after_m", NULL, HR_CELL_COUNT, 0},
    {"after_n", NULL, HR_CELL_COUNT, 0},
    {"after_k", NULL, HR_CELL_COUNT, 0},
    {"after_batch", NULL, HR_CELL_COUNT, 0},
    {"predicted_before_ns", NULL, HR_CELL_TIME, 0},
    {"predicted_after_ns", NULL, HR_CELL_TIME, 0},
    {"predicted_gain", "predicted", HR_CELL_GAIN, 0},
    {"measured_gain", "measured", HR_CELL_GAIN, 0},
    {"measured_gain_low", "from", HR_CELL_GAIN, 6},
    {"measured_gain_high", "to", HR_CELL_GAIN, 6},
    {"samples", NULL, HR_CELL_COUNT, 0},
    {"kernel_before", NULL, HR_CELL_TEXT, 0},
    {"kernel_after", NULL, HR_CELL_TEXT, 0},
    {"status", NULL, HR_CELL_TEXT, 0},
    {"reason", NULL, HR_CELL_TEXT, 0},
    {"before_operators", NULL, HR_CELL_TEXT, 0},
    {"before_problem", NULL, HR_CELL_TEXT, 0},
    {"after_problem", NULL, HR_CELL_TEXT, 0},
    {NULL, "", HR_CELL_TEXT, 0}, /* the status where it is not ok */
};

/* Both gains of a finding at the measured size. */
static const hr_column confirmed_columns[] = {
    {"rule", "finding", HR_CELL_TEXT, 0},
    {"predicted_operator_gain", "operator gain", HR_CELL_GAIN, 2},
    {"measured_operator_gain", "measured", HR_CELL_GAIN, 2},
    {"predicted_gain", "step gain", HR_CELL_GAIN, 0},
    {"measured_gain", "measured", HR_CELL_GAIN, 0},
    {"measured_gain_low", "from", HR_CELL_GAIN, 6},
    {"measured_gain_high", "to", HR_CELL_GAIN, 6},
    {"status", NULL, HR_CELL_TEXT, 0},
    {"reason", NULL, HR_CELL_TEXT, 0},
    {NULL, "", HR_CELL_TEXT, 0}, /* the reason where there is one */
};

static const char *rule_of(const hr_advice *advice, size_t finding)
{
  return finding < advice->finding_count ? advice->findings[finding].rule : "combined";
}

/* With the heads of K and V where they are fewer: a finding may change these alone. */
static void write_size(char *to, size_t size, const hr_operator *op)
{
  const hr_attention *a = &op->attention;
  hr_write_operator_size(to, size, op);
  size_t used = strlen(to);
  if (op->kind != HR_KIND_ATTENTION || (a->k_heads == a->q_heads && a->v_heads == a->q_heads))
    return;
  if (a->k_heads == a->v_heads)
    snprintf(to + used, size - used, ", %" PRId64 " K/V heads", a->k_heads);
  else
    snprintf(to + used, size - used, ", %" PRId64 " K, %" PRId64 " V heads", a->k_heads, a->v_heads);
}

static void write_before_size(char *to, size_t size, const hr_confirmation_row *row)
{
  write_size(to, size, &row->before[0]);
  size_t used = strlen(to);
  if (row->before_count > 1)
    snprintf(to + used, size - used, ", unfused");
}

typedef void (*write_fn)(char *to, size_t size, const hr_operator *op);

/* What the row has in the place of the operator, each as `write` says it. */
static void put_before(hr_table *table, const hr_confirmation_row *row, write_fn write, const char *between)
{
  char text[1024] = "", one[512];
  for (size_t i = 0; i < row->before_count; i++) {
    size_t used = strlen(text);
    write(one, sizeof one, &row->before[i]);
    if (one[0])
      snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? between : "", one);
  }
  hr_put_text(table, hr_text_or_none(text));
}

static void write_name(char *to, size_t size, const hr_operator *op)
{
  hr_operator_name(op, to, size);
}

const hr_measurement *hr_worse_of(const hr_comparison *comparison)
{
  const hr_measurement *before = &comparison->before, *after = &comparison->after;
  if (before->samples == 0 || after->samples == 0)
    return before->samples == 0 && before->status != HR_OK ? before : after;
  return before->status != HR_OK ? before : after;
}

static void put_measured(hr_table *table, const hr_advice *advice, const hr_confirmation_row *row)
{
  char name[48], before[128], after[128], problem[512];
  const hr_comparison *c = &row->comparison;
  const hr_measurement *failed = hr_worse_of(c);
  hr_operator_name(&row->after, name, sizeof name);
  write_before_size(before, sizeof before, row);
  write_size(after, sizeof after, &row->after);
  hr_write_operator_problem(problem, sizeof problem, &row->after);
  hr_put_text(table, rule_of(advice, row->finding));
  hr_put_text(table, name);
  hr_put_text(table, before);
  hr_put_text(table, after);
  hr_put(table, c->before.samples > 0 ? c->before.median_ns : NAN);
  hr_put(table, c->after.samples > 0 ? c->after.median_ns : NAN);
  hr_put_operator_sizes(table, &row->before[0]);
  hr_put_operator_sizes(table, &row->after);
  hr_put(table, row->predicted_before_ns);
  hr_put(table, row->predicted_after_ns);
  hr_put(table, row->predicted_before_ns / row->predicted_after_ns * row->token_ratio - 1);
  hr_put(table, c->ratio * row->token_ratio - 1);
  hr_table_style(table, c->ratio * row->token_ratio > 1 ? HR_STYLE_GREEN : HR_STYLE_PLAIN);
  hr_put(table, c->ratio_low * row->token_ratio - 1);
  hr_put(table, c->ratio_high * row->token_ratio - 1);
  hr_put_count(table, c->before.samples);
  hr_put_text(table, hr_text_or_none(c->before.kernel));
  hr_put_text(table, hr_text_or_none(c->after.kernel));
  hr_put_text(table, hr_status_name(failed->status));
  hr_put_text(table, hr_text_or_none(failed->reason));
  put_before(table, row, write_name, " ");
  put_before(table, row, hr_write_operator_problem, " + ");
  hr_put_text(table, hr_text_or_none(problem));
  hr_put_text(table, failed->status != HR_OK ? hr_status_name(failed->status) : "");
  hr_table_style(table, HR_STYLE_YELLOW);
}

hr_table *hr_measured_table(const hr_advice *advice, const hr_confirmation *confirmation)
{
  hr_table *table = hr_table_create(measured_columns, COUNT_OF(measured_columns));
  for (size_t i = 0; i < confirmation->count; i++)
    put_measured(table, advice, &confirmation->rows[i]);
  return table;
}

hr_table *hr_confirmed_table(const hr_advice *advice, const hr_confirmation *confirmation)
{
  hr_table *table = hr_table_create(confirmed_columns, COUNT_OF(confirmed_columns));
  for (size_t i = 0; i < confirmation->finding_count; i++) {
    const hr_confirmed *c = &confirmation->findings[i];
    hr_put_text(table, rule_of(advice, c->finding));
    hr_put(table, c->predicted_operator_gain);
    hr_put(table, c->measured_operator_gain);
    hr_put(table, c->predicted_gain);
    hr_put(table, c->measured_gain);
    hr_put(table, c->measured_gain_low);
    hr_put(table, c->measured_gain_high);
    hr_put_text(table, hr_status_name(c->status));
    hr_put_text(table, hr_text_or_none(c->reason));
    hr_put_text(table, c->reason);
  }
  return table;
}
