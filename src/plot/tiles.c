/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of a GEMM and the waves in which a GPU computes them, as figures 3 and 4 of Anthony et al. 2024 (arXiv
 * 2401.14489) draw them. */
#include <headroom/experimental/plot.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "figure/figure.h"
#include "hardware/hardware.h"

#include <headroom/predict.h>
#include <string.h>

#define TILES_MAX 10000 /* more are no picture */

typedef struct tiling {
  int64_t rows, columns; /* of tiles, of one matrix */
  int64_t splits, slots; /* parts of k of each tile, and how many of these run at a time */
  int64_t waves;
} tiling;

/* Waves of large tiles may leave multiprocessors out, whose number the prediction does not say: then all but the last
 * are taken as equal. */
static tiling tiling_of(const hr_hardware *hardware, const hr_gemm *gemm, const hr_prediction *p)
{
  tiling t = {.rows = hr_ceil_div(gemm->m, p->tile_m), .columns = hr_ceil_div(gemm->n, p->tile_n), .splits = p->splits};
  t.waves = p->waves;
  t.slots = hardware->multiprocessors * hardware->blocks_per_multiprocessor;
  if (t.slots < 1 || hr_ceil_div(p->tiles * p->splits, t.slots) != p->waves)
    t.slots = hr_ceil_div(p->tiles * p->splits, p->waves);
  return t;
}

/* A tile is in the wave of the last of its parts. */
static int64_t wave_of(const tiling *t, int64_t row, int64_t column)
{
  return ((row * t->columns + column + 1) * t->splits - 1) / t->slots;
}

typedef enum wave_series { ODD_WAVES, EVEN_WAVES, LAST_WAVE } wave_series;

static wave_series series_of(const tiling *t, int64_t wave)
{
  return wave + 1 == t->waves ? LAST_WAVE : wave % 2 == 0 ? ODD_WAVES : EVEN_WAVES;
}

static void add_tiles(hr_figure *figure, const tiling *t, const hr_prediction *p)
{
  for (int64_t row = 0; row < t->rows; row++) {
    for (int64_t column = 0; column < t->columns; column++) {
      hr_figure_point box =
          hr_figure_value(((double)column + 0.5) * (double)p->tile_n, ((double)row + 0.5) * (double)p->tile_m);
      box.low = (double)(column * p->tile_n);
      box.high = (double)((column + 1) * p->tile_n);
      hr_figure_add_point(figure, series_of(t, wave_of(t, row, column)), box);
    }
  }
}

static void add_edges(hr_figure *figure, const hr_gemm *gemm, const hr_prediction *p)
{
  if (gemm->n % p->tile_n != 0)
    hr_figure_add_rule(figure, true, (double)gemm->n, "");
  if (gemm->m % p->tile_m != 0)
    hr_figure_add_rule(figure, false, (double)gemm->m, "");
}

static void describe(hr_figure *figure, const hr_hardware *hardware, const hr_gemm *gemm, const hr_prediction *p,
                     const tiling *t)
{
  static const char *const names[] = {"odd waves", "even waves", "last wave"};
  char splits[48] = "", batch[48] = "";
  figure->form = HR_FIGURE_BOXES;
  figure->box_height = (double)p->tile_m;
  hr_write_text(figure->x.label, sizeof figure->x.label, "Columns of C");
  hr_write_text(figure->y.label, sizeof figure->y.label, "Rows of C");
  hr_write_text(figure->title, sizeof figure->title, "Tiles and waves of a GEMM on %s: %lld×%lld×%lld, %s",
                hardware->about.product, (long long)gemm->m, (long long)gemm->n, (long long)gemm->k,
                hr_dtype_name(gemm->dtype));
  if (p->splits > 1)
    hr_write_text(splits, sizeof splits, ", k split in %lld", (long long)p->splits);
  if (gemm->batch > 1)
    hr_write_text(batch, sizeof batch, "; the first of %lld matrices", (long long)gemm->batch);
  hr_write_text(figure->note, sizeof figure->note,
                "%lld tiles of %lld×%lld%s in %lld wave%s of %lld; %.1f%% of their area and %.1f%% of the slots are "
                "wasted%s%s; waves are drawn row by row, libraries may take another order",
                (long long)p->tiles, (long long)p->tile_m, (long long)p->tile_n, splits, (long long)p->waves,
                p->waves > 1 ? "s" : "", (long long)t->slots, 100 * p->tile_waste, 100 * p->wave_waste, batch,
                p->tile_waste > 0 ? "; dashed: the edges of C" : "");
  for (size_t i = 0; i < 3; i++)
    hr_figure_add_series(figure, names[i], HR_FIGURE_MARK_POINTS, HR_FIGURE_PREDICTED);
}

hr_status hr_figure_of_tiles(const hr_hardware *hardware, const hr_gemm *gemm, hr_figure **figure, hr_error *error)
{
  HR_NEED(error, hardware, gemm, figure);
  HR_TAKE(hr_gemm, gemm, error);
  hr_prediction p;
  HR_TRY(hr_predict_gemm(hardware, gemm, &p, error));
  if (p.tile_m < 1 || p.tile_n < 1 || p.waves < 1)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: its GEMMs are not predicted by tiles", hardware->about.name);
  tiling t = tiling_of(hardware, gemm, &p);
  if (p.tiles / gemm->batch > TILES_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a GEMM of %lld×%lld has %lld tiles, and a picture at most %d",
                   (long long)gemm->m, (long long)gemm->n, (long long)(p.tiles / gemm->batch), TILES_MAX);
  hr_figure *f = hr_figure_new();
  if (!f)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for a figure");
  describe(f, hardware, gemm, &p, &t);
  add_tiles(f, &t, &p);
  add_edges(f, gemm, &p);
  return hr_figure_end(f, figure, error);
}
