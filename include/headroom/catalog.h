/* The models, devices and sweeps that ship inside the library. Thread safety: constant data. */
#ifndef HEADROOM_CATALOG_H
#define HEADROOM_CATALOG_H

#include <headroom/export.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One shipped file of data/models, data/hardware or data/sweeps. Static storage throughout. */
typedef struct hr_catalog_entry {
  const char *name; /* file name without ".json" */
  const char *text; /* the file's JSON, NUL-terminated */
  size_t length;    /* without the NUL */
} hr_catalog_entry;

/** The shipped models, by name; *count is how many. */
HR_API const hr_catalog_entry *hr_catalog_models(size_t *count);

/** The shipped devices, by name; *count is how many. */
HR_API const hr_catalog_entry *hr_catalog_hardware(size_t *count);

/** The shipped files of sweeps, by name; *count is how many. A file may have several sweeps: hr_sweep_catalog() lists
 *  them one by one. */
HR_API const hr_catalog_entry *hr_catalog_sweeps(size_t *count);

#ifdef __cplusplus
}
#endif
#endif
