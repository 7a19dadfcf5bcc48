/* SPDX-License-Identifier: Apache-2.0 */
/* `advise`: the predicted step, the findings, and the measurements that confirm them. */
#include "analysis/advise/advice.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "report/advice_text.h"
#include "report/confirmation.h"
#include "report/findings.h"
#include "report/inputs.h"
#include "report/operators.h"
#include "report/parallel_layouts.h"

#include <headroom/experimental/model.h>

static const hr_column measurement_fields[] = {
    HR_FIELD(hr_confirmation, batch),         HR_FIELD(hr_confirmation, sequence), HR_FIELD(hr_confirmation, reduced),
    HR_OPTIONAL_FIELD(hr_confirmation, note), HR_FIELD(hr_confirmation, complete),
};

static void put_measurement(hr_json document, const hr_advice *advice, const hr_confirmation *confirmation)
{
  if (!confirmation) {
    hr_json_put(document, "measurement", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "measurement");
  hr_json_put_fields(json, measurement_fields, HR_COUNT_OF(measurement_fields), confirmation);
  hr_json_put_table(json, "findings", hr_confirmed_table(advice, confirmation));
  hr_json_put_table(json, "rows", hr_comparison_table(advice, confirmation));
}

static const hr_column combined_fields[] = {
    HR_FIELD(hr_finding, rule),
    {"class", NULL, HR_PLAIN, 0, HR_MEMBER(hr_finding, change_class)},
    HR_FIELD(hr_finding, why),
    HR_OPTIONAL_FIELD(hr_finding, suggested),
    HR_FIELD(hr_finding, parameter_change),
    HR_FIELD(hr_finding, predicted_gain),
    HR_FIELD(hr_finding, eager_gain),
    HR_FIELD(hr_finding, measured_gain),
};

static void put_combined(hr_json document, const hr_advice *advice)
{
  json_t *list = json_array();
  hr_json_put(document, "combined", list);
  for (size_t i = 0; list && i < advice->about.combined_count; i++) {
    const hr_finding *together = &advice->combined[i];
    hr_json json = hr_json_append_object(document, list);
    hr_json_put_fields(json, combined_fields, HR_COUNT_OF(combined_fields), together);
    hr_json_put_model(json, &together->model);
    hr_json_put_workload(json, &together->workload);
  }
}

#define STEP(member) HR_FIELD(hr_step_about, member)
static const hr_column step_fields[] = {
    {"step_time_ns", NULL, HR_TIME, 0, HR_MEMBER(hr_step_about, time_ns)},
    {"step_time_low_ns", NULL, HR_TIME, 0, HR_MEMBER(hr_step_about, low_ns)},
    {"step_time_high_ns", NULL, HR_TIME, 0, HR_MEMBER(hr_step_about, high_ns)},
    STEP(layer_time_ns),
    STEP(logit_time_ns),
    {"communication_time_ns", NULL, HR_TIME, 0, HR_MEMBER(hr_step_about, communication_ns)},
    STEP(tokens_per_s),
    STEP(model_efficiency),
    STEP(microbatch_time_ns),
    STEP(stage_time_ns),
    STEP(bubble),
    STEP(tokens_per_s_per_device),
    STEP(replica_ns),
    STEP(exposed_ns),
};

static hr_status write_json(const hr_advice *advice, const hr_confirmation *confirmation,
                            const hr_report_options *options, int64_t parameters, FILE *out, hr_error *error)
{
  const hr_step *step = &advice->step;
  bool failed;
  hr_json json = hr_json_document("advise/5", &failed);
  hr_json_put_text(json, "device", advice->hardware.about.name);
  hr_json_put_hardware(json, &advice->hardware);
  hr_json_put_model(json, &advice->model);
  hr_json_put_workload(json, &advice->workload);
  hr_json_put_count(json, "parameters", parameters);
  hr_json_put_count(json, "flops", step->operators.flops);
  hr_json_put_fields(json, step_fields, HR_COUNT_OF(step_fields), &step->about);
  hr_json_put_text(json, "origin", hr_origin_name(advice->model.origin));
  hr_json_put_flag(json, "retrain_last", advice->about.retrain_last);
  hr_json_put_count(json, "left_out", (int64_t)advice->about.left_out);
  hr_json_put_count(json, "left_out_high", (int64_t)advice->about.left_out_high);
  hr_json_put_table(json, "operators",
                    hr_operator_table(&step->operators, step, &advice->model, &advice->workload, false));
  hr_json_put_parallel_layouts(json, &advice->layouts);
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
    return hr_print_table(document, hr_operator_table(&step->operators, step, &advice->model, &advice->workload, false),
                          error);
  if (document->options->csv == HR_CSV_LAYOUTS)
    return hr_print_table(document, hr_parallel_layout_table(&advice->layouts), error);
  if (document->options->csv == HR_CSV_MEASUREMENTS) {
    static const hr_confirmation nothing = {.count = 0};
    return hr_print_table(document, hr_comparison_table(advice, confirmation ? confirmation : &nothing), error);
  }
  return hr_print_table(document, hr_finding_table(advice, document->options), error);
}

hr_status hr_report_advice(FILE *out, const hr_report_options *options, const hr_advice *advice,
                           const hr_confirmation *confirmation, hr_error *error)
{
  HR_NEED(error, out, options, advice);
  HR_TAKE(hr_report_options, options, error);
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(&advice->model, &parameters, error));
  hr_document document;
  hr_document_begin(&document, out, options);
  hr_status status;
  if (options->format == HR_FORMAT_JSON) {
    status = write_json(advice, confirmation, options, parameters.total, out, error);
  } else if (options->format == HR_FORMAT_CSV) {
    status = write_csv(advice, confirmation, &document, error);
  } else {
    hr_print_title(&document, "headroom advise: %s on %s", advice->model.name, advice->hardware.about.name);
    status = hr_print_advice(&document, advice, confirmation, parameters.total, error);
  }
  return hr_document_end(&document, status, error);
}
