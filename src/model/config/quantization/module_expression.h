/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of module names: literals, `.`, classes, `^`, `$`, alternatives, groups, `*`, `+` and `?`. An
 * expression is compiled once. All states that it may be in are carried through a name together, so that the work is at
 * most states times characters. Thread safety: functions of their arguments. */
#ifndef HR_MODEL_CONFIG_QUANTIZATION_MODULE_EXPRESSION_H
#define HR_MODEL_CONFIG_QUANTIZATION_MODULE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Longest text of an expression. */
#define HR_EXPRESSION_LENGTH 256

/** A character becomes at most two instructions; the last one accepts. */
#define HR_EXPRESSION_SIZE (2 * HR_EXPRESSION_LENGTH + 1)

typedef enum hr_ending {
  HR_ENDS_ANYWHERE,  /* as Python's re.match() */
  HR_ENDS_AT_MODULES /* at the end of the name or of a module in it */
} hr_ending;

typedef struct hr_module_instruction {
  uint8_t kind;
  uint16_t length; /* of an atom */
  int16_t at;      /* the atom in the text, or the distance to another instruction */
} hr_module_instruction;

typedef struct hr_module_expression {
  const char *text;
  hr_ending ending;
  int count;
  hr_module_instruction code[HR_EXPRESSION_SIZE];
} hr_module_expression;

/** Compiles a text of at most HR_EXPRESSION_LENGTH characters, which must outlive the expression. Returns false for one
 *  that is not supported. */
bool hr_compile_expression(const char *text, hr_ending ending, hr_module_expression *expression);

/** The beginning of a name, read by an expression. */
typedef struct hr_matching {
  const hr_module_expression *expression;
  int64_t *work;            /* grows by the states and characters that are looked at */
  bool found, accepts, fed; /* matched; would match if the name or module ended here; characters have been read */
  int count;
  uint16_t states[HR_EXPRESSION_SIZE];
} hr_matching;

/** Begins a name. */
void hr_matching_begin(hr_matching *matching, const hr_module_expression *expression, int64_t *work);

/** Copies only the states that there are. */
void hr_matching_copy(hr_matching *to, const hr_matching *from);

/** Whether the same may follow. */
bool hr_matching_equals(const hr_matching *a, const hr_matching *b);

/** Reads more of the name. */
void hr_matching_read(hr_matching *matching, const char *text);

/** Reads the rest of the name and returns whether the expression matches its beginning; `matching` stays as it was. */
bool hr_matching_ends(const hr_matching *matching, const char *rest);

#endif
