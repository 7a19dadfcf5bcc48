/* SPDX-License-Identifier: Apache-2.0 */
/* Names that device files had for keys and kinds before; a file may have either. Thread safety: as its tree. */
#ifndef HR_HARDWARE_FILE_FORMER_NAMES_H
#define HR_HARDWARE_FILE_FORMER_NAMES_H

#include "json/json.h"

/** Gives every key and kind of `device`, the object of `reader`, its present name. Errors: HR_ERROR_INVALID if an
 *  object has a key by both names; HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_take_former_names(const hr_json_reader *reader, json_t *device);

#endif
