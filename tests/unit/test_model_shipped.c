/* SPDX-License-Identifier: Apache-2.0 */
/* Every model of data/models/, and its parameters to the last digit. */
#include "test.h"

#include "model/config/families.h"

#include <headroom/experimental/catalog.h>
#include <headroom/model.h>
#include <stdio.h>
#include <string.h>

/* Totals of the published checkpoints (gpt3-*: the closed form of Anthony et al. 2024; sigma-*: computed in
 * test_model_parameters.c; DeepSeek-V3 and later: the text models that transformers 5.17 makes of their
 * configurations, without layers that predict further tokens). */
static const struct {
  const char *name;
  int64_t parameters;
} published[] = {
    {"bloom", 176247271424},
    {"bloom-1b1", 1065314304},
    {"bloom-560m", 559214592},
    {"bloom-7b1", 7069016064},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026404352},
    {"deepseek-v3.2", 671877929216},
    {"deepseek-v4-flash", 284332230231},
    {"deepseek-v4-pro", 1572997179491},
    {"falcon-40b", 41303293952},
    {"falcon-7b", 6921720704},
    {"falcon-rw-1b", 1311625216},
    {"gemma-2-27b", 27227128320},
    {"gemma-2-2b", 2614341888},
    {"gemma-2-9b", 9241705984},
    {"gemma-2b", 2506172416},
    {"gemma-3-1b", 999885952},
    {"gemma-4-26b-a4b", 25233141760},
    {"gemma-7b", 8537680896},
    {"glm-5.2", 743377000704},
    {"gpt-j-6b", 6050882784},
    {"gpt-neo-1.3b", 1315575808},
    {"gpt-neo-125m", 125198592},
    {"gpt-neo-2.7b", 2651307520},
    {"gpt-neox-20b", 20554567680},
    {"gpt-oss-120b", 116829156672},
    {"gpt-oss-20b", 20914757184},
    {"gpt2", 124439808},
    {"gpt2-large", 774030080},
    {"gpt2-medium", 354823168},
    {"gpt2-xl", 1557611200},
    {"gpt3-2.7b", 2651548160},
    {"gpt3-2.7b-20-heads", 2651548160},
    {"gpt3-2.7b-c1", 2651548160},
    {"gpt3-2.7b-c2", 2651548160},
    {"kimi-k2", 1026408209408},
    {"llama-2-13b", 13015864320},
    {"llama-2-70b", 68976648192},
    {"llama-2-7b", 6738415616},
    {"llama-3-70b", 70553706496},
    {"llama-3-8b", 8030261248},
    {"llama-3.1-405b", 405853388800},
    {"llama-3.1-70b", 70553706496},
    {"llama-3.1-8b", 8030261248},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},
    {"llama-4-maverick-17b-128e", 400711848960},
    {"llama-4-scout-17b-16e", 107769861120},
    {"mamba-codestral-7b-v0.1", 7285403648},
    {"minicpm3-4b", 4073875968},
    {"minimax-m2.5", 228689748992},
    {"minimax-m3", 426174565632},
    {"mistral-7b-v0.1", 7241732096},
    {"mistral-7b-v0.3", 7248023552},
    {"mistral-nemo-12b", 12247782400},
    {"mistral-small-24b-2501", 23572403200},
    {"mixtral-8x22b-v0.1", 140620634112},
    {"mixtral-8x7b-v0.1", 46702792704},
    {"nemotron-3-nano-30b-a3b", 31577937344},
    {"olmo-1b", 1176764416},
    {"olmo-2-13b", 13716198400},
    {"olmo-2-7b", 7298617344},
    {"olmo-7b", 6888095744},
    {"openelm-1.1b", 1079891456},
    {"opt-1.3b", 1315758080},
    {"opt-125m", 125239296},
    {"opt-13b", 12853473280},
    {"opt-2.7b", 2651596800},
    {"opt-30b", 29974540288},
    {"opt-350m", 331196416},
    {"opt-6.7b", 6658473984},
    {"opt-66b", 65719701504},
    {"phi-1_5", 1418270720},
    {"phi-2", 2779683840},
    {"phi-3-medium-4k", 13960238080},
    {"phi-3-mini-4k", 3821079552},
    {"phi-4", 14659507200},
    {"pythia-1.4b", 1414647808},
    {"pythia-12b", 11846072320},
    {"pythia-160m", 162322944},
    {"pythia-1b", 1011781632},
    {"pythia-2.8b", 2775208960},
    {"pythia-410m", 405334016},
    {"pythia-6.9b", 6857302016},
    {"pythia-70m", 70426624},
    {"qwen2-0.5b", 494032768},
    {"qwen2-7b", 7615616512},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-3b", 3085938688},
    {"qwen2.5-72b", 72706203648},
    {"qwen2.5-7b", 7615616512},
    {"qwen3-0.6b", 596049920},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-14b", 14768307200},
    {"qwen3-235b-a22b", 235093634560},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-32b", 32762123264},
    {"qwen3-4b", 4022468096},
    {"qwen3-8b", 8190735360},
    {"qwen3-coder-480b-a35b", 480154875392},
    {"qwen3.5-27b", 26895998464},
    {"qwen3.5-35b-a3b", 34660610688},
    {"qwen3.5-397b-a17b", 395968862976},
    {"sigma-1.5b", 2011277312},
    {"sigma-10b", 9171111936},
    {"smollm-135m", 134515008},
    {"smollm2-1.7b", 1711376384},
    {"stablelm-2-12b", 12143185920},
    {"stablelm-2-1_6b", 1644515328},
    {"stablelm-3b-4e1t", 2795443200},
    {"starcoder", 15517456384},
    {"starcoder2-3b", 3030371328},
    {"starcoder2-7b", 7173923840},
    {"tinyllama-1.1b", 1100048384},
};

static void read_shipped(const hr_catalog_entry *entry, hr_note_fn note, void *context, hr_model *model)
{
  hr_error error;
  assert_ok(hr_model_from_json(&(hr_input){.text = entry->text, .length = entry->length, .name = entry->name}, note,
                               context, model, &error),
            error);
}

static void every_shipped_model_has_its_published_parameters(void **state)
{
  (void)state;
  size_t count, rows = sizeof published / sizeof *published;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    size_t row = 0;
    while (row < rows && strcmp(published[row].name, entries[i].name) != 0)
      row++;
    if (row == rows)
      fail_msg("%s is shipped but its parameters are not in the table", entries[i].name);
    hr_model model;
    hr_parameters parameters;
    hr_error error;
    read_shipped(&entries[i], NULL, NULL, &model);
    assert_ok(hr_model_parameters(&model, &parameters, &error), error);
    if (parameters.total != published[row].parameters)
      fail_msg("%s: counted %lld, published %lld", entries[i].name, (long long)parameters.total,
               (long long)published[row].parameters);
  }
  assert_int_equal(count, rows);
}

static void the_parts_sum_to_the_total(void **state)
{
  (void)state;
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    hr_model model;
    hr_parameters p;
    read_shipped(&entries[i], NULL, NULL, &model);
    assert_int_equal(hr_model_parameters(&model, &p, NULL), HR_OK);
    assert_int_equal(p.embedding + p.position + p.attention + p.scan + p.mlp + p.experts + p.norm + p.logit, p.total);
    assert_int_equal(p.attention + p.scan + p.mlp + p.experts + p.norm, p.excluding_embeddings);
    assert_true(p.experts > 0 ? p.active < p.total && p.active > p.total - p.experts : p.active == p.total);
  }
}

static void every_shipped_model_names_its_source(void **state)
{
  (void)state;
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    if (!strstr(entries[i].text, "\"_source\": \"https://huggingface.co/") && !strstr(entries[i].text, "(arXiv 24") &&
        !strstr(entries[i].text, "(arXiv 25"))
      fail_msg("%s does not say where it is from", entries[i].name);
  }
}

static void fail_about_ignored_fields(void *context, hr_note_kind kind, const char *message)
{
  (void)kind;
  (void)context;
  if (strstr(message, "is ignored"))
    fail_msg("%s", message);
}

static void nothing_in_a_shipped_model_is_ignored(void **state)
{
  (void)state;
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++) {
    hr_model model;
    read_shipped(&entries[i], fail_about_ignored_fields, NULL, &model);
  }
}

static void every_family_is_in_the_documentation(void **state)
{
  (void)state;
  static char page[1 << 16];
  FILE *file = fopen(HEADROOM_SOURCE_DIR "/docs/models.md", "r");
  assert_non_null(file);
  size_t length = fread(page, 1, sizeof page - 1, file);
  fclose(file);
  page[length] = '\0';
  size_t families;
  const hr_family *family = hr_families(&families);
  for (size_t f = 0; f < families; f++) {
    char name[40];
    snprintf(name, sizeof name, "`%s`", family[f].model_type);
    if (!strstr(page, name))
      fail_msg("docs/models.md does not know the family %s", name);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shipped_model_has_its_published_parameters),
      cmocka_unit_test(the_parts_sum_to_the_total),
      cmocka_unit_test(every_shipped_model_names_its_source),
      cmocka_unit_test(nothing_in_a_shipped_model_is_ignored),
      cmocka_unit_test(every_family_is_in_the_documentation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
