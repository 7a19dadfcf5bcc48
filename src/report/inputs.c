/* SPDX-License-Identifier: Apache-2.0 */
#include "report/inputs.h"

#include "base/names.h"
#include "base/quantity.h"
#include "report/ceilings.h"
#include "report/lines.h"

#include <inttypes.h>

#define NAME_OF(names, value) hr_name_of(names, HR_COUNT_OF(names), (int)(value))

/* ---- workload ---- */

static void context_length(const void *row, hr_cell *cell)
{
  const hr_workload *workload = row;
  if (workload->phase == HR_PHASE_DECODE)
    hr_cell_set_count(cell, workload->context);
}

static void cache_format(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_kv_format_name(*(const hr_kv_format *)member));
}

#define FIELD(member) HR_FIELD(hr_workload, member)
static const hr_column workload_fields[] = {
    FIELD(phase),
    FIELD(attention),
    FIELD(dtype),
    FIELD(batch),
    FIELD(sequence),
    {"context", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, context_length)},
    FIELD(tensor_parallel),
    FIELD(pipeline_stages),
    FIELD(expert_parallel),
    FIELD(expert_imbalance),
    {"kv_cache", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, cache_format, hr_workload, kv_cache)},
};
#undef FIELD

void hr_json_put_workload(hr_json document, const hr_workload *workload)
{
  hr_json_put_fields(hr_json_put_object(document, "workload"), workload_fields, HR_COUNT_OF(workload_fields), workload);
}

void hr_print_workload(const hr_document *document, const hr_workload *workload)
{
  char length[96];
  if (workload->phase == HR_PHASE_DECODE)
    snprintf(length, sizeof length, "1 token over %" PRId64, workload->context);
  else
    snprintf(length, sizeof length, "%" PRId64 " tokens", workload->sequence);
  char devices[192] = "";
  int64_t t = workload->tensor_parallel, p = workload->pipeline_stages;
  if (t != 1 || p != 1)
    hr_append_item(devices, sizeof devices, "tensor parallel %" PRId64 ", pipeline stages %" PRId64, t, p);
  if (workload->expert_parallel != 1)
    hr_append_item(devices, sizeof devices, "expert parallel %" PRId64, workload->expert_parallel);
  if (workload->expert_imbalance != 1)
    hr_append_item(devices, sizeof devices, "expert imbalance %g", workload->expert_imbalance);
  if (workload->kv_cache != HR_KV_UNQUANTIZED)
    hr_append_item(devices, sizeof devices, "KV cache in %s", hr_kv_format_name(workload->kv_cache));
  hr_print_field(document, "workload", "%s in %s, %" PRId64 " × %s, attention %s%s%s", hr_phase_name(workload->phase),
                 hr_dtype_name(workload->dtype), workload->batch, length, hr_attention_form_name(workload->attention),
                 devices[0] ? ", " : "", devices);
}

/* ---- hardware ---- */

static void hardware_kind(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, *(const hr_hardware_kind *)member == HR_HARDWARE_GPU ? "gpu" : "cpu");
}

#define FIELD(member) HR_FIELD(hr_hardware, member)
static const hr_column identity_fields[] = {
    FIELD(name),
    FIELD(product),
    FIELD(architecture),
    {"kind", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hardware_kind, hr_hardware, kind)},
    FIELD(calibration),
    FIELD(error_band),
    FIELD(multiprocessors),
    FIELD(clock_hz),
};
static const hr_column memory_fields[] = {
    FIELD(bandwidth_bytes_per_s), FIELD(bandwidth_share), FIELD(memory_bytes),     FIELD(l2_bytes),
    FIELD(shared_bytes),          FIELD(launch_ns),       FIELD(devices_per_node), FIELD(interconnect_bytes_per_s),
};
static const hr_column host_fields[] = {
    FIELD(numa_nodes),
    HR_OPTIONAL_FIELD(hr_hardware, placement),
};
#undef FIELD

static void put_rates(hr_json json, const hr_hardware *hardware)
{
  hr_json dense = hr_json_put_object(json, "dense_flops_per_s");
  hr_json library = hr_json_put_object(json, "library_flops_per_s");
  for (hr_dtype dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    if (hardware->dense_flops_per_s[dtype] <= 0)
      continue;
    hr_json_put_number(dense, hr_dtype_name(dtype), hardware->dense_flops_per_s[dtype]);
    hr_json_put_number(library, hr_dtype_name(dtype), hr_hardware_library_flops_per_s(hardware, dtype));
  }
}

void hr_json_put_hardware(hr_json document, const hr_hardware *hardware)
{
  if (!hardware) {
    hr_json_put(document, "hardware", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "hardware");
  hr_json_put_fields(json, identity_fields, HR_COUNT_OF(identity_fields), hardware);
  put_rates(json, hardware);
  hr_json_put_fields(json, memory_fields, HR_COUNT_OF(memory_fields), hardware);
  hr_json_put_table(json, "ceilings", hr_ceiling_table(hardware));
  hr_json_put_fields(json, host_fields, HR_COUNT_OF(host_fields), hardware);
}

void hr_print_hardware(const hr_document *document, const hr_hardware *hardware)
{
  static const char *const rates[] = {[HR_CALIBRATION_ESTIMATED] = "rates estimated",
                                      [HR_CALIBRATION_DATASHEET] = "rates from the datasheet",
                                      [HR_CALIBRATION_PUBLISHED] = "rates from published measurements",
                                      [HR_CALIBRATION_MEASURED] = "rates measured"};
  char memory[HR_NUMBER_SIZE];
  hr_write_bytes(memory, sizeof memory, (double)hardware->memory_bytes);
  hr_print_field(document, "device", "%s: %s, %s, %s", hardware->name, hardware->product, memory,
                 NAME_OF(rates, hardware->calibration));
}
