/* SPDX-License-Identifier: Apache-2.0 */
#include "report/attention_parts.h"

#include "base/quantity.h"
#include "report/lines.h"
#include "report/table.h"

#include <inttypes.h>
#include <stdio.h>

static void print_blocks(const hr_document *document, const hr_prediction *p)
{
  char wave[HR_NUMBER_SIZE], tiles[64] = "thread blocks", splits[48] = "";
  if (p->tiles < 1)
    return;
  if (p->tile_m > 0 && p->tile_n > 0)
    snprintf(tiles, sizeof tiles, "tiles of %" PRId64 "×%" PRId64, p->tile_m, p->tile_n);
  if (p->splits > 1)
    snprintf(splits, sizeof splits, ", keys split in %" PRId64 ",", p->splits);
  hr_write_share(wave, sizeof wave, p->wave_waste);
  hr_print_field(document, "blocks", "%" PRId64 " %s%s in %" PRId64 " wave%s; %s of the slots are wasted", p->tiles,
                 tiles, splits, p->waves, p->waves == 1 ? "" : "s", wave);
}

void hr_print_attention_parts(const hr_document *document, const hr_prediction *p)
{
  const struct {
    const char *name;
    double time_ns;
  } parts[] = {{"useful FLOPs", p->matrix_ns}, {"tiles", p->tile_ns}, {"waves", p->wave_ns},
               {"memory", p->memory_ns},       {"pairs", p->pair_ns}, {"split", p->split_ns},
               {"launch", p->launch_ns}};
  char line[512] = "";
  for (size_t i = 0; i < HR_COUNT_OF(parts); i++) {
    char time[HR_NUMBER_SIZE];
    if (parts[i].time_ns < 0.005) /* a rounding error */
      continue;
    hr_write_time(time, sizeof time, parts[i].time_ns);
    hr_append_item(line, sizeof line, "%s %s", parts[i].name, time);
  }
  hr_print_field(document, "parts", "%s; compute and memory overlap", line);
  print_blocks(document, p);
}
