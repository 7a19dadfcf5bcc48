/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog/embedded.h"

#include <strings.h>

const hr_catalog_entry *hr_find_entry(const hr_catalog_entry *entries, size_t count, const char *name)
{
  for (size_t i = 0; i < count && name; i++) {
    if (strcasecmp(entries[i].name, name) == 0)
      return &entries[i];
  }
  return NULL;
}

const hr_catalog_entry *hr_catalog_models(size_t *count)
{
  *count = hr_embedded_models_count;
  return hr_embedded_models;
}

const hr_catalog_entry *hr_catalog_hardware(size_t *count)
{
  *count = hr_embedded_hardware_count;
  return hr_embedded_hardware;
}

const hr_catalog_entry *hr_catalog_sweeps(size_t *count)
{
  *count = hr_embedded_sweeps_count;
  return hr_embedded_sweeps;
}

const hr_catalog_entry *hr_catalog_licenses(size_t *count)
{
  *count = hr_embedded_licenses_count;
  return hr_embedded_licenses;
}

const hr_catalog_entry *hr_catalog_published(size_t *count)
{
  *count = hr_embedded_published_count;
  return hr_embedded_published;
}
