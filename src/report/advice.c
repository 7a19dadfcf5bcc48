#include "report/document.h"

#include "base/error.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const hr_column finding_columns[] = {
    {"rule", "rule", HR_CELL_TEXT, 0},
    {"severity", "severity", HR_CELL_TEXT, 0},
    {"void_on_device", NULL, HR_CELL_FLAG, 0},
    {"operator", "operator", HR_CELL_TEXT, 0},
    {"operators", NULL, HR_CELL_TEXT, 0},
    {"why", "why", HR_CELL_TEXT, 0},
    {"current", "now", HR_CELL_TEXT, 0},
    {"suggested", "change to", HR_CELL_TEXT, 0},
    {"parameter_change", "parameters", HR_CELL_GAIN, 0},
    {"predicted_operator_gain", "operator gain", HR_CELL_GAIN, 0},
    {"predicted_gain", "step gain", HR_CELL_GAIN, 0},
    {"measured_operator_gain", "operator gain, measured", HR_CELL_GAIN, 0},
    {"measured_gain", "step gain, measured", HR_CELL_GAIN, 0},
    {"source", NULL, HR_CELL_TEXT, 0},
};

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

static const hr_style severity_styles[] = {[HR_SEVERITY_NONE] = HR_STYLE_DIM,
                                           [HR_SEVERITY_LOW] = HR_STYLE_CYAN,
                                           [HR_SEVERITY_MEDIUM] = HR_STYLE_YELLOW,
                                           [HR_SEVERITY_HIGH] = HR_STYLE_RED};

static hr_style severity_style(hr_severity severity)
{
  return (unsigned)severity < COUNT_OF(severity_styles) ? severity_styles[severity] : HR_STYLE_PLAIN;
}

static bool is_told(const hr_finding *finding, const hr_report_options *options)
{
  bool for_people = options->format == HR_FORMAT_TABLE || options->format == HR_FORMAT_MARKDOWN;
  return !for_people || options->verbose || finding->severity > HR_SEVERITY_NONE;
}

static void main_operator(char *to, size_t size, const hr_finding *finding)
{
  snprintf(to, size, "%.*s", (int)strcspn(finding->operators, " "), finding->operators);
}

static const char *text_or_none(const char *text)
{
  return text && text[0] ? text : NULL;
}

static void put_finding(hr_table *table, const hr_finding *f)
{
  char op[48];
  main_operator(op, sizeof op, f);
  hr_put_text(table, f->rule);
  hr_put_text(table, hr_severity_name(f->severity));
  hr_put_flag(table, f->void_on_device);
  hr_put_text(table, text_or_none(op));
  hr_put_text(table, text_or_none(f->operators));
  hr_put_text(table, f->why);
  hr_put_text(table, text_or_none(f->current));
  hr_put_text(table, text_or_none(f->suggested));
  double gains[] = {f->parameter_change, f->predicted_operator_gain, f->predicted_gain};
  for (size_t i = 0; i < COUNT_OF(gains); i++)
    hr_put(table, f->has_change ? gains[i] : NAN);
  hr_put(table, f->measured_operator_gain);
  hr_put(table, f->measured_gain);
  hr_put_text(table, text_or_none(f->source));
}

static hr_table *finding_table(const hr_advice *advice, const hr_report_options *options)
{
  hr_table *table = hr_table_create(finding_columns, COUNT_OF(finding_columns));
  for (size_t i = 0; i < advice->finding_count; i++) {
    if (is_told(&advice->findings[i], options))
      put_finding(table, &advice->findings[i]);
  }
  return table;
}

/* ---- what was measured ---- */

static const char *rule_of(const hr_advice *advice, size_t finding)
{
  return finding < advice->finding_count ? advice->findings[finding].rule : "combined";
}

static void put_gemm_sizes(hr_table *table, const hr_gemm *gemm)
{
  hr_put_count(table, gemm->m);
  hr_put_count(table, gemm->n);
  hr_put_count(table, gemm->k);
  hr_put_count(table, gemm->batch);
}

static void put_measured(hr_table *table, const hr_advice *advice, const hr_confirmation_row *row)
{
  char name[48], before[96], after[96];
  const hr_comparison *c = &row->comparison;
  const hr_measurement *failed = c->before.status != HR_OK ? &c->before : &c->after;
  hr_operator_name(&row->before, name, sizeof name);
  hr_write_operator_size(before, sizeof before, &row->before);
  hr_write_operator_size(after, sizeof after, &row->after);
  hr_put_text(table, rule_of(advice, row->finding));
  hr_put_text(table, name);
  hr_put_text(table, before);
  hr_put_text(table, after);
  hr_put(table, c->before.samples > 0 ? c->before.median_ns : NAN);
  hr_put(table, c->after.samples > 0 ? c->after.median_ns : NAN);
  put_gemm_sizes(table, &row->before.gemm);
  put_gemm_sizes(table, &row->after.gemm);
  hr_put(table, row->predicted_before_ns);
  hr_put(table, row->predicted_after_ns);
  hr_put(table, row->predicted_before_ns / row->predicted_after_ns - 1);
  hr_put(table, c->ratio - 1);
  hr_table_style(table, c->ratio > 1 ? HR_STYLE_GREEN : HR_STYLE_PLAIN);
  hr_put(table, c->ratio_low - 1);
  hr_put(table, c->ratio_high - 1);
  hr_put_count(table, c->before.samples);
  hr_put_text(table, text_or_none(c->before.kernel));
  hr_put_text(table, text_or_none(c->after.kernel));
  hr_put_text(table, hr_status_name(failed->status));
  hr_put_text(table, text_or_none(failed->reason));
  hr_put_text(table, failed->status != HR_OK ? hr_status_name(failed->status) : "");
  hr_table_style(table, HR_STYLE_YELLOW);
}

static hr_table *measured_table(const hr_advice *advice, const hr_confirmation *confirmation)
{
  hr_table *table = hr_table_create(measured_columns, COUNT_OF(measured_columns));
  for (size_t i = 0; i < confirmation->count; i++)
    put_measured(table, advice, &confirmation->rows[i]);
  return table;
}

static hr_table *confirmed_table(const hr_advice *advice, const hr_confirmation *confirmation)
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
    hr_put_text(table, text_or_none(c->reason));
    hr_put_text(table, c->reason);
  }
  return table;
}

/* ---- JSON ---- */

static void put_measurement(hr_json document, const hr_advice *advice, const hr_confirmation *confirmation)
{
  if (!confirmation) {
    hr_json_put(document, "measurement", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "measurement");
  hr_json_put_count(json, "batch", confirmation->batch);
  hr_json_put_count(json, "sequence", confirmation->sequence);
  hr_json_put_flag(json, "reduced", confirmation->reduced);
  hr_json_put_text(json, "note", text_or_none(confirmation->note));
  hr_json_put_flag(json, "complete", confirmation->complete);
  hr_json_put_table(json, "findings", confirmed_table(advice, confirmation));
  hr_json_put_table(json, "rows", measured_table(advice, confirmation));
}

static void put_combined(hr_json document, const hr_advice *advice)
{
  if (!advice->has_combined) {
    hr_json_put(document, "combined", json_null());
    return;
  }
  const hr_finding *f = &advice->combined;
  hr_json json = hr_json_put_object(document, "combined");
  hr_json_put_text(json, "why", f->why);
  hr_json_put_text(json, "suggested", text_or_none(f->suggested));
  hr_json_put_number(json, "parameter_change", f->parameter_change);
  hr_json_put_number(json, "predicted_gain", f->predicted_gain);
  hr_json_put_number(json, "measured_gain", f->measured_gain);
  hr_json_put_model(json, &f->model);
  hr_json_put_workload(json, &f->workload);
}

static hr_status write_json(const hr_advice *advice, const hr_confirmation *confirmation,
                            const hr_report_options *options, int64_t parameters, FILE *out, hr_error *error)
{
  const hr_step *step = &advice->step;
  bool failed;
  hr_json json = hr_json_document("advise", &failed);
  hr_json_put_text(json, "device", advice->hardware.name);
  hr_json_put_hardware(json, &advice->hardware);
  hr_json_put_model(json, &advice->model);
  hr_json_put_workload(json, &advice->workload);
  hr_json_put_count(json, "parameters", parameters);
  hr_json_put_count(json, "flops", step->operators.flops);
  hr_json_put_number(json, "step_time_ns", step->time_ns);
  hr_json_put_number(json, "step_time_low_ns", step->low_ns);
  hr_json_put_number(json, "step_time_high_ns", step->high_ns);
  hr_json_put_number(json, "layer_time_ns", step->layer_time_ns);
  hr_json_put_number(json, "logit_time_ns", step->logit_time_ns);
  hr_json_put_number(json, "tokens_per_s", step->tokens_per_s);
  hr_json_put_number(json, "model_efficiency", step->model_efficiency);
  hr_json_put_table(json, "operators",
                    hr_operator_table(&step->operators, step, &advice->model, &advice->workload, false));
  hr_json_put_table(json, "findings", finding_table(advice, options));
  put_combined(json, advice);
  put_measurement(json, advice, confirmation);
  return hr_json_write(out, json, error);
}

/* ---- for people ---- */

static void put_step(const hr_document *document, const hr_advice *advice, int64_t parameters)
{
  const hr_step *step = &advice->step;
  char count[HR_NUMBER_SIZE], brief[HR_NUMBER_SIZE], time[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  hr_put_model(document, &advice->model);
  hr_write_count(count, sizeof count, parameters);
  hr_write_short(brief, sizeof brief, (double)parameters);
  hr_put_field(document, "parameters", "%s (%s)", count, brief);
  hr_put_hardware(document, &advice->hardware);
  hr_put_workload(document, &advice->workload);
  hr_write_time(time, sizeof time, step->time_ns);
  hr_write_time(low, sizeof low, step->low_ns);
  hr_write_time(high, sizeof high, step->high_ns);
  char tokens[HR_NUMBER_SIZE];
  hr_write_count(tokens, sizeof tokens, (int64_t)step->tokens_per_s);
  hr_put_field(document, "step", "%s predicted (%s … %s), %s tokens/s, %.0f%% of the datasheet rate", time, low, high,
               tokens, 100 * step->model_efficiency);
}

/* Writes "name +12.3%" if there is a gain. Returns what stands before the next one. */
static const char *put_gain(const hr_document *document, const char *before, const char *name, double gain,
                            bool important)
{
  char text[HR_NUMBER_SIZE];
  if (!isfinite(gain))
    return before;
  hr_write_gain(text, sizeof text, gain);
  fprintf(document->out, "%s%s ", before, name);
  hr_style style = !important || gain == 0 ? HR_STYLE_PLAIN : gain > 0 ? HR_STYLE_GREEN : HR_STYLE_RED;
  hr_style_begin(document->out, document->options, style);
  fprintf(document->out, "%s", text);
  hr_style_end(document->out, document->options, style);
  return ",  ";
}

/* "parameters +0.1%,  operator +540%,  step +12.3%", and below it what was measured. */
static void put_gains(const hr_document *document, const hr_finding *f, int indent)
{
  fprintf(document->out, "%*s", indent, "");
  const char *before = put_gain(document, "", "parameters", f->parameter_change, false);
  before = put_gain(document, before, "operator", f->predicted_operator_gain, false);
  put_gain(document, before, "step", f->predicted_gain, true);
  fprintf(document->out, "\n");
  if (!isfinite(f->measured_gain))
    return;
  fprintf(document->out, "%*smeasured: ", indent, "");
  before = put_gain(document, "", "operator", f->measured_operator_gain, false);
  put_gain(document, before, "step", f->measured_gain, true);
  fprintf(document->out, "\n");
}

#define FINDING_INDENT 8

static void put_indented(const hr_document *document, const char *text)
{
  char clean[640];
  hr_text_clean(clean, sizeof clean, text);
  fprintf(document->out, "%*s", FINDING_INDENT, "");
  hr_text_wrap(document->out, clean, FINDING_INDENT, FINDING_INDENT, document->options->width);
}

static void tell_finding(const hr_document *document, const hr_finding *f)
{
  static const char *const words[] = {"none", "low", "MEDIUM", "HIGH"};
  const char *word = f->void_on_device ? "void" : (unsigned)f->severity < COUNT_OF(words) ? words[f->severity] : "?";
  fprintf(document->out, "\n");
  hr_style_begin(document->out, document->options, severity_style(f->severity));
  fprintf(document->out, "%-*s", FINDING_INDENT, word);
  hr_style_end(document->out, document->options, severity_style(f->severity));
  char title[256];
  snprintf(title, sizeof title, "%s%s%s", f->rule, f->operators[0] ? ": " : "", f->operators);
  hr_text_wrap(document->out, title, FINDING_INDENT, FINDING_INDENT, document->options->width);
  put_indented(document, f->why);
  if (f->suggested[0]) {
    char change[320];
    snprintf(change, sizeof change, "%s%s%s", f->current, f->current[0] ? " → " : "", f->suggested);
    put_indented(document, change);
  }
  if (f->has_change)
    put_gains(document, f, FINDING_INDENT);
  if (document->options->verbose && f->source) {
    hr_style_begin(document->out, document->options, HR_STYLE_DIM);
    char source[320];
    snprintf(source, sizeof source, "Source: %s", f->source);
    put_indented(document, source);
    hr_style_end(document->out, document->options, HR_STYLE_DIM);
  }
}

static hr_status tell_findings(const hr_document *document, const hr_advice *advice, hr_error *error)
{
  size_t told = 0;
  for (size_t i = 0; i < advice->finding_count; i++)
    told += is_told(&advice->findings[i], document->options);
  hr_put_heading(document, "Findings");
  if (told == 0) {
    hr_put_paragraph(document, "Nothing to gain: every rule is satisfied or does not matter here. See -v for each.");
    return HR_OK;
  }
  if (document->options->format == HR_FORMAT_MARKDOWN)
    return hr_put_table(document, finding_table(advice, document->options), error);
  for (size_t i = 0; i < advice->finding_count; i++) {
    if (is_told(&advice->findings[i], document->options))
      tell_finding(document, &advice->findings[i]);
  }
  return HR_OK;
}

static void tell_combined(const hr_document *document, const hr_advice *advice)
{
  if (!advice->has_combined)
    return;
  hr_put_heading(document, "All compatible changes together");
  hr_put_paragraph(document, advice->combined.why);
  if (advice->combined.suggested[0])
    hr_put_paragraph(document, advice->combined.suggested);
  hr_finding gains = advice->combined;
  gains.predicted_operator_gain = gains.measured_operator_gain = NAN; /* of which operator would not be clear */
  put_gains(document, &gains, 0);
}

/* Times are shown whatever their status; a doubt about them belongs beside them. */
static void tell_doubts(const hr_document *document, const hr_confirmation *confirmation)
{
  size_t doubtful = 0;
  const char *reason = "";
  for (size_t i = 0; i < confirmation->count; i++) {
    const hr_comparison *c = &confirmation->rows[i].comparison;
    const hr_measurement *worse = c->before.status != HR_OK ? &c->before : &c->after;
    if (worse->status != HR_OK && ++doubtful == 1)
      reason = worse->reason;
  }
  if (doubtful == 0)
    return;
  char text[320];
  snprintf(text, sizeof text, "%zu of %zu comparisons did not settle or have no time; the first: %s", doubtful,
           confirmation->count, reason);
  hr_put_paragraph(document, text);
}

static hr_status tell_measured(const hr_document *document, const hr_advice *advice,
                               const hr_confirmation *confirmation, hr_error *error)
{
  if (!confirmation)
    return HR_OK;
  hr_put_heading(document, "Measured on %s at %" PRId64 " × %" PRId64 " tokens%s", advice->hardware.name,
                 confirmation->batch, confirmation->sequence, confirmation->complete ? "" : " (stopped early)");
  if (confirmation->note[0])
    hr_put_paragraph(document, confirmation->note);
  if (confirmation->count == 0) {
    hr_put_paragraph(document, confirmation->complete ? "No finding changes a product that can be measured here."
                                                      : "Nothing was measured by then.");
    return HR_OK;
  }
  HR_TRY(hr_put_table(document, measured_table(advice, confirmation), error));
  tell_doubts(document, confirmation);
  hr_put_heading(document, "Gains at this size");
  return hr_put_table(document, confirmed_table(advice, confirmation), error);
}

static hr_status write_text(const hr_advice *advice, const hr_confirmation *confirmation, int64_t parameters,
                            const hr_document *document, hr_error *error)
{
  const hr_step *step = &advice->step;
  put_step(document, advice, parameters);
  hr_put_heading(document, document->options->verbose ? "Operators of the step" : "Matrix products of the step");
  HR_TRY(hr_put_table(
      document,
      hr_operator_table(&step->operators, step, &advice->model, &advice->workload, !document->options->verbose),
      error));
  HR_TRY(tell_findings(document, advice, error));
  tell_combined(document, advice);
  return tell_measured(document, advice, confirmation, error);
}

static hr_status write_csv(const hr_advice *advice, const hr_confirmation *confirmation, const hr_document *document,
                           hr_error *error)
{
  const hr_step *step = &advice->step;
  if (document->options->csv == HR_CSV_OPERATORS)
    return hr_put_table(document, hr_operator_table(&step->operators, step, &advice->model, &advice->workload, false),
                        error);
  if (document->options->csv == HR_CSV_MEASUREMENTS) {
    static const hr_confirmation nothing = {.count = 0};
    return hr_put_table(document, measured_table(advice, confirmation ? confirmation : &nothing), error);
  }
  return hr_put_table(document, finding_table(advice, document->options), error);
}

hr_status hr_report_advice(FILE *out, const hr_report_options *options, const hr_advice *advice,
                           const hr_confirmation *confirmation, hr_error *error)
{
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(&advice->model, &parameters, error));
  hr_document document;
  HR_TRY(hr_document_begin(&document, out, options, error));
  hr_status status;
  if (options->format == HR_FORMAT_JSON)
    status = write_json(advice, confirmation, options, parameters.total, out, error);
  else if (options->format == HR_FORMAT_CSV)
    status = write_csv(advice, confirmation, &document, error);
  else
    status = write_text(advice, confirmation, parameters.total, &document, error);
  return hr_document_end(&document, status, error);
}
