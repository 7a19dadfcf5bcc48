/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error and the exit codes that go with them. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Replaces control characters: a message is one line and cannot control the terminal. */
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
  cli_blocking(true);
  bool written = fflush(out) == 0 && !ferror(out);
  int reason = errno;
  cli_blocking(false);
  if (written)
    return EXIT_FINE;
  return reason == EPIPE ? EXIT_OUTPUT : cli_fail(EXIT_OUTPUT, "standard output: %s", strerror(reason));
}
