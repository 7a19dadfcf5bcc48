/* SPDX-License-Identifier: Apache-2.0 */
/* Where the configuration of a model is that a user names. */
#ifndef HR_RESOLVE_MODEL_PLACE_H
#define HR_RESOLVE_MODEL_PLACE_H

#include <headroom/experimental/catalog.h>
#include <headroom/status.h>
#include <stdbool.h>

#define HR_PATH_SIZE 4096

typedef enum hr_place_kind {
  HR_PLACE_TEXT,    /* the name is the configuration itself */
  HR_PLACE_INPUT,   /* standard input */
  HR_PLACE_FILE,    /* `file` */
  HR_PLACE_SHIPPED, /* `shipped` */
} hr_place_kind;

typedef struct hr_model_place {
  hr_place_kind kind;
  char file[HR_PATH_SIZE];
  const hr_catalog_entry *shipped;
  bool guessed;        /* the shipped model has the name, but another organisation than the one named */
  bool named_weights;  /* `what` is the checkpoint beside `file` */
  char repository[96]; /* of the hub's cache; "" elsewhere */
} hr_model_place;

/** Finds what `what` names, in this order:
 *  1. text that begins with '{', and "-";
 *  2. a file, or a directory with a config.json: what the user has at hand under this name. Of a safetensors file or
 *     index, the config.json beside it;
 *  3. a shipped model under its own name or its public repository's: the same on every machine, whatever has been
 *     downloaded;
 *  4. a repository in the local cache of the Hugging Face hub; "@revision" always means this, as shipped models have no
 *     revisions;
 *  5. a shipped model under its own name behind another organisation's (`guessed`).
 *  HR_ERROR_NOT_FOUND with similar names, or with how to fetch it; HR_ERROR_UNREADABLE for a damaged cache. */
hr_status hr_model_place_find(const char *what, hr_model_place *place, hr_error *error);

#endif
