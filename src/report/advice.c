#include "report/advice.h"

#include "base/error.h"

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

bool hr_finding_is_told(const hr_finding *finding, const hr_report_options *options)
{
  bool for_people = options->format == HR_FORMAT_TABLE || options->format == HR_FORMAT_MARKDOWN;
  return !for_people || options->verbose || finding->severity > HR_SEVERITY_NONE;
}

static void main_operator(char *to, size_t size, const hr_finding *finding)
{
  snprintf(to, size, "%.*s", (int)strcspn(finding->operators, " "), finding->operators);
}

static void put_finding(hr_table *table, const hr_finding *f)
{
  char op[48];
  main_operator(op, sizeof op, f);
  hr_put_text(table, f->rule);
  hr_put_text(table, hr_severity_name(f->severity));
  hr_put_flag(table, f->void_on_device);
  hr_put_text(table, hr_text_or_none(op));
  hr_put_text(table, hr_text_or_none(f->operators));
  hr_put_text(table, f->why);
  hr_put_text(table, hr_text_or_none(f->current));
  hr_put_text(table, hr_text_or_none(f->suggested));
  double gains[] = {f->parameter_change, f->predicted_operator_gain, f->predicted_gain};
  for (size_t i = 0; i < COUNT_OF(gains); i++)
    hr_put(table, f->has_change ? gains[i] : NAN);
  hr_put(table, f->measured_operator_gain);
  hr_put(table, f->measured_gain);
  hr_put_text(table, hr_text_or_none(f->source));
}

hr_table *hr_finding_table(const hr_advice *advice, const hr_report_options *options)
{
  hr_table *table = hr_table_create(finding_columns, COUNT_OF(finding_columns));
  for (size_t i = 0; i < advice->finding_count; i++) {
    if (hr_finding_is_told(&advice->findings[i], options))
      put_finding(table, &advice->findings[i]);
  }
  return table;
}

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
  hr_json_put_text(json, "note", hr_text_or_none(confirmation->note));
  hr_json_put_flag(json, "complete", confirmation->complete);
  hr_json_put_table(json, "findings", hr_confirmed_table(advice, confirmation));
  hr_json_put_table(json, "rows", hr_measured_table(advice, confirmation));
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
  hr_json_put_text(json, "suggested", hr_text_or_none(f->suggested));
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
  hr_json_put_table(json, "findings", hr_finding_table(advice, options));
  put_combined(json, advice);
  put_measurement(json, advice, confirmation);
  return hr_json_write(out, json, error);
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
    return hr_put_table(document, hr_measured_table(advice, confirmation ? confirmation : &nothing), error);
  }
  return hr_put_table(document, hr_finding_table(advice, document->options), error);
}

hr_status hr_report_advice(FILE *out, const hr_report_options *options, const hr_advice *advice,
                           const hr_confirmation *confirmation, hr_error *error)
{
  HR_NEED(error, out, options, advice);
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
    status = hr_tell_advice(&document, advice, confirmation, parameters.total, error);
  return hr_document_end(&document, status, error);
}
