/* SPDX-License-Identifier: Apache-2.0 */
#include "report/confirmation.h"

#include "analysis/advise/advice.h"
#include "report/measurement.h"
#include "report/operators.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const hr_measurement *hr_worse_measurement(const hr_comparison *comparison)
{
  const hr_measurement *before = &comparison->before, *after = &comparison->after;
  if (before->samples == 0 || after->samples == 0)
    return before->samples == 0 && before->status != HR_OK ? before : after;
  return before->status != HR_OK ? before : after;
}

static const char *rule_of(const hr_advice *advice, size_t finding)
{
  size_t combined = finding - advice->about.finding_count;
  return finding < advice->about.finding_count ? advice->findings[finding].rule : advice->combined[combined].rule;
}

/* ---- operators, as they are and as suggested ---- */

typedef struct comparison_row {
  const char *rule;
  const hr_confirmation_row *pair;
  hr_measurement before, after;
  const hr_measurement *worse;
  double predicted_gain, measured_gain, measured_gain_low, measured_gain_high;
} comparison_row;

/* Adds the heads of K and V if they are fewer than those of Q, because a finding may change them alone. */
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

static void size_before(const void *pair, hr_cell *cell)
{
  const hr_confirmation_row *r = pair;
  char size[128];
  write_size(size, sizeof size, &r->before[0]);
  hr_cell_format(cell, "%s%s", size, r->before_count > 1 ? ", unfused" : "");
}

static void size_after(const void *op, hr_cell *cell)
{
  char size[128];
  write_size(size, sizeof size, op);
  hr_cell_set_text(cell, size);
}

/* The operators before the change, as `write` has each. */
static void set_before(hr_cell *cell, const hr_confirmation_row *row,
                       void (*write)(char *to, size_t size, const hr_operator *op), const char *separator)
{
  char text[1024] = "", one[512];
  for (size_t i = 0; i < row->before_count; i++) {
    size_t used = strlen(text);
    write(one, sizeof one, &row->before[i]);
    if (one[0])
      snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? separator : "", one);
  }
  hr_cell_set_text(cell, text);
}

static void write_name(char *to, size_t size, const hr_operator *op)
{
  hr_operator_name(op, to, size);
}

static void names_before(const void *pair, hr_cell *cell)
{
  set_before(cell, pair, write_name, " ");
}

static void problems_before(const void *pair, hr_cell *cell)
{
  set_before(cell, pair, hr_write_operator_problem, " + ");
}

static void measured_gain(const void *member, hr_cell *cell)
{
  const double *gain = member;
  hr_cell_set_number(cell, *gain);
  cell->style = *gain > 0 ? HR_STYLE_GREEN : HR_STYLE_PLAIN;
}

static void status_unless_ok(const void *member, hr_cell *cell)
{
  const hr_status *status = member;
  hr_cell_set_text(cell, *status != HR_OK ? hr_status_name(*status) : "");
  cell->style = HR_STYLE_YELLOW;
}

#define ROW(member) HR_OPTIONAL(comparison_row, member)
#define PAIR HR_THROUGH(comparison_row, pair)
#define WORSE HR_THROUGH(comparison_row, worse)
#define BEFORE(value, function) PAIR, HR_COMPUTED_OF(value, function, hr_confirmation_row, before)
#define AFTER(value, function) PAIR, HR_COMPUTED_OF(value, function, hr_confirmation_row, after)
static const hr_column comparison_columns[] = {
    {"rule", "finding", HR_PLAIN, 3, ROW(rule)},
    {"operator", "operator", HR_PLAIN, 0, AFTER(TEXT, hr_operator_name_cell)},
    {NULL, "size now", HR_PLAIN, 5, PAIR, HR_COMPUTED(TEXT, size_before)},
    {NULL, "changed to", HR_PLAIN, 2, AFTER(TEXT, size_after)},
    {"before_ns", "time now", HR_TIME, 4, ROW(before.median_ns)},
    {"after_ns", "changed", HR_TIME, 4, ROW(after.median_ns)},
    {"before_m", NULL, HR_PLAIN, 0, BEFORE(COUNT, hr_operator_m_cell)},
    {"before_n", NULL, HR_PLAIN, 0, BEFORE(COUNT, hr_operator_n_cell)},
    {"before_k", NULL, HR_PLAIN, 0, BEFORE(COUNT, hr_operator_k_cell)},
    {"before_batch", NULL, HR_PLAIN, 0, BEFORE(COUNT, hr_operator_batch_cell)},
    {"after_m", NULL, HR_PLAIN, 0, AFTER(COUNT, hr_operator_m_cell)},
    {"after_n", NULL, HR_PLAIN, 0, AFTER(COUNT, hr_operator_n_cell)},
    {"after_k", NULL, HR_PLAIN, 0, AFTER(COUNT, hr_operator_k_cell)},
    {"after_batch", NULL, HR_PLAIN, 0, AFTER(COUNT, hr_operator_batch_cell)},
    {"predicted_before_ns", NULL, HR_TIME, 0, PAIR, HR_MEMBER(hr_confirmation_row, predicted_before_ns)},
    {"predicted_after_ns", NULL, HR_TIME, 0, PAIR, HR_MEMBER(hr_confirmation_row, predicted_after_ns)},
    {"predicted_gain", "predicted", HR_GAIN, 0, ROW(predicted_gain)},
    {"measured_gain", "measured", HR_GAIN, 0, HR_COMPUTED_OF(NUMBER, measured_gain, comparison_row, measured_gain)},
    {"measured_gain_low", "from", HR_GAIN, 6, ROW(measured_gain_low)},
    {"measured_gain_high", "to", HR_GAIN, 6, ROW(measured_gain_high)},
    {"samples", NULL, HR_PLAIN, 0, ROW(before.samples)},
    {"kernel_before", NULL, HR_PLAIN, 0, ROW(before.kernel)},
    {"kernel_after", NULL, HR_PLAIN, 0, ROW(after.kernel)},
    {"status", NULL, HR_PLAIN, 0, WORSE, HR_MEMBER(hr_measurement, status)},
    {"reason", NULL, HR_PLAIN, 0, WORSE, HR_OPTIONAL(hr_measurement, reason)},
    {"before_operators", NULL, HR_PLAIN, 0, PAIR, HR_COMPUTED(TEXT, names_before), .optional = true},
    {"before_problem", NULL, HR_PLAIN, 0, PAIR, HR_COMPUTED(TEXT, problems_before), .optional = true},
    {"after_problem", NULL, HR_PLAIN, 0, AFTER(TEXT, hr_operator_problem_cell)},
    {NULL, "", HR_PLAIN, 0, WORSE, HR_COMPUTED_OF(TEXT, status_unless_ok, hr_measurement, status)},
};

/* The gain a token of a ratio of times. */
static double gain_of(double ratio, const hr_confirmation_row *pair)
{
  return ratio * pair->token_ratio - 1;
}

hr_table *hr_comparison_table(const hr_advice *advice, const hr_confirmation *confirmation)
{
  hr_table *table = HR_TABLE_OF(comparison_columns, comparison_row);
  for (size_t i = 0; i < confirmation->count; i++) {
    const hr_confirmation_row *pair = &confirmation->rows[i];
    const hr_comparison *c = &pair->comparison;
    hr_table_add(
        table, &(comparison_row){.rule = rule_of(advice, pair->finding),
                                 .pair = pair,
                                 .before = hr_known_measurement(&c->before),
                                 .after = hr_known_measurement(&c->after),
                                 .worse = hr_worse_measurement(c),
                                 .predicted_gain = gain_of(pair->predicted_before_ns / pair->predicted_after_ns, pair),
                                 .measured_gain = gain_of(c->ratio, pair),
                                 .measured_gain_low = gain_of(c->ratio_low, pair),
                                 .measured_gain_high = gain_of(c->ratio_high, pair)});
  }
  return table;
}

/* ---- gains of findings ---- */

typedef struct confirmed_row {
  const char *rule;
  const hr_confirmed *confirmed;
} confirmed_row;

static void measured_as(const void *confirmed, hr_cell *cell)
{
  const hr_confirmed *c = confirmed;
  if (isfinite(c->measured_gain))
    hr_cell_set_text(cell, c->by_steps ? "steps" : "operators");
}

#define CONFIRMED(member) HR_THROUGH(confirmed_row, confirmed), HR_MEMBER(hr_confirmed, member)
static const hr_column confirmed_columns[] = {
    {"rule", "finding", HR_PLAIN, 0, HR_MEMBER(confirmed_row, rule)},
    {"predicted_operator_gain", "operator gain", HR_GAIN, 2, CONFIRMED(predicted_operator_gain)},
    {"measured_operator_gain", "measured", HR_GAIN, 2, CONFIRMED(measured_operator_gain)},
    {"predicted_gain", "step gain", HR_GAIN, 0, CONFIRMED(predicted_gain)},
    {"measured_gain", "measured", HR_GAIN, 0, CONFIRMED(measured_gain)},
    {"measured_gain_low", "from", HR_GAIN, 6, CONFIRMED(measured_gain_low)},
    {"measured_gain_high", "to", HR_GAIN, 6, CONFIRMED(measured_gain_high)},
    {"measured_as", "by", HR_PLAIN, 4, HR_THROUGH(confirmed_row, confirmed), HR_COMPUTED(TEXT, measured_as),
     .optional = true},
    {"status", NULL, HR_PLAIN, 0, CONFIRMED(status)},
    {"reason", NULL, HR_PLAIN, 0, CONFIRMED(reason), .optional = true},
    {NULL, "", HR_PLAIN, 0, CONFIRMED(reason)},
};

hr_table *hr_confirmed_table(const hr_advice *advice, const hr_confirmation *confirmation)
{
  hr_table *table = HR_TABLE_OF(confirmed_columns, confirmed_row);
  for (size_t i = 0; i < confirmation->finding_count; i++) {
    const hr_confirmed *confirmed = &confirmation->findings[i];
    hr_table_add(table, &(confirmed_row){rule_of(advice, confirmed->finding), confirmed});
  }
  return table;
}
