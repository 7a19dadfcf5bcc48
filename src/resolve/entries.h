/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a user types: entries of the catalogue, or paths. */
#ifndef HR_RESOLVE_ENTRIES_H
#define HR_RESOLVE_ENTRIES_H

#include <headroom/experimental/catalog.h>
#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>

/** hr_suggest_names() over the entries. */
void hr_suggest_entries(const char *wanted, const hr_catalog_entry *entries, size_t count, char *text, size_t size);

/** Fails with HR_ERROR_NOT_FOUND: `no KIND is called "WHAT"`, with similar names. */
hr_status hr_fail_not_found(const char *kind, const char *what, const hr_catalog_entry *entries, size_t count,
                            hr_error *error);

/** Whether a name can only be a path: it begins with '/' or '.', or ends in ".json" or ".safetensors". */
bool hr_looks_like_path(const char *what);

/** Whether `text` ends in `ending` and is longer. */
bool hr_ends_with(const char *text, const char *ending);

#endif
