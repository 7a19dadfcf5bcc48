/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a load: their arrivals and lengths. */
#include "analysis/load/simulation.h"
#include "base/random.h"

#include <math.h>

static int64_t next_between(uint64_t *state, int64_t least, int64_t most)
{
  return least + (int64_t)(hr_next_share(state) * (double)(most - least + 1));
}

void hr_load_fill_requests(const hr_load_options *load, hr_load_record *records)
{
  uint64_t arrivals = load->seed, lengths = ~load->seed; /* so that lengths do not change with the rate */
  double clock = 0;
  for (int64_t i = 0; i < load->requests; i++) {
    hr_load_record *record = &records[i];
    *record = (hr_load_record){.prompt = next_between(&lengths, load->prompt_min, load->prompt_max),
                               .output = next_between(&lengths, load->output_min, load->output_max)};
    if (load->trace) {
      record->arrival_ns = load->trace[i].arrival_ns;
      record->prompt = load->trace[i].prompt, record->output = load->trace[i].output;
    } else if (load->rate_per_s > 0) {
      clock -= log(1 - hr_next_share(&arrivals)) / load->rate_per_s * 1e9;
      record->arrival_ns = clock;
    }
  }
}
