/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <headroom/experimental/device.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int cli_find_ranks(hr_communicator_options *ranks)
{
  hr_error error = {.status = HR_OK};
  hr_communicator_options_init(ranks, sizeof *ranks);
  const hr_status status = hr_communicator_environment(ranks, &error);
  return status == HR_OK || status == HR_ERROR_NOT_FOUND ? CLI_GO_ON : cli_fail(EXIT_USAGE, "%s", error.message);
}

int cli_open_rank_device(const cli_run *run, const hr_communicator_options *ranks, hr_device **device)
{
  const char *name = run->options.device ? run->options.device : "cpu";
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  bool one_visible = visible && visible[0] && !strchr(visible, ',');
  char own[32];
  cli_run of_rank = *run;
  if (strcmp(name, "cpu") == 0 && ranks->local_size > 1 && run->options.threads == 0) {
    hr_error error = {.status = HR_OK};
    hr_status opened = hr_device_open_part(name, (int)ranks->local_rank, (int)ranks->local_size, device, &error);
    return opened == HR_OK ? CLI_GO_ON : cli_fail_status(opened, &error);
  }
  snprintf(own, sizeof own, "cuda:%" PRId64, ranks->local_rank);
  if (strcmp(name, "cuda") == 0 && ranks->size > 1 && !one_visible)
    of_rank.options.device = own;
  return cli_open_own_device(&of_rank, device);
}

cli_run cli_run_of_rank(const cli_run *run, const hr_communicator_options *ranks, bool one_reports)
{
  cli_run own = *run;
  if (ranks->size > 1 && own.options.color == CLI_COLOR_AUTO)
    own.options.color = CLI_COLOR_NEVER;
  own.options.quiet = own.options.quiet || (one_reports && ranks->rank > 0);
  return own;
}

int cli_check_ranks(const hr_communicator_options *ranks, int64_t layout)
{
  if (layout > 1) /* NCCL ends where a host does not allow NVLink's multicast */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
  if (ranks->size == 1 || ranks->size == layout)
    return CLI_GO_ON;
  if (ranks->rank > 0)
    return EXIT_USAGE;
  return cli_fail(EXIT_USAGE, "the layout has %" PRId64 " rank%s, and the launcher has started %" PRId64 " processes",
                  layout, layout == 1 ? "" : "s", ranks->size);
}

int cli_join_ranks(const hr_communicator_options *ranks, hr_device *device, hr_communicator **communicator)
{
  hr_error error = {.status = HR_OK};
  *communicator = NULL;
  if (ranks->size == 1)
    return CLI_GO_ON;
  const hr_status status = hr_communicator_join(device, ranks, communicator, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

int cli_leave_ranks(hr_communicator *communicator, cli_output *output, hr_status status, const hr_error *error)
{
  if (status != HR_OK && communicator)
    hr_communicator_give_up(communicator, error->message);
  if (output)
    return cli_output_close(output, status, error);
  return status == HR_OK ? EXIT_FINE : cli_fail_status(status, error);
}
