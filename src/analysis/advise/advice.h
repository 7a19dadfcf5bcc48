/* SPDX-License-Identifier: Apache-2.0 */
/* What an hr_advice has. */
#ifndef HR_ANALYSIS_ADVISE_ADVICE_H
#define HR_ANALYSIS_ADVISE_ADVICE_H

#include "analysis/predict/step.h"
#include "hardware/hardware.h"

#include <headroom/advise.h>

struct hr_advice {
  hr_advice_about about; /* its pointers are to the members below */
  hr_hardware hardware;
  hr_model model;
  hr_workload workload;
  hr_step step;
  hr_parallel_layouts layouts;
  hr_finding findings[HR_FINDINGS_MAX];
  hr_finding combined[HR_COMBINED_MAX];
};

#endif
