/* From what a user types to a model or a device: files, directories, built-in names, this machine.
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

/** Loads a model: a file, a directory with a config.json, or a built-in name (hr_catalog_models()); case of a built-in
 *  name does not matter, an organisation in front ("meta-llama/Llama-2-7b") is dropped, and the name of the public
 *  repository that it is from does as well ("Llama-2-7b-hf"). "-" reads standard input; text that begins with '{' is
 *  the configuration itself.
 *  Errors of hr_model_from_json(); HR_ERROR_NOT_FOUND with near names; HR_ERROR_UNREADABLE for a file over 16 MiB. */
HR_API hr_status hr_resolve_model(const char *what, hr_note_fn note, void *context, hr_model *model, hr_error *error);

/** Loads a device: a built-in name, a device file (a name with '/' or ending in ".json"), "cpu" (detected here, not
 *  measured) or "cuda:N". HR_ERROR_NOT_FOUND with near names; HR_ERROR_UNAVAILABLE where this machine has none. */
HR_API hr_status hr_resolve_hardware(const char *what, hr_hardware *hardware, hr_error *error);

/** hr_device_probe(), and what a probe does not tell (alignment, tiles, …) from the built-in file of the product, if
 *  there is one. Errors of hr_device_probe(); *hardware is then untouched. */
HR_API hr_status hr_resolve_probed(hr_device *device, hr_progress_fn progress, void *context, hr_hardware *hardware,
                                   hr_error *error);

/** Writes "; did you mean a, b or c?" to `text` with the (at most 3) names nearest to `wanted` by edit distance,
 *  nearest first; an empty text when none is near. */
HR_API void hr_suggest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
