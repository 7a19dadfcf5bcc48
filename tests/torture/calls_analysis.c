/* SPDX-License-Identifier: Apache-2.0 */
/* Readers and predictions of the public interface that no command calls directly, with the texts of the catalogue. */
#include "calls.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/device_file.h>
#include <headroom/experimental/load.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <headroom/experimental/parallel_layouts.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/quantization.h>
#include <headroom/experimental/weights.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const hr_catalog_entry *entry_of(const hr_catalog_entry *(*list)(size_t *), const char *name)
{
  size_t count;
  const hr_catalog_entry *entries = list(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, name) == 0)
      return &entries[i];
  }
  abort(); /* a mistake of the test */
}

static void ignore_note(void *context, hr_note_kind kind, const char *message)
{
  (void)context, (void)kind, (void)message;
}

static hr_status use_readers(hr_hardware *hardware, hr_model *model, hr_error *error)
{
  const hr_catalog_entry *device = entry_of(hr_catalog_hardware, "h200"), *shape = entry_of(hr_catalog_models, "gpt2");
  hr_status status = HR_OK;
  TRY(hr_hardware_from_json(&(hr_input){.text = device->text, .length = device->length, .name = device->name}, hardware,
                            error));
  double bandwidth = 0;
  TRY(hr_hardware_check(hardware, error));
  TRY(hr_hardware_number(hardware, "bandwidth_bytes_per_s", &bandwidth, error));
  TRY(hr_hardware_set_number(hardware, "bandwidth_bytes_per_s", bandwidth / 2, error));
  TRY(hr_model_from_json(&(hr_input){.text = shape->text, .length = shape->length, .name = shape->name}, ignore_note,
                         NULL, model, error));
  TRY(hr_model_check(model, error));
  printf("%s: %" PRId64 " layers; alias %d\n", hr_hardware_describe(hardware)->name, hr_model_layers(model),
         hr_hardware_has_alias(device->text, device->length, "h200"));
end:
  return status;
}

static hr_status use_problems(const hr_hardware *hardware, hr_error *error)
{
  hr_attention attention = hr_attention_default();
  attention.q_len = attention.kv_len = 128;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 512;
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = 8, rows.columns = 64;
  hr_collective collective = hr_collective_default();
  hr_decode decode = hr_decode_default();
  hr_prediction prediction;
  hr_status status = HR_OK;
  const int32_t offsets[2] = {0, 128};
  int64_t n[12] = {0};
  TRY(hr_attention_bytes(&attention, &n[0]));
  TRY(hr_attention_entries(&attention, &n[1]));
  TRY(hr_attention_flops(&attention, &n[2]));
  TRY(hr_attention_flops_of(&attention, offsets, offsets, &n[3]));
  TRY(hr_attention_lse_elements(&attention, &n[4]));
  TRY(hr_attention_span(&attention, HR_OPERAND_Q, &n[5]));
  TRY(hr_gemm_bytes(&gemm, &n[6]));
  TRY(hr_gemm_flops(&gemm, &n[7]));
  TRY(hr_rowwise_check(&rows, error));
  TRY(hr_rowwise_bytes(&rows, &n[8]));
  TRY(hr_collective_parse("all_gather", &collective.kind));
  collective.devices = 4, collective.bytes = 1 << 20;
  TRY(hr_collective_check(&collective, error));
  TRY(hr_collective_library_parse("headroom", &collective.library));
  TRY(hr_predict_collective(hardware, &collective, &prediction, error));
  hr_operator op = {.kind = HR_KIND_COMMUNICATION, .collective = HR_ALL_REDUCE, .devices = 4, .stride = 1};
  TRY(hr_predict_communication(hardware, &op, &collective, &prediction, error));
  attention.q_len = 1;
  TRY(hr_predict_attention(hardware, &attention, &prediction, error));
  TRY(hr_decode_from_attention(&attention, &decode, error));
  TRY(hr_decode_bytes(&decode, &n[9]));
  TRY(hr_decode_flops(&decode, &n[10]));
  TRY(hr_predict_decode_by(hardware, &decode, HR_FRAMEWORK_COMPILED, &prediction, error));
  hr_expert_call experts = hr_expert_call_default();
  experts.tokens = 64, experts.rows = 128, experts.hidden = 512, experts.width = 256, experts.experts = 8;
  TRY(hr_predict_experts(hardware, &experts, HR_FRAMEWORK_COMPILED, &prediction, error));
  hr_scan_call scan = hr_scan_call_default();
  scan.tokens = scan.heads = scan.head_dim = scan.state = scan.groups = 64;
  TRY(hr_predict_scan(hardware, &scan, &prediction, error));
  attention.k_heads = attention.v_heads = 1, attention.qk_dim = 72;
  TRY(hr_decode_from_latent(&attention, &decode, error));
  for (int i = 0; i < 11; i++)
    printf("%" PRId64 " ", n[i]);
  printf("%g\n", prediction.time_ns);
end:
  return status;
}

static hr_status use_steps(const hr_hardware *hardware, const hr_model *model, hr_error *error)
{
  hr_workload workload = hr_workload_default(model);
  hr_operators *operators = malloc(sizeof *operators);
  hr_memory memory;
  hr_step *step = NULL;
  static hr_parallel_layouts layouts;
  hr_prediction prediction;
  hr_weight_format format = {.bits = 16};
  hr_status status = operators ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  int64_t batch = 0, bytes = 0;
  if (!operators)
    fputs("out of memory\n", stderr);
  TRY(status);
  TRY(hr_operators_list(model, &workload, operators, error));
  for (size_t i = 0; i < operators->count; i++)
    TRY(hr_predict_operator(hardware, &operators->items[i], &prediction, error));
  TRY(hr_predict_step(hardware, model, &workload, &step, error));
  TRY(hr_compare_parallel_layouts(hardware, model, &workload, 1, &layouts, error));
  TRY(hr_memory_estimate(model, &workload, &memory, error));
  TRY(hr_memory_largest_batch(model, &workload, (int64_t)64 << 30, &batch, error));
  TRY(hr_weight_format_bytes(&format, 64, 64, 2, &bytes));
  printf("%zu operators in %g ns, %zu layouts, batch %" PRId64 ", %" PRId64 "\n", operators->count,
         hr_step_describe(step)->time_ns, layouts.count, batch, bytes);
end:
  hr_step_free(step);
  free(operators);
  return status;
}

static hr_status use_sweep(const hr_hardware *hardware, hr_error *error)
{
  static const char text[] = "{\"name\":\"s\",\"x\":\"m\",\"axes\":{\"m\":[64,128,256]},"
                             "\"problem\":{\"kind\":\"gemm\",\"m\":\"m\",\"n\":64,\"k\":64}}";
  hr_sweep *sweep = NULL;
  hr_sweep_point *point = malloc(sizeof *point);
  hr_sweep_choice choice = hr_sweep_choice_default();
  size_t *indices = NULL, count = 0;
  double time_ns = 0, all_ns = 0;
  hr_status status = point ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  if (!point)
    fputs("out of memory\n", stderr);
  TRY(status);
  TRY(hr_sweep_from_json(&(hr_input){.text = text, .length = sizeof text - 1, .name = "s.json"}, NULL, false, &sweep,
                         error));
  TRY(hr_sweep_order(sweep, &choice, &indices, &count, error));
  TRY(hr_sweep_point_at(sweep, indices[0], HR_BF16, point, error));
  TRY(hr_sweep_predict(hardware, point, &time_ns, error));
  TRY(hr_sweep_estimate(sweep, &choice, hardware, HR_BF16, &all_ns, error));
  printf("%zu points, %s: %g ns of %g ns\n", count, point->problem, time_ns, all_ns);
end:
  free(indices);
  free(point);
  hr_sweep_free(sweep);
  return status;
}

static hr_status use_trace(hr_error *error)
{
  static const char csv[] = "arrival_s,prompt,output\n0,100,20\n0.5,50,3\n";
  hr_load_request *requests = NULL;
  size_t count = 0;
  hr_status status = HR_OK;
  TRY(hr_load_trace_parse(&(hr_input){.text = csv, .length = sizeof csv - 1, .name = "trace.csv"}, &requests, &count,
                          error));
  printf("%zu requests\n", count);
end:
  hr_load_trace_free(requests);
  return status;
}

static hr_status use_rows(const hr_hardware *hardware, hr_error *error)
{
  static const char csv[] = "kind,dtype,m,n,k,time_ns\ngemm,bf16,4096,4096,4096,250000\n";
  hr_validate_options options = hr_validate_options_default();
  hr_validation *validation = NULL;
  hr_store *store = NULL;
  hr_result row = hr_result_default();
  hr_gemm gemm = hr_gemm_default();
  bool found = true;
  char path[512];
  hr_status status = HR_OK;
  TRY(hr_validate_csv(hardware, &(hr_input){.text = csv, .length = sizeof csv - 1, .name = "rows.csv"}, &options,
                      &validation, error));
  hr_result_set_gemm(&row, &gemm);
  TRY(hr_result_stamp(&row, error));
  TRY(hr_store_default_path(path, sizeof path, error));
  TRY(hr_store_open("scratch", HR_STORE_SCRATCH, &store, error));
  TRY(hr_store_has(store, &row, &found, error));
  printf("%zu rows, %s, found %d\n", validation->row_count, strrchr(path, '/'), found);
end:
  hr_store_close(store);
  hr_validation_free(validation);
  return status;
}

/* torture.py's INPUTS has hub/ and the checkpoint. */
static hr_status use_weights(hr_error *error)
{
  hr_weights *weights = NULL;
  hr_weights_tensor tensor;
  char path[1024];
  hr_status status = HR_OK;
  snprintf(path, sizeof path, "%s/../checkpoint_sharded", getenv("HF_HUB_CACHE"));
  TRY(hr_weights_open(path, &weights, error));
  TRY(hr_weights_find(weights, "lm_head.weight", &tensor, error));
  printf("%s: %" PRId64 " bytes\n", tensor.name, tensor.bytes);
end:
  hr_weights_close(weights);
  return status;
}

static hr_status use_all(hr_error *error)
{
  hr_hardware *hardware = hr_hardware_create();
  static hr_model model;
  hr_status status = hardware ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  if (!hardware)
    fputs("out of memory\n", stderr);
  TRY(status);
  TRY(use_readers(hardware, &model, error));
  TRY(use_problems(hardware, error));
  TRY(use_steps(hardware, &model, error));
  TRY(use_sweep(hardware, error));
  TRY(use_trace(error));
  TRY(use_rows(hardware, error));
  TRY(use_weights(error));
end:
  hr_hardware_free(hardware);
  return status;
}

int main(void)
{
  return calls_end(use_all);
}
