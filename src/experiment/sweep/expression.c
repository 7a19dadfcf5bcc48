/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/sweep/expression.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 24 /* of nested brackets */

typedef struct parser {
  const char *at;
  const char *const *names;
  size_t name_count;
  hr_expression *expression;
  char *why;
  int depth;
} parser;

static hr_status wrong(char *why, hr_status status, const char *format, ...) HR_PRINTF(3, 4);
static hr_status wrong(char *why, hr_status status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  hr_write_text_v(why, HR_EXPRESSION_WHY_SIZE, format, arguments);
  va_end(arguments);
  return status;
}

static hr_status unexpected(const parser *p, const char *expected)
{
  if (*p->at == '\0')
    return wrong(p->why, HR_ERROR_INVALID, "expected %s at its end", expected);
  return wrong(p->why, HR_ERROR_INVALID, "expected %s at \"%.24s\"", expected, p->at);
}

static void skip_spaces(parser *p)
{
  p->at += strspn(p->at, " ");
}

static hr_status add_step(parser *p, hr_expression_op operation, int64_t operand)
{
  hr_expression *expression = p->expression;
  if (expression->count == HR_EXPRESSION_STEPS_MAX)
    return wrong(p->why, HR_ERROR_INVALID, "is too long: more than %d numbers, names and operators",
                 HR_EXPRESSION_STEPS_MAX);
  expression->steps[expression->count++] = (hr_expression_step){operation, operand};
  return HR_OK;
}

static hr_status parse_number(parser *p)
{
  int64_t number = 0;
  for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *p->at - '0', &number))
      return wrong(p->why, HR_ERROR_INVALID, "has a number that does not fit into 64 bits");
  }
  return add_step(p, HR_EXPRESSION_OP_NUMBER, number);
}

static hr_status parse_name(parser *p)
{
  size_t length = strspn(p->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
  for (size_t i = 0; i < p->name_count; i++) {
    if (strlen(p->names[i]) == length && strncmp(p->names[i], p->at, length) == 0) {
      p->at += length;
      p->expression->uses |= UINT32_C(1) << i;
      return add_step(p, HR_EXPRESSION_OP_NAME, (int64_t)i);
    }
  }
  return wrong(p->why, HR_ERROR_INVALID, "there is no axis \"%.*s\"", (int)(length < 40 ? length : 40), p->at);
}

static hr_status parse_sum(parser *p);

/* Parses what follows "(", up to its ")". */
static hr_status parse_nested(parser *p)
{
  if (p->depth == DEPTH_MAX)
    return wrong(p->why, HR_ERROR_INVALID, "has more than %d nested brackets", DEPTH_MAX);
  p->depth++;
  hr_status status = parse_sum(p);
  p->depth--;
  if (status != HR_OK)
    return status;
  if (*p->at != ')')
    return unexpected(p, "\")\" or an operator");
  p->at++;
  return HR_OK;
}

static hr_status parse_operand(parser *p)
{
  skip_spaces(p);
  hr_status status;
  if (*p->at >= '0' && *p->at <= '9') {
    status = parse_number(p);
  } else if (*p->at >= 'a' && *p->at <= 'z') {
    status = parse_name(p);
  } else if (*p->at == '(') {
    p->at++;
    status = parse_nested(p);
  } else {
    return unexpected(p, "a number, a name or \"(\"");
  }
  skip_spaces(p);
  return status;
}

static hr_status parse_product(parser *p)
{
  hr_status status = parse_operand(p);
  while (status == HR_OK && *p->at && strchr("*/%", *p->at)) {
    hr_expression_op operation = *p->at == '*'   ? HR_EXPRESSION_OP_MULTIPLY
                                 : *p->at == '/' ? HR_EXPRESSION_OP_DIVIDE
                                                 : HR_EXPRESSION_OP_REMAINDER;
    p->at++;
    status = parse_operand(p);
    if (status == HR_OK)
      status = add_step(p, operation, 0);
  }
  return status;
}

/* A sign may precede the first term. */
static hr_status parse_sum(parser *p)
{
  skip_spaces(p);
  bool negative = *p->at == '-';
  hr_status status = HR_OK;
  if (negative) {
    p->at++;
    status = add_step(p, HR_EXPRESSION_OP_NUMBER, 0);
  }
  if (status == HR_OK)
    status = parse_product(p);
  if (status == HR_OK && negative)
    status = add_step(p, HR_EXPRESSION_OP_SUBTRACT, 0);
  while (status == HR_OK && *p->at && strchr("+-", *p->at)) {
    hr_expression_op operation = *p->at == '+' ? HR_EXPRESSION_OP_ADD : HR_EXPRESSION_OP_SUBTRACT;
    p->at++;
    status = parse_product(p);
    if (status == HR_OK)
      status = add_step(p, operation, 0);
  }
  return status;
}

hr_expression hr_expression_number(int64_t number)
{
  return (hr_expression){.count = 1, .steps = {{HR_EXPRESSION_OP_NUMBER, number}}};
}

hr_status hr_expression_parse(const char *text, const char *const *names, size_t count, hr_expression *expression,
                              char why[HR_EXPRESSION_WHY_SIZE])
{
  parser p = {.at = text, .names = names, .name_count = count, .expression = expression};
  p.why = why;
  *expression = (hr_expression){.count = 0};
  hr_status status = parse_sum(&p);
  if (status == HR_OK && *p.at != '\0')
    return unexpected(&p, "an operator");
  return status;
}

static hr_status divide(hr_expression_op operation, int64_t a, int64_t b, int64_t *result, char *why)
{
  char sign = operation == HR_EXPRESSION_OP_DIVIDE ? '/' : '%';
  if (b == 0)
    return wrong(why, HR_ERROR_INVALID, "%" PRId64 " %c 0: division by zero", a, sign);
  if (a == INT64_MIN && b == -1)
    return wrong(why, HR_ERROR_OVERFLOW, "%" PRId64 " %c -1 does not fit into 64 bits", a, sign);
  *result = operation == HR_EXPRESSION_OP_DIVIDE ? a / b : a % b;
  return HR_OK;
}

static hr_status compute(hr_expression_op operation, int64_t a, int64_t b, int64_t *result, char *why)
{
  static const char signs[] = {
      [HR_EXPRESSION_OP_ADD] = '+', [HR_EXPRESSION_OP_SUBTRACT] = '-', [HR_EXPRESSION_OP_MULTIPLY] = '*'};
  if (operation == HR_EXPRESSION_OP_DIVIDE || operation == HR_EXPRESSION_OP_REMAINDER)
    return divide(operation, a, b, result, why);
  bool overflow;
  if (operation == HR_EXPRESSION_OP_ADD)
    overflow = __builtin_add_overflow(a, b, result);
  else if (operation == HR_EXPRESSION_OP_SUBTRACT)
    overflow = __builtin_sub_overflow(a, b, result);
  else
    overflow = __builtin_mul_overflow(a, b, result);
  if (overflow)
    return wrong(why, HR_ERROR_OVERFLOW, "%" PRId64 " %c %" PRId64 " does not fit into 64 bits", a, signs[operation],
                 b);
  return HR_OK;
}

hr_status hr_expression_value(const hr_expression *expression, const int64_t *values, int64_t *value,
                              char why[HR_EXPRESSION_WHY_SIZE])
{
  int64_t stack[HR_EXPRESSION_STEPS_MAX] = {0};
  size_t top = 0;
  for (size_t i = 0; i < expression->count; i++) {
    const hr_expression_step *step = &expression->steps[i];
    if (step->operation == HR_EXPRESSION_OP_NUMBER || step->operation == HR_EXPRESSION_OP_NAME) {
      stack[top++] = step->operation == HR_EXPRESSION_OP_NUMBER ? step->operand : values[step->operand];
      continue;
    }
    top--;
    hr_status status = compute(step->operation, stack[top - 1], stack[top], &stack[top - 1], why);
    if (status != HR_OK)
      return status;
  }
  *value = stack[0];
  return HR_OK;
}
