/* SPDX-License-Identifier: Apache-2.0 */
/* A way out for a configuration of an unknown family: the short form of the same shape. */
#ifndef HR_MODEL_CONFIG_SHORT_FORM_OFFER_H
#define HR_MODEL_CONFIG_SHORT_FORM_OFFER_H

#include "model/config/config.h"

/** Writes the short form of a configuration that has no field which llama lacks (RMS norms, a SwiGLU network), so that
 *  it is exact if its layers are llama's. False, without a text, for any other configuration. */
bool hr_offer_short_form(const hr_config *config, char *text, size_t size);

#endif
