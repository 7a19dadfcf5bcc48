/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: results as tables for a terminal, JSON, CSV or Markdown.
 *
 * docs/json.md documents the JSON, which is stable; CSV has the same keys. Thread safety: a call writes to its own
 * stream only. */
#ifndef HEADROOM_EXPERIMENTAL_REPORT_H
#define HEADROOM_EXPERIMENTAL_REPORT_H

#include <headroom/advise.h>
#include <headroom/experimental/calibrate.h>
#include <headroom/experimental/checkpoint.h>
#include <headroom/experimental/compare.h>
#include <headroom/experimental/confirm.h>
#include <headroom/experimental/layer.h>
#include <headroom/experimental/load.h>
#include <headroom/experimental/measure.h>
#include <headroom/experimental/offer.h>
#include <headroom/experimental/step.h>
#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <headroom/experimental/training.h>
#include <headroom/experimental/validate.h>
#include <headroom/memory.h>
#include <headroom/search.h>
#include <headroom/serve.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** HTML is one page that loads nothing, of hr_report_advice(), hr_report_comparison(), hr_report_layer(),
 *  hr_report_search() and hr_report_page(); the others write a table instead. */
typedef enum hr_format { HR_FORMAT_TABLE, HR_FORMAT_JSON, HR_FORMAT_CSV, HR_FORMAT_MARKDOWN, HR_FORMAT_HTML } hr_format;

/** Reads "table", "json", "csv", "markdown" or "html". HR_ERROR_NOT_FOUND for any other; *format is then untouched. */
HR_API hr_status hr_format_parse(const char *name, hr_format *format);

/** Which table of an advice becomes CSV: a CSV document is one table. */
typedef enum hr_csv_table { HR_CSV_FINDINGS, HR_CSV_OPERATORS, HR_CSV_MEASUREMENTS, HR_CSV_LAYOUTS } hr_csv_table;

/** Reads "findings", "operators" or "measurements". HR_ERROR_NOT_FOUND for any other; *table is then untouched. */
HR_API hr_status hr_csv_table_parse(const char *name, hr_csv_table *table);

typedef struct hr_report_options {
  size_t struct_size; /* sizeof(hr_report_options), set by hr_report_options_default() */
  hr_format format;
  bool colour;                /* ANSI colours in tables for a terminal */
  int width;                  /* columns of the terminal; 0: unlimited */
  bool verbose;               /* also rules that hold or do not apply, and operators without FLOPs */
  hr_csv_table csv;           /* for hr_report_advice() */
  bool explain;               /* hr_report_advice(): also a table of the terms of each operator's time */
  const char *library_choice; /* hr_report_gemm(): what the library chooses for the problem, such as
                                 hr_plan_configuration(); NULL: not asked */
} hr_report_options;

/** A table without colours, of unlimited width. */
HR_API void hr_report_options_init(hr_report_options *options, size_t size);
HR_DEFAULT(hr_report_options)

/** A kernel and its measurement, whose status may say that the kernel cannot run. */
typedef struct hr_kernel_measurement {
  const char *kernel;
  hr_measurement measurement;
} hr_kernel_measurement;

/** A call on a device: what was predicted, and measured with `count` kernels. */
typedef struct hr_measured_call {
  const hr_hardware *hardware;
  const hr_prediction *prediction; /* NULL: none, except of hr_report_gemm() */
  const hr_kernel_measurement *runs;
  size_t count;
} hr_measured_call;

/* Each function writes one complete document to `out` and flushes it, but does not close it. It returns HR_OK,
 * HR_ERROR_OUTPUT if the stream reports an error, HR_ERROR_INVALID for a NULL argument or options of another version,
 * or HR_ERROR_OUT_OF_MEMORY. */

/** `describe`: the model, its parameters and memory, and the operators of a step. With a `hardware`, which may be NULL,
 *  also the largest batch that fits; with `checkpoint`, which may be NULL or have no files, its bytes and formats, and
 *  how it compares with the model. */
HR_API hr_status hr_report_description(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                       const hr_checkpoint *checkpoint, hr_error *error);

/** `advise`: the predicted step, the findings, and the measurements of `confirmation`, which may be NULL. */
HR_API hr_status hr_report_advice(FILE *out, const hr_report_options *options, const hr_advice *advice,
                                  const hr_confirmation *confirmation, hr_error *error);

/** `search`: the shapes found. */
HR_API hr_status hr_report_search(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                  const hr_search_result *result, hr_error *error);

/** `serve-plan`: what is best, the Pareto front and the layouts of `plan`, which was made for the subject; with
 *  options->verbose, and in CSV and JSON, every point. */
HR_API hr_status hr_report_serve_plan(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                      const hr_serve_result *plan, hr_error *error);

/** `serve-plan --emit`: the command line that starts a server of options.engine with a point of the plan, behind
 *  comments for a shell. The plan was made for the subject; `name` is the model as the server loads it.
 *  HR_ERROR_UNSUPPORTED, with nothing written, for what the server's command line cannot express. */
HR_API hr_status hr_report_serve_command(FILE *out, const hr_subject *subject, const hr_serve_result *plan,
                                         const hr_serve_point *point, const char *name, hr_error *error);
/** `serve-plan` under a load: every layout, and the timeline of the one that is shown. */
HR_API hr_status hr_report_serve_load(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                      const hr_load_result *load, hr_error *error);

/** What `plan` shows. */
typedef struct hr_training_report {
  const hr_training_plan *plan;
  const hr_advice *advice; /* of the model in the plan's best layout; NULL: none */
  size_t limit;            /* layouts of each number of devices in a table for people */
} hr_training_report;

/** `plan`: the fastest layout of each set of degrees, the Pareto front of time and devices, and what the advice finds;
 *  with options->verbose, and in CSV and JSON, every layout. The plan was made for the subject. */
HR_API hr_status hr_report_training(FILE *out, const hr_report_options *options, const hr_subject *subject,
                                    const hr_training_report *report, hr_error *error);

/** The same work on several devices, after hr_offers_compare(): for people a column a device, in CSV and JSON a row. */
HR_API hr_status hr_report_offers(FILE *out, const hr_report_options *options, const hr_offers *offers,
                                  hr_error *error);

/** `gemm`: one GEMM, predicted and, if it has a run, measured. */
HR_API hr_status hr_report_gemm(FILE *out, const hr_report_options *options, const hr_gemm *gemm,
                                const hr_measured_call *call, hr_error *error);

/** `layer`: the operators of one layer with their times, measured or else predicted, and their shares of the sum; the
 *  measured time of the whole layer. */
HR_API hr_status hr_report_layer(FILE *out, const hr_report_options *options, const hr_model *model,
                                 const hr_hardware *hardware, const hr_layer *layer, hr_error *error);

/** `step`: a whole step as measured, its operators predicted and measured. */
HR_API hr_status hr_report_step(FILE *out, const hr_report_options *options, const hr_model *model,
                                const hr_hardware *hardware, const hr_step_times *times, hr_error *error);

/** `generate`: the ids on one line, separated by commas; a row for each in CSV and Markdown. */
HR_API hr_status hr_report_generated(FILE *out, const hr_report_options *options, const hr_model *model,
                                     const hr_generated *generated, hr_error *error);

/** `attention`: one call. HR_ERROR_UNSUPPORTED for variable lengths. */
HR_API hr_status hr_report_attention(FILE *out, const hr_report_options *options, const hr_attention *attention,
                                     const hr_measured_call *call, hr_error *error);

/** `attention`: the gradients of one call, with the defaults of hr_attention_backward. Errors as above, and those of
 *  hr_attention_backward_check(). */
HR_API hr_status hr_report_attention_backward(FILE *out, const hr_report_options *options, const hr_attention *forward,
                                              const hr_measured_call *call, hr_error *error);

/** `decode`: one call. Also errors of hr_decode_check(). */
HR_API hr_status hr_report_decode(FILE *out, const hr_report_options *options, const hr_decode *decode,
                                  const hr_measured_call *call, hr_error *error);

/** A device: its data, or why it cannot be used. */
typedef struct hr_device_report {
  const char *name;
  hr_status status;
  const char *detail;          /* a sentence about the status; may be NULL */
  const hr_hardware *hardware; /* NULL unless status is HR_OK */
} hr_device_report;

typedef struct hr_devices_report {
  const hr_device_report *devices;
  size_t count;
  const hr_library *libraries; /* of hr_libraries() */
  size_t library_count;
} hr_devices_report;

/** `devices`: a table of devices; then, except in CSV, their ceilings, why some cannot be used, and the libraries. */
HR_API hr_status hr_report_devices(FILE *out, const hr_report_options *options, const hr_devices_report *devices,
                                   hr_error *error);

/** `results list`: the rows that match `filter` (NULL: all). CSV and JSON have every column (docs/results.md). Also
 *  errors of hr_store_query(). */
HR_API hr_status hr_report_results(FILE *out, const hr_report_options *options, hr_store *store,
                                   const hr_result_filter *filter, hr_error *error);

/** `results show`: every column of one row. */
HR_API hr_status hr_report_result(FILE *out, const hr_report_options *options, const hr_result *result,
                                  hr_error *error);

/** `results import` and `merge`: how many rows were added from each of `count` files. */
HR_API hr_status hr_report_changes(FILE *out, const hr_report_options *options, const char *const *names,
                                   const hr_store_change *changes, size_t count, hr_error *error);

/** `compare`: two sets of rows, their ratio in all, by sweep and by point. CSV has every point; a table only those that
 *  are not the same, unless options->verbose. */
HR_API hr_status hr_report_comparison(FILE *out, const hr_report_options *options, const hr_compare_result *comparison,
                                      hr_error *error);

/** What `report` shows besides the rows of a store. */
typedef struct hr_page {
  size_t struct_size;             /* sizeof(hr_page), set by hr_page_default() */
  const char *title;              /* "Headroom report" */
  const char *const *sources;     /* names of the files that the rows are from, for the page's foot */
  size_t source_count;            /* default 0 */
  const hr_advice *const *advice; /* findings of models; default none */
  size_t advice_count;
} hr_page;

/** No sources, no findings. */
HR_API void hr_page_init(hr_page *page, size_t size);
HR_DEFAULT(hr_page)

/** `report`: one HTML page that loads nothing: a chart with its table for each sweep, a comparison of the devices,
 *  single measurements, findings, and what the rows were measured with. Of several rows of a point the latest is shown.
 *  The format of `options` is ignored. Also errors of hr_compare_stores(). */
HR_API hr_status hr_report_page(FILE *out, const hr_report_options *options, hr_store *store, const hr_page *page,
                                hr_error *error);

/** Writes errors of predictions by kind and size and the worst rows; as CSV every row. Errors: HR_ERROR_OUTPUT,
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_report_validation(FILE *out, const hr_report_options *options, const hr_hardware *hardware,
                                      const hr_validation *validation, hr_error *error);

/** `calibrate`: errors of a fit by kind and the fitted figures; as CSV every row with its held-out prediction, in the
 *  columns that hr_validate_csv() reads. `path`: the device file that was written; NULL: none. Errors: HR_ERROR_OUTPUT,
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_report_calibration(FILE *out, const hr_report_options *options, const hr_calibrate_result *result,
                                       const char *path, hr_error *error);

/** `kernels`: the kernels of all devices, and whether each runs on this machine or why not. Opens the devices. */
HR_API hr_status hr_report_kernels(FILE *out, const hr_report_options *options, hr_error *error);

typedef struct hr_sweeps_report {
  hr_sweep *const *sweeps;
  size_t count;
  const hr_sweep_choice *choice;
  const hr_hardware *hardware;
  hr_dtype dtype;
} hr_sweeps_report;

/** `sweep list`: the sweeps, how many points `choice` takes from each, and the estimated time on `hardware`. */
HR_API hr_status hr_report_sweeps(FILE *out, const hr_report_options *options, const hr_sweeps_report *list,
                                  hr_error *error);

typedef struct hr_sweep_report {
  const hr_sweep *sweep;
  const hr_sweep_row *rows; /* from hr_sweep_rows() */
  const char *device;       /* its name */
  hr_dtype dtype;
} hr_sweep_report;

/** `sweep NAME`: the measured points of a sweep. Points without a row are left out. */
HR_API hr_status hr_report_sweep(FILE *out, const hr_report_options *options, const hr_sweep_report *report,
                                 hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
