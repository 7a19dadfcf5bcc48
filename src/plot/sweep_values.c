/* SPDX-License-Identifier: Apache-2.0 */
/* What the views show of a row. */
#include "experiment/sweep/sweep.h"
#include "plot/sweep.h"

const char *hr_plot_case(const hr_plot_sweep *plot, bool small, double number)
{
  const hr_sweep *sweep = small ? plot->small : plot->sweep;
  return number >= 0 && number < (double)sweep->case_count ? sweep->case_names[(size_t)number] : "?";
}

double hr_plot_shown(const hr_plot_sweep *plot, double time_ns, double flops_per_s)
{
  return plot->view == HR_VIEW_RATE ? flops_per_s / 1e12 : time_ns / plot->unit_ns;
}
