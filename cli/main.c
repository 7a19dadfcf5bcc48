/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The functions are in the order of commands.inc. */
static const cli_command_fn functions[] = {
#define CLI_COMMAND(identifier, name, arguments, groups, summary) cli_##identifier,
#include "commands.inc"
#undef CLI_COMMAND
};

/* If standard input, output or error is closed, opens /dev/null in its place, in the direction that fails, so that a
 * file opened later does not become one of them. */
static void hold_closed_streams(void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest free descriptor: fd */
  }
}

static void print_licenses(FILE *out)
{
  size_t count;
  const hr_catalog_entry *licenses = hr_catalog_licenses(&count);
  for (size_t i = 0; i < count; i++)
    fprintf(out, "%s== %s ==\n\n%s", i > 0 ? "\n" : "", licenses[i].name, licenses[i].text);
}

static void print_version(FILE *out)
{
  fprintf(out, hr_version_commit()[0] ? "headroom %s, commit %s\n" : "headroom %s\n", hr_version(),
          hr_version_commit());
}

static int print(void (*write)(FILE *out))
{
  cli_output output;
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  write(output.stream);
  return cli_text_close(&output);
}

int main(int argc, char **argv)
{
  hold_closed_streams();
  if (argc < 2) {
    cli_print_summary(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return print(cli_print_summary);
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
    return print(print_version);
  if (strcmp(name, "--licenses") == 0)
    return print(print_licenses);
  const cli_command *command = cli_find_command(name);
  if (!command)
    return cli_unknown_command(name);
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails as on a full disk */
  cli_catch_signals();
  return cli_run_command(command, functions[cli_command_index(command)], argc - 1, argv + 1);
}
