/* SPDX-License-Identifier: Apache-2.0 */
/* The models, devices, sweeps and published measurements that are built into the library. Thread safety: constant
 * data. */
#ifndef HEADROOM_EXPERIMENTAL_CATALOG_H
#define HEADROOM_EXPERIMENTAL_CATALOG_H

#include <headroom/export.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One file of data/models, data/hardware, data/sweeps or data/results/published. All of it has static storage. */
typedef struct hr_catalog_entry {
  const char *name; /* file name without its ending */
  const char *text; /* the file's JSON, CSV or plain text, NUL-terminated */
  size_t length;    /* without the NUL */
} hr_catalog_entry;

/** The models, sorted by name; *count is their number. */
HR_API const hr_catalog_entry *hr_catalog_models(size_t *count);

/** The devices, sorted by name; *count is their number. */
HR_API const hr_catalog_entry *hr_catalog_hardware(size_t *count);

/** The files of sweeps, sorted by name; *count is their number. A file may have several sweeps, which
 *  hr_sweep_catalog() lists one by one. */
HR_API const hr_catalog_entry *hr_catalog_sweeps(size_t *count);

/** The files of published measurements (data/results/published), sorted by name; their text is CSV behind comments. */
HR_API const hr_catalog_entry *hr_catalog_published(size_t *count);

/** The licenses of what the library and the portable command contain, by name ("libcsv"): plain text. *count: how many.
 *  Static storage. Thread safety: pure. */
HR_API const hr_catalog_entry *hr_catalog_licenses(size_t *count);

#ifdef __cplusplus
}
#endif
#endif
