/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The devices of this machine that are always listed. */
static const char *const own_devices[] = {"cpu", "cuda:0"};

#define OWN_COUNT (sizeof own_devices / sizeof *own_devices)

/* The storage that a row of the report points to. */
typedef struct device_entry {
  hr_hardware *hardware; /* owned */
  hr_error error;
} device_entry;

typedef struct device_list {
  size_t count;
  hr_device_report *reports;
  device_entry *entries;
} device_list;

static int list_names(void)
{
  size_t count;
  cli_output output;
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  const hr_catalog_entry *known = hr_catalog_hardware(&count);
  for (size_t i = 0; i < OWN_COUNT; i++)
    fprintf(output.stream, "%s\n", own_devices[i]);
  for (size_t i = 0; i < count; i++)
    fprintf(output.stream, "%s\n", known[i].name);
  return cli_text_close(&output);
}

static hr_status probe(const cli_run *run, const char *name, hr_hardware *hardware, hr_error *error)
{
  hr_device *device;
  hr_status status = hr_device_open(name, 0, &device, error);
  if (status != HR_OK)
    return status;
  status = cli_probe(run, device, hardware, error);
  hr_device_close(device);
  return status;
}

static hr_status find(const cli_run *run, const char *name, bool measured, device_entry *entry)
{
  if (!entry->hardware) {
    snprintf(entry->error.message, sizeof entry->error.message, "out of memory for the figures of %.100s", name);
    return entry->error.status = HR_ERROR_OUT_OF_MEMORY;
  }
  return measured ? probe(run, name, entry->hardware, &entry->error)
                  : hr_resolve_hardware(name, entry->hardware, &entry->error);
}

/* Adds a device with its status; none if Ctrl-C came meanwhile. */
static hr_status add(const cli_run *run, device_list *list, const char *name, bool measured)
{
  device_entry *entry = &list->entries[list->count];
  entry->error = (hr_error){.status = HR_OK};
  entry->hardware = hr_hardware_create();
  hr_status status = find(run, name, measured, entry);
  if (status == HR_ERROR_INTERRUPTED)
    return status;
  list->reports[list->count++] = (hr_device_report){.name = name,
                                                    .status = status,
                                                    .detail = entry->error.message,
                                                    .hardware = status == HR_OK ? entry->hardware : NULL};
  return status;
}

static bool is_own(const char *name)
{
  return strcmp(name, "cpu") == 0 || strncmp(name, "cuda", 4) == 0 || strcmp(name, "reference") == 0;
}

/* All devices; Ctrl-C ends the list early. */
static int add_all(const cli_run *run, device_list *list)
{
  size_t count;
  const hr_catalog_entry *known = hr_catalog_hardware(&count);
  for (size_t i = 0; i < OWN_COUNT; i++) {
    if (add(run, list, own_devices[i], run->options.probe) == HR_ERROR_INTERRUPTED)
      return list->count > 0 ? CLI_GO_ON : EXIT_INTERRUPTED;
  }
  for (size_t i = 0; i < count; i++)
    add(run, list, known[i].name, false);
  return CLI_GO_ON;
}

/* The devices of the command line; the first failure is an error. */
static int add_named(const cli_run *run, device_list *list)
{
  for (int i = 0; i < run->argument_count; i++) {
    const char *name = run->arguments[i];
    const hr_error *error = &list->entries[list->count].error;
    if (run->options.probe && !is_own(name))
      cli_fail(0, "note: %s is a device of the catalogue; only devices of this machine can be probed", name);
    hr_status status = add(run, list, name, run->options.probe && is_own(name));
    if (status == HR_ERROR_INTERRUPTED && list->count > 0)
      return CLI_GO_ON;
    if (status == HR_ERROR_NOT_FOUND)
      return cli_fail(EXIT_USAGE, "%s", error->message);
    if (status != HR_OK)
      return cli_fail_status(status, error);
  }
  return CLI_GO_ON;
}

/* Reports the libraries, too, if no names are given. */
static int report(const cli_run *run, const device_list *list)
{
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_library libraries[HR_LIBRARIES_MAX];
  size_t library_count = 0;
  if (run->argument_count == 0)
    hr_libraries(NULL, libraries, &library_count);
  hr_status status = hr_report_devices(
      output.stream, &output.options,
      &(hr_devices_report){
          .devices = list->reports, .count = list->count, .libraries = libraries, .library_count = library_count},
      &error);
  code = cli_output_close(&output, status, &error);
  return code == EXIT_FINE && cli_interrupted() ? EXIT_INTERRUPTED : code;
}

int cli_devices(const cli_run *run)
{
  if (run->options.list && run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "devices: --list takes no names, found \"%s\"", run->arguments[0]);
  if (run->options.list)
    return list_names();
  size_t known;
  hr_catalog_hardware(&known);
  size_t capacity = run->argument_count > 0 ? (size_t)run->argument_count : known + OWN_COUNT;
  device_list list = {.reports = calloc(capacity, sizeof(hr_device_report)),
                      .entries = calloc(capacity, sizeof(device_entry))};
  int code = CLI_GO_ON;
  if (!list.reports || !list.entries)
    code = cli_fail(EXIT_OUTPUT, "out of memory");
  else
    code = run->argument_count > 0 ? add_named(run, &list) : add_all(run, &list);
  if (code == CLI_GO_ON)
    code = report(run, &list);
  for (size_t i = 0; list.entries && i < capacity; i++)
    hr_hardware_free(list.entries[i].hardware);
  free(list.reports);
  free(list.entries);
  return code;
}
