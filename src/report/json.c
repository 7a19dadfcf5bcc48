/* The JSON of the structs that several documents share. docs/json.md describes every key. */
#include "report/document.h"

#include "base/error.h"
#include "base/names.h"
#include "report/ceilings.h"
#include "report/text.h"

#include <math.h>

hr_json hr_json_document(const char *command, bool *failed)
{
  *failed = false;
  hr_json json = {json_object(), failed};
  char schema[48];
  snprintf(schema, sizeof schema, "headroom.%s/1", command);
  hr_json_put_text(json, "schema", schema);
  hr_json_put_text(json, "version", HR_VERSION);
  return json;
}

void hr_json_put(hr_json json, const char *key, json_t *value)
{
  if (json_object_set_new(json.object, key, value) != 0)
    *json.failed = true;
}

void hr_json_put_number(hr_json json, const char *key, double value)
{
  hr_json_put(json, key, isfinite(value) ? json_real(value) : json_null());
}

void hr_json_put_count(hr_json json, const char *key, int64_t value)
{
  hr_json_put(json, key, json_integer(value));
}

void hr_json_put_flag(hr_json json, const char *key, bool value)
{
  hr_json_put(json, key, json_boolean(value));
}

void hr_json_put_text(hr_json json, const char *key, const char *text)
{
  char clean[1024];
  hr_copy_text(clean, sizeof clean, text ? text : "");
  hr_json_put(json, key, text ? json_string(clean) : json_null());
}

hr_json hr_json_put_object(hr_json json, const char *key)
{
  hr_json_put(json, key, json_object());
  return (hr_json){json_object_get(json.object, key), json.failed};
}

void hr_json_put_table(hr_json json, const char *key, hr_table *table)
{
  hr_json_put(json, key, hr_table_json(table));
  hr_table_free(table);
}

hr_status hr_json_write(FILE *out, hr_json document, hr_error *error)
{
  hr_status status = HR_OK;
  if (*document.failed ||
      (json_dumpf(document.object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0 && !ferror(out)))
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out while writing the report");
  else
    fputc('\n', out);
  json_decref(document.object);
  return status;
}

#define NAME_OF(names, value) hr_name_of(names, sizeof(names) / sizeof *(names), (int)(value))

static const char *const positions[] = {[HR_POSITIONS_NONE] = "none",
                                        [HR_POSITIONS_LEARNED] = "learned",
                                        [HR_POSITIONS_ROTARY] = "rotary",
                                        [HR_POSITIONS_ALIBI] = "alibi"};
static const char *const norms[] = {[HR_NORM_LAYER] = "layer", [HR_NORM_RMS] = "rms"};
static const char *const qk_norms[] = {[HR_QK_NORM_NONE] = "none",
                                       [HR_QK_NORM_SHARED] = "shared",
                                       [HR_QK_NORM_PER_HEAD] = "per_head",
                                       [HR_QK_NORM_FULL] = "full"};

void hr_json_put_model(hr_json document, const hr_model *model)
{
  hr_json json = hr_json_put_object(document, "model");
  hr_json_put_text(json, "name", model->name);
  hr_json_put_text(json, "family", model->family);
  hr_json_put_count(json, "layers", model->layers);
  hr_json_put_count(json, "hidden", model->hidden);
  hr_json_put_count(json, "vocabulary", model->vocabulary);
  hr_json_put_count(json, "max_positions", model->max_positions);
  hr_json_put_count(json, "q_heads", model->q_heads);
  hr_json_put_count(json, "k_heads", model->k_heads);
  hr_json_put_count(json, "v_heads", model->v_heads);
  hr_json_put_count(json, "qk_dim", model->qk_dim);
  hr_json_put_count(json, "v_dim", model->v_dim);
  hr_json_put_count(json, "q_rank", model->q_rank);
  hr_json_put_count(json, "window", model->window);
  hr_json_put_count(json, "window_layers", model->window_layers);
  hr_json_put_count(json, "mlp_width", model->mlp_width);
  hr_json_put_flag(json, "mlp_gated", model->mlp_gated);
  hr_json_put_text(json, "activation", model->activation);
  hr_json_put_flag(json, "parallel_block", model->parallel_block);
  hr_json_put_text(json, "positions", NAME_OF(positions, model->positions));
  hr_json_put_count(json, "rotary_dim", model->rotary_dim);
  hr_json_put_text(json, "norm", NAME_OF(norms, model->norm));
  hr_json_put_text(json, "qk_norm", NAME_OF(qk_norms, model->qk_norm));
  hr_json_put_flag(json, "tied_embeddings", model->tied_embeddings);
}

void hr_json_put_workload(hr_json document, const hr_workload *workload)
{
  hr_json json = hr_json_put_object(document, "workload");
  hr_json_put_text(json, "phase", hr_phase_name(workload->phase));
  hr_json_put_text(json, "attention", hr_attention_form_name(workload->attention));
  hr_json_put_text(json, "dtype", hr_dtype_name(workload->dtype));
  hr_json_put_count(json, "batch", workload->batch);
  hr_json_put_count(json, "sequence", workload->sequence);
  hr_json_put(json, "context", workload->phase == HR_PHASE_DECODE ? json_integer(workload->context) : json_null());
  hr_json_put_count(json, "tensor_parallel", workload->tensor_parallel);
  hr_json_put_count(json, "pipeline_stages", workload->pipeline_stages);
}

void hr_json_put_hardware(hr_json document, const hr_hardware *hardware)
{
  if (!hardware) {
    hr_json_put(document, "hardware", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "hardware");
  hr_json_put_text(json, "name", hardware->name);
  hr_json_put_text(json, "product", hardware->product);
  hr_json_put_text(json, "architecture", hardware->architecture);
  hr_json_put_text(json, "kind", hardware->kind == HR_HARDWARE_GPU ? "gpu" : "cpu");
  hr_json_put_text(json, "calibration", hr_calibration_name(hardware->calibration));
  hr_json_put_number(json, "error_band", hardware->error_band);
  hr_json_put_count(json, "multiprocessors", hardware->multiprocessors);
  hr_json_put_number(json, "clock_hz", hardware->clock_hz);
  hr_json dense = hr_json_put_object(json, "dense_flops_per_s");
  hr_json library = hr_json_put_object(json, "library_flops_per_s");
  for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    if (hardware->dense_flops_per_s[dtype] <= 0)
      continue;
    hr_json_put_number(dense, hr_dtype_name((hr_dtype)dtype), hardware->dense_flops_per_s[dtype]);
    hr_json_put_number(library, hr_dtype_name((hr_dtype)dtype),
                       hr_hardware_library_flops_per_s(hardware, (hr_dtype)dtype));
  }
  hr_json_put_number(json, "bandwidth_bytes_per_s", hardware->bandwidth_bytes_per_s);
  hr_json_put_number(json, "bandwidth_share", hardware->bandwidth_share);
  hr_json_put_count(json, "memory_bytes", hardware->memory_bytes);
  hr_json_put_count(json, "l2_bytes", hardware->l2_bytes);
  hr_json_put_count(json, "shared_bytes", hardware->shared_bytes);
  hr_json_put_number(json, "launch_ns", hardware->launch_ns);
  hr_json_put_count(json, "devices_per_node", hardware->devices_per_node);
  hr_json_put_number(json, "interconnect_bytes_per_s", hardware->interconnect_bytes_per_s);
  hr_json_put_ceilings(json, hardware);
  hr_json_put_count(json, "numa_nodes", hardware->numa_nodes);
  hr_json_put_text(json, "placement", hardware->placement[0] ? hardware->placement : NULL);
}

void hr_json_put_memory(hr_json document, const hr_memory *memory)
{
  hr_json json = hr_json_put_object(document, "memory");
  hr_json_put_count(json, "weight_bytes", memory->weight_bytes);
  hr_json_put_count(json, "gradient_bytes", memory->gradient_bytes);
  hr_json_put_count(json, "optimizer_bytes", memory->optimizer_bytes);
  hr_json_put_count(json, "activation_bytes", memory->activation_bytes);
  hr_json_put_count(json, "kv_cache_bytes", memory->kv_cache_bytes);
  hr_json_put_count(json, "total_bytes", memory->total_bytes);
}
