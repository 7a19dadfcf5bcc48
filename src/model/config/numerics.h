/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_CONFIG_NUMERICS_H
#define HR_MODEL_CONFIG_NUMERICS_H

#include "model/config/config.h"

/** Reads model->numerics by the row of numerics.inc of the model's family; without a row nothing is known. The rest of
 *  the model has been read. */
hr_status hr_read_numerics(hr_config *config, hr_model *model);

#endif
