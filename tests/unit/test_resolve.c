/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "hardware/hardware.h"
#include "suggest/suggest.h"

#include <headroom/experimental/resolve.h>
#include <headroom/model.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void one_wrong_letter_is_a_distance_of_one(void **state)
{
  (void)state;
  assert_int_equal(hr_edit_distance("llama", "llama"), 0);
  assert_int_equal(hr_edit_distance("lama", "llama"), 1);  /* inserted */
  assert_int_equal(hr_edit_distance("llame", "llama"), 1); /* replaced */
  assert_int_equal(hr_edit_distance("lalma", "llama"), 1); /* swapped */
  assert_int_equal(hr_edit_distance("LLAMA", "llama"), 0);
  assert_int_equal(hr_edit_distance("", "llama"), 5);
  assert_int_equal(hr_edit_distance("gpt2", "opt"), 2); /* g → o, without 2 */
}

static void very_long_names_are_compared_by_their_beginning(void **state)
{
  (void)state;
  char name[5000];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  assert_int_equal(hr_edit_distance(name, "x"), 63);
}

static void suggestions_come_nearest_first_and_at_most_three(void **state)
{
  static const char *const names[] = {"h100-pcie", "h100-sxm", "h200", "l40s", "h20", "b200"};
  (void)state;
  char text[160];
  hr_suggest_names("h201", names, 6, text, sizeof text);
  assert_string_equal(text, "; did you mean h200, h20 or b200?");
  hr_suggest_names("h100", names, 6, text, sizeof text);
  assert_non_null(strstr(text, "h100-pcie"));
  hr_suggest_names("toaster", names, 6, text, sizeof text);
  assert_string_equal(text, "");
}

typedef struct folder {
  char path[64];
  char file[96];
} folder;

static int make_folder(void **state)
{
  static folder made;
  strcpy(made.path, "/tmp/headroom-load-XXXXXX");
  assert_non_null(mkdtemp(made.path));
  snprintf(made.file, sizeof made.file, "%s/config.json", made.path);
  *state = &made;
  return 0;
}

static int remove_folder(void **state)
{
  folder *made = *state;
  unlink(made->file);
  return rmdir(made->path);
}

static void write_file(const folder *made, const char *text, size_t length)
{
  FILE *file = fopen(made->file, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void a_directory_is_read_by_its_configuration_and_names_the_model(void **state)
{
  static const char text[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100}";
  folder *made = *state;
  hr_model model;
  hr_error error = {.status = HR_OK};
  write_file(made, text, sizeof text - 1);
  assert_ok(hr_resolve_model(made->path, NULL, NULL, &model, &error), error);
  assert_int_equal(model.hidden, 64);
  assert_string_equal(model.name, strrchr(made->path, '/') + 1);
  assert_ok(hr_resolve_model(made->file, NULL, NULL, &model, &error), error);
  assert_string_equal(model.name, strrchr(made->path, '/') + 1);
}

static hr_origin origin_of(const char *what)
{
  hr_model model;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_resolve_model(what, NULL, NULL, &model, &error), error);
  return model.origin;
}

#define TINY                                                                                                          \
  "\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":100," \
  "\"intermediate_size\":256,\"transformers_version\":\"4.46.0\",\"architectures\":[\"LlamaForCausalLM\"]"

/* What a configuration says of itself is also in one that was pasted and changed. */
static void what_a_configuration_says_does_not_make_weights(void **state)
{
  (void)state;
  assert_int_equal(origin_of("{\"h\":64,\"a\":4,\"L\":2,\"v\":100}"), HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("{" TINY "}"), HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("{" TINY ",\"torch_dtype\":\"bfloat16\"}"), HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("{" TINY ",\"dtype\":\"bfloat16\"}"), HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("{" TINY ",\"_name_or_path\":\"acme/tiny\"}"), HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("{" TINY ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\"}}"),
                   HR_ORIGIN_DESIGN);
  assert_int_equal(origin_of("llama-3-8b"), HR_ORIGIN_PUBLISHED);
  assert_int_equal(origin_of("gpt3-2.7b-c1"), HR_ORIGIN_DESIGN); /* the short form of a figure */
}

static void expect_name(const char *what, const char *name)
{
  hr_model model;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_resolve_model(what, NULL, NULL, &model, &error), error);
  assert_string_equal(model.name, name);
}

static void a_model_is_called_by_the_name_in_its_configuration(void **state)
{
  static const char text[] = "{" TINY ",\"_name_or_path\":\"acme/tiny\"}";
  folder *made = *state;
  write_file(made, text, sizeof text - 1);
  expect_name(made->path, "acme/tiny");
  expect_name(made->file, "acme/tiny");
  expect_name("{" TINY ",\"_name_or_path\":\"/data/runs/tiny-2/\"}", "tiny-2");
  expect_name("{" TINY ",\"_name_or_path\":\"./\",\"name\":\"mine\"}", "mine");
  expect_name("{\"name\":\"short one\",\"h\":64,\"a\":4,\"L\":2,\"v\":100}", "short one");
  expect_name("{" TINY ",\"_name_or_path\":\"\"}", "inline model");
}

static void files_of_weights_beside_a_configuration_are_those_of_a_checkpoint(void **state)
{
  static const char text[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100}";
  folder *made = *state;
  char weights[96];
  write_file(made, text, sizeof text - 1);
  assert_int_equal(origin_of(made->path), HR_ORIGIN_DESIGN);
  snprintf(weights, sizeof weights, "%s/pytorch_model.bin", made->path);
  assert_int_equal(symlink("/nowhere", weights), 0); /* as in a cache of which only the names are there */
  assert_int_equal(origin_of(made->path), HR_ORIGIN_DESIGN);
  unlink(weights);
  assert_int_equal(fclose(fopen(weights, "w")), 0);
  assert_int_equal(origin_of(made->path), HR_ORIGIN_FILES);
  assert_int_equal(origin_of(made->file), HR_ORIGIN_FILES);
  unlink(weights);
}

static void a_file_beyond_the_limit_is_refused_without_reading_it(void **state)
{
  folder *made = *state;
  hr_model model;
  hr_error error = {.status = HR_OK};
  write_file(made, "{", 1);
  assert_int_equal(truncate(made->file, (off_t)1 << 40), 0); /* a sparse file of 1 TiB */
  assert_int_equal(hr_resolve_model(made->path, NULL, NULL, &model, &error), HR_ERROR_UNREADABLE);
  assert_non_null(strstr(error.message, "more than 16 MiB"));
}

static void bytes_after_a_nul_are_not_lost(void **state)
{
  static const char text[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100}\0 junk";
  folder *made = *state;
  hr_model model;
  hr_error error = {.status = HR_OK};
  write_file(made, text, sizeof text - 1);
  assert_int_equal(hr_resolve_model(made->path, NULL, NULL, &model, &error), HR_ERROR_UNREADABLE);
}

static void invalid_names_are_errors(void **state)
{
  (void)state;
  hr_model model;
  hr_hardware hardware;
  hr_error error = {.status = HR_OK};
  char path[8192];
  memset(path, 'a', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  assert_int_equal(hr_resolve_model("", NULL, NULL, &model, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_resolve_model(path, NULL, NULL, &model, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_resolve_hardware(path, &hardware, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_resolve_hardware("", &hardware, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_resolve_hardware("./missing.json", &hardware, &error), HR_ERROR_UNREADABLE);
}

static void case_of_a_built_in_name_does_not_matter(void **state)
{
  (void)state;
  hr_model model;
  hr_hardware hardware;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_resolve_model("GPT2", NULL, NULL, &model, &error), error);
  assert_string_equal(model.name, "gpt2");
  assert_ok(hr_resolve_hardware("H200", &hardware, &error), error);
  assert_string_equal(hardware.about.name, "h200");
}

/* A list of `count` zeros in an object, which together are count + 2 values. */
static hr_status read_zeros(size_t count, hr_error *error)
{
  char *text = malloc(2 * count + 32);
  assert_non_null(text);
  size_t length = (size_t)sprintf(text, "{\"x\" : [ ");
  for (size_t i = 0; i < count; i++)
    length += (size_t)sprintf(text + length, i > 0 ? ",0" : "0");
  length += (size_t)sprintf(text + length, "]}");
  hr_model model;
  hr_status status =
      hr_model_from_json(&(hr_input){.text = text, .length = length, .name = "zeros"}, NULL, NULL, &model, error);
  free(text);
  return status;
}

static void a_text_of_more_values_than_memory_should_hold_is_refused(void **state)
{
  (void)state;
  hr_error error = {.status = HR_OK};
  assert_int_not_equal(read_zeros(999998, &error), HR_OK);
  assert_null(strstr(error.message, "values"));
  assert_int_equal(read_zeros(999999, &error), HR_ERROR_UNREADABLE);
  assert_string_equal(error.message, "zeros: has more than 1000000 values, which no configuration has");
}

static void do_nothing(int number)
{
  (void)number;
}

/* A child writes the model when the reader has been interrupted a few times. */
static void signals_of_the_program_do_not_end_reading(void **state)
{
  (void)state;
  int ends[2];
  char path[32];
  assert_int_equal(pipe(ends), 0);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  pid_t child = fork();
  if (child == 0) {
    static const char model[] = "{\"h\":64,\"a\":4,\"L\":2,\"v\":100}";
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    _exit(write(ends[1], model, sizeof model - 1) < 0);
  }
  close(ends[1]);
  struct sigaction handler = {.sa_handler = do_nothing}, before; /* without SA_RESTART */
  const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &handler, &before);
  setitimer(ITIMER_REAL, &often, NULL);
  hr_model model;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_resolve_model(path, NULL, NULL, &model, &error);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  close(ends[0]);
  waitpid(child, NULL, 0);
  assert_ok(status, error);
  assert_int_equal(model.hidden, 64);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_wrong_letter_is_a_distance_of_one),
      cmocka_unit_test(very_long_names_are_compared_by_their_beginning),
      cmocka_unit_test(suggestions_come_nearest_first_and_at_most_three),
      cmocka_unit_test_setup_teardown(a_directory_is_read_by_its_configuration_and_names_the_model, make_folder,
                                      remove_folder),
      cmocka_unit_test(what_a_configuration_says_does_not_make_weights),
      cmocka_unit_test_setup_teardown(a_model_is_called_by_the_name_in_its_configuration, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(files_of_weights_beside_a_configuration_are_those_of_a_checkpoint, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(a_file_beyond_the_limit_is_refused_without_reading_it, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(bytes_after_a_nul_are_not_lost, make_folder, remove_folder),
      cmocka_unit_test(invalid_names_are_errors),
      cmocka_unit_test(case_of_a_built_in_name_does_not_matter),
      cmocka_unit_test(a_text_of_more_values_than_memory_should_hold_is_refused),
      cmocka_unit_test(signals_of_the_program_do_not_end_reading),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
