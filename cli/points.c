/* SPDX-License-Identifier: Apache-2.0 */
/* What commands that measure points print meanwhile and afterwards. */
#include "cli.h"

#include <inttypes.h>

int cli_points_report(void *context, const hr_sweep_progress *now)
{
  cli_progress *progress = context;
  char line[640];
  cli_measuring(!now->storing && now->done == 0);
  if (!cli_progress_due(progress) || now->total == 0)
    return cli_interrupted();
  snprintf(line, sizeof line, "%3" PRId64 "%%  %" PRId64 "/%" PRId64 " points  %" PRId64 " noisy  %s",
           100 * now->done / now->total, now->done, now->total, now->noisy, now->what);
  cli_progress_show(progress, line);
  return cli_interrupted();
}

void cli_points_note(const cli_run *run, const hr_store *store, const hr_sweep_progress *now)
{
  if (run->options.quiet || now->total == 0)
    return;
  cli_fail(0,
           "note: %" PRId64 " of %" PRId64 " points are in %s: %" PRId64 " measured now (%" PRId64 " failed, %" PRId64
           " noisy)%s",
           now->done, now->total, hr_store_path(store), now->measured, now->failed, now->noisy,
           now->done < now->total ? "; run the same command to continue" : "");
}
