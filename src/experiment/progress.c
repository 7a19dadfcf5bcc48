/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/progress.h"

int hr_progress_cancelled(void *progress)
{
  hr_progress *p = progress;
  if (p->report && !p->stopped)
    p->stopped = p->report(p->context, p->done, p->what) != 0;
  return p->stopped;
}

int hr_progress_of_part(void *progress, double done, const char *what)
{
  (void)done;
  (void)what;
  return hr_progress_cancelled(progress);
}
