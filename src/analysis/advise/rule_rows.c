/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the rules. */
#include "analysis/advise/rules.h"

#include <headroom/experimental/advise.h>
#include <string.h>

static const hr_rule_row rows[] = {
#define HR_RULE(name, change_class, combines, summary, source) \
  {{#name, summary, source, HR_CHANGE_##change_class}, hr_rule_##name, combines},
#include "analysis/advise/advise_rules.inc"
#undef HR_RULE
};

static const hr_rule rules[] = {
#define HR_RULE(name, change_class, combines, summary, source) {#name, summary, source, HR_CHANGE_##change_class},
#include "analysis/advise/advise_rules.inc"
#undef HR_RULE
};

#define RULE_COUNT (sizeof rows / sizeof *rows)

const hr_rule *hr_rules(size_t *count)
{
  *count = RULE_COUNT;
  return rules;
}

const hr_rule_row *hr_rule_rows(size_t *count)
{
  *count = RULE_COUNT;
  return rows;
}

const hr_rule_row *hr_rule_row_of(const hr_finding *finding)
{
  for (size_t i = 0; i < RULE_COUNT; i++) {
    if (strcmp(rows[i].rule.name, finding->rule) == 0)
      return &rows[i];
  }
  return NULL;
}
