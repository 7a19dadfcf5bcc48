/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "catalog/embedded.h"
#include "hardware/figures.h"

#include <headroom/experimental/catalog.h>
#include <headroom/experimental/device_file.h>
#include <headroom/experimental/hardware.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static hr_hardware shipped(const char *name)
{
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  hr_hardware hardware = hr_hardware_default();
  hr_error error = {HR_OK, "no such file"};
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, name) == 0) {
      assert_ok(hr_hardware_from_json(&(hr_input){.text = entries[i].text, .length = entries[i].length, .name = name},
                                      &hardware, &error),
                error);
      return hardware;
    }
  }
  fail_msg("%s is not shipped", name);
  return hardware;
}

static void every_shipped_device_reads_and_is_named_as_its_file(void **state)
{
  (void)state;
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  assert_true(count >= 19);
  for (size_t i = 0; i < count; i++) {
    hr_hardware hardware = shipped(entries[i].name);
    assert_string_equal(hardware.about.name, entries[i].name);
    assert_true(hardware.error_band > 0);
    assert_true(hr_hardware_has_families(&hardware) ||
                hardware.alignments[hardware.alignment_count - 1].gemm_share == 1.0);
  }
}

static void figures_are_read_and_changed_by_their_place_in_the_file(void **state)
{
  (void)state;
  hr_error error;
  hr_hardware hardware = shipped("h200");
  const struct {
    const char *name;
    double expected;
  } figures[] = {{"bandwidth_bytes_per_s", hardware.bandwidth_bytes_per_s},
                 {"memory_bytes", (double)hardware.memory_bytes},
                 {"library_share.bf16", hardware.library_share[HR_BF16]},
                 {"tma.row_ns", hardware.tma.row_ns},
                 {"attentions[1].forward_share", hardware.attentions[1].forward_share}};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    double value = -1;
    assert_ok(hr_hardware_number(&hardware, figures[i].name, &value, &error), error);
    assert_true(value > 0 && value == figures[i].expected);
  }
  assert_ok(hr_hardware_set_number(&hardware, "attentions[1].forward_share", 0.25, &error), error);
  assert_ok(hr_hardware_set_number(&hardware, "devices_per_node", 4, &error), error);
  assert_true(hardware.attentions[1].forward_share == 0.25 && hardware.devices_per_node == 4);
}

/* Hopper's families load by TMA; an A100's file has classes of alignment. */
static void gemms_are_fast_from_an_alignment_on(void **state)
{
  (void)state;
  const hr_hardware hopper = shipped("h200"), ampere = shipped("a100-sxm4-80gb");
  assert_int_equal(hr_hardware_fast_bytes(&hopper, 0.9, false), 16);
  assert_int_equal(hr_hardware_fast_bytes(&hopper, 0.9, true), 32);
  assert_int_equal(hr_hardware_fast_bytes(&hopper, 1, false), 128);
  assert_int_equal(hr_hardware_fast_bytes(&ampere, 0.9, false), 16);
  assert_int_equal(hr_hardware_fast_bytes(&ampere, 0.9, true), 64);
  assert_int_equal(hr_hardware_fast_bytes(&ampere, 1, false), 64);
}

static void figures_that_a_device_cannot_have_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_hardware hardware = shipped("h200");
  const hr_hardware before = hardware;
  double value = 7;
  assert_int_equal(hr_hardware_number(&hardware, "speed", &value, &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "h200 has no figure \"speed\"");
  assert_int_equal(hr_hardware_number(&hardware, "tiles[99].share", &value, &error), HR_ERROR_NOT_FOUND);
  assert_true(value == 7);
  assert_int_equal(hr_hardware_set_number(&hardware, "speed", 1, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_hardware_set_number(&hardware, "kind", 0.5, &error), HR_ERROR_NOT_FOUND); /* a word */
  assert_int_equal(hr_hardware_set_number(&hardware, "bandwidth_share", 1.5, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "bandwidth_share: expected 0.001 to 1, found 1.5");
  assert_int_equal(hr_hardware_set_number(&hardware, "launch_ns", (double)NAN, &error), HR_ERROR_INVALID);
  assert_memory_equal(&hardware, &before, sizeof before);
}

static void a_device_begins_empty_and_says_what_it_is_for(void **state)
{
  (void)state;
  hr_error error;
  hr_hardware *hardware = hr_hardware_create();
  assert_non_null(hardware);
  const hr_hardware_about *about = hr_hardware_describe(hardware);
  assert_string_equal(about->name, "");
  assert_int_equal(hr_hardware_check(hardware, &error), HR_ERROR_INVALID);
  *hardware = shipped("h200");
  assert_string_equal(about->name, "h200");
  assert_int_equal(about->kind, HR_HARDWARE_GPU);
  assert_int_equal(about->clock, HR_CLOCK_SETTLED);
  hr_hardware_set_conditions(hardware, HR_CLOCK_BURST, HR_CACHE_WARM);
  assert_int_equal(about->clock, HR_CLOCK_BURST);
  assert_int_equal(about->cache, HR_CACHE_WARM);
  assert_ok(hr_hardware_check(hardware, &error), error);
  hr_hardware_free(hardware);
  hr_hardware_free(NULL);
}

static bool is_figure(const char *key)
{
  static const char *const names[] = {"name",    "product",     "kind",    "architecture",
                                      "aliases", "calibration", "sources", "like"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(key, names[i]) == 0)
      return false;
  }
  return true;
}

static void check_sources(const hr_catalog_entry *entry)
{
  json_t *root = json_loadb(entry->text, entry->length, 0, NULL);
  assert_non_null(root);
  const json_t *sources = json_object_get(root, "sources");
  const char *key;
  json_t *value;
  json_object_foreach(root, key, value)
  {
    const char *source = json_string_value(json_object_get(sources, key));
    if (is_figure(key) && (!source || strlen(source) < 8))
      fail_msg("%s: %s has no source", entry->name, key);
  }
  json_object_foreach((json_t *)sources, key, value)
  {
    if (!json_object_get(root, key))
      fail_msg("%s: a source for %s, which the file does not have", entry->name, key);
  }
  json_decref(root);
}

static void every_figure_of_every_device_has_a_source(void **state)
{
  (void)state;
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  for (size_t i = 0; i < count; i++)
    check_sources(&entries[i]);
  for (size_t i = 0; i < hr_embedded_architectures_count; i++)
    check_sources(&hr_embedded_architectures[i]);
}

/* H100 and H200 have the kernels of Hopper, at a rate that the H100 has of its own; a GH200 is like an H200. */
static void devices_complete_the_figures_of_their_architecture(void **state)
{
  (void)state;
  const hr_hardware h200 = shipped("h200"), h100 = shipped("h100-sxm"), gh200 = shipped("gh200");
  assert_true(hr_hardware_has_families(&h200) && hr_hardware_has_families(&h100) && h200.tile_count == 0);
  assert_true(h100.tma.row_ns == h200.tma.row_ns && h100.tma.matrix_share < h200.tma.matrix_share);
  assert_memory_equal(&h100.simt, &h200.simt, sizeof h200.simt);
  assert_memory_equal(&gh200.tma, &h200.tma, sizeof h200.tma);
}

/* Dense rates in TFLOP/s without sparsity, GB/s and multiprocessors, from the datasheets. */
static void well_known_rates_are_right(void **state)
{
  (void)state;
  const struct {
    const char *name;
    hr_dtype dtype;
    double tflops, gb_per_s;
    int multiprocessors;
  } facts[] = {
      {"v100-sxm2-16gb", HR_FP16, 125, 900, 80},
      {"v100-sxm2-32gb", HR_BF16, 0, 900, 80},
      {"v100-summit", HR_FP16, 125, 900, 80},
      {"v100-expanse", HR_FP16, 125, 900, 80},
      {"a100-sxm4-40gb", HR_BF16, 312, 1555, 108},
      {"a100-sxm4-80gb", HR_TF32, 156, 2039, 108},
      {"a100-pcie-40gb", HR_FP16, 312, 1555, 108},
      {"a100-pcie-80gb", HR_FP64, 19.5, 1935, 108},
      {"h100-sxm", HR_BF16, 989.4, 3352, 132},
      {"h100-pcie", HR_BF16, 756, 2039, 114},
      {"h200", HR_BF16, 989.4, 4800, 132},
      {"gh200", HR_FP8_E4M3, 1978.9, 4000, 132},
      {"b200", HR_BF16, 2250, 8000, 148},
      {"b300", HR_BF16, 2250, 8000, 148},
      {"gb200", HR_FP8_E4M3, 5000, 8000, 152},
      {"gb300", HR_BF16, 2500, 8000, 152},
      {"rtx-pro-6000", HR_BF16, 503.8, 1597, 188},
      {"rtx-5090", HR_FP16, 209.5, 1792, 170},
      {"gb10", HR_BF16, 125, 273, 48},
      {"h20", HR_FP8_E4M3, 296, 4000, 78},
      {"a10", HR_TF32, 62.5, 600, 72},
      {"t4", HR_FP16, 65, 320, 40},
      {"mi325x", HR_BF16, 1307.4, 6000, 304},
      {"mi355x", HR_FP8_E4M3, 5033.2, 8000, 256},
      {"b60", HR_FP16, 98.3, 456, 20},
      {"l4", HR_BF16, 121, 300, 58},
      {"l40s", HR_FP16, 362.05, 864, 142},
      {"rtx-4090", HR_BF16, 165.2, 1008, 128},
      {"mi250x", HR_BF16, 191.5, 1638.4, 110},
      {"mi250", HR_BF16, 181, 1638.4, 104},
      {"mi210", HR_FP32, 45.3, 1638.4, 104},
      {"mi300x", HR_BF16, 1307.4, 5300, 304},
      {"xeon-sapphire-rapids", HR_BF16, 344.064, 307.2, 56}, /* 56 cores · 2048 · 3.0 GHz */
  };
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    hr_hardware hardware = shipped(facts[i].name);
    if (fabs(hardware.dense_flops_per_s[facts[i].dtype] - facts[i].tflops * 1e12) > 1e9 ||
        fabs(hardware.bandwidth_bytes_per_s - facts[i].gb_per_s * 1e9) > 1e6 ||
        hardware.multiprocessors != facts[i].multiprocessors)
      fail_msg("%s: %g FLOP/s, %g bytes/s, %d multiprocessors", facts[i].name,
               hardware.dense_flops_per_s[facts[i].dtype], hardware.bandwidth_bytes_per_s,
               (int)hardware.multiprocessors);
  }
}

/* Table III of Anthony et al. 2024: six V100 of 16 GB share 200 Gb/s on Summit, four of 32 GB on Expanse. */
static void nodes_of_the_co_design_paper_have_their_devices_and_links(void **state)
{
  (void)state;
  hr_hardware summit = shipped("v100-summit"), expanse = shipped("v100-expanse");
  assert_int_equal(summit.devices_per_node, 6);
  assert_int_equal(expanse.devices_per_node, 4);
  assert_true(llround((double)summit.memory_bytes / 1e9) == 17 && llround((double)expanse.memory_bytes / 1e9) == 34);
  assert_true(fabs(summit.network_bytes_per_s * 6 - 25e9) < 1e3);
  assert_true(fabs(expanse.network_bytes_per_s * 4 - 25e9) < 1e3);
  assert_true(fabs(summit.interconnect_bytes_per_s - 50e9) < 1);
}

static void no_two_devices_share_a_name(void **state)
{
  (void)state;
  static const char *const typed[] = {"a100", "H100", "v100", "rtx4090", "spr", "mi250x-gcd"};
  static const char *const meant[] = {"a100-sxm4-80gb",       "h100-sxm", "v100-sxm2-16gb", "rtx-4090",
                                      "xeon-sapphire-rapids", "mi250x"};
  size_t count = 0;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  for (size_t t = 0; t < sizeof typed / sizeof *typed; t++) {
    for (size_t i = 0; i < count; i++)
      assert_int_equal(hr_hardware_has_alias(entries[i].text, entries[i].length, typed[t]),
                       strcmp(entries[i].name, meant[t]) == 0);
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < count; j++)
      assert_false(hr_hardware_has_alias(entries[i].text, entries[i].length, entries[j].name));
  }
  assert_false(hr_hardware_has_alias("[", 1, "a100"));
}

static void an_unknown_library_share_is_assumed_to_be_three_quarters(void **state)
{
  (void)state;
  hr_hardware hardware = hr_hardware_default();
  hardware.dense_flops_per_s[HR_BF16] = 100e12;
  assert_true(hr_hardware_library_flops_per_s(&hardware, HR_BF16) == 75e12);
  hardware.library_share[HR_BF16] = 0.5;
  assert_true(hr_hardware_library_flops_per_s(&hardware, HR_BF16) == 50e12);
  assert_true(hr_hardware_library_flops_per_s(&hardware, HR_FP64) == 0);
}

/* A complete valid file in which one field is replaced or removed. */
static void refused(const char *field, const char *value, const char *expected)
{
  json_t *root = json_pack("{s:s,s:s,s:s,s:s,s:s,s:f,s:i,s:{s:f},s:f,s:f,s:I,s:f,s:[{s:i,s:i,s:f}]}", "name", "toy",
                           "product", "Toy", "architecture", "toy", "kind", "gpu", "calibration", "datasheet",
                           "error_band", 0.5, "multiprocessors", 4, "dense_flops_per_s", "bf16", 1e12,
                           "bandwidth_bytes_per_s", 1e9, "bandwidth_share", 0.9, "memory_bytes", (json_int_t)1 << 30,
                           "launch_ns", 1000.0, "tiles", "m", 64, "n", 64, "share", 1.0);
  assert_non_null(root);
  if (value)
    json_object_set_new(root, field, json_loads(value, JSON_DECODE_ANY, NULL));
  else if (field)
    json_object_del(root, field);
  char *text = json_dumps(root, 0);
  hr_hardware hardware = hr_hardware_default();
  hr_error error = {HR_OK, ""};
  hr_status status =
      hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "toy.json"}, &hardware, &error);
  if (!expected) {
    assert_ok(status, error);
  } else {
    assert_int_equal(status, HR_ERROR_INVALID);
    assert_string_equal(error.message, expected);
    assert_int_equal(hardware.multiprocessors, 0); /* untouched */
  }
  free(text);
  json_decref(root);
}

static void an_invalid_device_file_is_refused_by_field(void **state)
{
  (void)state;
  refused(NULL, NULL, NULL);
  refused("multiprocessors", NULL, "toy.json: multiprocessors: is missing");
  refused("multiprocessors", "0", "toy.json: multiprocessors: expected a positive integer, found 0");
  refused("multiprocessors", "\"4\"", "toy.json: multiprocessors: expected a positive integer, found \"4\"");
  refused("kind", "\"tpu\"", "toy.json: kind: expected one of gpu, cpu, found \"tpu\"");
  refused("dense_flops_per_s", "3", "toy.json: dense_flops_per_s: expected an object with a number for each format");
  refused("dense_flops_per_s", "{\"bf17\": 1}", "toy.json: dense_flops_per_s: \"bf17\" is not a number format");
  refused("dense_flops_per_s", "{\"bf16\": -1}",
          "toy.json: dense_flops_per_s.bf16: expected a number from 0 to 1e+21, found -1");
  refused("bandwidth_bytes_per_s", "0",
          "toy.json: bandwidth_bytes_per_s: expected a number from 1e+06 to 1e+18, found 0");
  refused("bandwidth_share", "1.5", "toy.json: bandwidth_share: expected a number from 0.001 to 1, found 1.5");
  refused("tiles", "[]", "toy.json: tiles (count): expected 1 to 24, found 0");
  refused("tiles", "[{\"m\": 64, \"n\": 64, \"share\": 0}]",
          "toy.json: tiles[0].share: expected a number from 0.001 to 1, found 0");
  refused("tiles", "[7]", "toy.json: tiles: expected a list of objects");
  refused("alignments", "[{\"bytes\": 3, \"gemm_share\": 1, \"bmm_share\": 1}]",
          "toy.json: alignments: 3 bytes: expected ascending powers of two");
  refused("alignments",
          "[{\"bytes\":2,\"gemm_share\":1,\"bmm_share\":1},{\"bytes\":4,\"gemm_share\":0.5,\"bmm_share\":1}]",
          "toy.json: alignments: 4 bytes is slower than 2 bytes");
  refused("ceilings", "[{\"kind\": \"speed\"}]",
          "toy.json: ceilings[0].kind: expected one of gemm, exp, read, copy, found \"speed\"");
  refused("ceilings", "[{\"kind\": \"product\", \"dtype\": \"bf17\"}]",
          "toy.json: ceilings[0].dtype: expected one of fp64, fp32, tf32, fp16, bf16, fp8, found \"bf17\"");
  refused("ceilings", "[{\"kind\": \"exp\", \"instruction\": \"ex2\"}]", "toy.json: ceilings[0].per_s: is missing");
  refused("ceilings", "[{\"kind\": \"exp\", \"instruction\": \"ex2\", \"per_s\": 0}]",
          "toy.json: ceilings[0].per_s: expected a number from 1e+06 to 1e+21, found 0");
  /* 0 means not given, a share near 0 would be divided by */
  refused("row_share", "0", NULL);
  refused("row_share", "1e-300", "toy.json: row_share: expected 0 or 0.001 to 1, found 1e-300");
  refused("small_tile_share", "1e-9", "toy.json: small_tile_share: expected 0 or 0.001 to 1, found 1e-09");
  refused("softmax_share", "1e-9", "toy.json: softmax_share: expected 0 or 0.001 to 1, found 1e-09");
  refused("tma", "{\"launch_ns\": 1000, \"load_16\": 1e-5}",
          "toy.json: tma.load_16: expected 0 or 0.25 to 4, found 1e-05");
  refused("tma", "{\"busy_ns\": 1000}", "toy.json: tma.launch_ns: is missing");
  refused("vllm", "{\"version\": \"0.24.0\", \"rounding\": {\"launch_ns\": 1000}}", NULL);
  refused("vllm", "{\"rounding\": {\"launch_ns\": 1000}}", "toy.json: vllm.version: is missing");
  refused("vllm", "{\"version\": \"0.24.0\", \"rounding\": {\"element_ns\": 1}}",
          "toy.json: vllm.rounding.launch_ns: is missing");
  refused("vllm", "{\"version\": \"0.24.0\", \"rounding\": 1}", "toy.json: vllm.rounding: expected an object");
  refused("like", "\"h200\"", NULL);
  refused("like", "\"h300\"", "toy.json: like: \"h300\" is not a built-in device");
  refused("like", "\"rtx-5090\"", "toy.json: like: \"rtx-5090\" is itself like another device");
}

static void a_device_that_is_like_another_has_its_fitted_figures_and_a_datasheet_of_its_own(void **state)
{
  (void)state;
  hr_hardware gb300 = shipped("gb300"), b300 = shipped("b300");
  assert_true(gb300.decode_framework.launch_ns > 0 && gb300.tile_count == b300.tile_count);
  assert_memory_equal(&gb300.decode_framework, &b300.decode_framework, sizeof b300.decode_framework);
  assert_int_equal(gb300.multiprocessors, 152);
  assert_true(b300.interval_count > 0 && gb300.interval_count == 0); /* nobody has measured where its times lie */
}

/* Whether two figures of one name have other bounds, so that the object tells them apart. */
static bool is_ambiguous(const hr_device_figure *figures, size_t count, const hr_device_figure *figure)
{
  for (size_t i = 0; i < count; i++) {
    if (figure->field && figures[i].field && strcmp(figures[i].field, figure->field) == 0 &&
        figures[i].bounds != figure->bounds)
      return true;
  }
  return false;
}

/* A row of the table of docs/hardware.md: the figures of one meaning, each name once. */
static void write_bounds(const hr_device_figure *figures, size_t count, const hr_figure_bounds *bounds, char *to,
                         size_t size)
{
  size_t used = (size_t)snprintf(to, size, "| %g … %g%s%s |", bounds->least, bounds->most, bounds->unit[0] ? " " : "",
                                 bounds->unit);
  const char *separator = " ";
  for (size_t i = 0; i < count; i++) {
    const hr_device_figure *f = &figures[i];
    char name[80];
    if (f->bounds != bounds || f->former)
      continue;
    if (!f->field || !f->object || !is_ambiguous(figures, count, f))
      snprintf(name, sizeof name, "`%s`", f->field ? f->field : f->object);
    else
      snprintf(name, sizeof name, "`%s.%s`", f->object, f->field);
    if (strstr(to, name))
      continue;
    used += (size_t)snprintf(to + used, size - used, "%s%s", separator, name);
    separator = ", ";
  }
  snprintf(to + used, size - used, " |\n");
}

static void every_bound_is_documented(void **state)
{
  (void)state;
  static char page[1 << 17], row[8192];
  FILE *file = fopen(HEADROOM_SOURCE_DIR "/docs/hardware.md", "r");
  assert_non_null(file);
  assert_true(fread(page, 1, sizeof page - 1, file) > 1000);
  fclose(file);
  size_t count;
  const hr_device_figure *figures = hr_device_figures(&count);
  bool missing = false;
  for (size_t i = 0; i < count; i++) {
    bool seen = false;
    for (size_t k = 0; k < i; k++)
      seen = seen || figures[k].bounds == figures[i].bounds;
    if (seen || figures[i].bounds->name)
      continue;
    write_bounds(figures, count, figures[i].bounds, row, sizeof row);
    if (!strstr(page, row))
      print_message("docs/hardware.md lacks this row:\n%s", row), missing = true;
  }
  assert_false(missing);
}

/* The fastest of several ceiling loops is the ceiling; a library that was measured to be faster replaces it. */
static void a_share_is_of_the_fastest_instruction_of_the_format(void **state)
{
  (void)state;
  hr_hardware hardware = hr_hardware_default();
  hardware.dense_flops_per_s[HR_FP32] = 400e9;
  hardware.library_share[HR_FP32] = 0.75;
  assert_true(isnan(hr_hardware_ceiling_share(&hardware, HR_FP32, 100e9)));
  hardware.ceiling_count = 4;
  hardware.ceilings[0] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_FP32, .per_s = 100e9};
  hardware.ceilings[1] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_FP32, .per_s = 200e9};
  hardware.ceilings[2] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_BF16, .per_s = 800e9};
  hardware.ceilings[3] = (hr_ceiling){.kind = HR_CEILING_EXP, .dtype = HR_FP32, .per_s = 5e9};
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_GEMM, HR_FP32) == 200e9);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_EXP, HR_BF16) == 5e9);
  assert_true(hr_hardware_ceiling(&hardware, HR_CEILING_READ, HR_FP32) == 0);
  assert_true(hr_hardware_ceiling_share(&hardware, HR_FP32, 100e9) == 0.5);
  assert_true(isnan(hr_hardware_ceiling_share(&hardware, HR_FP16, 100e9)));
  hardware.about.calibration = HR_CALIBRATION_MEASURED; /* so the library's 300e9 is not an estimate */
  assert_true(fabs(hr_hardware_ceiling_share(&hardware, HR_FP32, 100e9) - 1.0 / 3) < 1e-12);
  assert_true(fabs(hr_hardware_ceiling_share(&hardware, HR_BF16, 400e9) - 0.5) < 1e-12);
}

static void a_device_without_bf16_has_the_next_best_format_as_default(void **state)
{
  (void)state;
  hr_hardware hardware = hr_hardware_default();
  assert_int_equal(hr_hardware_usual_dtype(&hardware), HR_FP32);
  hardware.dense_flops_per_s[HR_FP16] = 125e12; /* a V100 */
  assert_int_equal(hr_hardware_usual_dtype(&hardware), HR_FP16);
  hardware.dense_flops_per_s[HR_BF16] = 312e12; /* an A100 */
  assert_int_equal(hr_hardware_usual_dtype(&hardware), HR_BF16);
}

/* PyTorch has memory-efficient attention in fp32, fp16 and bf16 on GPUs, and flash attention also in fp64 on CPUs. */
static void attention_is_fused_on_every_device_except_in_fp64_on_a_gpu(void **state)
{
  (void)state;
  hr_hardware gpu = hr_hardware_default(), cpu = hr_hardware_default();
  gpu.about.kind = HR_HARDWARE_GPU, cpu.about.kind = HR_HARDWARE_CPU;
  for (hr_dtype dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
    assert_int_equal(hr_hardware_has_fused_attention(&gpu, dtype), dtype != HR_FP64);
    assert_true(hr_hardware_has_fused_attention(&cpu, dtype));
  }
}

/* A CPU without bf16 instructions widens operands and computes in fp32; a GPU without them does not support bf16. */
static void a_cpu_without_16_bit_instructions_computes_in_fp32(void **state)
{
  (void)state;
  hr_hardware cpu = hr_hardware_default();
  cpu.about.kind = HR_HARDWARE_CPU;
  cpu.dense_flops_per_s[HR_FP32] = 400e9;
  cpu.library_share[HR_FP32] = 0.5;
  cpu.ceiling_count = 1;
  cpu.ceilings[0] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_FP32, .per_s = 300e9};
  assert_int_equal(hr_hardware_usual_dtype(&cpu), HR_FP32);
  assert_int_equal(hr_hardware_compute_dtype(&cpu, HR_BF16), HR_FP32);
  assert_int_equal(hr_hardware_compute_dtype(&cpu, HR_FP8_E4M3), HR_FP8_E4M3);
  assert_true(hr_hardware_library_flops_per_s(&cpu, HR_FP16) == 200e9);
  assert_true(hr_hardware_library_flops_per_s(&cpu, HR_FP8_E4M3) == 0);
  assert_true(fabs(hr_hardware_ceiling_share(&cpu, HR_BF16, 150e9) - 0.5) < 1e-12);
  cpu.dense_flops_per_s[HR_BF16] = 800e9;
  assert_int_equal(hr_hardware_compute_dtype(&cpu, HR_BF16), HR_BF16);
  cpu.about.kind = HR_HARDWARE_GPU;
  assert_int_equal(hr_hardware_compute_dtype(&cpu, HR_FP16), HR_FP16);
  assert_true(hr_hardware_library_flops_per_s(&cpu, HR_FP16) == 0);
}

/* GiB that PyTorch reports (the files name the reports); the datasheets say 24, 96, 32, 40 and 80. */
static void the_memory_of_a_gpu_is_what_a_program_sees(void **state)
{
  (void)state;
  const struct {
    const char *name;
    double gib;
  } seen[] = {{"l4", 22.03},
              {"gh200", 94.88},
              {"v100-sxm2-32gb", 31.74},
              {"v100-pcie-32gb", 31.74},
              {"a100-pcie-40gb", 39.5},
              {"a100-sxm4-80gb", 79.25},
              {"a100-pcie-80gb", 79.25}};
  for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
    assert_true(fabs((double)shipped(seen[i].name).memory_bytes / 0x1p30 - seen[i].gib) < 0.005);
}

/* rtx-4090's file has no link, so no devices of a node. */
static void a_network_needs_the_devices_of_a_node_and_a_rate(void **state)
{
  (void)state;
  hr_hardware gpu = shipped("rtx-4090");
  hr_error error;
  assert_int_equal(hr_hardware_set_network(&gpu, 0, 50e9, -1, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "network: needs devices per node, which rtx-4090 does not give");
  assert_int_equal(hr_hardware_set_network(&gpu, 8, 0, 5e3, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "network: a latency needs a rate, which rtx-4090 does not give");
  assert_int_equal(hr_hardware_set_network(&gpu, -1, 50e9, -1, &error), HR_ERROR_INVALID);
  assert_int_equal(gpu.devices_per_node, 0);
  assert_ok(hr_hardware_set_network(&gpu, 8, 50e9, 0, &error), error);
  assert_ok(hr_hardware_set_network(&gpu, 0, 0, -1, &error), error);
  assert_int_equal(gpu.devices_per_node, 8);
  assert_true(gpu.network_bytes_per_s == 50e9 && gpu.network_latency_ns == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_are_read_and_changed_by_their_place_in_the_file),
      cmocka_unit_test(gemms_are_fast_from_an_alignment_on),
      cmocka_unit_test(figures_that_a_device_cannot_have_are_refused),
      cmocka_unit_test(a_device_begins_empty_and_says_what_it_is_for),
      cmocka_unit_test(the_memory_of_a_gpu_is_what_a_program_sees),
      cmocka_unit_test(a_share_is_of_the_fastest_instruction_of_the_format),
      cmocka_unit_test(a_device_without_bf16_has_the_next_best_format_as_default),
      cmocka_unit_test(attention_is_fused_on_every_device_except_in_fp64_on_a_gpu),
      cmocka_unit_test(a_cpu_without_16_bit_instructions_computes_in_fp32),
      cmocka_unit_test(every_shipped_device_reads_and_is_named_as_its_file),
      cmocka_unit_test(every_figure_of_every_device_has_a_source),
      cmocka_unit_test(devices_complete_the_figures_of_their_architecture),
      cmocka_unit_test(well_known_rates_are_right),
      cmocka_unit_test(nodes_of_the_co_design_paper_have_their_devices_and_links),
      cmocka_unit_test(no_two_devices_share_a_name),
      cmocka_unit_test(an_unknown_library_share_is_assumed_to_be_three_quarters),
      cmocka_unit_test(an_invalid_device_file_is_refused_by_field),
      cmocka_unit_test(a_device_that_is_like_another_has_its_fitted_figures_and_a_datasheet_of_its_own),
      cmocka_unit_test(every_bound_is_documented),
      cmocka_unit_test(a_network_needs_the_devices_of_a_node_and_a_rate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
