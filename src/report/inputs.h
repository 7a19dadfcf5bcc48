/* SPDX-License-Identifier: Apache-2.0 */
/* What a report is about, a model, a device and a workload, as lines at its head and as objects of its JSON. */
#ifndef HR_REPORT_INPUTS_H
#define HR_REPORT_INPUTS_H

#include "report/document.h"
#include "report/json.h"

void hr_print_model(const hr_document *document, const hr_model *model);
void hr_print_hardware(const hr_document *document, const hr_hardware *hardware);
void hr_print_workload(const hr_document *document, const hr_workload *workload);

/** The version of an inference server whose kernels the times are of; nothing of another framework. */
void hr_print_server_kernels(const hr_document *document, const hr_hardware *hardware, hr_framework framework);

/** Add the objects "model", "workload" and "hardware". */
void hr_json_put_model(hr_json document, const hr_model *model);
void hr_json_put_workload(hr_json document, const hr_workload *workload);
void hr_json_put_hardware(hr_json document, const hr_hardware *hardware); /* NULL is written as null */

#endif
