/* SPDX-License-Identifier: Apache-2.0 */
/* The stream that a result is written to: as stdio's, but Ctrl-C ends it. stdio gives up a buffer when a signal
 * interrupts its write, and blocks again in the next one. Text for a terminal is cleaned (clean.h); other files get
 * every byte. */
#ifndef CLI_OUTPUT_STREAM_H
#define CLI_OUTPUT_STREAM_H

#include <stdbool.h>
#include <stdio.h>

typedef struct cli_stream cli_stream;

/** A stream that writes to an open descriptor, which fclose() closes if `owned`. *state lives until then. NULL: memory
 *  ran out.
 *
 *  After an interruption (cli_interrupted()) that comes while the result is being written, writes fail with EINTR. What
 *  is begun after an interruption, the part of a result that was complete, is written as long as the reader takes it:
 *  the stream waits a second for one that has stalled. */
FILE *cli_stream_open(int file, bool owned, cli_stream **state);

/** Lets the colours of a report through to a terminal. */
void cli_stream_pass_colours(cli_stream *state);

/** The errno of the first write that failed; 0 if none has. */
int cli_stream_error(const cli_stream *state);

#endif
