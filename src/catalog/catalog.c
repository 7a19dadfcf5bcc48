/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog/embedded.h"

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
