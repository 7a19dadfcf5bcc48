/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: --plot of commands that print something else, and what `headroom plot` writes. */
#include "picture.h"

#include "gnuplot.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_ELSEWHERE 100
#define COLUMNS_MAX 160
#define ROWS_ELSEWHERE 30

int cli_read_picture(const char *option, const char *path, hr_picture *picture)
{
  *picture = HR_PICTURE_TEXT;
  if (!path || strcmp(path, "-") == 0 || hr_picture_of_path(path, picture) == HR_OK)
    return CLI_GO_ON;
  return cli_fail(EXIT_USAGE, "--%s: expected a file that ends in .svg, .png, .pdf or .txt, or -, found \"%s\"", option,
                  path);
}

static int read_width(const cli_run *run, bool *single)
{
  const char *width = run->options.width;
  *single = width && strcmp(width, "single") == 0;
  if (!width || *single || strcmp(width, "double") == 0)
    return CLI_GO_ON;
  return cli_wrong_choice("--width", "single|double", width);
}

/* A text picture is as wide as the terminal that shows it, and leaves it a line. */
static void fit_terminal(hr_figure_options *options, int file)
{
  struct winsize size;
  int columns = cli_width(file, COLUMNS_ELSEWHERE);
  options->columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
  options->rows = ROWS_ELSEWHERE;
  if (isatty(file) && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_row > 16)
    options->rows = size.ws_row - 1 < ROWS_ELSEWHERE + 10 ? size.ws_row - 1 : ROWS_ELSEWHERE + 10;
}

int cli_write_picture(const cli_run *run, cli_output *output, hr_picture picture, const hr_figure *figure)
{
  hr_error error = {.status = HR_OK};
  hr_figure_options options = hr_figure_options_default();
  options.picture = picture;
  fit_terminal(&options, output->file);
  int code = read_width(run, &options.single);
  if (code != CLI_GO_ON) {
    cli_output_discard(output);
    return code;
  }
  hr_status status = cli_run_gnuplot(output->stream, &options, figure, &error);
  return cli_output_close(output, status, &error);
}

static bool is_terminal_text(const char *path)
{
  return strcmp(path, "-") == 0;
}

int cli_check_plot(const cli_run *run)
{
  const char *path = run->options.plot, *output = run->options.output;
  hr_picture picture;
  bool single;
  int code = read_width(run, &single);
  if (code != CLI_GO_ON)
    return code;
  if (!path)
    return run->given[CLI_OPTION_width] ? cli_fail(EXIT_USAGE, "--width: needs --plot") : CLI_GO_ON;
  code = cli_read_picture("plot", path, &picture);
  if (code != CLI_GO_ON)
    return code;
  bool to_output = !output || strcmp(output, "-") == 0;
  if (is_terminal_text(path) && to_output && run->options.format != HR_FORMAT_TABLE)
    return cli_fail(EXIT_USAGE, "--plot: - follows a table on standard output; with another --format name a file");
  return cli_check_gnuplot();
}

static int draw_to(const cli_run *run, const hr_figure *figure)
{
  cli_run other = *run;
  cli_output output;
  hr_picture picture;
  other.options.output = run->options.plot;
  int code = cli_read_picture("plot", run->options.plot, &picture);
  if (code == CLI_GO_ON)
    code = cli_output_open(&other, &output);
  if (code == CLI_GO_ON)
    code = cli_write_picture(run, &output, picture, figure);
  if (code == EXIT_FINE && !is_terminal_text(run->options.plot) && !run->options.quiet)
    cli_fail(0, "note: the picture is in %s", run->options.plot);
  return code;
}

int cli_plot_after(const cli_run *run, int code, hr_status status, hr_figure *figure, const hr_error *error)
{
  bool go_on = code == EXIT_FINE || code == EXIT_FINDINGS;
  int drawn = EXIT_FINE;
  if (go_on && run->options.plot)
    drawn = status == HR_OK ? draw_to(run, figure) : cli_fail_status(status, error);
  hr_figure_free(figure);
  return drawn == EXIT_FINE ? code : drawn;
}
