/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/resolve.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_RESOLVE_H
#define HEADROOM_EXPERIMENTAL_RESOLVE_H

#include <headroom/experimental/checkpoint.h>
#include <headroom/resolve.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Reads the headers of the safetensors files beside the configuration that hr_resolve_model() takes for `what`:
 *  model.safetensors, else the files that model.safetensors.index.json names, else model-00001-of-….safetensors; or the
 *  file or index that `what` itself is, of a shard the whole checkpoint. The tensors' data are not read. Without such
 *  files, and for a model that is not a file, checkpoint->files is 0. HR_ERROR_NOT_FOUND if files are missing or are
 *  pointers of Git LFS; HR_ERROR_UNREADABLE for a file or index that breaks the format's rules, naming file and tensor;
 *  HR_ERROR_OVERFLOW, HR_ERROR_OUT_OF_MEMORY, errors of finding `what`. Memory is bounded by the number of tensors, at
 *  most 2^21, not by what a file claims. */
HR_API hr_status hr_resolve_checkpoint(const char *what, hr_checkpoint *checkpoint, hr_error *error);

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
