/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error and the exit codes that go with them. */
#include "clean.h"
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* All of it: an interruption does not end a message. */
static void write_all(const char *text, size_t size)
{
  while (size > 0) {
    ssize_t written = write(STDERR_FILENO, text, size);
    if (written < 0 && errno != EINTR)
      return;
    text += written > 0 ? written : 0;
    size -= written > 0 ? (size_t)written : 0;
  }
}

int(cli_fail)(int code, const char *format, ...)
{
  static const char begin[] = "headroom: ";
  char message[1024], line[sizeof begin + sizeof message + CLI_CLEAN_MORE];
  cli_cleaner cleaner = {.one_line = true}; /* a message is one line and cannot control the terminal */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  size_t used = sizeof begin - 1;
  memcpy(line, begin, used);
  used += cli_clean(&cleaner, message, strlen(message), line + used);
  line[used++] = '\n';
  write_all(line, used);
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

int cli_fail_as(hr_status status, const char *message)
{
  int code = (unsigned)status < HR_STATUS_COUNT ? status_codes[status] : EXIT_UNSUPPORTED;
  if (status == HR_ERROR_INTERRUPTED)
    return code;
  return cli_fail(code, "%s", message[0] ? message : hr_status_sentence(status));
}

int(cli_fail_status)(hr_status status, const hr_error *error)
{
  return cli_fail_as(status, error->message);
}
