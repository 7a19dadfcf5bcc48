/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in a folder: which files are read, and which are refused. */
#include "checkpoint_files.h"

#include <headroom/experimental/resolve.h>
#include <sys/stat.h>

static void assert_refused(const char *what, hr_status status, const char *message)
{
  sums.files = -1;
  hr_status found = hr_resolve_checkpoint(what, &sums, &error);
  if (found != status || !strstr(error.message, message) || strchr(error.message, '\n'))
    fail_msg("%s: expected \"%s\", found \"%s\"", hr_status_name(status), message,
             found == HR_OK ? "no error" : error.message);
  assert_int_equal(sums.files, -1);
}

static void a_folder_without_tensors_and_other_models_have_no_checkpoint(void **state)
{
  (void)state;
  static const char *const names[] = {"gpt2", "{\"h\":64,\"a\":4,\"L\":2,\"v\":100}", "-"};
  assert_ok(hr_resolve_checkpoint(folder, &sums, &error), error);
  assert_int_equal(sums.files, 0);
  for (size_t i = 0; i < 3; i++) {
    sums.files = 7;
    assert_ok(hr_resolve_checkpoint(names[i], &sums, &error), error);
    assert_int_equal(sums.files, 0);
  }
  assert_int_equal(hr_resolve_checkpoint("./nowhere", &sums, &error), HR_ERROR_NOT_FOUND);
}

static void a_checkpoint_of_the_configuration_is_equal_from_whatever_is_named(void **state)
{
  (void)state;
  static const char *const names[] = {"", "config.json", "model.safetensors"};
  put_model();
  end_file("model.safetensors");
  hr_checkpoint_comparison comparison = compare();
  assert_int_equal(comparison.match, HR_CHECKPOINT_EQUAL);
  assert_int_equal(comparison.parameters, 1480);
  assert_int_equal(comparison.elements, 1480);
  assert_string_equal(comparison.text, "1,480 parameters, as the configuration has");
  assert_int_equal(sums.tensors, 21);
  assert_int_equal(sums.bytes, 2960);
  for (size_t i = 0; i < 3; i++) {
    hr_model model;
    hr_checkpoint again;
    assert_ok(hr_resolve_checkpoint(path_of(names[i]), &again, &error), error);
    assert_memory_equal(&again, &sums, sizeof sums);
    assert_ok(hr_resolve_model(path_of(names[i]), NULL, NULL, &model, &error), error);
    assert_int_equal(model.hidden, 8);
  }
  assert_int_equal(unlink(path_of("config.json")), 0);
  assert_refused(path_of("model.safetensors"), HR_ERROR_NOT_FOUND, "needs a config.json in the same directory");
}

static void shards_are_added_up_with_and_without_an_index(void **state)
{
  (void)state;
  static const char index[] = "{\"metadata\":{},\"weight_map\":{\"model.embed_tokens.weight\":"
                              "\"model-00001-of-00002.safetensors\",\"lm_head.weight\":"
                              "\"model-00002-of-00002.safetensors\"}}";
  begin_file();
  put("model.embed_tokens.weight", 80);
  end_file("model-00001-of-00002.safetensors");
  begin_file();
  put_layers(2);
  put("lm_head.weight", 80);
  end_file("model-00002-of-00002.safetensors");
  assert_int_equal(compare().match, HR_CHECKPOINT_EQUAL);
  assert_int_equal(sums.files, 2);
  assert_ok(hr_resolve_checkpoint(path_of("model-00002-of-00002.safetensors"), &sums, &error), error);
  assert_int_equal(sums.files, 2); /* a shard stands for all */
  write_text("model.safetensors.index.json", index);
  assert_int_equal(compare().match, HR_CHECKPOINT_EQUAL);
  assert_ok(hr_resolve_checkpoint(path_of("model.safetensors.index.json"), &sums, &error), error);
  assert_int_equal(sums.files, 2);

  assert_int_equal(unlink(path_of("model-00002-of-00002.safetensors")), 0);
  assert_refused(folder, HR_ERROR_NOT_FOUND, "model-00002-of-00002.safetensors: ");
  assert_int_equal(unlink(path_of("model.safetensors.index.json")), 0);
  assert_refused(folder, HR_ERROR_NOT_FOUND, "model-00002-of-00002.safetensors: ");
}

static void shards_may_be_numbered_from_zero(void **state)
{
  (void)state;
  for (int last = 1; last <= 2; last++) {
    for (int i = 0; i <= last; i++) {
      char name[64];
      snprintf(name, sizeof name, "model-%05d-of-00002.safetensors", i);
      begin_file();
      put(name, 10);
      end_file(name);
    }
    assert_ok(hr_resolve_checkpoint(folder, &sums, &error), error);
    assert_int_equal(sums.files, last + 1);
    assert_int_equal(sums.elements, 10 * (last + 1));
  }
}

static void a_tensor_is_in_the_one_file_that_the_index_names(void **state)
{
  (void)state;
  begin_file();
  put("a", 4);
  end_file("a.safetensors");
  begin_file();
  put("b", 4);
  put("a", 4);
  end_file("b.safetensors");
  write_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"b.safetensors\"}}");
  assert_refused(folder, HR_ERROR_UNREADABLE, "b.safetensors: a: is also in a.safetensors");
  write_text("model.safetensors.index.json", "{\"weight_map\":{\"b\":\"a.safetensors\",\"a\":\"b.safetensors\"}}");
  assert_refused(folder, HR_ERROR_UNREADABLE, "a.safetensors: a: is also listed by the index in b.safetensors");
  write_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"a.safetensors\",\"c\":\"a.safetensors\"}}");
  assert_refused(folder, HR_ERROR_UNREADABLE, "index.json: weight_map: c: a.safetensors has no such tensor");
  write_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../a.safetensors\"}}");
  assert_refused(folder, HR_ERROR_UNREADABLE, "a: expected the name of a .safetensors file in the same folder");
}

static void what_is_no_regular_file_is_refused_without_waiting(void **state)
{
  (void)state;
  static const char message[] = "model.safetensors: is not a regular file";
  assert_int_equal(mkfifo(path_of("model.safetensors"), 0600), 0);
  assert_refused(folder, HR_ERROR_UNREADABLE, message);
  assert_int_equal(unlink(path_of("model.safetensors")), 0);
  assert_int_equal(symlink("/dev/zero", path_of("model.safetensors")), 0);
  assert_refused(folder, HR_ERROR_UNREADABLE, message);
  assert_int_equal(unlink(path_of("model.safetensors")), 0);
  assert_int_equal(mkdir(path_of("model.safetensors"), 0700), 0);
  assert_refused(folder, HR_ERROR_UNREADABLE, message);
  assert_int_equal(rmdir(path_of("model.safetensors")), 0);
  assert_int_equal(symlink("nowhere", path_of("model.safetensors")), 0);
  assert_ok(hr_resolve_checkpoint(folder, &sums, &error), error);
  assert_int_equal(sums.files, 0);
}

static void sizes_of_sparse_files_cost_no_memory(void **state)
{
  (void)state;
  write_text("model.safetensors", "");
  assert_refused(folder, HR_ERROR_UNREADABLE, "is truncated: 0 bytes without a whole header");
  assert_int_equal(truncate(path_of("model.safetensors"), (off_t)1 << 40), 0); /* a header of 0 bytes */
  assert_refused(folder, HR_ERROR_UNREADABLE, "byte 0 of the JSON: it ends before the object does");
  write_text("model.safetensors", "\xff\xe0\xf5\x05"); /* 99,999,999 bytes of header, all of them a hole */
  assert_int_equal(truncate(path_of("model.safetensors"), (off_t)1 << 40), 0);
  assert_refused(folder, HR_ERROR_UNREADABLE, "byte 0 of the JSON: expected an object");
  write_text("model.safetensors.index.json", "{");
  assert_int_equal(unlink(path_of("model.safetensors")), 0);
  assert_int_equal(truncate(path_of("model.safetensors.index.json"), (off_t)1 << 40), 0);
  assert_refused(folder, HR_ERROR_UNREADABLE, "more than an index may have");
}

static void pointers_of_git_lfs_are_no_weights(void **state)
{
  (void)state;
  write_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  assert_refused(folder, HR_ERROR_NOT_FOUND, "git lfs pull");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_folder_without_tensors_and_other_models_have_no_checkpoint),
      IN_FOLDER(a_checkpoint_of_the_configuration_is_equal_from_whatever_is_named),
      IN_FOLDER(shards_are_added_up_with_and_without_an_index),
      IN_FOLDER(shards_may_be_numbered_from_zero),
      IN_FOLDER(a_tensor_is_in_the_one_file_that_the_index_names),
      IN_FOLDER(what_is_no_regular_file_is_refused_without_waiting),
      IN_FOLDER(sizes_of_sparse_files_cost_no_memory),
      IN_FOLDER(pointers_of_git_lfs_are_no_weights),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
