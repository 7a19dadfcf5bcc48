/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve/hub_cache.h"

#include "base/error.h"
#include "base/names.h"
#include "resolve/read_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_SIZE 4096
#define COMMIT_SIZE 65 /* 40 digits today, 64 with SHA-256 */

/* ---- names ---- */

static bool all_of(const char *text, const char *allowed)
{
  return text[strspn(text, allowed)] == '\0';
}

#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* The hub's rule for an organisation and for a name. "--" stands for '/' in the cache. */
static bool is_name(const char *text)
{
  size_t length = strlen(text);
  return length > 0 && length <= 96 && all_of(text, ALPHANUMERIC "_.-") && !strchr("-.", text[0]) &&
         !strchr("-.", text[length - 1]) && !strstr(text, "--") && !strstr(text, "..");
}

/* Branch, tag, "refs/pr/1" or commit: a path below refs/ that cannot leave it. */
static bool is_revision(const char *text)
{
  return text[0] && text[0] != '/' && all_of(text, ALPHANUMERIC "_.-+/") && !strstr(text, "..") && !strstr(text, "//");
}

bool hr_hub_name_parse(const char *what, hr_hub_name *name)
{
  const char *at = strchr(what, '@');
  size_t length = at ? (size_t)(at - what) : strlen(what);
  if (length >= sizeof name->repository || (at && (!is_revision(at + 1) || strlen(at + 1) >= sizeof name->revision)))
    return false;
  memcpy(name->repository, what, length);
  name->repository[length] = '\0';
  hr_copy_text(name->revision, sizeof name->revision, at ? at + 1 : "");
  char *slash = strchr(name->repository, '/');
  if (!slash)
    return is_name(name->repository);
  *slash = '\0';
  bool valid = is_name(name->repository) && is_name(slash + 1);
  *slash = '/';
  return valid;
}

/* ---- the cache ---- */

/* An environment variable that is set and not empty, with a leading "~" replaced, and `below` appended. */
static bool folder_from(const char *variable, const char *below, char *folder, size_t size)
{
  const char *value = getenv(variable), *home = getenv("HOME");
  if (!value || !value[0])
    return false;
  bool tilde = value[0] == '~' && (value[1] == '/' || value[1] == '\0') && home;
  int length = snprintf(folder, size, "%s%s%s", tilde ? home : "", value + tilde, below);
  return length > 0 && (size_t)length < size;
}

static bool cache_folder(char *folder, size_t size)
{
  return folder_from("HF_HUB_CACHE", "", folder, size) || folder_from("HUGGINGFACE_HUB_CACHE", "", folder, size) ||
         folder_from("HF_HOME", "/hub", folder, size) ||
         folder_from("XDG_CACHE_HOME", "/huggingface/hub", folder, size) ||
         folder_from("HOME", "/.cache/huggingface/hub", folder, size);
}

/* <cache>/models--org--name */
static bool repository_folder(const char *cache, const char *repository, char *folder, size_t size)
{
  const char *slash = strchr(repository, '/');
  int organisation = slash ? (int)(slash - repository) : 0;
  int length = snprintf(folder, size, "%s/models--%.*s%s%s", cache, organisation, repository, slash ? "--" : "",
                        slash ? slash + 1 : repository);
  return length > 0 && (size_t)length < size;
}

static bool is_commit(const char *text)
{
  return text[0] && strlen(text) < COMMIT_SIZE && all_of(text, "0123456789abcdef");
}

/* The commit of a branch or tag, from its file in refs/; of a revision without a file, the revision itself. "" if that
 * cannot be a commit. */
static hr_status find_commit(const char *folder, const char *revision, char commit[COMMIT_SIZE], hr_error *error)
{
  char path[PATH_SIZE + 16 + HR_HUB_NAME_SIZE], *text = NULL;
  size_t length;
  snprintf(path, sizeof path, "%s/refs/%s", folder, revision);
  struct stat about;
  commit[0] = '\0';
  if (stat(path, &about) != 0) {
    if (is_commit(revision))
      hr_copy_text(commit, COMMIT_SIZE, revision);
    return HR_OK;
  }
  HR_TRY(hr_read_file(path, path, &text, &length, error));
  text[strcspn(text, " \r\n")] = '\0';
  hr_status status = HR_OK;
  if (is_commit(text))
    hr_copy_text(commit, COMMIT_SIZE, text);
  else
    status = hr_fail(error, HR_ERROR_UNREADABLE, "%s: expected a commit, found \"%.40s\"", path, text);
  free(text);
  return status;
}

static hr_status not_cached(const hr_hub_name *name, const char *cache, hr_error *error)
{
  return hr_fail(
      error, HR_ERROR_NOT_FOUND,
      "%s%s%s: not a file, not a built-in model, and not in the Hugging Face cache %s; download it with: hf download "
      "%s config.json%s%s",
      name->repository, name->revision[0] ? "@" : "", name->revision, cache, name->repository,
      name->revision[0] ? " --revision " : "", name->revision);
}

hr_status hr_hub_find_config(const hr_hub_name *name, char *config, size_t size, hr_error *error)
{
  char cache[PATH_SIZE], folder[PATH_SIZE], commit[COMMIT_SIZE];
  if (!cache_folder(cache, sizeof cache))
    return not_cached(name, "(no HOME)", error);
  if (!repository_folder(cache, name->repository, folder, sizeof folder))
    return not_cached(name, cache, error);
  HR_TRY(find_commit(folder, name->revision[0] ? name->revision : "main", commit, error));
  int length = snprintf(config, size, "%s/snapshots/%s/config.json", folder, commit);
  struct stat about;
  if (!commit[0] || length < 0 || (size_t)length >= size || stat(config, &about) != 0)
    return not_cached(name, cache, error);
  return HR_OK;
}

bool hr_hub_name_of_folder(const char *folder, char *name, size_t size)
{
  char part[PATH_SIZE];
  hr_copy_text(part, sizeof part, folder);
  char *commit = strrchr(part, '/');
  if (!commit || !is_commit(commit + 1))
    return false;
  *commit = '\0';
  char *snapshots = strrchr(part, '/');
  if (!snapshots || strcmp(snapshots, "/snapshots") != 0)
    return false;
  *snapshots = '\0';
  char *repository = strrchr(part, '/');
  if (!repository || strncmp(repository, "/models--", 9) != 0)
    return false;
  char *organisation = repository + 9, *dashes = strstr(organisation, "--");
  if (dashes) { /* "--" becomes '/' */
    *dashes = '/';
    memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
  }
  hr_copy_text(name, size, organisation);
  return true;
}
