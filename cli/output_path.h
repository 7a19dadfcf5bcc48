/* SPDX-License-Identifier: Apache-2.0 */
/* What the path of a file to write names. */
#ifndef CLI_OUTPUT_PATH_H
#define CLI_OUTPUT_PATH_H

#include <stdbool.h>

/** The open descriptor that a path names, such as /dev/stdout, /dev/fd/3, or a link to one; -1 for any other path.
 *  Opening such a path anew would begin at the start of the file behind it, and replacing it would lose the rest. */
int cli_named_descriptor(const char *path);

/** The file to write: behind links, which are written through, also where that file does not exist yet. The caller
 *  frees it. NULL with errno: memory ran out, or a link that the system does not follow. */
char *cli_output_target(const char *path);

/** Whether two paths lead to one regular file, or to one name in a folder where no file is yet. */
bool cli_is_same_file(const char *one, const char *other);

/** A name for a temporary file in the folder of `target`, for mkstemp(). It does not depend on the target's name, which
 *  may be as long as names can be. The caller frees it. NULL: memory ran out. */
char *cli_temporary_beside(const char *target);

/** Returns 0 if a file can be made in the folder of `target`, else errno. */
int cli_check_folder(const char *target);

/** Makes a rename in the folder of `target` durable. Returns 0 or errno. */
int cli_sync_folder(const char *target);

#endif
