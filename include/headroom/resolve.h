/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves a name, file or directory that a user types to a model or a device.
 *
 * Thread safety: the functions keep no state. */
#ifndef HEADROOM_RESOLVE_H
#define HEADROOM_RESOLVE_H

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

/** Reads a device: a built-in name, a device file (a name with '/' or ending in ".json"), or a device of this machine,
 *  "cpu" or "cuda:N": as `headroom calibrate` has fitted it (hr_calibration_path()), else detected, not measured.
 *  HR_ERROR_NOT_FOUND with similar names; HR_ERROR_UNAVAILABLE if this machine has no such device; HR_ERROR_UNREADABLE
 *  or HR_ERROR_INVALID for a damaged calibration, with its path. */
HR_API hr_status hr_resolve_hardware(const char *what, hr_hardware *hardware, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
