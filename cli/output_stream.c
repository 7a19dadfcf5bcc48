/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fopencookie */
#include "output_stream.h"

#include "clean.h"
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MS 200
#define WAITS_MAX 5 /* for a reader that has stalled, after an interruption */

struct cli_stream {
  int file;
  bool owned;
  bool regular; /* a file: it never blocks for long */
  bool begun;
  bool late; /* the interruption came before the first write */
  int error;
  bool terminal;
  cli_cleaner cleaner; /* of text for a terminal */
};

/* Waits until a write of PIPE_BUF bytes does not block. Returns false if the result is not to be written on. */
static bool is_ready(const cli_stream *s)
{
  for (int waits = 0;;) {
    if (cli_interrupted() && (!s->late || waits >= WAITS_MAX))
      return false;
    struct pollfd one = {.fd = s->file, .events = POLLOUT};
    int ready = s->regular ? 1 : poll(&one, 1, WAIT_MS);
    if (ready > 0 || (ready < 0 && errno != EINTR)) /* write() reports what is wrong */
      return true;
    waits += cli_interrupted();
  }
}

static void write_bytes(cli_stream *s, const char *bytes, size_t size)
{
  size_t done = 0;
  if (!s->begun)
    s->late = cli_interrupted();
  s->begun = true;
  while (done < size && s->error == 0) {
    if (!is_ready(s)) {
      s->error = EINTR;
      break;
    }
    size_t part = s->regular || size - done < PIPE_BUF ? size - done : PIPE_BUF;
    ssize_t written = write(s->file, bytes + done, part);
    if (written > 0)
      done += (size_t)written;
    else if (written == 0 || errno != EINTR)
      s->error = written == 0 ? EIO : errno;
  }
}

static void write_cleaned(cli_stream *s, const char *text, size_t size)
{
  char clean[512 + CLI_CLEAN_MORE];
  for (size_t at = 0, part; at < size; at += part) {
    part = size - at < 512 ? size - at : 512;
    write_bytes(s, clean, cli_clean(&s->cleaner, text + at, part, clean));
  }
}

static ssize_t write_all(void *context, const char *bytes, size_t size)
{
  cli_stream *s = context;
  if (s->terminal)
    write_cleaned(s, bytes, size);
  else
    write_bytes(s, bytes, size);
  errno = s->error;
  return s->error == 0 ? (ssize_t)size : 0;
}

static int close_stream(void *context)
{
  cli_stream *s = context;
  int closed = s->owned ? close(s->file) : 0;
  free(s);
  return closed;
}

FILE *cli_stream_open(int file, bool owned, cli_stream **state)
{
  struct stat about;
  cli_stream *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  *s = (cli_stream){.file = file, .owned = owned, .terminal = isatty(file)};
  s->regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  FILE *stream = fopencookie(s, "w", (cookie_io_functions_t){.write = write_all, .close = close_stream});
  if (!stream) {
    free(s);
    return NULL;
  }
  if (s->terminal)
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
  *state = s;
  return stream;
}

void cli_stream_pass_colours(cli_stream *state)
{
  state->cleaner.colours = true;
}

int cli_stream_error(const cli_stream *state)
{
  return state->error;
}
