/* SPDX-License-Identifier: Apache-2.0 */
/* The local cache of the Hugging Face hub, as its own tools keep it:
 *
 *   <cache>/models--org--name/refs/main                       the commit that a branch or tag stood at when fetched
 *   <cache>/models--org--name/snapshots/<commit>/config.json
 *
 * <cache> is $HF_HUB_CACHE, or else $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
 * ~/.cache/huggingface/hub. Source: huggingface.co/docs/huggingface_hub, "Understand caching" and "Environment
 * variables". Nothing is fetched or written. */
#ifndef HR_RESOLVE_HUB_CACHE_H
#define HR_RESOLVE_HUB_CACHE_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>

#define HR_HUB_NAME_SIZE 200

/** A repository, "org/name" or "name", and a revision of it. */
typedef struct hr_hub_name {
  char repository[HR_HUB_NAME_SIZE];
  char revision[HR_HUB_NAME_SIZE]; /* a branch, tag or commit; "" for the branch main */
} hr_hub_name;

/** Reads "org/name" or "name", each also with "@revision". False if the text cannot name a repository of the hub. */
bool hr_hub_name_parse(const char *what, hr_hub_name *name);

/** Writes the path of the repository's config.json to `config`. HR_ERROR_NOT_FOUND if the cache lacks it, with a line
 *  that says how to fetch it; HR_ERROR_UNREADABLE if the cache is damaged. */
hr_status hr_hub_find_config(const hr_hub_name *name, char *config, size_t size, hr_error *error);

/** If `folder` is a snapshot of such a cache, writes the name of its repository. */
bool hr_hub_name_of_folder(const char *folder, char *name, size_t size);

#endif
