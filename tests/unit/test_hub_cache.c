/* SPDX-License-Identifier: Apache-2.0 */
/* Models by the name of a repository in the local cache of the Hugging Face hub, in a cache that the test makes. */
#include "test.h"

#include "resolve/hub_cache.h"

#include <errno.h>
#include <headroom/experimental/model.h>
#include <headroom/experimental/resolve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMIT_A "00000000000000000000000000000000000000aa"
#define COMMIT_B "00000000000000000000000000000000000000bb"

static char root[64];

static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};

/* Makes every folder of the path below the root, and the file. */
static void write_below(const char *path, const char *text)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* A repository whose commit has a model of so many layers. */
static void cache_model(const char *cache, const char *repository, const char *commit, int layers)
{
  char path[256], text[128];
  snprintf(path, sizeof path, "%s/models--%s/snapshots/%s/config.json", cache, repository, commit);
  snprintf(text, sizeof text, "{\"h\":64,\"a\":4,\"L\":%d,\"v\":100}", layers);
  write_below(path, text);
}

static void cache_ref(const char *cache, const char *repository, const char *revision, const char *text)
{
  char path[256];
  snprintf(path, sizeof path, "%s/models--%s/refs/%s", cache, repository, revision);
  write_below(path, text);
}

static void set_below(const char *variable, const char *path)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  assert_int_equal(setenv(variable, whole, 1), 0);
}

static int make_root(void **state)
{
  (void)state;
  strcpy(root, "/tmp/headroom-hub-XXXXXX");
  assert_non_null(mkdtemp(root));
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    unsetenv(variables[i]);
  return 0;
}

static int remove_root(void **state)
{
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

static hr_error last;
static int notes;

static void count_note(void *context, hr_note_kind kind, const char *message)
{
  (void)kind;
  (void)context;
  notes += strstr(message, "read as the built-in model") != NULL;
}

/* The layers of the model of this name, or the failure's status below 0. */
static int64_t layers_of(const char *what, hr_model *model)
{
  hr_status status = hr_resolve_model(what, count_note, NULL, model, &last);
  return status == HR_OK ? hr_model_layers(model) : -(int64_t)status;
}

static void names_of_repositories_are_told_from_paths(void **state)
{
  (void)state;
  static const char *const right[] = {"org/name", "name", "Qwen/Qwen2.5-0.5B", "a/b@main", "a/b@refs/pr/1", "a_b/c"};
  static const char *const wrong[] = {"",        "a/b/c", "../b",   "a/..", "a/b..c", "a--b/c",        "-a/b",
                                      "a/b.",    "a b/c", "a/",     "/b",   "a/b@",   "a/b@../../etc", "a/b@/x",
                                      "a/b@x y", "a/b\n", "a/b@x\n"};
  hr_hub_name name;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++)
    assert_true(hr_hub_name_parse(right[i], &name));
  assert_true(hr_hub_name_parse("a/b@refs/pr/1", &name));
  assert_string_equal(name.repository, "a/b");
  assert_string_equal(name.revision, "refs/pr/1");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (hr_hub_name_parse(wrong[i], &name))
      fail_msg("\"%s\" is read as a repository", wrong[i]);
  }
}

static void the_cache_is_where_the_first_variable_that_is_set_says(void **state)
{
  (void)state;
  static const char *const caches[] = {"one", "two", "three/hub", "four/huggingface/hub",
                                       "five/.cache/huggingface/hub"};
  static const char *const values[] = {"one", "two", "three", "four", "five"};
  hr_model model;
  for (int i = 0; i < 5; i++) {
    cache_model(caches[i], "acme--one", COMMIT_A, i + 1);
    cache_ref(caches[i], "acme--one", "main", COMMIT_A);
    set_below(variables[i], values[i]);
  }
  for (int i = 0; i < 5; i++) { /* without those before */
    assert_int_equal(layers_of("acme/one", &model), i + 1);
    assert_string_equal(model.name, "acme/one");
    assert_int_equal(setenv(variables[i], "", 1), 0); /* empty is not set */
  }
  assert_int_equal(layers_of("acme/one", &model), -HR_ERROR_NOT_FOUND);
  set_below("HOME", "five");
  assert_int_equal(setenv("HF_HOME", "~/.cache/huggingface", 1), 0);
  assert_int_equal(layers_of("acme/one", &model), 5);
}

static void a_revision_is_a_branch_a_tag_or_a_commit(void **state)
{
  (void)state;
  hr_model model;
  set_below("HF_HUB_CACHE", "hub");
  cache_model("hub", "acme--two", COMMIT_A, 3);
  cache_model("hub", "acme--two", COMMIT_B, 4);
  cache_ref("hub", "acme--two", "main", COMMIT_A "\n");
  cache_ref("hub", "acme--two", "refs/pr/1", COMMIT_B);
  assert_int_equal(layers_of("acme/two", &model), 3);
  assert_int_equal(layers_of("acme/two@main", &model), 3);
  assert_int_equal(layers_of("acme/two@refs/pr/1", &model), 4);
  assert_int_equal(layers_of("acme/two@" COMMIT_B, &model), 4);
  assert_int_equal(layers_of("acme/two@v1", &model), -HR_ERROR_NOT_FOUND);
  assert_non_null(strstr(last.message, "hf download acme/two config.json --revision v1"));
}

static void a_shipped_model_comes_first_unless_a_revision_is_named(void **state)
{
  (void)state;
  hr_model model;
  set_below("HF_HUB_CACHE", "hub");
  cache_model("hub", "openai-community--gpt2", COMMIT_A, 7);
  cache_ref("hub", "openai-community--gpt2", "main", COMMIT_A);
  cache_model("hub", "gpt2", COMMIT_A, 8);
  cache_ref("hub", "gpt2", "main", COMMIT_A);
  cache_model("hub", "acme--gpt2", COMMIT_A, 9);
  cache_ref("hub", "acme--gpt2", "main", COMMIT_A);
  assert_int_equal(layers_of("openai-community/gpt2", &model), 12);
  assert_int_equal(layers_of("gpt2", &model), 12);
  assert_int_equal(layers_of("openai-community/gpt2@main", &model), 7);
  assert_int_equal(layers_of("gpt2@main", &model), 8);
  notes = 0;
  assert_int_equal(layers_of("acme/gpt2", &model), 9); /* another organisation's model of the same name */
  assert_int_equal(notes, 0);
  assert_int_equal(layers_of("nobody/gpt2", &model), 12);
  assert_int_equal(notes, 1);
  assert_int_equal(layers_of("gpt2@v1", &model), -HR_ERROR_NOT_FOUND);
}

static void a_snapshot_that_is_named_by_its_path_has_its_repositorys_name(void **state)
{
  (void)state;
  char path[256], blob[256], link[320];
  hr_model model;
  cache_model("hub", "acme--three", COMMIT_A, 2);
  write_below("hub/models--acme--three/blobs/0123", "{\"h\":64,\"a\":4,\"L\":5,\"v\":100}");
  snprintf(path, sizeof path, "%s/hub/models--acme--three/snapshots/" COMMIT_A, root);
  snprintf(link, sizeof link, "%s/config.json", path);
  snprintf(blob, sizeof blob, "%s/hub/models--acme--three/blobs/0123", root);
  assert_int_equal(unlink(link), 0);
  assert_int_equal(symlink(blob, link), 0); /* as the hub's tools store files */
  assert_int_equal(layers_of(path, &model), 5);
  assert_string_equal(model.name, "acme/three");
}

static void a_checkpoint_in_the_cache_is_read_with_its_repository(void **state)
{
  (void)state;
  hr_checkpoint checkpoint;
  set_below("HF_HUB_CACHE", "hub");
  cache_model("hub", "acme--eight", COMMIT_A, 2);
  cache_ref("hub", "acme--eight", "main", COMMIT_A);
  assert_ok(hr_resolve_checkpoint("acme/eight", &checkpoint, &last), last);
  assert_int_equal(checkpoint.files, 0);
  write_below("hub/models--acme--eight/snapshots/" COMMIT_A "/model.safetensors", "damaged");
  assert_int_equal(hr_resolve_checkpoint("acme/eight", &checkpoint, &last), HR_ERROR_UNREADABLE);
  assert_non_null(strstr(last.message, COMMIT_A "/model.safetensors: is truncated"));
}

static void a_damaged_cache_is_an_error_that_names_the_file(void **state)
{
  (void)state;
  hr_model model;
  set_below("HF_HUB_CACHE", "hub");
  cache_ref("hub", "acme--four", "main", "../../models--acme--two/snapshots");
  assert_int_equal(layers_of("acme/four", &model), -HR_ERROR_UNREADABLE);
  assert_non_null(strstr(last.message, "refs/main: expected a commit"));
  cache_ref("hub", "acme--five", "main", COMMIT_A); /* without a snapshot */
  assert_int_equal(layers_of("acme/five", &model), -HR_ERROR_NOT_FOUND);
  char pipe[256];
  cache_ref("hub", "acme--six", "other", "");
  snprintf(pipe, sizeof pipe, "%s/hub/models--acme--six/refs/main", root);
  assert_int_equal(mkfifo(pipe, 0600), 0); /* empty without a writer, not a hang */
  assert_int_equal(layers_of("acme/six", &model), -HR_ERROR_UNREADABLE);
  cache_ref("hub", "acme--seven", "main/x", COMMIT_A); /* a directory where the branch should be */
  assert_int_equal(layers_of("acme/seven", &model), -HR_ERROR_UNREADABLE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_of_repositories_are_told_from_paths),
      cmocka_unit_test(the_cache_is_where_the_first_variable_that_is_set_says),
      cmocka_unit_test(a_revision_is_a_branch_a_tag_or_a_commit),
      cmocka_unit_test(a_shipped_model_comes_first_unless_a_revision_is_named),
      cmocka_unit_test(a_snapshot_that_is_named_by_its_path_has_its_repositorys_name),
      cmocka_unit_test(a_checkpoint_in_the_cache_is_read_with_its_repository),
      cmocka_unit_test(a_damaged_cache_is_an_error_that_names_the_file),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
