/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/persistent/cycles.h"

#include "base/error.h"
#include "runtime/cuda/kernels/persistent_cycles_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hr_cycles_label {
  const char *name;
  bool attends;
};

hr_status hr_open_cycles(hr_persistent_kernel *p, hr_error *error)
{
  const char *path = getenv("HEADROOM_CYCLES");
  char reason[HR_REASON_SIZE];
  if (!path || !path[0])
    return HR_OK;
  FILE *file = fopen(path, "ae");
  if (!file)
    return hr_fail(error, HR_ERROR_INVALID, "HEADROOM_CYCLES: %s: %s", path, hr_reason(errno, reason));
  fclose(file);
  p->cycles_path = strdup(path);
  p->cycles_labels = calloc((size_t)p->call.count, sizeof *p->cycles_labels);
  return p->cycles_path && p->cycles_labels ? HR_OK
                                            : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for cycles");
}

size_t hr_cycles_bytes(const hr_persistent_kernel *p)
{
  const size_t notes = (size_t)(p->kernel.blocks * p->call.count) * HR_CYCLES_COUNT;
  return p->cycles_path ? notes * sizeof(int64_t) : 0;
}

void hr_label_cycles(const hr_persistent_kernel *p, const hr_instruction_list *list)
{
  for (size_t i = 0; i < list->count && p->cycles_labels; i++) {
    const hr_persistent_part *part = &list->parts[i];
    const char *name = part->name ? part->name : part->linear ? "linear" : "attention";
    p->cycles_labels[list->positions[i]] = (hr_cycles_label){name, !part->linear};
  }
}

static const char *phase_name(int phase, bool attends)
{
  static const char *const names[HR_CYCLES_COUNT] = {[HR_CYCLES_BEGIN] = "begin",     [HR_CYCLES_X] = "x",
                                                     [HR_CYCLES_NORM] = "norm",       [HR_CYCLES_TILES] = "tiles",
                                                     [HR_CYCLES_RESULTS] = "results", [HR_CYCLES_NEXT] = "next",
                                                     [HR_CYCLES_FETCHED] = "fetched", [HR_CYCLES_CHOSEN] = "chosen",
                                                     [HR_CYCLES_SLOTS] = "slots",     [HR_CYCLES_COPIES] = "copies"};
  static const char *const of_attention[HR_CYCLES_COUNT] = {
      [HR_CYCLES_X] = "qkv", [HR_CYCLES_KEYS] = "keys", [HR_CYCLES_SENT] = "sent", [HR_CYCLES_RESULTS] = "splits"};
  return attends && of_attention[phase] ? of_attention[phase] : names[phase];
}

static bool write_rows(FILE *file, const hr_persistent_kernel *p, const int64_t *cycles)
{
  fprintf(file, "block,instruction,operator,warp,phase,cycles\n");
  for (int64_t row = 0; row < p->kernel.blocks * p->call.count * HR_CYCLES_COUNT; row++) {
    const int phase = (int)(row % HR_CYCLES_COUNT), instruction = (int)(row / HR_CYCLES_COUNT % p->call.count);
    const hr_cycles_label *label = &p->cycles_labels[instruction];
    fprintf(file, "%" PRId64 ",%d,%s,%s,%s,%" PRId64 "\n", row / HR_CYCLES_COUNT / p->call.count, instruction,
            label->name, phase < HR_CYCLES_COPYING ? "computes" : "copies", phase_name(phase, label->attends),
            cycles[row]);
  }
  return !ferror(file);
}

/* Counters, then what was noted. */
static bool read_notes(const hr_persistent_kernel *p, void *to, size_t bytes)
{
  const char *from = (const char *)p->memory + (p->call.counters - (uint64_t)(uintptr_t)p->memory);
  return to && p->device->backend->read(p->device, to, from, bytes, NULL) == HR_OK;
}

static bool write_file(const hr_persistent_kernel *p, const unsigned *counters)
{
  FILE *file = fopen(p->cycles_path, "we");
  const bool written = file && write_rows(file, p, (const int64_t *)(const void *)(counters + HR_PERSISTENT_COUNTERS));
  return file && fclose(file) == 0 && written;
}

/* A part of the cycles would be taken for all. */
static void empty_file(const char *path)
{
  FILE *file = fopen(path, "we");
  if (file)
    fclose(file);
}

void hr_close_cycles(hr_persistent_kernel *p)
{
  const size_t before = HR_PERSISTENT_COUNTERS * sizeof(unsigned), bytes = before + hr_cycles_bytes(p);
  if (p->cycles_path && p->cycles_labels && p->memory) {
    unsigned *counters = malloc(bytes);
    const bool is_read = read_notes(p, counters, bytes), has_run = !is_read || counters[0] > 0;
    if (has_run && !(is_read && write_file(p, counters)))
      empty_file(p->cycles_path);
    free(counters);
  }
  free(p->cycles_path);
  free(p->cycles_labels);
}
