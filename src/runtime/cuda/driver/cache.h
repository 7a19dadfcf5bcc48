/* SPDX-License-Identifier: Apache-2.0 */
/* Cache of compiled kernels on disk.
 *
 * An entry may be damaged, truncated, or written by others or by two processes at a time. It is used only if it belongs
 * to this user, nobody else can write it, and its whole key and its checksum are right. It is written to a temporary
 * file and then renamed, so that no reader sees half of it. A cache that cannot be read or written is no error:
 * programs are compiled again. */
#ifndef HR_RUNTIME_CUDA_DRIVER_CACHE_H
#define HR_RUNTIME_CUDA_DRIVER_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#define HR_CACHE_PATH_SIZE 1024

/** $XDG_CACHE_HOME/headroom, or ~/.cache/headroom; "" if the environment has neither. */
void hr_cache_folder(char folder[HR_CACHE_PATH_SIZE]);

/** Reads the image stored under `key`; the caller frees it. False if there is no valid entry. */
bool hr_cache_read(const char *folder, const char *key, char **image, size_t *bytes);

/** Stores an image; creates the folder with mode 0700. */
void hr_cache_write(const char *folder, const char *key, const char *image, size_t bytes);

#endif
