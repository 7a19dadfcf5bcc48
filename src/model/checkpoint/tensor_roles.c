/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint/tensor_roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const hr_tensor_form WHOLE = {0}, PLUS_ONE = {.added = 1}, TRANSPOSED = {.transposed = true},
                            QKV = {HR_JOIN_QKV, false, 0}, QKV_TRANSPOSED = {HR_JOIN_QKV, true, 0},
                            GROUPED_QKV = {HR_JOIN_GROUPED_QKV, false, 0},
                            CODEGEN_QKV = {HR_JOIN_CODEGEN_QKV, false, 0}, GATE_UP = {HR_JOIN_GATE_UP, false, 0},
                            GATE_UP_TRANSPOSED = {HR_JOIN_GATE_UP, true, 0},
                            INTERLEAVED_TRANSPOSED = {HR_JOIN_GATE_UP_INTERLEAVED, true, 0};

#define HR_TENSOR(layout, role, form, name)
#define HR_TENSOR_LAYOUT(layout, base, families) layout,
typedef enum layout_id {
#include "model/checkpoint/tensor_roles.inc"
  LAYOUT_COUNT
} layout_id;

static const struct {
  layout_id base; /* itself: it has none */
  const char *families;
} layouts[] = {
#define HR_TENSOR(layout, role, form, name)
#define HR_TENSOR_LAYOUT(layout, base, families) {base, families},
#include "model/checkpoint/tensor_roles.inc"
};

static const struct {
  layout_id layout;
  hr_weight_role role;
  const hr_tensor_form *form;
  const char *name;
} rows[] = {
#define HR_TENSOR(layout, role, form, name) {layout, HR_WEIGHT_##role, &form, name},
#define HR_TENSOR_LAYOUT(layout, base, families)
#include "model/checkpoint/tensor_roles.inc"
};

static const char *const role_names[] = {
#define ROW(enumerator, name, in_layer) [enumerator] = (name),
    HR_WEIGHT_ROLE_LIST(ROW)
#undef ROW
};

const char *hr_role_name(hr_weight_role role)
{
  return role_names[role];
}

/* ---- rows ---- */

/* Whether one of the words of a text is `word`. */
static bool has_word(const char *text, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += length) {
    if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
      return true;
  }
  return false;
}

static int layout_of(const char *family)
{
  for (int i = 0; i < LAYOUT_COUNT; i++) {
    if (family[0] && has_word(layouts[i].families, family))
      return i;
  }
  return -1;
}

static bool ends_with(const char *text, const char *ending)
{
  size_t length = strlen(text), end = strlen(ending);
  return length >= end && strcmp(text + length - end, ending) == 0;
}

/* A layout's own rows of a role; `bias`: of the role's bias. */
static size_t own_rows(layout_id layout, hr_weight_role role, bool bias, hr_tensor_row found[HR_TENSOR_ROWS_MAX])
{
  size_t count = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows && count < HR_TENSOR_ROWS_MAX; i++) {
    if (rows[i].layout != layout || rows[i].role != role || (bias && !ends_with(rows[i].name, ".weight")))
      continue;
    hr_tensor_form form = *rows[i].form;
    form.added = bias ? 0 : form.added;
    found[count++] = (hr_tensor_row){role, form, rows[i].name, bias};
  }
  return count;
}

size_t hr_tensor_rows(const char *family, hr_weight_role role, hr_tensor_row found[HR_TENSOR_ROWS_MAX])
{
  size_t count = 0;
  bool bias = ends_with(role_names[role], "_bias");
  for (int layout = layout_of(family), last = -1; layout != last && count == 0;) {
    if (layout < 0)
      return 0;
    count = own_rows((layout_id)layout, role, false, found);
    if (count == 0 && bias)
      count = own_rows((layout_id)layout, role - 1, true, found);
    last = layout;
    layout = (int)layouts[layout].base;
  }
  return count;
}

/* ---- names ---- */

void hr_write_tensor_name(const hr_tensor_row *row, const char *prefix, int64_t layer, int64_t item,
                          char name[HR_TENSOR_NAME_SIZE])
{
  size_t end = strlen(row->name) - (row->bias ? strlen("weight") : 0);
  size_t used = (size_t)snprintf(name, HR_TENSOR_NAME_SIZE, "%s", prefix);
  for (size_t i = row->name[0] == '~'; i < end && used < HR_TENSOR_NAME_SIZE - 24; i++) {
    char c = row->name[i];
    int written = c == '#' || c == '*' ? snprintf(name + used, 24, "%" PRId64, c == '#' ? layer : item)
                                       : snprintf(name + used, 2, "%c", c);
    used += (size_t)written;
  }
  snprintf(name + used, HR_TENSOR_NAME_SIZE - used, "%s", row->bias ? "bias" : "");
}

/* ---- joined tensors ---- */

typedef struct qkv_rows {
  int64_t q, k, v;
} qkv_rows;

static qkv_rows rows_of(const hr_mixer_attention *m)
{
  return (qkv_rows){m->q_heads * m->qk_dim, m->k_heads * m->qk_dim, m->v_heads * m->v_dim};
}

static hr_weight_role matrix_of(hr_weight_role role)
{
  return ends_with(role_names[role], "_bias") ? role - 1 : role;
}

static int64_t row_of_qkv(qkv_rows joined, hr_weight_role matrix, int64_t row)
{
  return row + (matrix == HR_WEIGHT_Q ? 0 : matrix == HR_WEIGHT_K ? joined.q : joined.q + joined.k);
}

static int64_t row_of_grouped_qkv(const hr_mixer_attention *m, hr_weight_role matrix, int64_t row)
{
  int64_t dim = m->qk_dim, queries = m->q_heads / m->k_heads, group = (queries + 2) * dim, head = row / dim,
          within = row % dim;
  if (matrix == HR_WEIGHT_Q)
    return head / queries * group + head % queries * dim + within;
  return head * group + (matrix == HR_WEIGHT_K ? queries : queries + 1) * dim + within;
}

static int64_t row_of_codegen_qkv(qkv_rows joined, hr_weight_role matrix, int64_t row)
{
  int64_t part = joined.q / 4, place = matrix == HR_WEIGHT_Q ? 0 : matrix == HR_WEIGHT_V ? 1 : 2;
  return (row / part * 3 + place) * part + row % part;
}

int64_t hr_joined_row(hr_tensor_join join, hr_weight_role role, const hr_layer_group *group, int64_t rows_of_role,
                      int64_t row)
{
  hr_weight_role matrix = matrix_of(role);
  bool up = matrix == HR_WEIGHT_UP || matrix == HR_WEIGHT_EXPERT_UP || matrix == HR_WEIGHT_SHARED_UP;
  switch (join) {
  case HR_JOIN_NONE: return row;
  case HR_JOIN_QKV: return row_of_qkv(rows_of(&group->attention), matrix, row);
  case HR_JOIN_GROUPED_QKV: return row_of_grouped_qkv(&group->attention, matrix, row);
  case HR_JOIN_CODEGEN_QKV: return row_of_codegen_qkv(rows_of(&group->attention), matrix, row);
  case HR_JOIN_GATE_UP: return row + (up ? rows_of_role : 0);
  case HR_JOIN_GATE_UP_INTERLEAVED: return 2 * row + up;
  }
  return row;
}

int64_t hr_joined_rows(hr_tensor_join join, const hr_layer_group *group, int64_t rows_of_role)
{
  if (join == HR_JOIN_NONE)
    return rows_of_role;
  if (join >= HR_JOIN_GATE_UP)
    return 2 * rows_of_role;
  qkv_rows joined = rows_of(&group->attention);
  return joined.q + joined.k + joined.v;
}
