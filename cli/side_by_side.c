/* SPDX-License-Identifier: Apache-2.0 */
#include "side_by_side.h"

#include "groups.h"

#include <string.h>
#include <unistd.h>

#define NAMES_SIZE 4096

/* ---- names ---- */

typedef struct device_names {
  char text[NAMES_SIZE];
  const char *names[HR_OFFERS_MAX];
  size_t count;
} device_names;

/* A device file may have a comma in its name. */
bool cli_has_several_devices(const cli_run *run)
{
  const char *text = run->options.device;
  return text && strchr(text, ',') && access(text, F_OK) != 0;
}

static int split_names(const char *text, device_names *to)
{
  to->count = 0;
  if (strlen(text) >= sizeof to->text)
    return cli_fail(EXIT_USAGE, "--device: the list has more than %d bytes", NAMES_SIZE - 1);
  snprintf(to->text, sizeof to->text, "%s", text);
  for (char *name = to->text; name;) {
    char *comma = strchr(name, ',');
    if (comma)
      *comma++ = '\0';
    if (name[0] == '\0')
      return cli_fail(EXIT_USAGE, "--device: expected names with commas between, found \"%.80s\"", text);
    if (to->count == HR_OFFERS_MAX)
      return cli_fail(EXIT_USAGE, "--device: expected at most %d devices", HR_OFFERS_MAX);
    to->names[to->count++] = name;
    name = comma;
  }
  return CLI_GO_ON;
}

/* ---- what goes together ---- */

static int check_numbers(const cli_run *run, const char *option, const cli_numbers *numbers, size_t devices)
{
  bool alone = strcmp(run->command->name, "plan") == 0 ||
               (strcmp(run->command->name, "serve-plan") == 0 && strcmp(option, "price") == 0);
  if (numbers->count == 0)
    return CLI_GO_ON;
  if (devices == 1 && !alone)
    return cli_fail(EXIT_USAGE, "--%s: needs several devices, as in -d h100,h200", option);
  if (numbers->count == 2 && alone && run->given[CLI_OPTION_prefill_device])
    return CLI_GO_ON; /* of the devices that decode and of those that prefill */
  if (numbers->count != devices)
    return cli_fail(EXIT_USAGE, "--%s: expected a number for each of %zu device%s, found %zu", option, devices,
                    devices == 1 ? "" : "s", numbers->count);
  return CLI_GO_ON;
}

/* Options whose answer has no place in a column. */
static int check_alone(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } alone[] = {{CLI_OPTION_measure, "measure"},
               {CLI_OPTION_save, "save"},
               {CLI_OPTION_db, "db"},
               {CLI_OPTION_kernel, "kernel"},
               {CLI_OPTION_warm, "warm"},
               {CLI_OPTION_budget, "budget"},
               {CLI_OPTION_threads, "threads"},
               {CLI_OPTION_autotune, "autotune"},
               {CLI_OPTION_memory_limit, "memory-limit"},
               {CLI_OPTION_plot, "plot"},
               {CLI_OPTION_explain, "explain"},
               {CLI_OPTION_csv, "table"},
               {CLI_OPTION_strict, "strict"},
               {CLI_OPTION_emit, "emit"},
               {CLI_OPTION_prefill_device, "prefill-device"}};
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
    if (run->given[alone[i].option])
      return cli_fail(EXIT_USAGE, "--%s: needs a single device, not %s", alone[i].name, run->options.device);
  }
  return CLI_GO_ON;
}

int cli_check_devices(const cli_run *run)
{
  device_names names = {.count = 1};
  bool several = cli_has_several_devices(run);
  if (several && (run->command->groups & GROUP_OFFER) == 0)
    return cli_fail(EXIT_USAGE,
                    "--device: %s takes one device, found \"%.80s\"; advise, serve-plan, plan, gemm and "
                    "attention take several",
                    run->command->name, run->options.device);
  int code = several ? split_names(run->options.device, &names) : CLI_GO_ON;
  if (code == CLI_GO_ON)
    code = check_numbers(run, "price", &run->options.price, names.count);
  if (code == CLI_GO_ON)
    code = check_numbers(run, "power", &run->options.power, names.count);
  return code == CLI_GO_ON && several ? check_alone(run) : code;
}

double cli_only(const cli_numbers *numbers)
{
  return numbers->count > 0 ? numbers->values[0] : 0;
}

/* ---- offers ---- */

/* The devices of an analysis, which the caller frees, with what each offers. */
typedef struct offer_list {
  hr_hardware *devices[HR_OFFERS_MAX];
  hr_offer offers[HR_OFFERS_MAX];
  size_t count;
  bool any_plan, any_answer; /* an answer: also that nothing meets the limits */
} offer_list;

static int check_new(const offer_list *list, const device_names *names)
{
  const char *name = hr_hardware_describe(list->devices[list->count])->name;
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(hr_hardware_describe(list->devices[i])->name, name) == 0)
      return cli_fail(EXIT_USAGE, "--device: %s is named twice, as \"%s\" and \"%s\"", name, names->names[i],
                      names->names[list->count]);
  }
  return CLI_GO_ON;
}

static int load(const cli_run *run, const device_names *names, offer_list *list)
{
  int code = CLI_GO_ON;
  for (; list->count < names->count && code == CLI_GO_ON; list->count++) {
    cli_run one = *run;
    hr_hardware *device = list->devices[list->count] = hr_hardware_create();
    one.options.device = names->names[list->count];
    code = device ? cli_load_device(&one, "cpu", device)
                  : cli_fail(EXIT_OUTPUT, "out of memory for the figures of a device");
    if (code == CLI_GO_ON)
      code = check_new(list, names);
  }
  return code;
}

static int fill_one(const cli_run *run, const cli_side *side, const char *name, size_t i, offer_list *list)
{
  cli_run one = *run;
  hr_error error = {.status = HR_OK};
  hr_offer *offer = &list->offers[i];
  one.options.device = name, one.hardware = list->devices[i];
  *offer = hr_offer_of(one.hardware);
  if (run->options.price.count > 0)
    offer->price_per_hour = run->options.price.values[i];
  if (run->options.power.count > 0)
    offer->power_w = run->options.power.values[i];
  hr_status status = side->fill(&one, side->context, offer, &error);
  if (status != HR_OK && status != HR_ERROR_UNSUPPORTED)
    return status == HR_ERROR_INVALID ? cli_fail(EXIT_USAGE, "%s: %s", name, error.message)
                                      : cli_fail_status(status, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    snprintf(offer->why, sizeof offer->why, "%.250s", error.message);
  list->any_answer = list->any_answer || status == HR_OK;
  list->any_plan = list->any_plan || offer->devices > 0;
  return CLI_GO_ON;
}

static int report(const cli_run *run, const cli_side *side, offer_list *list)
{
  hr_error error = {.status = HR_OK};
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_offers offers = {.command = run->command->name,
                      .about = side->about,
                      .model = side->model,
                      .tokens = side->tokens,
                      .words_title = side->words_title,
                      .figures = side->figures,
                      .figure_count = side->figure_count,
                      .offers = list->offers,
                      .count = list->count};
  hr_status status = hr_offers_compare(&offers, &error);
  if (status == HR_OK)
    status = hr_report_offers(output.stream, &output.options, &offers, &error);
  code = cli_output_close(&output, status, &error);
  return code == EXIT_FINE && !list->any_plan ? list->any_answer ? EXIT_FINDINGS : EXIT_UNSUPPORTED : code;
}

int cli_side_by_side(const cli_run *run, const cli_side *side)
{
  device_names names;
  offer_list list = {.count = 0};
  int code = split_names(run->options.device, &names);
  if (code == CLI_GO_ON)
    code = load(run, &names, &list);
  for (size_t i = 0; i < list.count && code == CLI_GO_ON; i++)
    code = fill_one(run, side, names.names[i], i, &list);
  if (code == CLI_GO_ON)
    code = report(run, side, &list);
  for (size_t i = 0; i < list.count; i++)
    hr_hardware_free(list.devices[i]);
  return code;
}

/* ---- a single call ---- */

void cli_offer_call(hr_offer *offer, const hr_prediction *prediction, double flops)
{
  offer->devices = 1;
  offer->figures[0] = (hr_offer_value){prediction->time_ns, prediction->low_ns, prediction->high_ns};
  offer->figures[1].value = prediction->efficiency;
  offer->work_per_s = (hr_offer_value){flops / prediction->time_ns * 1e9, flops / prediction->high_ns * 1e9,
                                       flops / prediction->low_ns * 1e9};
  snprintf(offer->words, sizeof offer->words, "%s", hr_bound_name(prediction->bound_by));
}

int cli_calls_side_by_side(const cli_run *run, const char *about, cli_offer_fn fill, const void *context)
{
  static const hr_offer_figure figures[] = {{"time_ns", "time", HR_OFFER_TIME},
                                            {"efficiency", "of peak", HR_OFFER_SHARE}};
  return cli_side_by_side(run, &(cli_side){.about = about,
                                           .words_title = "bound by",
                                           .figures = figures,
                                           .figure_count = sizeof figures / sizeof *figures,
                                           .fill = fill,
                                           .context = context});
}
