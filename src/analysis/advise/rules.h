/* SPDX-License-Identifier: Apache-2.0 */
/* The function of each row of advise_rules.inc. */
#ifndef HR_ANALYSIS_ADVISE_RULES_H
#define HR_ANALYSIS_ADVISE_RULES_H

#include "analysis/advise/findings.h"
#include "analysis/advise/format.h"

#define HR_RULE(name, change_class, combines, summary, source) void hr_rule_##name(hr_advice_context *context);
#include "analysis/advise/advise_rules.inc"
#undef HR_RULE

/** The rule mlp_width for a model whose main layers have experts: their width on each device is a multiple of 64.
 *  Returns false and adds nothing if they have none. */
bool hr_advise_expert_width(hr_advice_context *context);

#endif
