/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

void cli_set_conditions(const cli_run *run, hr_hardware *hardware)
{
  hardware->clock = run->options.clock;
  hardware->cache = run->options.warm && !run->given[CLI_OPTION_cache] ? HR_CACHE_WARM : run->options.cache;
}
