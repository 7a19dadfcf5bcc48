/* SPDX-License-Identifier: Apache-2.0 */
/* `report`: the page of a store. */
#include "analysis/advise/advice.h"
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "report/advice_text.h"
#include "report/lines.h"
#include "report/page.h"
#include "report/page_devices.h"
#include "report/sweep_figures.h"
#include "runtime/store/cancelled.h"

#include <headroom/experimental/plot.h>
#include <headroom/version.h>
#include <inttypes.h>
#include <string.h>

/* What the parts of the page have in common. */
typedef struct page_content {
  hr_document document;
  const hr_page *page;
  hr_compare_rows rows; /* the latest of each point, by sweep */
  hr_compared_origin origin;
  hr_store *store;
  hr_sweep **catalog, **small; /* in the same order: with the sizes for a GPU, for a CPU */
  size_t catalog_count;
} page_content;

/* The end of the rows of one sweep. */
static size_t sweep_end(const hr_compare_rows *rows, size_t from)
{
  size_t end = from + 1;
  while (end < rows->count && strcmp(rows->rows[end].sweep, rows->rows[from].sweep) == 0)
    end++;
  return end;
}

/* ---- the head ---- */

/* Anchors are numbers: names of sweeps are text from outside. */
static void print_links(const page_content *c)
{
  FILE *out = c->document.out;
  fputs("<nav aria-label=\"Contents\"><ul>\n", out);
  for (size_t from = 0; from < c->rows.count; from = sweep_end(&c->rows, from)) {
    const char *name = c->rows.rows[from].sweep;
    fprintf(out, "<li><a href=\"#sweep-%zu\">", from);
    hr_html_write(out, name[0] ? name : "single measurements");
    fputs("</a></li>\n", out);
  }
  for (size_t i = 0; i < c->page->advice_count; i++) {
    fprintf(out, "<li><a href=\"#findings-%zu\">findings: ", i);
    hr_html_write(out, c->page->advice[i]->model.name);
    fputs("</a></li>\n", out);
  }
  fputs("<li><a href=\"#provenance\">provenance</a></li>\n</ul></nav>\n", out);
}

static void print_head(const page_content *c)
{
  const hr_compared_origin *o = &c->origin;
  if (o->rows > 0) {
    hr_print_field(&c->document, "measured", "%zu points on %s", c->rows.count, o->products);
    if (strncmp(o->first, o->last, 10) == 0)
      hr_print_field(&c->document, "date", "%.10s", o->first);
    else
      hr_print_field(&c->document, "dates", "%.10s to %.10s", o->first, o->last);
  } else {
    hr_print_paragraph(&c->document, "No row matches.");
  }
  print_links(c);
}

/* ---- sweeps ---- */

/* Finds a sweep of the catalogue by its name. A name from outside is not a file to open. */
static size_t find_sweep(const page_content *c, const char *name)
{
  size_t i = 0;
  while (i < c->catalog_count && strcmp(hr_sweep_describe(c->catalog[i])->name, name) != 0)
    i++;
  return i;
}

/* Draws rows as `plot` does; where `plot` has nothing to draw, it draws them as they are. */
static hr_status figure_of(const page_content *c, size_t from, size_t end, hr_figure **figure, hr_error *error)
{
  size_t known = find_sweep(c, c->rows.rows[from].sweep);
  if (known == c->catalog_count)
    return hr_figure_of_rows(&c->rows.rows[from], end - from, NULL, figure, error);
  hr_plot_options options = hr_plot_options_default();
  hr_plot_source source = {.store = c->store, .label = ""};
  hr_status status = hr_figure_of_sweep(c->catalog[known], c->small[known],
                                        &(hr_plot_sources){.list = &source, .count = 1}, &options, figure, error);
  if (status != HR_ERROR_NOT_FOUND && status != HR_ERROR_INVALID)
    return status;
  hr_sweep_about about = *hr_sweep_describe(c->catalog[known]);
  return hr_figure_of_rows(&c->rows.rows[from], end - from, &about, figure, error);
}

/* The rows that have shares of operators also have the whole layer; those of older stores have nothing else. */
static hr_status print_whole_layers(const page_content *c, size_t from, size_t end, hr_error *error)
{
  hr_figure *figure;
  size_t known = find_sweep(c, c->rows.rows[from].sweep);
  hr_plot_options options = hr_plot_options_default();
  hr_plot_source source = {.store = c->store, .label = ""};
  options.view = HR_VIEW_RATE;
  options.published = false;
  hr_status status = hr_figure_of_sweep(c->catalog[known], c->small[known],
                                        &(hr_plot_sources){.list = &source, .count = 1}, &options, &figure, error);
  if (status == HR_OK)
    hr_copy_text(figure->title, sizeof figure->title, "Throughput of the whole layer");
  if (status == HR_ERROR_NOT_FOUND) { /* no row has the axes of the sweep */
    hr_sweep_about about = *hr_sweep_describe(c->catalog[known]);
    status = hr_figure_of_rows(&c->rows.rows[from], end - from, &about, &figure, error);
  }
  HR_TRY(status);
  return hr_page_print_figure(c->document.out, figure, error);
}

/* The original's pictures of a sweep of times are the times and a heatmap of them. */
static hr_status print_heatmap(const page_content *c, size_t known, hr_error *error)
{
  hr_figure *figure;
  hr_plot_options options = hr_plot_options_default();
  hr_plot_source source = {.store = c->store, .label = ""};
  options.view = HR_VIEW_HEATMAP;
  hr_status status = hr_figure_of_sweep(c->catalog[known], c->small[known],
                                        &(hr_plot_sources){.list = &source, .count = 1}, &options, &figure, error);
  if (status != HR_OK) /* no row has the axes of the sweep */
    return status == HR_ERROR_NOT_FOUND ? HR_OK : status;
  hr_copy_text(figure->title, sizeof figure->title, "Times as a heatmap");
  return hr_page_print_figure(c->document.out, figure, error);
}

static hr_status print_sweep(const page_content *c, size_t from, size_t end, hr_error *error)
{
  hr_figure *figure;
  HR_TRY(figure_of(c, from, end, &figure, error));
  fprintf(c->document.out, "<section id=\"sweep-%zu\">\n", from);
  hr_print_heading(&c->document, "%s", figure->title);
  if (figure->source[0] && !strstr(figure->note, figure->source))
    hr_print_paragraph(&c->document, figure->source);
  bool shares = figure->form == HR_FIGURE_STACKS;
  hr_status status = hr_page_write_figure(c->document.out, figure, error);
  if (status == HR_OK && shares)
    status = print_whole_layers(c, from, end, error);
  size_t known = find_sweep(c, c->rows.rows[from].sweep);
  if (status == HR_OK && known < c->catalog_count && hr_sweep_describe(c->catalog[known])->view == HR_VIEW_TIME)
    status = print_heatmap(c, known, error);
  fputs("</section>\n", c->document.out);
  hr_figure_free(figure);
  return status;
}

/* ---- single measurements ---- */

#define SINGLE(member) HR_OPTIONAL(hr_compare_row, member)
static const hr_column single_columns[] = {
    {NULL, "problem", HR_PLAIN, 0, SINGLE(problem)},
    {NULL, "device", HR_PLAIN, 0, SINGLE(product)},
    {NULL, "kernel asked for", HR_PLAIN, 0, .rare = true, SINGLE(kernel_asked)},
    {NULL, "time", HR_TIME, 0, SINGLE(measured.median_ns)},
    {NULL, "low", HR_TIME, 0, SINGLE(measured.low_ns)},
    {NULL, "high", HR_TIME, 0, SINGLE(measured.high_ns)},
    {NULL, "rate", HR_FLOPS_RATE, 0, SINGLE(flops_per_s)},
    {NULL, "samples", HR_PLAIN, 0, SINGLE(measured.samples)},
    {NULL, "status", HR_PLAIN, 0, SINGLE(measured.status)},
    {NULL, "reason", HR_PLAIN, 0, .rare = true, SINGLE(measured.reason)},
};

static hr_status print_single(const page_content *c, size_t from, size_t end, hr_error *error)
{
  hr_table *table = HR_TABLE_OF(single_columns, hr_compare_row);
  for (size_t i = from; i < end; i++)
    hr_table_add(table, &c->rows.rows[i]);
  fprintf(c->document.out, "<section id=\"sweep-%zu\">\n", from);
  hr_print_heading(&c->document, "Single measurements");
  hr_status status = hr_print_table(&c->document, table, error);
  fputs("</section>\n", c->document.out);
  return status;
}

static hr_status print_sweeps(const page_content *c, hr_error *error)
{
  for (size_t from = 0, end; from < c->rows.count; from = end) {
    end = sweep_end(&c->rows, from);
    if (hr_store_is_cancelled(c->store))
      return hr_fail(error, HR_ERROR_INTERRUPTED, "the page: stopped by the caller");
    bool is_sweep = c->rows.rows[from].sweep[0] && c->rows.rows[from].axes[0];
    HR_TRY(is_sweep ? print_sweep(c, from, end, error) : print_single(c, from, end, error));
  }
  return HR_OK;
}

/* ---- findings ---- */

static hr_status print_advice(const page_content *c, size_t index, hr_error *error)
{
  const hr_advice *advice = c->page->advice[index];
  hr_document inner = c->document;
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(&advice->model, &parameters, error));
  fprintf(c->document.out, "<section id=\"findings-%zu\">\n", index);
  hr_print_heading(&c->document, "Findings: %s on %s", advice->model.name, advice->hardware.about.name);
  inner.depth = 1;
  hr_status status = hr_print_advice(&inner, advice, NULL, parameters.total, error);
  fputs("</section>\n", c->document.out);
  return status;
}

/* ---- the foot ---- */

static void print_provenance(const page_content *c)
{
  const hr_document *document = &c->document;
  const hr_compared_origin *o = &c->origin;
  const struct {
    const char *label, *text;
  } lists[] = {{"devices", o->products},
               {"libraries", o->libraries},
               {"drivers", o->drivers},
               {"hosts", o->hosts},
               {"Headroom", o->programs}};
  fputs("<footer id=\"provenance\">\n", document->out);
  hr_print_heading(document, "Provenance");
  for (size_t i = 0; i < c->page->source_count; i++)
    hr_print_field(document, "file", "%s", c->page->sources[i]);
  if (o->rows > 0)
    hr_print_field(document, "rows", "%" PRId64 ", measured from %s to %s", o->rows, o->first, o->last);
  for (size_t i = 0; i < HR_COUNT_OF(lists); i++) {
    if (lists[i].text[0])
      hr_print_field(document, lists[i].label, "%s", lists[i].text);
  }
  hr_print_field(document, "page", "made by headroom %s", hr_version());
  hr_print_paragraph(document, "Medians with their 95% intervals by order statistics; of several rows of a point the "
                               "latest. Charts by Chart.js, MIT License, (c) Chart.js Contributors.");
  fputs("</footer>\n", document->out);
}

static hr_status print_page(page_content *c, hr_error *error)
{
  hr_print_title(&c->document, "%s", c->page->title);
  print_head(c);
  HR_TRY(hr_print_devices(&c->document, &c->rows, error));
  HR_TRY(print_sweeps(c, error));
  for (size_t i = 0; i < c->page->advice_count; i++)
    HR_TRY(print_advice(c, i, error));
  print_provenance(c);
  return HR_OK;
}

hr_status hr_report_page(FILE *out, const hr_report_options *options, hr_store *store, const hr_page *page,
                         hr_error *error)
{
  HR_NEED(error, out, options, store, page);
  HR_TAKE(hr_report_options, options, error);
  HR_TAKE(hr_page, page, error);
  hr_report_options html = *options;
  page_content content = {.page = page, .store = store};
  size_t small_count = 0;
  hr_compare_side every = hr_compare_side_default();
  html.format = HR_FORMAT_HTML;
  hr_document_begin(&content.document, out, &html);
  hr_status status = hr_sweep_catalog(false, &content.catalog, &content.catalog_count, error);
  if (status == HR_OK)
    status = hr_sweep_catalog(true, &content.small, &small_count, error);
  if (status == HR_OK)
    status = hr_compare_read(store, &every, &content.rows, &content.origin, error);
  if (status == HR_OK) {
    hr_compare_latest(&content.rows, (hr_compare_key){.product = true, .threads = true});
    status = print_page(&content, error);
  }
  hr_compare_rows_free(&content.rows);
  hr_sweep_catalog_free(content.catalog, content.catalog_count);
  hr_sweep_catalog_free(content.small, small_count);
  return hr_document_end(&content.document, status, error);
}
