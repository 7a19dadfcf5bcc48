/* SPDX-License-Identifier: Apache-2.0 */
/* Tables generated from data/ and licenses/ by cmake/embed_script.cmake. */
#ifndef HR_CATALOG_EMBEDDED_H
#define HR_CATALOG_EMBEDDED_H

#include <headroom/experimental/catalog.h>

extern const hr_catalog_entry hr_embedded_models[];
extern const size_t hr_embedded_models_count;
extern const hr_catalog_entry hr_embedded_hardware[];
extern const size_t hr_embedded_hardware_count;
extern const hr_catalog_entry hr_embedded_architectures[];
extern const size_t hr_embedded_architectures_count;
extern const hr_catalog_entry hr_embedded_sweeps[];
extern const size_t hr_embedded_sweeps_count;
extern const hr_catalog_entry hr_embedded_published[];
extern const size_t hr_embedded_published_count;
extern const hr_catalog_entry hr_embedded_licenses[];
extern const size_t hr_embedded_licenses_count;

/** The entry of this name, ignoring case; NULL if there is none or `name` is NULL. */
const hr_catalog_entry *hr_find_entry(const hr_catalog_entry *entries, size_t count, const char *name);

#endif
