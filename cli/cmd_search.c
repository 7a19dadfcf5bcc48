/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "option_table.h"
#include "picture.h"

static void set_range(int64_t *min, int64_t *max, int64_t *step, const cli_range *range)
{
  *min = range->min;
  *max = range->max;
  if (step)
    *step = range->step;
}

static void set_list(int64_t *values, size_t *count, const cli_sizes *given)
{
  *count = given->count;
  for (size_t i = 0; i < given->count; i++)
    values[i] = given->values[i];
}

static hr_search_options make_options(const cli_run *run)
{
  const cli_options *given = &run->options;
  hr_search_options search = hr_search_options_default();
  if (run->given[CLI_OPTION_param_band])
    search.parameter_band = given->param_band;
  if (run->given[CLI_OPTION_hidden])
    set_range(&search.hidden_min, &search.hidden_max, &search.hidden_step, &given->hidden);
  if (run->given[CLI_OPTION_layers])
    set_range(&search.layers_min, &search.layers_max, NULL, &given->layers);
  if (run->given[CLI_OPTION_heads])
    set_range(&search.heads_min, &search.heads_max, NULL, &given->heads);
  if (run->given[CLI_OPTION_head_sizes])
    set_list(search.head_sizes, &search.head_size_count, &given->head_sizes);
  if (run->given[CLI_OPTION_serve_on])
    set_list(search.serve_on, &search.serve_on_count, &given->serve_on);
  if (run->given[CLI_OPTION_head_dim])
    set_range(&search.head_dim_min, &search.head_dim_max, NULL, &given->head_dim);
  if (run->given[CLI_OPTION_mlp_width])
    set_range(&search.mlp_width_min, &search.mlp_width_max, &search.mlp_step, &given->mlp_width);
  if (given->vocab_multiple > 0)
    search.vocabulary_multiple = given->vocab_multiple;
  if (given->kv_ratio > 0)
    search.query_heads_per_kv = given->kv_ratio;
  if (given->limit > 0)
    search.limit = (size_t)given->limit;
  if (given->max_shapes > 0)
    search.evaluations_max = (uint64_t)given->max_shapes;
  search.vary = (search.vary | given->vary) & ~given->keep;
  search.keep_vocabulary = given->keep_vocabulary;
  search.require_divisible = !given->allow_uneven;
  return search;
}

static int search(const cli_run *run, const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                  cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_search_result *result = NULL;
  hr_search_options options = make_options(run);
  cli_progress progress = cli_progress_begin(run);
  options.progress = cli_progress_report, options.context = &progress;
  hr_status status = hr_search(hardware, model, workload, &options, &result, &error);
  cli_progress_end(&progress);
  if (status == HR_OK)
    status =
        hr_report_search(output->stream, &output->options,
                         &(hr_subject){.model = model, .workload = workload, .hardware = hardware}, result, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_INPUT && status == HR_ERROR_INVALID)
    code = EXIT_USAGE; /* impossible bounds; the model was checked before */
  if (code == EXIT_FINE && !result->complete && cli_interrupted())
    code = EXIT_INTERRUPTED;
  hr_figure *figure = NULL;
  status =
      run->options.plot && code == EXIT_FINE ? hr_figure_of_search(model, hardware, result, &figure, &error) : HR_OK;
  code = cli_plot_after(run, code, status, figure, &error);
  hr_search_result_free(result);
  return code;
}

/* Options of which one says the opposite of the other, or both say the same in different ways. */
static int check_options(const cli_run *run)
{
  static const struct {
    int option, other;
    uint32_t keeps; /* the other one is --keep of this size; 0: the other one as such */
  } pairs[] = {
      {CLI_OPTION_vocab_multiple, CLI_OPTION_keep_vocabulary, 0},
      {CLI_OPTION_vocab_multiple, CLI_OPTION_keep, HR_SEARCH_VOCABULARY},
      {CLI_OPTION_head_dim, CLI_OPTION_head_sizes, 0},
      {CLI_OPTION_serve_on, CLI_OPTION_allow_uneven, 0},
      {CLI_OPTION_kv_ratio, CLI_OPTION_keep, HR_SEARCH_HEADS},
      {CLI_OPTION_hidden, CLI_OPTION_keep, HR_SEARCH_HIDDEN},
      {CLI_OPTION_heads, CLI_OPTION_keep, HR_SEARCH_HEADS},
      {CLI_OPTION_head_dim, CLI_OPTION_keep, HR_SEARCH_HEADS},
      {CLI_OPTION_head_sizes, CLI_OPTION_keep, HR_SEARCH_HEADS},
      {CLI_OPTION_mlp_width, CLI_OPTION_keep, HR_SEARCH_MLP},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    bool conflict = pairs[i].keeps ? (run->options.keep & pairs[i].keeps) != 0 : run->given[pairs[i].other];
    if (run->given[pairs[i].option] && conflict)
      return cli_fail(EXIT_USAGE, "--%s: cannot be combined with --%s%s%s", cli_option_rows[pairs[i].option].name,
                      cli_option_rows[pairs[i].other].name, pairs[i].keeps ? " " : "",
                      pairs[i].keeps ? hr_search_size_name((hr_search_size)pairs[i].keeps) : "");
  }
  return CLI_GO_ON;
}

int cli_search(const cli_run *run)
{
  hr_model model;
  hr_workload workload;
  int code = check_options(run);
  if (code == CLI_GO_ON)
    code = cli_check_plot(run);
  if (code == CLI_GO_ON)
    code = cli_load_model(run, &model, NULL);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &model, &workload);
  if (code == CLI_GO_ON)
    cli_set_formats(run, run->hardware, &workload);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  return code == CLI_GO_ON ? search(run, &model, &workload, run->hardware, &output) : code;
}
