/* SPDX-License-Identifier: Apache-2.0 */
/* What the views show of a row. */
#include "experiment/sweep/sweep.h"
#include "plot/sweep.h"

#include "base/text.h"

#include <math.h>

const char *hr_plot_case(const hr_plot_sweep *plot, bool small, double number)
{
  const hr_sweep *sweep = small ? plot->small : plot->sweep;
  return number >= 0 && number < (double)sweep->case_count ? sweep->case_names[(size_t)number] : "?";
}

double hr_plot_shown(const hr_plot_sweep *plot, double time_ns, double flops_per_s)
{
  return plot->view == HR_VIEW_RATE ? flops_per_s / plot->unit_flops : time_ns / plot->unit_ns;
}

bool hr_plot_only_cpus(const hr_plot_sweep *plot)
{
  size_t cpus = 0;
  for (size_t i = 0; i < plot->rows.count; i++)
    cpus += plot->rows.rows[i].cpu;
  return cpus > 0 && cpus == plot->rows.count;
}

void hr_plot_label(hr_figure_point *point)
{
  if (!isnan(point->y))
    hr_write_text(point->label, sizeof point->label,
                  point->y < 9.995   ? "%.2f"
                  : point->y < 99.95 ? "%.1f"
                                     : "%.0f",
                  point->y);
}
