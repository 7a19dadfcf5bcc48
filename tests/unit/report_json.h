/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of JSON documents have in common: the inputs, the document that a report wrote, keys of devices. */
#ifndef HEADROOM_TEST_REPORT_JSON_H
#define HEADROOM_TEST_REPORT_JSON_H
#include "hardware/hardware.h"
#include "json_keys.h"

#include <headroom/experimental/headroom.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const key_row hardware_keys[] = {{"name", "s"},
                                        {"product", "s"},
                                        {"architecture", "s"},
                                        {"kind", "s"},
                                        {"calibration", "s"},
                                        {"error_band", "r"},
                                        {"multiprocessors", "i"},
                                        {"clock_hz", "r"},
                                        {"dense_flops_per_s", "o"},
                                        {"library_flops_per_s", "o"},
                                        {"bandwidth_bytes_per_s", "r"},
                                        {"bandwidth_share", "r"},
                                        {"memory_bytes", "i"},
                                        {"l2_bytes", "i"},
                                        {"usable_memory_bytes", "i"},
                                        {"shared_bytes", "i"},
                                        {"launch_ns", "r"},
                                        {"devices_per_node", "i"},
                                        {"interconnect_bytes_per_s", "r"},
                                        {"interconnect_latency_ns", "r"},
                                        {"network_bytes_per_s", "r"},
                                        {"network_latency_ns", "r"},
                                        {"ceilings", "e"},
                                        {"collectives", "e"},
                                        {"numa_nodes", "i"},
                                        {"placement", "sn"},
                                        {"power_limit_w", "rn"},
                                        {"clock", "s"},
                                        {"cache", "s"},
                                        {"calibrated", "sn"},
                                        {"trtllm_version", "sn"},
                                        {"vllm_version", "sn"},
                                        {"sglang_version", "sn"}};

/* The inputs of a test, and the document that a report wrote about them. */
typedef struct fixture {
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_report_options options;
  hr_error error;
  char *text;
  size_t length;
  FILE *out;
} fixture;

static inline void begin(fixture *f, const char *model)
{
  memset(f, 0, sizeof *f);
  assert_ok(hr_resolve_hardware("h200", &f->hardware, &f->error), f->error);
  assert_ok(hr_resolve_model(model, NULL, NULL, &f->model, &f->error), f->error);
  f->workload = hr_workload_default(&f->model);
  f->options = hr_report_options_default();
  f->options.format = HR_FORMAT_JSON;
  f->out = open_memstream(&f->text, &f->length);
  assert_non_null(f->out);
}

/* Parses the output; the caller decrefs. */
static inline json_t *end(fixture *f, const char *schema)
{
  fclose(f->out);
  json_error_t problem;
  json_t *document = json_loads(f->text, JSON_REJECT_DUPLICATES, &problem);
  if (!document)
    fail_msg("%s: line %d: %s", schema, problem.line, problem.text);
  assert_string_equal(json_string_value(json_object_get(document, "schema")), schema);
  assert_string_equal(json_string_value(json_object_get(document, "version")), HR_VERSION);
  free(f->text);
  return document;
}

#define PAPER_SHAPE "{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"s\":2048,\"b\":4}"

#endif
