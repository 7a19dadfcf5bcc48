/* SPDX-License-Identifier: Apache-2.0 */
#include "report/inputs.h"

#include "base/checked.h"
#include "base/names.h"
#include "base/quantity.h"
#include "hardware/hardware.h"
#include "model/layers/frameworks.h"
#include "model/layers/shard.h"
#include "report/ceilings.h"
#include "report/lines.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <math.h>

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

static void microbatch_count(const void *row, hr_cell *cell)
{
  hr_cell_set_count(cell, hr_workload_microbatches(row));
}

static void virtual_stages(const void *row, hr_cell *cell)
{
  hr_cell_set_count(cell, hr_virtual_stages(row));
}

static void recompute_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_recompute_name(*(const hr_recompute *)member));
}

static void dropout_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_dropout_name(*(const hr_dropout *)member));
}

static void framework_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_framework_name(*(const hr_framework *)member));
}

static void flash_name(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_flash_library_name(*(const hr_flash_library *)member));
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
    FIELD(sequence_parallel),
    FIELD(context_parallel),
    FIELD(data_parallel),
    FIELD(zero_stage),
    FIELD(overlap),
    {"recompute", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, recompute_name, hr_workload, recompute)},
    {"dropout", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, dropout_name, hr_workload, dropout)},
    {"microbatches", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, microbatch_count)},
    {"framework", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, framework_name, hr_workload, framework)},
    {"flash_attention", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, flash_name, hr_workload, flash)},
    {"virtual_stages", NULL, HR_PLAIN, 0, HR_COMPUTED(COUNT, virtual_stages)},
    FIELD(page_size),
    FIELD(fp8_linears),
};
#undef FIELD

void hr_json_put_workload(hr_json document, const hr_workload *workload)
{
  hr_json_put_fields(hr_json_put_object(document, "workload"), workload_fields, HR_COUNT_OF(workload_fields), workload);
}

static const char *const framework_words[] = {
    [HR_FRAMEWORK_COMPILED] = "",
    [HR_FRAMEWORK_EAGER] = "eager mode",
    [HR_FRAMEWORK_HEADROOM] = "Headroom's kernels",
    [HR_FRAMEWORK_TRANSFORMERS] = "transformers 5.17",
    [HR_FRAMEWORK_TRANSFORMERS_COMPILED] = "transformers 5.17, compiled",
    [HR_FRAMEWORK_TRTLLM] = "TensorRT-LLM",
    [HR_FRAMEWORK_VLLM] = "vLLM",
    [HR_FRAMEWORK_SGLANG] = "SGLang",
};

static const char *const flash_words[] = {[HR_FLASH_2] = "FlashAttention-2",
                                          [HR_FLASH_1] = "FlashAttention of 2022",
                                          [HR_FLASH_TRITON] = "FlashAttention of 2022 in Triton"};

/* The degrees of parallelism and what goes with them, without those that are at their default. */
static void append_degrees(const hr_workload *w, char *to, size_t size)
{
  if (w->tensor_parallel != 1 || w->pipeline_stages != 1)
    hr_append_item(to, size, "tensor parallel %" PRId64 ", pipeline stages %" PRId64, w->tensor_parallel,
                   w->pipeline_stages);
  if (hr_virtual_stages(w) != 1)
    hr_append_item(to, size, "%" PRId64 " parts a stage", hr_virtual_stages(w));
  if (w->sequence_parallel)
    hr_append_item(to, size, "sequence parallel");
  if (w->context_parallel != 1)
    hr_append_item(to, size, "context parallel %" PRId64, w->context_parallel);
  if (w->data_parallel != 1)
    hr_append_item(to, size, "data parallel %" PRId64, w->data_parallel);
  if (w->zero_stage != 0)
    hr_append_item(to, size, "ZeRO stage %" PRId64, w->zero_stage);
  if (w->expert_parallel != 1)
    hr_append_item(to, size, "expert parallel %" PRId64, w->expert_parallel);
  if (w->expert_imbalance != 1)
    hr_append_item(to, size, "expert imbalance %g", w->expert_imbalance);
  if (hr_workload_microbatches(w) != 1)
    hr_append_item(to, size, "%" PRId64 " microbatches", hr_workload_microbatches(w));
  if (w->recompute != HR_RECOMPUTE_NONE)
    hr_append_item(to, size, "%s recomputation", hr_recompute_name(w->recompute));
  if (hr_workload_drops(w))
    hr_append_item(to, size, "dropout");
  if ((unsigned)w->framework < HR_COUNT_OF(framework_words) && framework_words[w->framework][0])
    hr_append_item(to, size, "%s", framework_words[w->framework]);
  if (w->flash != HR_FLASH_NEWEST)
    hr_append_item(to, size, "%s", flash_words[w->flash]);
  if (w->kv_cache != HR_KV_UNQUANTIZED)
    hr_append_item(to, size, "KV cache in %s", hr_kv_format_name(w->kv_cache));
  if (w->page_size > 0)
    hr_append_item(to, size, "pages of %" PRId64, w->page_size);
  if (w->fp8_linears)
    hr_append_item(to, size, "linear layers in fp8");
}

void hr_print_workload(const hr_document *document, const hr_workload *workload)
{
  char length[96];
  if (workload->phase == HR_PHASE_DECODE)
    snprintf(length, sizeof length, "1 token over %" PRId64, workload->context);
  else
    snprintf(length, sizeof length, "%" PRId64 " tokens", workload->sequence);
  char degrees[320] = "";
  append_degrees(workload, degrees, sizeof degrees);
  hr_print_field(document, "workload", "%s in %s, %" PRId64 " × %s, attention %s%s%s", hr_phase_name(workload->phase),
                 hr_dtype_name(workload->dtype), workload->batch, length, hr_attention_form_name(workload->attention),
                 degrees[0] ? ", " : "", degrees);
}

/* ---- hardware ---- */

static void hardware_kind(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, *(const hr_hardware_kind *)member == HR_HARDWARE_GPU ? "gpu" : "cpu");
}

static void positive(const void *member, hr_cell *cell)
{
  const double *number = member;
  hr_cell_set_number(cell, *number > 0 ? *number : (double)NAN);
}

#define FIELD(member) HR_FIELD(hr_hardware, member)
#define ABOUT(member)                                                \
  {                                                                  \
#member, NULL, HR_PLAIN, 0, HR_MEMBER(hr_hardware, about.member) \
  }
static const hr_column identity_fields[] = {
    ABOUT(name),
    ABOUT(product),
    ABOUT(architecture),
    {"kind", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, hardware_kind, hr_hardware, about.kind)},
    ABOUT(calibration),
    FIELD(error_band),
    FIELD(multiprocessors),
    FIELD(clock_hz),
};
static void usable_memory(const void *row, hr_cell *cell)
{
  hr_cell_set_count(cell, hr_hardware_usable_memory_bytes(row));
}

static const hr_column memory_fields[] = {
    FIELD(bandwidth_bytes_per_s),
    FIELD(bandwidth_share),
    FIELD(memory_bytes),
    FIELD(l2_bytes),
    {"usable_memory_bytes", NULL, HR_BYTES, 0, HR_COMPUTED(COUNT, usable_memory)},
    FIELD(shared_bytes),
    FIELD(launch_ns),
    FIELD(devices_per_node),
    FIELD(interconnect_bytes_per_s),
    FIELD(interconnect_latency_ns),
    FIELD(network_bytes_per_s),
    FIELD(network_latency_ns),
};
static const hr_column host_fields[] = {
    FIELD(numa_nodes),
    HR_OPTIONAL_FIELD(hr_hardware, placement),
    {"power_limit_w", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(NUMBER, positive, hr_hardware, power_limit_w)},
    ABOUT(clock),
    ABOUT(cache),
    {"calibrated", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_hardware, about.calibrated)},
    {"trtllm_version", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_hardware, trtllm.version)},
    {"vllm_version", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_hardware, vllm.version)},
    {"sglang_version", NULL, HR_PLAIN, 0, HR_OPTIONAL(hr_hardware, sglang.version)},
};
#undef ABOUT
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

static void collective_kind(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_collective_name(*(const hr_collective_kind *)member));
}

static void collective_library(const void *member, hr_cell *cell)
{
  hr_cell_set_text(cell, hr_collective_library_name(*(const hr_collective_library *)member));
}

static void collective_nodes(const void *member, hr_cell *cell)
{
  hr_cell_set_count(cell, hr_max64(*(const int64_t *)member, 1));
}

#define RATE(member) HR_FIELD(hr_collective_rate, member)
static const hr_column collective_columns[] = {
    {"kind", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, collective_kind, hr_collective_rate, kind)},
    RATE(devices),
    RATE(latency_ns),
    RATE(bus_bytes_per_s),
    RATE(ramp),
    RATE(error_band),
    {"library", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(TEXT, collective_library, hr_collective_rate, library)},
    {"nodes", NULL, HR_PLAIN, 0, HR_COMPUTED_OF(COUNT, collective_nodes, hr_collective_rate, nodes)},
};
#undef RATE

static hr_table *collective_table(const hr_hardware *hardware)
{
  hr_table *table = HR_TABLE_OF(collective_columns, hr_collective_rate);
  for (size_t i = 0; i < hardware->collective_count; i++)
    hr_table_add(table, &hardware->collectives[i]);
  return table;
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
  hr_json_put_table(json, "collectives", collective_table(hardware));
  hr_json_put_fields(json, host_fields, HR_COUNT_OF(host_fields), hardware);
}

void hr_print_hardware(const hr_document *document, const hr_hardware *hardware)
{
  static const char *const rates[] = {[HR_CALIBRATION_ESTIMATED] = "rates estimated",
                                      [HR_CALIBRATION_DATASHEET] = "rates from the datasheet",
                                      [HR_CALIBRATION_PUBLISHED] = "rates from published measurements",
                                      [HR_CALIBRATION_MEASURED] = "rates measured"};
  char memory[HR_NUMBER_SIZE], fitted[128] = "";
  hr_write_bytes(memory, sizeof memory, (double)hardware->memory_bytes);
  if (hardware->about.calibrated[0])
    snprintf(fitted, sizeof fitted, " (calibrated %s)", hardware->about.calibrated);
  hr_print_field(document, "device", "%s: %s, %s, %s%s%s%s", hardware->about.name, hardware->about.product, memory,
                 NAME_OF(rates, hardware->about.calibration), fitted,
                 hardware->about.clock == HR_CLOCK_BURST ? ", burst clock" : "",
                 hardware->about.cache == HR_CACHE_WARM ? ", warm caches" : "");
}

void hr_print_server_kernels(const hr_document *document, const hr_hardware *hardware, hr_framework framework)
{
  const char *version = hr_predict_server_version(hardware, framework);
  if (!hr_is_server(framework))
    return;
  if (version[0])
    hr_print_field(document, "assumed", "8 bit linear layers, experts and attention of %s %s, in CUDA graphs",
                   framework_words[framework], version);
  else
    hr_print_field(document, "assumed", "kernels that frameworks have in common: %s knows none of %s",
                   hardware->about.name, framework_words[framework]);
}
