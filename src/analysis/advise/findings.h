/* SPDX-License-Identifier: Apache-2.0 */
/* The findings that a rule can add. Severity, gains and names of operators are filled in. */
#ifndef HR_ANALYSIS_ADVISE_FINDINGS_H
#define HR_ANALYSIS_ADVISE_FINDINGS_H

#include "analysis/advise/context.h"
#include "analysis/advise/operator_set.h"

/** The shape satisfies the rule: severity none. `operators` may be 0. */
void hr_add_satisfied(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why, ...)
    HR_PRINTF(4, 5);

/** The shape breaks the rule, but the rule does not apply to this device: severity none. */
void hr_add_not_applicable(hr_advice_context *context, hr_operator_set operators, const char *current, const char *why,
                           ...) HR_PRINTF(4, 5);

/** Whether no layer has attention with heads of hr_mixer_attention, or whether the main layers have no dense
 *  feed-forward network. The function then adds a finding that says so, severity none: a rule about such sizes has
 *  nothing to add. */
bool hr_lacks_heads(hr_advice_context *context);
bool hr_lacks_mlp(hr_advice_context *context); /* see hr_lacks_heads() */

/** Suggests the trial. The operator gain is that of `main` together; `others` are also listed. The severity follows
 *  from the net gain. Returns the finding, NULL if the list is full. */
hr_finding *hr_add_suggestion(hr_advice_context *context, const hr_trial *trial, hr_operator_set main,
                              hr_operator_set others, const char *current, const char *suggested, const char *why, ...)
    HR_PRINTF(7, 8);

/** The shape cannot run as requested: severity high. `trial` is a shape that can; if NULL, `needed` would have to
 *  change. */
hr_finding *hr_add_infeasible(hr_advice_context *context, const hr_trial *trial, hr_changed needed,
                              hr_operator_set main, const char *current, const char *suggested, const char *why, ...)
    HR_PRINTF(7, 8);

/** The rules in the order of application. */
const hr_rule_row *hr_rule_rows(size_t *count);

/** The row of the finding's rule; NULL for a combined suggestion. */
const hr_rule_row *hr_rule_row_of(const hr_finding *finding);

/** Fills advice->combined from the findings, which are in their final order. */
void hr_combine_findings(hr_advice_context *context);

/** Whether an earlier finding already changes the vocabulary, MLP width or batch that the trial changes. */
bool hr_already_suggested(const hr_advice_context *context, const hr_trial *trial);

#endif
