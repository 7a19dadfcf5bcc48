/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <headroom/experimental/advise.h>
#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <string.h>

#define TEXT_COLUMN 4 /* of what is said of a rule or a term */

/* CLI_GO_ON, or an exit code after printing why. */
typedef int (*print_fn)(FILE *out);

static int help_models(FILE *out)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  fprintf(out, "%-34s %-12s %18s\n", "model", "family", "parameters");
  for (size_t i = 0; i < count; i++) {
    hr_model model;
    hr_parameters parameters;
    hr_error error = {.status = HR_OK};
    hr_status status = hr_resolve_model(models[i].name, NULL, NULL, &model, &error);
    if (status == HR_OK)
      status = hr_model_parameters(&model, &parameters, &error);
    if (status != HR_OK)
      return cli_fail_status(status, &error);
    fprintf(out, "%-34s %-12s %18" PRId64 "\n", models[i].name, model.family, parameters.total);
  }
  return CLI_GO_ON;
}

static int help_rules(FILE *out)
{
  size_t count;
  const hr_rule *rules = hr_rules(&count);
  cli_print_words(out,
                  "Each rule has the costliest class of what it suggests; each finding states its own, by which --only "
                  "selects.",
                  0, 0);
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "\n%s (%s)\n", rules[i].name, hr_change_class_name(rules[i].change_class));
    cli_print_words(out, rules[i].summary, TEXT_COLUMN, 0);
    cli_print_words(out, rules[i].source, TEXT_COLUMN, fprintf(out, "%*ssource:", TEXT_COLUMN, ""));
  }
  return CLI_GO_ON;
}

static int help_names(FILE *out)
{
  cli_print_synonyms(out);
  return CLI_GO_ON;
}

static int help_terms(FILE *out)
{
  static const struct {
    const char *term, *meaning;
  } terms[] = {
#define CLI_TERM(term, meaning, page) {term, meaning " (docs/" page ")"},
#include "terms.inc"
#undef CLI_TERM
  };
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
    fprintf(out, "%s\n", terms[i].term);
    cli_print_words(out, terms[i].meaning, TEXT_COLUMN, 0);
  }
  return CLI_GO_ON;
}

static const struct {
  const char *name;
  print_fn print;
} topics[] = {{"models", help_models}, {"rules", help_rules}, {"names", help_names}, {"terms", help_terms}};

#define TOPIC_COUNT (sizeof topics / sizeof *topics)
#define COMMANDS_MAX 64

static int unknown_topic(const char *topic)
{
  const char *names[TOPIC_COUNT + COMMANDS_MAX];
  char near[160];
  size_t count, named = 0;
  const cli_command *commands = cli_all_commands(&count);
  for (size_t i = 0; i < TOPIC_COUNT; i++)
    names[named++] = topics[i].name;
  for (size_t i = 0; i < count && i < COMMANDS_MAX; i++)
    names[named++] = commands[i].name;
  hr_suggest_names(topic, names, named, near, sizeof near);
  return cli_fail(EXIT_USAGE, "help: there is no topic \"%s\"%s", topic, near[0] ? near : "; see headroom help");
}

static int help_summary(FILE *out)
{
  cli_print_summary(out);
  return CLI_GO_ON;
}

static print_fn find_topic(const char *topic)
{
  for (size_t i = 0; i < TOPIC_COUNT; i++) {
    if (strcmp(topics[i].name, topic) == 0)
      return topics[i].print;
  }
  return NULL;
}

int cli_help(const cli_run *run)
{
  cli_output output;
  const char *topic = run->argument_count > 0 ? run->arguments[0] : NULL;
  if (run->argument_count > 1)
    return cli_fail(EXIT_USAGE, "help: expected one topic, found \"%s\" after \"%s\"", run->arguments[1], topic);
  const cli_command *command = topic ? cli_find_command(topic) : NULL;
  if (command)
    return cli_print_help(command);
  print_fn print = topic ? find_topic(topic) : help_summary;
  if (!print)
    return unknown_topic(topic);
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  code = print(output.stream);
  if (code == CLI_GO_ON)
    return cli_text_close(&output);
  cli_output_discard(&output);
  return code;
}
