/* SPDX-License-Identifier: Apache-2.0 */
/* A shipped model is also found under the name of its public repository. */
#include "test.h"

#include <headroom/experimental/catalog.h>
#include <headroom/resolve.h>
#include <stdio.h>
#include <string.h>

/* "Organisation/Name" from "_source": "https://huggingface.co/Organisation/Name/blob/…"; false for other sources. */
static bool published_name(const hr_catalog_entry *entry, char *name, size_t size)
{
  static const char address[] = "https://huggingface.co/";
  const char *start = strstr(entry->text, address);
  if (!start)
    return false;
  start += sizeof address - 1;
  const char *end = strstr(start, "/blob/");
  assert_non_null(end);
  snprintf(name, size, "%.*s", (int)(end - start), start);
  return true;
}

static void a_shipped_model_is_found_by_its_repository(void **state)
{
  (void)state;
  size_t count, tried = 0;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    char name[200];
    if (!published_name(&entries[i], name, sizeof name))
      continue;
    hr_model model;
    hr_error error;
    assert_ok(hr_resolve_model(name, NULL, NULL, &model, &error), error);
    assert_string_equal(model.name, entries[i].name);
    assert_ok(hr_resolve_model(strchr(name, '/') + 1, NULL, NULL, &model, &error), error);
    assert_string_equal(model.name, entries[i].name);
    tried++;
  }
  assert_true(tried > 50);
}

static void the_repositorys_case_does_not_matter_but_its_whole_name_does(void **state)
{
  (void)state;
  hr_model model;
  hr_error error;
  assert_ok(hr_resolve_model("meta-llama/meta-llama-3-8b", NULL, NULL, &model, &error), error);
  assert_string_equal(model.name, "llama-3-8b");
  assert_int_equal(hr_resolve_model("Meta-Llama-3", NULL, NULL, &model, &error), HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_resolve_model("", NULL, NULL, &model, &error), HR_ERROR_NOT_FOUND);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shipped_model_is_found_by_its_repository),
      cmocka_unit_test(the_repositorys_case_does_not_matter_but_its_whole_name_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
