/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve/model_place.h"

#include "base/error.h"
#include "base/names.h"
#include "catalog/embedded.h"
#include "resolve/entries.h"
#include "resolve/hub_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- shipped models ---- */

/* Finds the model whose "_source" is the public repository `name`, with or without its organisation
 * ("meta-llama/Llama-2-7b-hf"). */
static const hr_catalog_entry *find_published(const hr_catalog_entry *models, size_t count, const char *name)
{
  char part[200];
  int length = snprintf(part, sizeof part, "/%s/blob/", name);
  if (length < 0 || (size_t)length >= sizeof part || !name[0])
    return NULL;
  for (size_t i = 0; i < count; i++) {
    for (const char *at = strchr(models[i].text, '/'); at; at = strchr(at + 1, '/')) {
      if (strncasecmp(at, part, (size_t)length) == 0)
        return &models[i];
    }
  }
  return NULL;
}

static const hr_catalog_entry *find_shipped(const char *what)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  const hr_catalog_entry *entry = hr_find_entry(models, count, what);
  return entry ? entry : find_published(models, count, what);
}

static const hr_catalog_entry *find_shipped_of_any_organisation(const char *what)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  const char *slash = strchr(what, '/');
  bool organisation = slash && slash != what && what[0] != '.' && !strchr(slash + 1, '/');
  return organisation ? hr_find_entry(models, count, slash + 1) : NULL;
}

static bool place_shipped(const hr_catalog_entry *entry, hr_model_place *place)
{
  if (!entry)
    return false;
  place->kind = HR_PLACE_SHIPPED;
  place->shipped = entry;
  return true;
}

/* ---- the cache of the hub ---- */

/* HR_ERROR_NOT_FOUND without a message if `what` cannot be a repository. */
static hr_status find_cached(const char *what, hr_model_place *place, hr_error *error)
{
  hr_hub_name name;
  if (hr_looks_like_path(what) || !hr_hub_name_parse(what, &name))
    return HR_ERROR_NOT_FOUND;
  HR_TRY(hr_hub_find_config(&name, place->file, sizeof place->file, error));
  place->kind = HR_PLACE_FILE;
  hr_copy_text(place->repository, sizeof place->repository, name.repository);
  return HR_OK;
}

static hr_status find_by_name(const char *what, hr_model_place *place, hr_error *error)
{
  if (place_shipped(find_shipped(what), place))
    return HR_OK;
  hr_status status = find_cached(what, place, error);
  if (status != HR_ERROR_NOT_FOUND)
    return status;
  place->guessed = place_shipped(find_shipped_of_any_organisation(what), place);
  return place->guessed ? HR_OK : HR_ERROR_NOT_FOUND;
}

/* ---- files ---- */

static bool is_weights(const char *what)
{
  return hr_ends_with(what, ".safetensors") || hr_ends_with(what, ".safetensors.index.json");
}

static bool is_there(const char *path, struct stat *about)
{
  return stat(path, about) == 0 || errno == EACCES; /* without permission: for the message of reading it */
}

/* Whether `what` is a file, or a directory with a configuration. */
static bool find_file(const char *what, hr_model_place *place, bool *folder)
{
  struct stat about = {0};
  bool exists = is_there(what, &about);
  *folder = exists && S_ISDIR(about.st_mode);
  const char *inside = !*folder ? "" : what[strlen(what) - 1] == '/' ? "config.json" : "/config.json";
  int length = snprintf(place->file, sizeof place->file, "%s%s", what, inside);
  place->kind = HR_PLACE_FILE;
  place->named_weights = exists && !*folder && is_weights(what);
  return exists && length > 0 && (size_t)length < sizeof place->file && (!*folder || is_there(place->file, &about));
}

/* The config.json beside a checkpoint. */
static hr_status place_beside(const char *what, hr_model_place *place, hr_error *error)
{
  const char *slash = strrchr(what, '/');
  int folder = slash ? (int)(slash - what) + 1 : 0;
  int length = snprintf(place->file, sizeof place->file, "%.*sconfig.json", folder, what);
  struct stat about;
  if (length < 0 || (size_t)length >= sizeof place->file || !is_there(place->file, &about))
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: needs a config.json in the same directory", what);
  return HR_OK;
}

/* ---- models of the same shape ---- */

/* Published models that have the shape of a shipped one. Sources: the configuration of
 * perplexity-ai/r1-1776-distill-llama-70b for Llama 3.3 70B (80 layers, 8192, 64 and 8 heads, 28672, vocabulary
 * 128256), DeepSeek-R1's list of distilled models and their bases (github.com/deepseek-ai/DeepSeek-R1), and Meta's card
 * of Llama Guard 3, which is Llama 3.1 8B fine-tuned. Llama 1 and 2 differ in context alone at 7B and 13B (arXiv
 * 2307.09288, section 2.2), and Vicuna's weights are sums with Llama's (FastChat, vicuna_weights_version.md).
 * Qwen2.5-Coder's configurations have the sizes of Qwen2.5's, whose 0.5B has Qwen2's; QwQ is of Qwen2.5 32B. Those of
 * DeepSeek-R1 and V3.1 are V3's, of GLM-5.3 GLM-5.2's, and of MiniMax-M2.7 M2.5's but for their context. Fine-tuned:
 * Zephyr from Mistral 7B (arXiv 2310.16944), BLOOMZ from BLOOM (arXiv 2211.01786), StarCoder from StarCoderBase (arXiv
 * 2305.06161). */
static const struct same_shape_row {
  const char *name, *shipped;
} same_shapes[] = {
    {"llama-3.3-70b", "llama-3.1-70b"},
    {"llama-guard-3-8b", "llama-3.1-8b"},
    {"deepseek-r1-distill-llama-8b", "llama-3.1-8b"},
    {"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    {"llama-7b", "llama-2-7b"},
    {"llama-13b", "llama-2-13b"},
    {"vicuna-7b", "llama-2-7b"},
    {"vicuna-7b-v1.3", "llama-2-7b"},
    {"vicuna-7b-v1.5", "llama-2-7b"},
    {"vicuna-13b", "llama-2-13b"},
    {"vicuna-13b-v1.3", "llama-2-13b"},
    {"vicuna-13b-v1.5", "llama-2-13b"},
    {"deepseek-r1-distill-qwen-14b", "qwen2.5-14b"},
    {"deepseek-r1-distill-qwen-32b", "qwen2.5-32b"},
    {"qwq-32b", "qwen2.5-32b"},
    {"qwen2.5-0.5b", "qwen2-0.5b"},
    {"qwen2.5-coder-0.5b", "qwen2-0.5b"},
    {"qwen2.5-coder-1.5b", "qwen2.5-1.5b"},
    {"qwen2.5-coder-3b", "qwen2.5-3b"},
    {"qwen2.5-coder-14b", "qwen2.5-14b"},
    {"qwen2.5-coder-32b", "qwen2.5-32b"},
    {"qwen2.5-coder-7b", "qwen2.5-7b"},
    {"zephyr-7b-alpha", "mistral-7b-v0.1"},
    {"zephyr-7b-beta", "mistral-7b-v0.1"},
    {"bloomz-560m", "bloom-560m"},
    {"bloomz-1b1", "bloom-1b1"},
    {"bloomz-7b1", "bloom-7b1"},
    {"bloomz", "bloom"},
    {"starcoderbase", "starcoder"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-r1-0528", "deepseek-v3"},
    {"deepseek-v3-0324", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"glm-5.3", "glm-5.2"},
    {"minimax-m2.7", "minimax-m2.5"},
};

/* Words of a name that say how a model was trained on, or who publishes it, but not its shape. */
static const char *const tuning_words[] = {"instruct", "chat", "it", "hf", "base", "meta", "deduped"};

static bool is_tuning_word(const char *word, size_t length)
{
  for (size_t i = 0; i < sizeof tuning_words / sizeof *tuning_words; i++) {
    if (strlen(tuning_words[i]) == length && strncasecmp(word, tuning_words[i], length) == 0)
      return true;
  }
  return false;
}

/* The name without these words: "Meta-Llama-3-8B-Instruct" is "Llama-3-8B". */
static void drop_tuning_words(const char *name, char *to, size_t size)
{
  size_t used = 0;
  to[0] = '\0';
  while (*name) {
    size_t length = strcspn(name, "-");
    if (!is_tuning_word(name, length) && used + length + 2 < size)
      used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? "-" : "", (int)length, name);
    name += length + (name[length] == '-');
  }
}

/* The name of a shipped model that has the shape of `name`; NULL if none is known. */
static const char *find_same_shape(const char *name)
{
  char plain[200];
  drop_tuning_words(name, plain, sizeof plain);
  for (size_t i = 0; i < sizeof same_shapes / sizeof *same_shapes; i++) {
    if (strcasecmp(plain, same_shapes[i].name) == 0)
      return same_shapes[i].shipped;
  }
  const hr_catalog_entry *base = find_shipped(plain);
  return base ? base->name : NULL;
}

static hr_status fail_not_found(const char *what, const hr_error *cached, hr_error *error)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  if (hr_looks_like_path(what))
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no such file or directory", what);
  const char *slash = strrchr(what, '/'), *same = find_same_shape(slash ? slash + 1 : what);
  if (same)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "no model or file is called \"%.80s\"; %s has the same shape", what,
                   same);
  if (!cached->message[0] || (!slash && !strchr(what, '@'))) /* a name without organisation is rarely a repository */
    return hr_fail_not_found("model or file", slash && slash[1] ? slash + 1 : what, models, count, error);
  char near[256];
  hr_suggest_entries(slash ? slash + 1 : what, models, count, near, sizeof near);
  return hr_fail(error, HR_ERROR_NOT_FOUND, "%s%s", cached->message, near);
}

hr_status hr_model_place_find(const char *what, hr_model_place *place, hr_error *error)
{
  memset(place, 0, sizeof *place);
  if (what[0] == '{' || strcmp(what, "-") == 0) {
    place->kind = what[0] == '{' ? HR_PLACE_TEXT : HR_PLACE_INPUT;
    return HR_OK;
  }
  bool folder;
  if (find_file(what, place, &folder))
    return place->named_weights ? place_beside(what, place, error) : HR_OK;
  hr_error cached = {.status = HR_OK};
  hr_status status = find_by_name(what, place, &cached);
  if (status == HR_OK)
    return HR_OK;
  if (status != HR_ERROR_NOT_FOUND)
    return hr_fail(error, status, "%s", cached.message);
  if (folder)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: the directory has no config.json", what);
  return fail_not_found(what, &cached, error);
}
