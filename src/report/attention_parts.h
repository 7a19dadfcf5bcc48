/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of a predicted attention or decode call. */
#ifndef HR_REPORT_ATTENTION_PARTS_H
#define HR_REPORT_ATTENTION_PARTS_H

#include "report/document.h"

#include <headroom/predict.h>

/** Prints the terms, and the tiles or thread blocks that they were counted with. */
void hr_print_attention_parts(const hr_document *document, const hr_prediction *prediction);

#endif
