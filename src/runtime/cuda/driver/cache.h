/* Compiled kernels on disk, so that a program is compiled once and not at every start.
 *
 * A cache may be damaged, cut short, written by others or by two processes at a time: an entry is used only if it
 * belongs to this user, nobody else can write it, and its whole key and its checksum are right. It is written beside
 * and then renamed, so that nobody reads half of one. What cannot be read or written is compiled again; no error comes
 * of it. */
#ifndef HR_RUNTIME_CUDA_DRIVER_CACHE_H
#define HR_RUNTIME_CUDA_DRIVER_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#define HR_CACHE_PATH_SIZE 1024

/** $XDG_CACHE_HOME/headroom, or ~/.cache/headroom; "" where the environment names neither. */
void hr_cache_folder(char folder[HR_CACHE_PATH_SIZE]);

/** The image that was kept under `key`, in memory that the caller frees; false where there is none to trust. */
bool hr_cache_read(const char *folder, const char *key, char **image, size_t *bytes);

/** Keeps an image; makes the folder, for this user alone. */
void hr_cache_write(const char *folder, const char *key, const char *image, size_t bytes);

#endif
