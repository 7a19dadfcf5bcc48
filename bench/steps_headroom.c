/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of Headroom's own kernels beside their prediction: L times the measured layer, and once the measured logits.
 *
 *   steps_headroom DEVICE < MODELS > FILE.csv
 *
 * Each line of the input is a name, a tab and a model: a name, a path or a short form. The workload is the default one.
 * The embedding and the final norm enter with their predicted time. In a layer that has operators without a kernel
 * (the residual of three terms of a parallel block) these do, too; `layer_measured` is then below the number of
 * operators. */
#include "hardware/hardware.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4096
#define LAYER_BUDGET_NS 20e9

typedef struct measured_step {
  hr_layer *layer;
  double layer_ns, layer_predicted_ns;
  double logits_ns, logits_predicted_ns;
  double step_ns, step_predicted_ns;
} measured_step;

/* The whole layer at once; operator by operator first if one of them has no kernel. */
static hr_status measure_layer(hr_device *device, const hr_hardware *hardware, const hr_model *model,
                               const hr_workload *workload, measured_step *s, hr_error *error)
{
  hr_layer_options options = hr_layer_options_default();
  options.budget_ns = LAYER_BUDGET_NS;
  options.whole_only = true;
  hr_status status = hr_layer_measure(device, &(hr_subject){.hardware = hardware, .model = model, .workload = workload},
                                      &options, &s->layer, error);
  if (status == HR_OK && !(s->layer->whole.median_ns > 0)) {
    hr_layer_free(s->layer);
    options.whole_only = false;
    status = hr_layer_measure(device, &(hr_subject){.hardware = hardware, .model = model, .workload = workload},
                              &options, &s->layer, error);
  }
  if (status != HR_OK)
    return status;
  s->layer_ns = s->layer->whole.median_ns;
  for (size_t i = 0; i < s->layer->count; i++)
    s->layer_ns += s->layer->rows[i].measured ? 0 : s->layer->rows[i].prediction.time_ns;
  s->layer_predicted_ns = s->layer->predicted_ns;
  return HR_OK;
}

/* The operators outside the layers: logits are measured. */
static hr_status measure_rest(hr_device *device, const hr_step *step, measured_step *s, hr_error *error)
{
  hr_measurement m;
  for (size_t i = 0; i < hr_step_describe(step)->operator_count; i++) {
    const hr_operator *op = hr_step_operator(step, i);
    const double predicted_ns = hr_step_prediction(step, i)->time_ns;
    if (op->in_layer)
      continue;
    if (op->id == HR_OP_LOGIT) {
      hr_status status = hr_measure_gemm(device, &op->gemm, NULL, &m, error);
      if (status != HR_OK)
        return status;
      s->logits_ns = m.median_ns, s->logits_predicted_ns = predicted_ns;
      s->step_ns += m.median_ns;
    } else {
      s->step_ns += predicted_ns;
    }
  }
  return HR_OK;
}

static hr_status measure_step(hr_device *device, const hr_hardware *hardware, const hr_model *model,
                              const hr_workload *workload, measured_step *s, hr_error *error)
{
  hr_step *step;
  hr_status status = hr_predict_step(hardware, model, workload, &step, error);
  if (status != HR_OK)
    return status;
  s->step_predicted_ns = hr_step_describe(step)->time_ns;
  status = measure_layer(device, hardware, model, workload, s, error);
  s->step_ns = (double)hr_model_layers(model) * s->layer_ns;
  if (status == HR_OK)
    status = measure_rest(device, step, s, error);
  hr_step_free(step);
  return status;
}

static void print_row(const char *name, const hr_workload *workload, const measured_step *s)
{
  printf("%s,%" PRId64 ",%" PRId64 ",%zu,%" PRId64 ",%.0f,%.0f,%.0f,%.0f,%.0f,%.0f\n", name, workload->batch,
         workload->sequence, s->layer->count, s->layer->measured_count, s->layer_ns, s->layer_predicted_ns,
         s->logits_ns, s->logits_predicted_ns, s->step_ns, s->step_predicted_ns);
  fflush(stdout);
}

static hr_status measure_line(char *line, hr_device *device, const hr_hardware *hardware, hr_error *error)
{
  hr_model model;
  measured_step s = {.layer = NULL};
  char *tab = strchr(line, '\t');
  line[strcspn(line, "\n")] = '\0';
  if (tab)
    *tab = '\0';
  hr_status status = hr_resolve_model(tab ? tab + 1 : line, NULL, NULL, &model, error);
  if (status != HR_OK)
    return status;
  hr_workload workload = hr_workload_default(&model);
  workload.framework = HR_FRAMEWORK_HEADROOM;
  status = measure_step(device, hardware, &model, &workload, &s, error);
  if (status == HR_OK)
    print_row(line, &workload, &s);
  hr_layer_free(s.layer);
  return status;
}

int main(int count, char **texts)
{
  char line[LINE_MAX_BYTES];
  hr_device *device;
  hr_hardware hardware;
  hr_error error = {.status = HR_OK};
  int failed = 0;
  if (count != 2)
    return fprintf(stderr, "steps_headroom DEVICE < MODELS\n"), 2;
  if (hr_resolve_hardware(texts[1], &hardware, &error) != HR_OK ||
      hr_device_open(texts[1], 0, &device, &error) != HR_OK)
    return fprintf(stderr, "steps_headroom: %s\n", error.message), 1;
  printf("model,batch,seq,operators,layer_measured,layer_ns,layer_predicted_ns,logits_ns,logits_predicted_ns,step_ns,"
         "step_predicted_ns\n");
  while (fgets(line, sizeof line, stdin)) {
    if (measure_line(line, device, &hardware, &error) != HR_OK) {
      fprintf(stderr, "steps_headroom: %s: %s\n", line, error.message);
      failed = 1;
    }
  }
  hr_device_close(device);
  return failed;
}
