/* SPDX-License-Identifier: Apache-2.0 */
/* Other libraries' rates of a sweep's calls, interleaved with Headroom's: rows of bench/attention_gpu_vs_torch.py. */
#include "plot/published.h"
#include "plot/sweep.h"

#include "base/error.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *column, *name;
} peers[] = {{"headroom_tflops", "Headroom"},
             {"cudnn_tflops", "cuDNN"},
             {"flash_tflops", "FlashAttention-2"},
             {"fa3_tflops", "FlashAttention-3"}};

typedef struct peer_reading {
  hr_plot_sweep *plot;
  size_t taken; /* rows */
} peer_reading;

/* The sweep's x axis in the words of a row: the hidden size, or the length. */
static double place_of(const hr_plot_sweep *plot, const hr_published_row *row)
{
  if (strcmp(plot->about.x, "h") == 0)
    return hr_published_number(row, "q_heads") * hr_published_number(row, "qk_dim");
  return strcmp(plot->about.x, "s") == 0 ? hr_published_number(row, "length") : (double)NAN;
}

static void take_peers(void *context, const hr_published_row *row)
{
  peer_reading *r = context;
  const char *dtype = hr_published_text(row, "dtype"), *wanted = r->plot->options->dtype;
  double x = place_of(r->plot, row);
  if (strcmp(hr_published_text(row, "tier"), r->plot->about.name) != 0 || isnan(x) ||
      (wanted && strcmp(wanted, dtype) != 0))
    return;
  r->taken++;
  for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
    char name[HR_FIGURE_TEXT];
    double rate = hr_published_number(row, peers[i].column);
    hr_write_text(name, sizeof name, "%s, %s, interleaved", peers[i].name, dtype);
    if (!isnan(rate))
      hr_figure_add_point(r->plot->figure,
                          hr_figure_series_named(r->plot->figure, name, HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED),
                          hr_figure_value(x, rate));
  }
}

hr_status hr_plot_add_peers(hr_plot_sweep *plot, hr_error *error)
{
  peer_reading r = {.plot = plot};
  const char *name = plot->options->peers_name ? plot->options->peers_name : "peers";
  if (plot->view != HR_VIEW_RATE || plot->figure->form != HR_FIGURE_LINES)
    return hr_fail(error, HR_ERROR_INVALID, "%s: peers are lines of rates, which this picture of %s has not", name,
                   plot->about.name);
  HR_TRY(hr_published_parse(plot->options->peers, name, take_peers, &r, error));
  return r.taken > 0 ? HR_OK
                     : hr_fail(error, HR_ERROR_NOT_FOUND, "%s: no row has the tier %s and its number format", name,
                               plot->about.name);
}
