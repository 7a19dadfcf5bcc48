/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves a name, file or directory that a user types to a model or a device.
 *
 * Thread safety: the functions keep no state. */
#ifndef HEADROOM_RESOLVE_H
#define HEADROOM_RESOLVE_H

#include <headroom/checkpoint.h>
#include <headroom/device.h>
#include <headroom/hardware.h>
#include <headroom/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Reads a model from one of:
 *  1. text that begins with '{': the configuration itself; "-": standard input
 *  2. a file, or a directory with a config.json; of a safetensors file or its index, the config.json beside it
 *  3. a built-in name (hr_catalog_models()) or the name of its public repository ("Llama-2-7b-hf",
 *     "meta-llama/Llama-2-7b-hf"), ignoring case
 *  4. a repository in the local cache of the Hugging Face hub, "org/name" or "name": its config.json at the branch
 *     main, or of "org/name@revision" at a branch, tag or commit. The cache is $HF_HUB_CACHE, else
 *     $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. Nothing is
 *     fetched
 *  5. a built-in name behind another organisation ("meta-llama/Llama-2-7b"), with a note
 *  The first that exists is taken. A built-in model comes before the cache, so that its name means the same on every
 *  machine; "@revision" always means the cache. Errors of hr_model_from_json(); HR_ERROR_NOT_FOUND with similar names
 *  and how to fetch the configuration; HR_ERROR_UNREADABLE for a file over 16 MiB or a damaged cache. */
HR_API hr_status hr_resolve_model(const char *what, hr_note_fn note, void *context, hr_model *model, hr_error *error);

/** Reads the headers of the safetensors files beside the configuration that hr_resolve_model() takes for `what`:
 *  model.safetensors, else the files that model.safetensors.index.json names, else model-00001-of-….safetensors; or the
 *  file or index that `what` itself is, of a shard the whole checkpoint. The tensors' data are not read. Without such
 *  files, and for a model that is not a file, checkpoint->files is 0. HR_ERROR_NOT_FOUND if files are missing or are
 *  pointers of Git LFS; HR_ERROR_UNREADABLE for a file or index that breaks the format's rules, naming file and tensor;
 *  HR_ERROR_OVERFLOW, HR_ERROR_OUT_OF_MEMORY, errors of finding `what`. Memory is bounded by the number of tensors, at
 *  most 2^21, not by what a file claims. */
HR_API hr_status hr_resolve_checkpoint(const char *what, hr_checkpoint *checkpoint, hr_error *error);

/** Reads a device: a built-in name, a device file (a name with '/' or ending in ".json"), or a device of this machine,
 *  "cpu" or "cuda:N": as `headroom calibrate` has fitted it (hr_calibration_path()), else detected, not measured.
 *  HR_ERROR_NOT_FOUND with similar names; HR_ERROR_UNAVAILABLE if this machine has no such device; HR_ERROR_UNREADABLE
 *  or HR_ERROR_INVALID for a damaged calibration, with its path. */
HR_API hr_status hr_resolve_hardware(const char *what, hr_hardware *hardware, hr_error *error);

/** The same without a calibration. `file` (may be NULL): the text of the device file that it is from, of a GPU of this
 *  machine that of its product; the caller frees it. NULL where there is none. */
HR_API hr_status hr_resolve_uncalibrated(const char *what, hr_hardware *hardware, char **file, hr_error *error);

/** Where the calibration of this machine's device is kept: calibrations/PRODUCT.json beside the default store
 *  (hr_store_default_path()). Creates nothing. HR_ERROR_INVALID if there is no such folder or the path does not fit. */
HR_API hr_status hr_calibration_path(const hr_hardware *hardware, char *path, size_t size, hr_error *error);

/** Creates the folders of hr_calibration_path(), with access for the user only. HR_ERROR_OUTPUT. */
HR_API hr_status hr_calibration_prepare(const char *path, hr_error *error);

/** hr_device_probe(), with the figures that a probe cannot measure (alignment, tiles, …) from the built-in file of the
 *  product, if there is one. Of a calibrated device only the ceilings are those of the probe. Errors of
 *  hr_device_probe() and of a damaged calibration; *hardware is then untouched. */
HR_API hr_status hr_resolve_probed(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                                   hr_error *error);

/** Writes "; did you mean a, b or c?" to `text` with at most 3 names nearest to `wanted` by edit distance, nearest
 *  first; "" if none is near. */
HR_API void hr_suggest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
