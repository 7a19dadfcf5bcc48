#include "groups.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static const cli_command commands[] = {
#define CLI_COMMAND(name, arguments, groups, summary) {#name, arguments, groups, summary, cli_##name},
#include "commands.inc"
#undef CLI_COMMAND
};

const cli_command *cli_commands(size_t *count)
{
  *count = sizeof commands / sizeof *commands;
  return commands;
}

const cli_command *cli_find_command(const char *name)
{
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  }
  return NULL;
}

/* A message stays on one line and cannot steer the terminal, whatever is in a name. */
static void clean(char *text)
{
  for (unsigned char *c = (unsigned char *)text; *c; c++) {
    if (*c < ' ' || *c == 0x7F || (*c == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0))
      *c = '?';
  }
}

int cli_fail(int code, const char *format, ...)
{
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  clean(message);
  fprintf(stderr, "headroom: %s\n", message);
  return code;
}

static const int status_codes[HR_STATUS_COUNT] = {
    [HR_OK] = EXIT_FINE,
    [HR_ERROR_INVALID] = EXIT_INPUT,
    [HR_ERROR_UNREADABLE] = EXIT_INPUT,
    [HR_ERROR_NOT_FOUND] = EXIT_INPUT,
    [HR_ERROR_UNSUPPORTED] = EXIT_UNSUPPORTED,
    [HR_ERROR_UNAVAILABLE] = EXIT_UNSUPPORTED,
    [HR_ERROR_OVERFLOW] = EXIT_INPUT,
    [HR_ERROR_OUT_OF_MEMORY] = EXIT_OUTPUT,
    [HR_ERROR_TIMEOUT] = EXIT_UNSUPPORTED,
    [HR_ERROR_NOISY] = EXIT_UNSUPPORTED,
    [HR_ERROR_WRONG_RESULT] = EXIT_UNSUPPORTED,
    [HR_ERROR_INTERRUPTED] = EXIT_INTERRUPTED,
    [HR_ERROR_OUTPUT] = EXIT_OUTPUT,
    [HR_ERROR_BACKEND] = EXIT_UNSUPPORTED,
};

int cli_fail_status(hr_status status, const hr_error *error)
{
  int code = (unsigned)status < HR_STATUS_COUNT ? status_codes[status] : EXIT_UNSUPPORTED;
  if (status == HR_ERROR_INTERRUPTED)
    return code;
  return cli_fail(code, "%s", error->message[0] ? error->message : hr_status_sentence(status));
}

int cli_flush(FILE *out)
{
  if (fflush(out) == 0 && !ferror(out))
    return EXIT_FINE;
  return errno == EPIPE ? EXIT_OUTPUT : cli_fail(EXIT_OUTPUT, "standard output: %s", strerror(errno));
}

static void print_summary(FILE *out)
{
  fprintf(out, "Usage: headroom COMMAND [OPTION...]\n\n"
               "How fast a transformer's shape runs on a device, why, and which nearby shape is faster.\n\n");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(out, "  %-11s%s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\nMODEL is a config.json, a directory that has one, a name of `headroom help models`, - for standard\n"
               "input, or the short form, as in '{\"h\":2560,\"a\":32,\"L\":32,\"v\":50257,\"s\":2048,\"b\":4}'.\n"
               "`headroom COMMAND --help` shows the options of a command.\n");
}

static int unknown_command(const char *name)
{
  const char *names[sizeof commands / sizeof *commands];
  char near[160];
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    names[i] = commands[i].name;
  hr_suggest_names(name, names, sizeof commands / sizeof *commands, near, sizeof near);
  return cli_fail(EXIT_USAGE, "there is no command %s%s", name, near[0] ? near : "; see headroom help");
}

int cli_print_summary(void)
{
  print_summary(stdout);
  return cli_flush(stdout);
}

/* A file that is opened later must not become standard output or errors because these were closed. What takes their
 * place fails as a closed one does: it cannot be written, or of standard input read. */
static void hold_closed_streams(void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest that is free: fd */
  }
}

int main(int argc, char **argv)
{
  hold_closed_streams();
  if (argc < 2) {
    print_summary(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return cli_print_summary();
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("headroom %s\n", HR_VERSION);
    return cli_flush(stdout);
  }
  const cli_command *command = cli_find_command(name);
  if (!command)
    return unknown_command(name);
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of writing, as a full disk is */
  cli_catch_signals();
  return cli_run_command(command, argc - 1, (const char **)(argv + 1));
}
