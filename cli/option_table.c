/* SPDX-License-Identifier: Apache-2.0 */
/* The options as rows, with readers of their values: each accepts the whole text or refuses it. */
#include "option_table.h"

#include "groups.h"

#include <headroom/experimental/advise.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/resolve.h>
#include <headroom/experimental/workload.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const cli_option_row *row, const char *expected, const char *text)
{
  return cli_fail(EXIT_USAGE, "--%s: expected %s, found \"%s\"", row->name, expected, text);
}

#define CHOICES_MAX 16

int cli_wrong_choice(const char *what, const char *choices, const char *text)
{
  char copy[160], near[160];
  const char *names[CHOICES_MAX];
  size_t count = 0;
  snprintf(copy, sizeof copy, "%s", choices);
  for (char *rest, *name = strtok_r(copy, "|,", &rest); name && count < CHOICES_MAX; name = strtok_r(NULL, "|,", &rest))
    names[count++] = name;
  if (text[0] == '\0')
    return cli_fail(EXIT_USAGE, "%s: expected one of %s, found an empty name", what, choices);
  hr_suggest_names(text, names, count, near, sizeof near);
  return cli_fail(EXIT_USAGE, "%s: expected one of %s, found \"%s\"%s", what, choices, text, near);
}

/* `status`: whether `text` is one of the row's "a|b|c". */
static int read_choice(const cli_option_row *row, const char *text, hr_status status)
{
  char option[48];
  snprintf(option, sizeof option, "--%s", row->name);
  return status == HR_OK ? CLI_GO_ON : cli_wrong_choice(option, row->argument, text);
}

/* Digits only. A number beyond 64 bits becomes the largest. */
static bool read_integer(const char *text, int64_t *value)
{
  if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
    return false;
  *value = strtoll(text, NULL, 10);
  return true;
}

static int read_FLAG(const cli_option_row *row, const char *text, void *value)
{
  (void)row;
  (void)text;
  *(bool *)value = true;
  return CLI_GO_ON;
}

static int read_TEXT(const cli_option_row *row, const char *text, void *value)
{
  if (text[0] == '\0')
    return wrong(row, "a name", text);
  *(const char **)value = text;
  return CLI_GO_ON;
}

static int read_INTEGER(const cli_option_row *row, const char *text, void *value)
{
  int64_t number;
  if (!read_integer(text, &number) || (double)number < row->least)
    return wrong(row, row->least < 1 ? "an integer of at least 0" : "a positive integer", text);
  if ((double)number > row->most)
    return cli_fail(EXIT_USAGE, "--%s: expected an integer of at most %.0f, found %s", row->name, row->most, text);
  *(int64_t *)value = number;
  return CLI_GO_ON;
}

static int read_NUMBER(const cli_option_row *row, const char *text, void *value)
{
  char *end;
  bool plain = text[0] != '\0' && strspn(text, "0123456789.eE+-") == strlen(text) && strchr("0123456789.", text[0]);
  double number = strtod(text, &end);
  if (plain && *end == '\0' && number >= row->least && number <= row->most) {
    *(double *)value = number;
    return CLI_GO_ON;
  }
  char expected[64];
  snprintf(expected, sizeof expected, "a number from %g to %g", row->least, row->most);
  return wrong(row, expected, text);
}

/* A number with its unit, such as 500ms; up to a day. */
static int read_DURATION(const cli_option_row *row, const char *text, void *value)
{
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  size_t length = strspn(text, "0123456789.");
  char number[32], *end = number;
  snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), text);
  double given = number[0] ? strtod(number, &end) : 0;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    double ns = given * units[i].ns;
    if (end > number && *end == '\0' && strcmp(text + length, units[i].unit) == 0 && ns >= 1 && ns <= 86400e9) {
      *(double *)value = ns;
      return CLI_GO_ON;
    }
  }
  return wrong(row, "a time with its unit, such as 500ms, 0.5s or 800us, of up to a day", text);
}

/* A number, or one with K, M, B or T: 300B. */
static int read_QUANTITY(const cli_option_row *row, const char *text, void *value)
{
  static const struct {
    const char *suffix;
    double factor;
  } suffixes[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  char *end;
  bool plain = strspn(text, "0123456789.eE+KMBT") == strlen(text) && text[0] != '\0' && strchr("0123456789.", text[0]);
  double number = plain ? strtod(text, &end) : 0;
  for (size_t i = 0; plain && i < sizeof suffixes / sizeof *suffixes; i++) {
    double given = number * suffixes[i].factor;
    if (end > text && strcmp(end, suffixes[i].suffix) == 0 && given >= row->least && given <= row->most) {
      *(double *)value = given;
      return CLI_GO_ON;
    }
  }
  char expected[80];
  snprintf(expected, sizeof expected, "a number from %g to %g, such as 300B or 1T", row->least, row->most);
  return wrong(row, expected, text);
}

/* MIN:MAX, or MIN:MAX:STEP if the option's argument has STEP, or one value. */
static int read_RANGE(const cli_option_row *row, const char *text, void *value)
{
  char copy[80];
  int64_t numbers[3] = {0, 0, 0};
  int count = 0, most = strstr(row->argument, "STEP") ? 3 : 2;
  snprintf(copy, sizeof copy, "%s", text);
  bool good = strlen(text) < sizeof copy;
  for (char *part = copy; good && part;) {
    char *colon = strchr(part, ':');
    if (colon)
      *colon++ = '\0';
    good = count < most && read_integer(part, &numbers[count]) && numbers[count] >= 1 &&
           (double)numbers[count] <= row->most;
    count++;
    part = colon;
  }
  if (count == 1)
    numbers[1] = numbers[0];
  if (!good || numbers[0] > numbers[1]) {
    char expected[64];
    snprintf(expected, sizeof expected, "%s of positive integers", row->argument);
    return wrong(row, expected, text);
  }
  *(cli_range *)value = (cli_range){numbers[0], numbers[1], numbers[2]};
  return CLI_GO_ON;
}

/* The length of the first of the values that commas separate, and where the next begins: NULL after the last. */
static size_t take_value(const char *text, const char **next)
{
  size_t length = strcspn(text, ",");
  *next = text[length] == ',' ? text + length + 1 : NULL;
  return length;
}

/* N,N,… */
static int read_SIZES(const cli_option_row *row, const char *text, void *value)
{
  cli_sizes sizes = {.count = 0};
  bool good = true;
  for (const char *part = text, *next; good && part; part = next) {
    char number[24];
    size_t length = take_value(part, &next);
    snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), part);
    if (sizes.count == CLI_SIZES_MAX)
      return cli_fail(EXIT_USAGE, "--%s: expected at most %d values", row->name, CLI_SIZES_MAX);
    int64_t *size = &sizes.values[sizes.count++];
    good = read_integer(number, size) && (double)*size >= row->least && (double)*size <= row->most;
  }
  if (!good) {
    char expected[64];
    snprintf(expected, sizeof expected, "integers from %.0f to %.0f with commas between", row->least, row->most);
    return wrong(row, expected, text);
  }
  *(cli_sizes *)value = sizes;
  return CLI_GO_ON;
}

/* X,X,… */
static int read_NUMBERS(const cli_option_row *row, const char *text, void *value)
{
  cli_numbers numbers = {.count = 0};
  for (const char *part = text, *next; part; part = next) {
    char number[40];
    size_t length = take_value(part, &next);
    snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), part);
    if (numbers.count == CLI_SIZES_MAX)
      return cli_fail(EXIT_USAGE, "--%s: expected at most %d values", row->name, CLI_SIZES_MAX);
    int code = read_NUMBER(row, number, &numbers.values[numbers.count++]);
    if (code != CLI_GO_ON)
      return code;
  }
  *(cli_numbers *)value = numbers;
  return CLI_GO_ON;
}

/* Names of sizes that a search may vary, with commas between: those that the option's argument has. */
static int read_SHAPE_SIZES(const cli_option_row *row, const char *text, void *value)
{
  static const hr_search_size all[] = {
#define SIZE_VALUE(enumerator, bit, name) enumerator,
      HR_SEARCH_SIZE_LIST(SIZE_VALUE)
#undef SIZE_VALUE
  };
  uint32_t bits = 0;
  for (const char *part = text, *next; part; part = next) {
    size_t length = take_value(part, &next), i = 0;
    for (; i < sizeof all / sizeof *all; i++) {
      const char *name = hr_search_size_name(all[i]);
      if (strlen(name) == length && strncmp(part, name, length) == 0 && strstr(row->argument, name))
        break;
    }
    if (i == sizeof all / sizeof *all) {
      char name[64];
      snprintf(name, sizeof name, "%.*s", (int)length, part);
      return read_choice(row, name, HR_ERROR_NOT_FOUND);
    }
    bits |= (uint32_t)all[i];
  }
  *(uint32_t *)value |= bits;
  return CLI_GO_ON;
}

/* I/N with 1 ≤ I ≤ N. */
static int read_SHARD(const cli_option_row *row, const char *text, void *value)
{
  char index[24], *slash = strchr(text, '/');
  cli_shard shard = {0, 0};
  size_t length = slash ? (size_t)(slash - text) : sizeof index;
  snprintf(index, sizeof index, "%.*s", (int)(length < sizeof index ? length : 0), text);
  if (!slash || !read_integer(index, &shard.index) || !read_integer(slash + 1, &shard.count) || shard.index < 1 ||
      shard.index > shard.count || shard.count > SHARDS_MAX)
    return wrong(row, shard.count > SHARDS_MAX ? "I/N with N of at most a million" : "I/N with 1 <= I <= N", text);
  *(cli_shard *)value = shard;
  return CLI_GO_ON;
}

static int read_PHASE(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_phase_parse(text, value));
}

static int read_ATTENTION(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_attention_form_parse(text, value));
}

static int read_RECOMPUTE(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_recompute_parse(text, value));
}

static int read_DROPOUT(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_dropout_parse(text, value));
}

static int read_FLASH_LIBRARY(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_flash_library_parse(text, value));
}

static int read_ENGINE(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_serve_engine_parse(text, value));
}

/* Reads a server whose command line is known. */
static int read_EMITTED(const cli_option_row *row, const char *text, void *value)
{
  bool unknown = strcmp(text, "turbomind") == 0 || strcmp(text, "none") == 0;
  return read_choice(row, text, unknown ? HR_ERROR_NOT_FOUND : hr_serve_engine_parse(text, value));
}

static int read_FRAMEWORK(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_framework_parse(text, value));
}

static int read_CLOCK(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_clock_parse(text, value));
}

static int read_CACHE(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_cache_parse(text, value));
}

static int read_LAYOUT(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_layout_parse(text, value));
}

/* "bf16": as --dtype, whatever that is. */
static int read_CACHE_FORMAT(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_kv_format_parse(strcmp(text, "bf16") == 0 ? "unquantized" : text, value));
}

/* Reads a format that kernels read. */
static int read_READABLE_CACHE(const cli_option_row *row, const char *text, void *value)
{
  int code = read_CACHE_FORMAT(row, text, value);
  bool other = code == CLI_GO_ON && *(hr_kv_format *)value >= HR_KV_READABLE_COUNT;
  return other ? read_choice(row, text, HR_ERROR_NOT_FOUND) : code;
}

static int read_SCALES(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_kv_scales_parse(text, value));
}

/* Accepts PyTorch's names, too. */
static int read_DTYPE(const cli_option_row *row, const char *text, void *value)
{
  static const char *const names[][2] = {
      {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}, {"float32", "fp32"}, {"float64", "fp64"}};
  const char *name = text;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    name = strcmp(text, names[i][0]) == 0 ? names[i][1] : name;
  return read_choice(row, text, hr_dtype_parse(name, value));
}

static int read_FORMAT(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_format_parse(text, value));
}

static int read_CSV(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_csv_table_parse(text, value));
}

static int read_VIEW(const cli_option_row *row, const char *text, void *value)
{
  return read_choice(row, text, hr_view_parse(text, value));
}

static int read_COLOR(const cli_option_row *row, const char *text, void *value)
{
  static const char *const names[] = {
      [CLI_COLOR_AUTO] = "auto", [CLI_COLOR_ALWAYS] = "always", [CLI_COLOR_NEVER] = "never"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) == 0) {
      *(cli_color *)value = (cli_color)i;
      return CLI_GO_ON;
    }
  }
  return read_choice(row, text, HR_ERROR_NOT_FOUND);
}

/* Calls `read` for each part between commas until one fails. */
static int read_list(const cli_option_row *row, const char *text, void *value,
                     int (*read)(const cli_option_row *row, const char *part, void *value))
{
  char copy[512];
  int code = CLI_GO_ON;
  snprintf(copy, sizeof copy, "%s", text);
  if (strlen(text) >= sizeof copy)
    return cli_fail(EXIT_USAGE, "--%s: the list has more than %zu bytes", row->name, sizeof copy - 1);
  for (char *part = copy; part && code == CLI_GO_ON;) {
    char *comma = strchr(part, ',');
    if (comma)
      *comma++ = '\0';
    code = read(row, part, value);
    part = comma;
  }
  return code;
}

static int read_class(const cli_option_row *row, const char *text, void *value)
{
  hr_change_class change_class;
  hr_status status = hr_change_class_parse(text, &change_class);
  if (status == HR_OK)
    *(unsigned *)value |= 1u << change_class;
  return read_choice(row, text, status);
}

static int read_CLASSES(const cli_option_row *row, const char *text, void *value)
{
  return read_list(row, text, value, read_class);
}

static int read_point_kind(const cli_option_row *row, const char *text, void *value)
{
  static const hr_interval_kind drawn[] = {HR_INTERVAL_GEMM, HR_INTERVAL_BMM, HR_INTERVAL_ATTENTION,
                                           HR_INTERVAL_DECODE};
  hr_status status = HR_ERROR_NOT_FOUND;
  for (size_t i = 0; i < sizeof drawn / sizeof *drawn && status != HR_OK; i++) {
    if (strcmp(text, hr_interval_kind_name(drawn[i])) != 0)
      continue;
    *(unsigned *)value |= 1u << drawn[i];
    status = HR_OK;
  }
  return read_choice(row, text, status);
}

static int read_POINT_KINDS(const cli_option_row *row, const char *text, void *value)
{
  return read_list(row, text, value, read_point_kind);
}

static int read_trainer(const cli_option_row *row, const char *text, void *value)
{
  bool megatron = strcmp(text, "megatron") == 0, torchtitan = strcmp(text, "torchtitan") == 0;
  *(unsigned *)value |= megatron ? HR_TRAINING_MEGATRON : torchtitan ? HR_TRAINING_TORCHTITAN : 0;
  return read_choice(row, text, megatron || torchtitan ? HR_OK : HR_ERROR_NOT_FOUND);
}

static int read_TRAINERS(const cli_option_row *row, const char *text, void *value)
{
  return read_list(row, text, value, read_trainer);
}

#define RULES_MAX 64

static int read_rule(const cli_option_row *row, const char *text, void *value)
{
  const char *names[RULES_MAX];
  char near[160];
  size_t count;
  const hr_rule *rules = hr_rules(&count);
  for (size_t i = 0; i < count && i < RULES_MAX; i++) {
    names[i] = rules[i].name;
    if (strcmp(text, names[i]) == 0) {
      *(uint64_t *)value |= (uint64_t)1 << i;
      return CLI_GO_ON;
    }
  }
  hr_suggest_names(text, names, count, near, sizeof near);
  return cli_fail(EXIT_USAGE, "--%s: there is no rule \"%s\"%s", row->name, text,
                  near[0] ? near : "; see headroom help rules");
}

/* Adds to the rules of an earlier --only or --ignore. */
static int read_RULES(const cli_option_row *row, const char *text, void *value)
{
  return read_list(row, text, value, read_rule);
}

bool cli_adds_values(const cli_option_row *row)
{
  static const cli_value_reader adding[] = {read_SHAPE_SIZES, read_CLASSES, read_TRAINERS, read_POINT_KINDS,
                                            read_RULES};
  for (size_t i = 0; i < sizeof adding / sizeof *adding; i++) {
    if (row->read == adding[i])
      return true;
  }
  return false;
}

int cli_read_size(const char *what, const char *text, int64_t *value)
{
  int64_t number;
  if (!read_integer(text, &number) || number < 1)
    return cli_fail(EXIT_USAGE, "%s: expected a positive integer, found \"%s\"", what, text);
  if (number > LARGEST_SIZE)
    return cli_fail(EXIT_USAGE, "%s: expected an integer of at most %" PRId64 ", found %s", what, (int64_t)LARGEST_SIZE,
                    text);
  *value = number;
  return CLI_GO_ON;
}

const cli_option_row cli_option_rows[CLI_OPTION_COUNT] = {
#define CLI_OPTION(groups, member, name, letter, kind, least, most, argument, help) \
  {groups, name, letter, read_##kind, offsetof(cli_options, member), least, most, argument, help},
#include "options.inc"
#undef CLI_OPTION
};

const cli_synonym cli_synonyms[CLI_SYNONYM_COUNT] = {
#define CLI_SYNONYM(name, member, users) {name, CLI_OPTION_##member, users},
#include "synonyms.inc"
#undef CLI_SYNONYM
};

/* Whether a command with these groups has another option of the same name. */
static bool is_hidden(const cli_option_row *row, uint64_t groups)
{
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option_row *other = &cli_option_rows[i];
    if (other != row && strcmp(other->name, row->name) == 0 && (other->groups & groups & ~(uint64_t)GROUP_COMMON) != 0)
      return true;
  }
  return false;
}

int cli_group_of(const cli_option_row *row, uint64_t groups)
{
  int group = 0;
  while (group < CLI_GROUP_COUNT && (row->groups & groups & (UINT64_C(1) << group)) == 0)
    group++;
  if (group < CLI_GROUP_COUNT && UINT64_C(1) << group == GROUP_COMMON && is_hidden(row, groups))
    return CLI_GROUP_COUNT;
  return group;
}

bool cli_has_option(const cli_command *command, const char *name)
{
  for (int i = 0; i < CLI_OPTION_COUNT; i++) {
    if (cli_group_of(&cli_option_rows[i], command->groups) != CLI_GROUP_COUNT &&
        strcmp(cli_option_rows[i].name, name) == 0)
      return true;
  }
  return false;
}

bool cli_has_synonym(const cli_command *command, const cli_synonym *synonym)
{
  return cli_group_of(&cli_option_rows[synonym->row], command->groups) != CLI_GROUP_COUNT &&
         !cli_has_option(command, synonym->name);
}
