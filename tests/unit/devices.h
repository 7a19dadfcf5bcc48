/* SPDX-License-Identifier: Apache-2.0 */
/* Shipped devices and models by name. */
#ifndef HEADROOM_TEST_DEVICES_H
#define HEADROOM_TEST_DEVICES_H

#include "test.h"

#include "hardware/hardware.h"

#include <headroom/device_file.h>
#include <headroom/experimental/catalog.h>
#include <headroom/hardware.h>
#include <headroom/model.h>
#include <string.h>

static inline const hr_catalog_entry *shipped(const hr_catalog_entry *entries, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, name) == 0)
      return &entries[i];
  }
  fail_msg("nothing called %s ships", name);
  return NULL;
}

static inline hr_hardware device(const char *name)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  const hr_catalog_entry *entry = shipped(entries, count, name);
  hr_hardware hardware;
  hr_error error;
  assert_ok(
      hr_hardware_from_json(&(hr_input){.text = entry->text, .length = entry->length, .name = name}, &hardware, &error),
      error);
  return hardware;
}

static inline hr_model shipped_model(const char *name)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_models(&count);
  const hr_catalog_entry *entry = shipped(entries, count, name);
  hr_model model;
  hr_error error;
  assert_ok(hr_model_from_json(&(hr_input){.text = entry->text, .length = entry->length, .name = name}, NULL, NULL,
                               &model, &error),
            error);
  return model;
}

#endif
