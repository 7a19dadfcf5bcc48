/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

void cli_set_conditions(const cli_run *run, hr_hardware *hardware)
{
  bool warm = run->options.warm && !run->given[CLI_OPTION_cache];
  hr_hardware_set_conditions(hardware, run->options.clock, warm ? HR_CACHE_WARM : run->options.cache);
}
