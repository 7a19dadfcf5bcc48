/* SPDX-License-Identifier: Apache-2.0 */
#include "report/advice_text.h"

#include "analysis/advise/advice.h"
#include "base/error.h"
#include "base/names.h"
#include "base/quantity.h"
#include "base/text.h"
#include "model/layers/frameworks.h"
#include "report/advice_figures.h"
#include "report/advice_html.h"
#include "report/confirmation.h"
#include "report/findings.h"
#include "report/inputs.h"
#include "report/lines.h"
#include "report/operators.h"
#include "report/parallel_layouts.h"
#include "report/width.h"

#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <math.h>

static const hr_style severity_styles[] = {[HR_SEVERITY_NONE] = HR_STYLE_DIM,
                                           [HR_SEVERITY_LOW] = HR_STYLE_CYAN,
                                           [HR_SEVERITY_MEDIUM] = HR_STYLE_YELLOW,
                                           [HR_SEVERITY_HIGH] = HR_STYLE_RED};

static hr_style severity_style(hr_severity severity)
{
  return (unsigned)severity < HR_COUNT_OF(severity_styles) ? severity_styles[severity] : HR_STYLE_PLAIN;
}

/* "2,231 tokens/s (279 per device)". */
static void write_tokens(char *to, size_t size, const hr_step *step)
{
  char all[HR_NUMBER_SIZE], each[HR_NUMBER_SIZE];
  hr_write_count(all, sizeof all, (int64_t)fmin(step->about.tokens_per_s, 9e18)); /* of 2^40 replicas more than 2^63 */
  hr_write_count(each, sizeof each, (int64_t)step->about.tokens_per_s_per_device);
  if (step->about.tokens_per_s == step->about.tokens_per_s_per_device)
    snprintf(to, size, "%s tokens/s", all);
  else
    snprintf(to, size, "%s tokens/s (%s per device)", all, each);
}

static void print_pipeline(const hr_document *document, const hr_advice *advice)
{
  const hr_step *step = &advice->step;
  char stage[HR_NUMBER_SIZE];
  int64_t m = hr_workload_microbatches(&advice->workload), p = advice->workload.pipeline_stages;
  if (p == 1)
    return;
  hr_write_time(stage, sizeof stage, step->about.stage_time_ns);
  hr_print_field(document, "pipeline",
                 "%.0f%% bubble: %" PRId64 " microbatch%s through %" PRId64 " stages, the slowest takes %s",
                 100 * step->about.bubble, m, m == 1 ? "" : "es", p, stage);
}

static void print_replicas(const hr_document *document, const hr_step *step)
{
  char sent[HR_NUMBER_SIZE], exposed[HR_NUMBER_SIZE];
  if (step->about.replica_ns == 0)
    return;
  hr_write_time(sent, sizeof sent, step->about.replica_ns);
  hr_write_time(exposed, sizeof exposed, step->about.exposed_ns);
  hr_print_field(document, "replicas", "%s of communication, of which the step waits for %s", sent,
                 step->about.exposed_ns > 0 ? exposed : "none");
}

static void print_step(const hr_document *document, const hr_advice *advice, int64_t parameters)
{
  const hr_step *step = &advice->step;
  char count[HR_NUMBER_SIZE], brief[HR_NUMBER_SIZE], time[HR_NUMBER_SIZE], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE];
  hr_print_model(document, &advice->model);
  hr_write_count(count, sizeof count, parameters);
  hr_write_short(brief, sizeof brief, (double)parameters);
  hr_print_field(document, "parameters", "%s (%s)", count, brief);
  hr_print_hardware(document, &advice->hardware);
  hr_print_workload(document, &advice->workload);
  hr_write_time(time, sizeof time, step->about.time_ns);
  hr_write_time(low, sizeof low, step->about.low_ns);
  hr_write_time(high, sizeof high, step->about.high_ns);
  char tokens[3 * HR_NUMBER_SIZE], communication[64] = "";
  double percent = 100 * step->about.model_efficiency;
  write_tokens(tokens, sizeof tokens, step);
  if (step->about.communication_ns > 0)
    hr_write_text(communication, sizeof communication, ", %.0f%% in communication",
                  100 * step->about.communication_ns / step->about.time_ns);
  hr_print_field(document, "step", "%s predicted (%s … %s), %s, %.*f%% of the peak rate%s", time, low, high, tokens,
                 percent < 0.95 ? 2 : 0, percent, communication);
  print_pipeline(document, advice);
  print_replicas(document, step);
}

/* What is assumed about the weights, which decides the order. */
static void print_assumption(const hr_document *document, const hr_advice *advice)
{
  static const char *const evidence[] = {[HR_ORIGIN_DESIGN] = "nothing names weights",
                                         [HR_ORIGIN_PUBLISHED] = "a published model",
                                         [HR_ORIGIN_FILES] = "weights are beside its configuration"};
  hr_origin origin = advice->model.origin;
  const char *known = (unsigned)origin < HR_COUNT_OF(evidence) ? evidence[origin] : "unknown";
  if (advice->about.retrain_last && origin == HR_ORIGIN_DESIGN)
    hr_print_field(document, "assumed", "trained weights (as asked): changes that need new ones come last");
  else if (advice->about.retrain_last)
    hr_print_field(document, "assumed",
                   "trained weights (%s): changes that need new ones come last (--design: by gain)", known);
  else
    hr_print_field(document, "assumed", "a design (%s): changes are in the order of their gain",
                   origin == HR_ORIGIN_DESIGN ? known : "as asked");
}

/* Names whose kernels the times are of: a framework runs others where it passes attention a mask, or fuses less. */
static void print_kernels(const hr_document *document, const hr_hardware *hardware, const hr_workload *workload)
{
  static const char launched[] = "everything else operator by operator, launched by the host";
  static const struct {
    const char *attention, *rest;
  } words[] = {[HR_FRAMEWORK_COMPILED] = {"FlashAttention", "fused norms, rotary embedding, activations; transformers "
                                                            "runs a slower, masked attention"},
               [HR_FRAMEWORK_EAGER] = {"FlashAttention", launched},
               [HR_FRAMEWORK_HEADROOM] = {"Headroom's attention",
                                          "norms, rotary embedding and activations by Headroom's kernels"},
               [HR_FRAMEWORK_TRANSFORMERS] = {"FlashAttention (masked for windows)", launched},
               [HR_FRAMEWORK_TRANSFORMERS_COMPILED] = {"attention that computes masked scores, too",
                                                       "fused norms, rotary embedding, activations"}};
  bool fused = workload->attention == HR_ATTENTION_FUSED;
  const size_t at = (size_t)workload->framework;
  if (hr_is_server(workload->framework))
    hr_print_server_kernels(document, hardware, workload->framework);
  else if (at < HR_COUNT_OF(words))
    hr_print_field(document, "assumed", "%s, %s", fused ? words[at].attention : "unfused attention", words[at].rest);
}

/* "parameters +0.1%,  operator +540%,  step +12.3%", continued on the next line if the terminal is too narrow. */
typedef struct gain_line {
  const hr_document *document;
  int indent, column;
  bool begun;
} gain_line;

static gain_line begin_gains(const hr_document *document, int indent)
{
  fprintf(document->out, "%*s", indent, "");
  return (gain_line){.document = document, .indent = indent, .column = indent};
}

static void print_part(gain_line *line, const char *name, const char *value, hr_style style)
{
  FILE *out = line->document->out;
  int width = line->document->options->width, columns = hr_display_width(name) + 1 + hr_display_width(value);
  if (line->begun && width > 0 && line->column + 3 + columns > width) {
    fprintf(out, ",\n%*s", line->indent, "");
    line->column = line->indent;
  } else if (line->begun) {
    fprintf(out, ",  ");
    line->column += 3;
  }
  fprintf(out, "%s ", name);
  hr_style_begin(out, line->document->options, style);
  fprintf(out, "%s", value);
  hr_style_end(out, line->document->options, style);
  line->column += columns;
  line->begun = true;
}

static void print_gain(gain_line *line, const char *name, double gain)
{
  char text[HR_NUMBER_SIZE];
  hr_write_gain(text, sizeof text, gain);
  if (isfinite(gain))
    print_part(line, name, text, HR_STYLE_PLAIN);
}

/* The gain of the whole step, in colour. */
static void print_step_gain(gain_line *line, const char *name, double gain)
{
  char text[HR_NUMBER_SIZE];
  hr_write_gain(text, sizeof text, gain);
  print_part(line, name, text, gain == 0 ? HR_STYLE_PLAIN : gain > 0 ? HR_STYLE_GREEN : HR_STYLE_RED);
}

static const hr_confirmed *confirmed_of(const hr_confirmation *confirmation, size_t finding)
{
  for (size_t i = 0; confirmation && i < confirmation->finding_count; i++) {
    if (confirmation->findings[i].finding == finding)
      return &confirmation->findings[i];
  }
  return NULL;
}

/* "measured: step +0.8%,  between +0.7% and +0.9%,  operator +11.4%". If the measured size is smaller than the size
 * asked for, also that size and the gain predicted there: the finding's own prediction is of the size asked for. */
static void print_measured_gains(gain_line *line, const hr_finding *f, const hr_confirmation *confirmation,
                                 const hr_confirmed *c)
{
  const char *whole = f->gain_per_device ? "tokens/s per device" : "step";
  char name[128], low[HR_NUMBER_SIZE], high[HR_NUMBER_SIZE], interval[2 * HR_NUMBER_SIZE + 8];
  snprintf(name, sizeof name, "measured: %s", whole);
  if (confirmation->reduced)
    snprintf(name, sizeof name, "measured at %" PRId64 " × %" PRId64 " tokens: %s", confirmation->batch,
             confirmation->sequence, whole);
  print_step_gain(line, name, f->measured_gain);
  hr_write_gain(low, sizeof low, c->measured_gain_low);
  hr_write_gain(high, sizeof high, c->measured_gain_high);
  snprintf(interval, sizeof interval, "%s and %s", low, high);
  print_part(line, "between", interval, HR_STYLE_PLAIN);
  if (confirmation->reduced)
    print_gain(line, "predicted there", c->predicted_gain);
  print_gain(line, "operator", f->measured_operator_gain);
}

static void print_gain_lines(const hr_document *document, const hr_finding *f, const hr_confirmation *confirmation,
                             size_t finding, int indent)
{
  gain_line line = begin_gains(document, indent);
  print_gain(&line, "parameters", f->parameter_change);
  print_gain(&line, "operator", f->predicted_operator_gain);
  bool pads = isfinite(f->eager_gain);
  const char *of_step = pads ? "step: compiled" : "step";
  print_step_gain(&line, f->gain_per_device ? "tokens/s per device" : of_step, f->predicted_gain);
  if (pads)
    print_step_gain(&line, "eager", f->eager_gain);
  if (f->gain_per_device) {
    char time[HR_NUMBER_SIZE];
    hr_write_time(time, sizeof time, f->predicted_time_ns);
    print_part(&line, "the step takes", time, HR_STYLE_PLAIN);
  }
  fprintf(document->out, "\n");
  const hr_confirmed *confirmed = confirmed_of(confirmation, finding);
  if (!confirmed || !isfinite(f->measured_gain))
    return;
  line = begin_gains(document, indent);
  print_measured_gains(&line, f, confirmation, confirmed);
  fprintf(document->out, "\n");
}

/* The lines have numbers and names of this program only, which HTML need not escape. */
static void print_gains(const hr_document *document, const hr_finding *f, const hr_confirmation *confirmation,
                        size_t finding, int indent)
{
  bool html = document->options->format == HR_FORMAT_HTML;
  fputs(html ? "<p class=\"gain\">" : "", document->out);
  print_gain_lines(document, f, confirmation, finding, indent);
  fputs(html ? "</p>\n" : "", document->out);
}

#define FINDING_INDENT 8

static void print_indented(const hr_document *document, const char *text)
{
  char clean[640];
  hr_copy_text(clean, sizeof clean, text);
  fprintf(document->out, "%*s", FINDING_INDENT, "");
  hr_wrap_text(document->out, clean, FINDING_INDENT, FINDING_INDENT, document->options->width);
}

/* "retrain: new weights; … (Ainslie et al. 2023, …)" */
static void print_cost(const hr_document *document, const hr_finding *f)
{
  char text[512];
  bool source = f->cost_source[0];
  snprintf(text, sizeof text, "%s%s%s%s%s%s", hr_change_class_name(f->change_class), f->cost[0] ? ": " : "", f->cost,
           source ? " (" : "", f->cost_source, source ? ")" : "");
  hr_style_begin(document->out, document->options, HR_STYLE_DIM);
  print_indented(document, text);
  hr_style_end(document->out, document->options, HR_STYLE_DIM);
}

static void print_html_finding(const hr_document *document, const hr_finding *f, const hr_confirmation *confirmation,
                               size_t index)
{
  hr_html_finding(document, f);
  if (f->has_change)
    print_gains(document, f, confirmation, index, 0);
  hr_html_finding_end(document, f);
}

static void print_finding(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation,
                          size_t index)
{
  const hr_finding *f = &advice->findings[index];
  if (document->options->format == HR_FORMAT_HTML) {
    print_html_finding(document, f, confirmation, index);
    return;
  }
  static const char *const words[] = {"none", "low", "MEDIUM", "HIGH"};
  const char *word = f->not_applicable ? "n/a" : (unsigned)f->severity < HR_COUNT_OF(words) ? words[f->severity] : "?";
  fprintf(document->out, "\n");
  hr_style_begin(document->out, document->options, severity_style(f->severity));
  fprintf(document->out, "%-*s", FINDING_INDENT, word);
  hr_style_end(document->out, document->options, severity_style(f->severity));
  char title[256];
  snprintf(title, sizeof title, "%s%s%s", f->rule, f->operators[0] ? ": " : "", f->operators);
  hr_wrap_text(document->out, title, FINDING_INDENT, FINDING_INDENT, document->options->width);
  print_indented(document, f->why);
  if (f->suggested[0]) {
    char change[320];
    snprintf(change, sizeof change, "%s%s%s", f->current, f->current[0] ? " → " : "", f->suggested);
    print_indented(document, change);
  }
  if (f->has_change)
    print_gains(document, f, confirmation, index, FINDING_INDENT);
  if (f->severity > HR_SEVERITY_NONE)
    print_cost(document, f);
  if (document->options->verbose && f->source) {
    hr_style_begin(document->out, document->options, HR_STYLE_DIM);
    char source[320];
    snprintf(source, sizeof source, "Source: %s", f->source);
    print_indented(document, source);
    hr_style_end(document->out, document->options, HR_STYLE_DIM);
  }
}

/* "3 findings are left out, 1 of them high." */
static void print_left_out(const hr_document *document, const hr_advice *advice)
{
  if (advice->about.left_out == 0)
    return;
  char text[160], high[64] = "";
  if (advice->about.left_out_high > 0)
    snprintf(high, sizeof high, ", %zu of them of severity high", advice->about.left_out_high);
  snprintf(text, sizeof text, "%zu finding%s hidden by the filters%s.", advice->about.left_out,
           advice->about.left_out == 1 ? " is" : "s are", high);
  fprintf(document->out, "\n");
  hr_print_paragraph(document, text);
}

static hr_status print_findings(const hr_document *document, const hr_advice *advice,
                                const hr_confirmation *confirmation, hr_error *error)
{
  size_t shown = 0;
  for (size_t i = 0; i < advice->about.finding_count; i++)
    shown += hr_finding_is_shown(&advice->findings[i], document->options);
  hr_print_heading(document, "Findings");
  if (shown == 0) {
    hr_print_paragraph(document, advice->about.left_out > 0
                                     ? "Nothing to gain within the chosen classes and rules."
                                     : "Nothing to gain: no rule suggests a change. -v shows each rule.");
  } else if (document->options->format == HR_FORMAT_MARKDOWN) {
    HR_TRY(hr_print_table(document, hr_finding_table(advice, document->options), error));
  }
  for (size_t i = 0; i < advice->about.finding_count && document->options->format != HR_FORMAT_MARKDOWN; i++) {
    if (hr_finding_is_shown(&advice->findings[i], document->options))
      print_finding(document, advice, confirmation, i);
  }
  print_left_out(document, advice);
  return HR_OK;
}

static void print_combined(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation)
{
  for (size_t i = 0; i < advice->about.combined_count; i++) {
    hr_finding together = advice->combined[i];
    bool free = together.change_class == HR_CHANGE_FREE;
    hr_print_heading(document,
                     free ? "All free changes together" : "All compatible changes together, with new weights");
    hr_print_paragraph(document, together.why);
    if (together.suggested[0])
      hr_print_paragraph(document, together.suggested);
    together.predicted_operator_gain = together.measured_operator_gain = NAN; /* of no one operator */
    print_gains(document, &together, confirmation, advice->about.finding_count + i, 0);
  }
}

/* The table shows times whatever their status; this tells how many are doubtful. */
static void print_doubts(const hr_document *document, const hr_confirmation *confirmation)
{
  size_t doubtful = 0;
  const char *reason = "";
  for (size_t i = 0; i < confirmation->count; i++) {
    const hr_measurement *worse = hr_worse_measurement(&confirmation->rows[i].comparison);
    if (worse->status != HR_OK && ++doubtful == 1)
      reason = worse->reason;
  }
  if (doubtful == 0)
    return;
  char text[320];
  snprintf(text, sizeof text, "%zu of %zu comparisons are noisy or failed; the first: %s", doubtful,
           confirmation->count, reason);
  hr_print_paragraph(document, text);
}

static bool has_gains(const hr_confirmation *confirmation)
{
  bool found = false;
  for (size_t i = 0; i < confirmation->finding_count; i++)
    found = found || isfinite(confirmation->findings[i].measured_gain);
  return found;
}

static hr_status print_measured(const hr_document *document, const hr_advice *advice,
                                const hr_confirmation *confirmation, hr_error *error)
{
  if (!confirmation)
    return HR_OK;
  hr_print_heading(document, "Measured on %s at %" PRId64 " × %" PRId64 " tokens%s", advice->hardware.about.name,
                   confirmation->batch, confirmation->sequence, confirmation->complete ? "" : " (stopped early)");
  if (confirmation->note[0])
    hr_print_paragraph(document, confirmation->note);
  if (confirmation->count == 0 && !has_gains(confirmation)) {
    hr_print_paragraph(document, confirmation->complete ? "No finding changes a GEMM, a softmax or fused attention."
                                                        : "Nothing was measured before it stopped.");
    return HR_OK;
  }
  if (confirmation->count > 0)
    HR_TRY(hr_print_table(document, hr_comparison_table(advice, confirmation), error));
  print_doubts(document, confirmation);
  hr_print_heading(document, "Gains at this size");
  return hr_print_table(document, hr_confirmed_table(advice, confirmation), error);
}

/* Operators and parallel layouts, which people look up rather than read. */
static hr_status print_tables(const hr_document *document, const hr_advice *advice, hr_error *error)
{
  const hr_step *step = &advice->step;
  hr_print_details(document, "Operators of the step and parallel layouts");
  hr_print_heading(document, "%s of the step",
                   document->options->verbose ? "Operators" : hr_words_of_operators(&step->operators));
  hr_table *table =
      hr_operator_table(&step->operators, step, &advice->model, &advice->workload, !document->options->verbose);
  HR_TRY(hr_print_table(document, table, error));
  if (document->options->explain) {
    hr_print_heading(document, "Terms of one execution");
    HR_TRY(hr_print_table(document, hr_term_table(step), error));
  }
  HR_TRY(hr_print_parallel_layouts(document, &advice->layouts, error));
  hr_print_details_end(document);
  return HR_OK;
}

hr_status hr_print_advice(const hr_document *document, const hr_advice *advice, const hr_confirmation *confirmation,
                          int64_t parameters, hr_error *error)
{
  bool folded = document->options->format == HR_FORMAT_HTML || document->options->format == HR_FORMAT_MARKDOWN;
  print_step(document, advice, parameters);
  print_assumption(document, advice);
  print_kernels(document, &advice->hardware, &advice->workload);
  if (!folded)
    HR_TRY(print_tables(document, advice, error));
  HR_TRY(hr_print_advice_figures(document, advice, confirmation, error));
  HR_TRY(print_findings(document, advice, confirmation, error));
  print_combined(document, advice, confirmation);
  HR_TRY(print_measured(document, advice, confirmation, error));
  return folded ? print_tables(document, advice, error) : HR_OK;
}
