/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs grow at the end only. A program that was compiled with the headers of an earlier release is served,
 * one of a later release as long as it uses nothing new, and a struct that was never initialised is refused. */
#include "test.h"

#include "hardware/hardware.h"

#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets struct_size to 0 and to one more than its value, and expects `call` to fail with a line that names the
 * struct. */
#define REFUSED(name, value, call)                                                                                    \
  do {                                                                                                                \
    const size_t sizes[] = {0, sizeof(name) + 1};                                                                     \
    for (size_t i_ = 0; i_ < 2; i_++) {                                                                               \
      char line[160];                                                                                                 \
      (value).struct_size = sizes[i_];                                                                                \
      snprintf(line, sizeof line, #name ": struct_size is %zu, expected %zu: initialise it with " #name "_default()", \
               sizes[i_], sizeof(name));                                                                              \
      assert_int_equal((call), HR_ERROR_INVALID);                                                                     \
      assert_string_equal(error.message, line);                                                                       \
    }                                                                                                                 \
    (value).struct_size = sizeof(name);                                                                               \
    assert_ok((call), error);                                                                                         \
  } while (0)

static void problems_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_gemm gemm = hr_gemm_default();
  REFUSED(hr_gemm, gemm, hr_gemm_check(&gemm, &error));
  hr_rowwise rows = hr_rowwise_default();
  rows.rows = rows.columns = 2;
  REFUSED(hr_rowwise, rows, hr_rowwise_check(&rows, &error));
  hr_attention attention = hr_attention_default();
  REFUSED(hr_attention, attention, hr_attention_check(&attention, &error));
  hr_attention_backward backward = hr_attention_backward_default();
  REFUSED(hr_attention_backward, backward, hr_attention_backward_check(&attention, &backward, &error));
  hr_decode decode = hr_decode_default();
  REFUSED(hr_decode, decode, hr_decode_check(&decode, &error));
}

static void shapes_and_devices_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_model model;
  assert_ok(hr_resolve_model("gpt2", NULL, NULL, &model, &error), error);
  REFUSED(hr_model, model, hr_model_check(&model, &error));
  hr_workload workload = hr_workload_default(&model);
  REFUSED(hr_workload, workload, hr_workload_check(&workload, &model, &error));
  hr_hardware hardware;
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_scan_call scan = hr_scan_call_default();
  hr_prediction prediction;
  scan.tokens = scan.heads = scan.head_dim = scan.state = scan.groups = 1;
  REFUSED(hr_scan_call, scan, hr_predict_scan(&hardware, &scan, &prediction, &error));
}

static void device_options_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device = NULL;
  hr_device_options options = hr_device_options_default();
  REFUSED(hr_device_options, options, hr_device_open_with("reference", &options, &device, &error));
  hr_device_close(device);
}

static void options_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_model model;
  hr_hardware hardware;
  assert_ok(hr_resolve_model("gpt2", NULL, NULL, &model, &error), error);
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_workload workload = hr_workload_default(&model);

  hr_search_options search = hr_search_options_default();
  hr_search_result *found = NULL;
  search.evaluations_max = 1;
  REFUSED(hr_search_options, search, hr_search(&hardware, &model, &workload, &search, &found, &error));
  hr_search_result_free(found);

  hr_serve_options serving = hr_serve_options_default();
  hr_serve_result *plan = NULL;
  serving.batch = 1;
  REFUSED(
      hr_serve_options, serving,
      (hr_serve_result_free(plan), plan = NULL, hr_serve_plan(&hardware, &model, &workload, &serving, &plan, &error)));
  hr_serve_result_free(plan);

  hr_load_options load = hr_load_options_default();
  hr_load_result *simulated = NULL;
  load.clients = 1;
  REFUSED(hr_load_options, load,
          (hr_load_result_free(simulated), simulated = NULL,
           hr_serve_load(&(hr_subject){&model, &workload, &hardware}, &serving, &load, &simulated, &error)));
  hr_load_result_free(simulated);

  hr_training_options training = hr_training_options_default();
  hr_training_plan *layouts = NULL;
  training.device_counts = 1, training.devices[0] = 1;
  REFUSED(hr_training_options, training,
          (hr_training_plan_free(layouts), layouts = NULL,
           hr_plan_training(&(hr_subject){&model, &workload, &hardware}, &training, &layouts, &error)));
  hr_training_plan_free(layouts);

  hr_sweep *sweep = NULL;
  size_t *order = NULL, count;
  assert_ok(hr_sweep_load("fig24", true, &sweep, &error), error);
  hr_sweep_choice choice = hr_sweep_choice_default();
  REFUSED(hr_sweep_choice, choice, hr_sweep_order(sweep, &choice, &order, &count, &error));
  free(order);
  hr_sweep_free(sweep);

  hr_report_options report = hr_report_options_default();
  FILE *out = tmpfile();
  assert_non_null(out);
  REFUSED(hr_report_options, report,
          hr_report_description(out, &report, &(hr_subject){.model = &model, .workload = &workload, .hardware = NULL},
                                NULL, &error));
  fclose(out);

  hr_result_filter filter = hr_result_filter_default();
  REFUSED(hr_result_filter, filter, hr_result_filter_check(&filter, &error));

  hr_store *store = NULL;
  hr_store_options opening = hr_store_options_default();
  REFUSED(hr_store_options, opening, hr_store_open_with("scratch", HR_STORE_SCRATCH, &opening, &store, &error));
  hr_store_close(store);
}

static void caches_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  hr_kv_cache *cache = NULL;
  int64_t slot;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_kv_cache_options options = hr_kv_cache_options_default();
  REFUSED(hr_kv_cache_options, options,
          (hr_kv_cache_free(cache), cache = NULL, hr_kv_cache_create(device, &options, &cache, &error)));
  hr_kv_append append = hr_kv_append_default();
  REFUSED(hr_kv_append, append, hr_kv_cache_append(cache, &append, NULL, &error));
  assert_ok(hr_kv_cache_add(cache, &slot, &error), error);
  hr_decode decode = hr_decode_default();
  hr_decode_arguments arguments = hr_decode_arguments_default();
  REFUSED(hr_decode, decode, hr_kv_cache_decode(cache, 1, &decode, &arguments, &error));
  REFUSED(hr_decode_arguments, arguments, hr_kv_cache_decode(cache, 1, &decode, &arguments, &error));
  hr_kv_cache_free(cache);
  hr_device_close(device);
}

static void measurements_with_another_size_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  hr_plan *plan;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_gemm gemm = hr_gemm_default();
  hr_measurement measured;
  hr_measure_options options = hr_measure_options_default();
  options.samples_min = options.samples_max = 1;
  options.time_limit_ns = 1e6;
  REFUSED(hr_measure_options, options, hr_measure_gemm(device, &gemm, &options, &measured, &error));

  hr_attention attention = hr_attention_default();
  attention.dtype = HR_FP32;
  assert_ok(hr_plan_attention(device, &attention, "attention_flash_portable", &plan, &error), error);
  hr_buffer *workspace;
  assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 64, &workspace, &error), error);
  float q[64] = {0}, o[64];
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = arguments.k = arguments.v = q, arguments.o = o;
  char *memory = hr_buffer_data(workspace);
  REFUSED(hr_attention_arguments, arguments, hr_plan_run_attention(plan, &arguments, memory, NULL, &error));

  /* In addition: a workspace that is not aligned as the plan needs. */
  assert_int_equal(hr_plan_run_attention(plan, &arguments, memory + 32, NULL, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "workspace: expected an address that is a multiple of 64"));
  assert_ok(hr_plan_run_attention(plan, &arguments, memory + 64, NULL, &error), error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  hr_device_close(device);
}

/* ---- structs of other releases ---- */

/* The sizes of 0.2.0, of structs that have grown since. */
static const struct {
  const char *name;
  size_t then, now;
} grown[] = {
    {"hr_advise_options", 24, sizeof(hr_advise_options)},
    {"hr_attention", 224, sizeof(hr_attention)},
    {"hr_attention_arguments", 96, sizeof(hr_attention_arguments)},
    {"hr_decode", 288, sizeof(hr_decode)},
    {"hr_decode_arguments", 96, sizeof(hr_decode_arguments)},
    {"hr_gemm", 96, sizeof(hr_gemm)},
    {"hr_rowwise", 72, sizeof(hr_rowwise)},
    {"hr_workload", 152, sizeof(hr_workload)},
};

/* A struct as a program of another release has it: so large, and nothing behind it. */
static void *of_release(const void *value, size_t known, size_t size)
{
  char *copy = calloc(1, size);
  assert_non_null(copy);
  memcpy(copy, value, known < size ? known : size);
  memcpy(copy, &size, sizeof size);
  return copy;
}

#define OLD(name, value) of_release(&(value), sizeof(name), size_in_0_2(#name, sizeof(name)))

static size_t size_in_0_2(const char *name, size_t now)
{
  for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) {
    if (strcmp(grown[i].name, name) == 0) {
      assert_int_equal(grown[i].now, now);
      return grown[i].then;
    }
  }
  fail_msg("%s is not in the table", name);
  return 0;
}

static void structs_have_grown_at_their_ends(void **state)
{
  (void)state;
  assert_int_equal(offsetof(hr_advise_options, nodes), size_in_0_2("hr_advise_options", sizeof(hr_advise_options)));
  assert_int_equal(offsetof(hr_attention, alignment), size_in_0_2("hr_attention", sizeof(hr_attention)));
  assert_int_equal(offsetof(hr_attention_arguments, batch),
                   size_in_0_2("hr_attention_arguments", sizeof(hr_attention_arguments)));
  assert_int_equal(offsetof(hr_decode, alignment), size_in_0_2("hr_decode", sizeof(hr_decode)));
  assert_int_equal(offsetof(hr_decode_arguments, batch),
                   size_in_0_2("hr_decode_arguments", sizeof(hr_decode_arguments)));
  assert_int_equal(offsetof(hr_gemm, alignment), size_in_0_2("hr_gemm", sizeof(hr_gemm)));
  assert_int_equal(offsetof(hr_rowwise, alignment), size_in_0_2("hr_rowwise", sizeof(hr_rowwise)));
  assert_int_equal(offsetof(hr_workload, virtual_stages), size_in_0_2("hr_workload", sizeof(hr_workload)));
}

/* Members that 0.2.0 did not have are 0 by default. */
static void what_an_old_struct_lacks_has_its_default(void **state)
{
  (void)state;
  const hr_attention attention = hr_attention_default();
  const hr_attention_arguments of_attention = hr_attention_arguments_default();
  const hr_decode decode = hr_decode_default();
  const hr_decode_arguments of_decode = hr_decode_arguments_default();
  const hr_gemm gemm = hr_gemm_default();
  const hr_rowwise rows = hr_rowwise_default();
  const hr_advise_options advise = hr_advise_options_default();
  const hr_model model = hr_model_default();
  const hr_workload workload = hr_workload_default(&model);
  const void *const values[] = {&advise, &attention, &of_attention, &decode, &of_decode, &gemm, &rows, &workload};
  for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) {
    for (size_t byte = grown[i].then; byte < grown[i].now; byte++)
      assert_int_equal(((const char *)values[i])[byte], 0);
  }
}

/* One key: O is V. */
static void an_old_program_plans_and_runs(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_attention attention = hr_attention_default();
  attention.dtype = HR_FP32;
  hr_attention *old = OLD(hr_attention, attention);
  hr_plan *plan;
  assert_ok(hr_plan_attention(device, old, "attention_flash_portable", &plan, &error), error);
  float q[64] = {1}, v[64] = {2, 3}, o[64] = {0};
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = arguments.k = q, arguments.v = v, arguments.o = o;
  hr_attention_arguments *old_arguments = OLD(hr_attention_arguments, arguments);
  hr_buffer *workspace;
  assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 64, &workspace, &error), error);
  assert_ok(hr_plan_run_attention(plan, old_arguments, hr_buffer_data(workspace), NULL, &error), error);
  assert_memory_equal(o, v, sizeof o);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  hr_device_close(device);
  free(old_arguments);
  free(old);
}

static void an_old_program_asks_about_problems(void **state)
{
  (void)state;
  hr_error error;
  hr_hardware hardware;
  hr_prediction prediction;
  assert_ok(hr_resolve_hardware("h200", &hardware, &error), error);
  hr_attention attention = hr_attention_default();
  hr_gemm gemm = hr_gemm_default();
  hr_rowwise rows = hr_rowwise_default();
  hr_decode decode = hr_decode_default();
  rows.rows = rows.columns = 2;
  hr_attention *a = OLD(hr_attention, attention);
  hr_gemm *g = OLD(hr_gemm, gemm);
  hr_rowwise *r = OLD(hr_rowwise, rows);
  hr_decode *d = OLD(hr_decode, decode);
  int64_t count;
  assert_ok(hr_attention_check(a, &error), error);
  assert_ok(hr_attention_set_layout(a, HR_LAYOUT_BHSD, &error), error);
  assert_int_equal(hr_attention_flops(a, &count), HR_OK);
  assert_int_equal(hr_attention_bytes(a, &count), HR_OK);
  assert_ok(hr_predict_attention(&hardware, a, &prediction, &error), error);
  assert_ok(hr_gemm_check(g, &error), error);
  assert_int_equal(hr_gemm_flops(g, &count), HR_OK);
  assert_ok(hr_predict_gemm(&hardware, g, &prediction, &error), error);
  assert_ok(hr_rowwise_check(r, &error), error);
  assert_int_equal(hr_rowwise_bytes(r, &count), HR_OK);
  assert_ok(hr_decode_from_attention(a, d, &error), error);
  assert_int_equal(d->struct_size, 288);
  assert_ok(hr_decode_check(d, &error), error);
  assert_int_equal(hr_decode_flops(d, &count), HR_OK);
  assert_ok(hr_predict_decode(&hardware, d, &prediction, &error), error);
  free(d), free(r), free(g), free(a);
}

static void an_old_program_decodes_from_a_cache(void **state)
{
  (void)state;
  hr_error error;
  hr_device *device;
  hr_kv_cache *cache;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  hr_kv_cache_options options = hr_kv_cache_options_default();
  assert_ok(hr_kv_cache_create(device, &options, &cache, &error), error);
  hr_decode decode = hr_decode_default();
  hr_decode_arguments arguments = hr_decode_arguments_default();
  hr_decode *d = OLD(hr_decode, decode);
  hr_decode_arguments *a = OLD(hr_decode_arguments, arguments);
  assert_ok(hr_kv_cache_decode(cache, 1, d, a, &error), error);
  assert_non_null(a->k);
  hr_plan *plan = NULL;
  assert_ok(hr_plan_decode(device, d, NULL, &plan, &error), error);
  hr_plan_free(plan);
  hr_kv_cache_free(cache);
  hr_device_close(device);
  free(a), free(d);
}

static void a_later_program_is_served_while_what_it_adds_is_0(void **state)
{
  (void)state;
  hr_error error;
  const hr_gemm gemm = hr_gemm_default();
  const size_t size = sizeof gemm + 2 * sizeof(size_t);
  char *later = of_release(&gemm, sizeof gemm, size), line[200];
  const hr_gemm *given = (const hr_gemm *)(const void *)later;
  assert_ok(hr_gemm_check(given, &error), error);
  later[size - 1] = 1;
  snprintf(
      line, sizeof line,
      "hr_gemm: struct_size is %zu, and what follows the %zu bytes that this version of the library knows is not 0",
      size, sizeof gemm);
  assert_int_equal(hr_gemm_check(given, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, line);
  free(later);
}

/* What was never initialised may have any size, and so little may be read of it. */
static void sizes_of_no_release_are_refused(void **state)
{
  (void)state;
  hr_error error;
  hr_gemm gemm = hr_gemm_default();
  const size_t sizes[] = {0, 8, 88, 97, 2 * sizeof gemm + 8, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    gemm.struct_size = sizes[i];
    assert_int_equal(hr_gemm_check(&gemm, &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, "initialise it with hr_gemm_default()"));
  }
}

/* ---- structs that the library fills ---- */

#define BEHIND 64 /* bytes behind a struct */
#define FILL 0xa5

/* hr_workload_init() takes a model, too. */
static void init_workload(void *workload, size_t size)
{
  const hr_model model = hr_model_default();
  hr_workload_init(workload, size, &model);
}

#define HR_STRUCT(type)                             \
  static void init_##type(void *value, size_t size) \
  {                                                 \
    type##_init(value, size);                       \
  }
#include "hardware/hardware.h"
#include "unit/filled_structs.inc"
#undef HR_STRUCT

static const struct {
  const char *name;
  size_t size;
  void (*init)(void *value, size_t size);
} filled[] = {
#define HR_STRUCT(type) {#type, sizeof(type), init_##type},
#include "unit/filled_structs.inc"
#undef HR_STRUCT
    {"hr_workload", sizeof(hr_workload), init_workload},
};

#define FILLED_COUNT (sizeof filled / sizeof *filled)

/* Memory of size + BEHIND bytes FILL, in which the first `size` are initialised as a struct of that size. */
static unsigned char *initialised(size_t which, size_t size)
{
  unsigned char *memory = malloc(size + BEHIND);
  assert_non_null(memory);
  memset(memory, FILL, size + BEHIND);
  filled[which].init(memory, size);
  assert_int_equal(*(const size_t *)(const void *)memory, size);
  return memory;
}

/* An older program's stack holds a smaller struct, and other variables behind it. */
static void defaults_fill_no_byte_behind_an_older_programs_struct(void **state)
{
  (void)state;
  for (size_t i = 0; i < FILLED_COUNT; i++) {
    const size_t size = filled[i].size - sizeof(size_t);
    unsigned char *memory = initialised(i, size);
    for (size_t byte = size; byte < size + BEHIND; byte++)
      assert_int_equal(memory[byte], FILL);
    free(memory);
  }
}

static void defaults_of_members_that_the_library_does_not_know_are_0(void **state)
{
  (void)state;
  for (size_t i = 0; i < FILLED_COUNT; i++) {
    const size_t size = filled[i].size + 2 * sizeof(size_t);
    unsigned char *memory = initialised(i, size);
    for (size_t byte = filled[i].size; byte < size; byte++)
      assert_int_equal(memory[byte], 0);
    free(memory);
  }
}

static void an_older_struct_has_the_defaults_of_its_members(void **state)
{
  (void)state;
  struct {
    hr_gemm gemm;
    size_t behind;
  } stack = {.behind = 7};
  hr_gemm_init(&stack.gemm, offsetof(hr_gemm, batch));
  assert_int_equal(stack.gemm.struct_size, offsetof(hr_gemm, batch));
  assert_int_equal(stack.gemm.k, hr_gemm_default().k);
  assert_int_equal(stack.gemm.batch, 0);
  assert_int_equal(stack.behind, 7);
}

static bool is_filled(const char *name, size_t length)
{
  for (size_t i = 0; i < FILLED_COUNT; i++) {
    if (strlen(filled[i].name) == length && memcmp(filled[i].name, name, length) == 0)
      return true;
  }
  return false;
}

/* Lines are "hr_gemm_init stable". */
static size_t expect_filled(const char *path)
{
  char line[200];
  size_t count = 0;
  FILE *list = fopen(path, "r");
  assert_non_null(list);
  while (fgets(line, sizeof line, list)) {
    const char *end = strstr(line, "_init ");
    if (end && !is_filled(line, (size_t)(end - line)))
      fail_msg("%.*s is not in the table", (int)(end - line), line);
    count += end != NULL;
  }
  fclose(list);
  return count;
}

static void every_struct_that_the_libraries_fill_is_in_the_table(void **state)
{
  (void)state;
  const size_t found = expect_filled(HEADROOM_SOURCE_DIR "/tests/structure/exported-symbols.txt") +
                       expect_filled(HEADROOM_SOURCE_DIR "/tests/structure/exported-symbols-advice.txt");
  assert_int_equal(found, FILLED_COUNT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(problems_with_another_size_are_refused),
      cmocka_unit_test(shapes_and_devices_with_another_size_are_refused),
      cmocka_unit_test(device_options_with_another_size_are_refused),
      cmocka_unit_test(options_with_another_size_are_refused),
      cmocka_unit_test(caches_with_another_size_are_refused),
      cmocka_unit_test(measurements_with_another_size_are_refused),
      cmocka_unit_test(structs_have_grown_at_their_ends),
      cmocka_unit_test(what_an_old_struct_lacks_has_its_default),
      cmocka_unit_test(an_old_program_plans_and_runs),
      cmocka_unit_test(an_old_program_asks_about_problems),
      cmocka_unit_test(an_old_program_decodes_from_a_cache),
      cmocka_unit_test(a_later_program_is_served_while_what_it_adds_is_0),
      cmocka_unit_test(sizes_of_no_release_are_refused),
      cmocka_unit_test(defaults_fill_no_byte_behind_an_older_programs_struct),
      cmocka_unit_test(defaults_of_members_that_the_library_does_not_know_are_0),
      cmocka_unit_test(an_older_struct_has_the_defaults_of_its_members),
      cmocka_unit_test(every_struct_that_the_libraries_fill_is_in_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
