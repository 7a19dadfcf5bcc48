/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of results: of sweeps from stores, and of what the commands compute. docs/plots.md shows them.
 *
 * Each function makes a figure that the caller frees with hr_figure_free(). Thread safety: a figure belongs to one
 * caller; a store is used by one thread at a time. */
#ifndef HEADROOM_EXPERIMENTAL_PLOT_H
#define HEADROOM_EXPERIMENTAL_PLOT_H

#include <headroom/attention.h>
#include <headroom/experimental/figure.h>
#include <headroom/experimental/layer.h>
#include <headroom/experimental/report.h>
#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <headroom/hardware.h>
#include <headroom/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rows to draw, and what the legend calls them if rows of one device come from several stores. */
typedef struct hr_plot_source {
  hr_store *store;
  const char *label;
} hr_plot_source;

typedef struct hr_plot_sources {
  const hr_plot_source *list;
  size_t count;
} hr_plot_sources;

typedef struct hr_plot_options {
  size_t struct_size;           /* sizeof(hr_plot_options), set by hr_plot_options_default() */
  hr_view view;                 /* HR_VIEW_COUNT: the sweep's own, which is the default */
  const char *device;           /* rows of devices with this in their name or product name, ignoring case; NULL: all */
  const char *series;           /* lines with this in their name; NULL: all */
  const char *dtype;            /* rows of this number format; NULL: all */
  bool published;               /* draw the published points over the measured ones. Default true */
  bool no_rows;                 /* draw no measured rows: what is published and predicted alone */
  const char *peers;            /* rates of other libraries in the same calls: the text of a CSV file that
                                   bench/attention_gpu_vs_torch.py wrote, drawn in the view `rate`; NULL: none */
  const char *peers_name;       /* what messages call that text; NULL: "peers" */
  const hr_hardware *predicted; /* draw the band of predictions for this device; NULL: none */
  hr_dtype predicted_dtype;     /* of the predictions. Default bf16 */
} hr_plot_options;

/** The original's view of all rows with the published points, and no predictions. */
HR_API void hr_plot_options_init(hr_plot_options *options, size_t size);
HR_DEFAULT(hr_plot_options)

/** The figure of a sweep: the latest row of every point from each source, with the 95% interval of its median. `small`
 *  is the same sweep with the sizes for a CPU, which rows of a CPU are drawn by. `sources` may be NULL if there are
 *  none. Points without a time are marked with the reason; rows whose axes are not the sweep's are left out, and the
 *  note counts them. HR_ERROR_NOT_FOUND: nothing to draw; the message says what the sources have. HR_ERROR_INVALID: the
 *  view does not suit the sweep. Errors of hr_store_query(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_sweep(const hr_sweep *sweep, const hr_sweep *small, const hr_plot_sources *sources,
                                    const hr_plot_options *options, hr_figure **figure, hr_error *error);

/** The times of a layer's operators, predicted and measured, as bars over one another. HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_layer(const hr_model *model, const hr_hardware *hardware, const hr_layer *layer,
                                    hr_figure **figure, hr_error *error);

/** The times of an attention call's kernels with their intervals, and the prediction as a line.
 *  HR_ERROR_NOT_FOUND if no kernel has a time; HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_attention(const hr_attention *attention, const hr_measured_call *call, hr_figure **figure,
                                        hr_error *error);

/** The roofline of a device, with every operator of a step by its FLOPs per byte and its predicted FLOP/s. Operators
 *  without FLOPs are left out. HR_ERROR_NOT_FOUND if the device has no rate for the workload's format;
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_roofline(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                                       const hr_step *step, hr_figure **figure, hr_error *error);

/** The heads of a model as MHA, GQA, MQA and DiffQKV, each with the bytes of a token in the KV caches of all layers
 *  (hr_memory.kv_cache_bytes_per_token); the model's own kind has its own numbers of heads, and latent attention its
 *  one row for all heads. Where layers differ in their heads, a row for each of the first six kinds of layers, as they
 *  are. HR_ERROR_UNSUPPORTED if no layer has heads of K and V, and for more than 1,024 query heads; errors of
 *  hr_memory_estimate(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_heads(const hr_model *model, const hr_workload *workload, hr_figure **figure,
                                    hr_error *error);

/** The tiles of a GEMM's C and the waves in which the device computes them, as hr_predict_gemm() has them.
 *  HR_ERROR_UNSUPPORTED on a device without tiles, and for more than 10,000 tiles of a matrix; errors of
 *  hr_predict_gemm(), HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_tiles(const hr_hardware *hardware, const hr_gemm *gemm, hr_figure **figure,
                                    hr_error *error);

/** The shapes that a search found: parameters and predicted gain, with the Pareto front. HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_figure_of_search(const hr_model *model, const hr_hardware *hardware, const hr_search_result *result,
                                     hr_figure **figure, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
