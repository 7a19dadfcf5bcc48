/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep in memory: axes, the points that they give, and the expressions of the problem's sizes. */
#ifndef HR_EXPERIMENT_SWEEP_SWEEP_H
#define HR_EXPERIMENT_SWEEP_SWEEP_H

#include "experiment/sweep/expression.h"

#include <headroom/experimental/sweep.h>

#define HR_AXIS_NAME_SIZE 32
#define HR_SWEEP_SERIES_MAX 256
#define HR_SWEEP_FIELDS_MAX 20

typedef enum hr_axis_kind {
  HR_AXIS_LIST,  /* these values, one after the other */
  HR_AXIS_RANGE, /* from, from + step (or × factor), … up to `to` */
  HR_AXIS_VALUE, /* the one value of an expression */
  HR_AXIS_CASE   /* a column of the cases: values[index of the case] */
} hr_axis_kind;

typedef struct hr_axis {
  char name[HR_AXIS_NAME_SIZE];
  hr_axis_kind kind;
  size_t count;
  int64_t *values;              /* of a list and of a case; owned */
  hr_expression from, to, step; /* a value uses `from` alone */
  bool factor;                  /* the step multiplies */
  uint32_t uses;                /* the axes that its expressions name */
} hr_axis;

/** A size of a problem. A field without a default must be in the file. */
typedef struct hr_problem_field {
  const char *name;
  bool required;
  int64_t otherwise;
} hr_problem_field;

/** The fields of a kind of problem, ended by one without a name. */
const hr_problem_field *hr_problem_fields(hr_sweep_kind kind);

struct hr_sweep {
  hr_sweep_about about; /* its texts are those below */
  char name[48], figure[16], title[160], source[160], note[512], x_label[64], y_label[64];
  char series_label[128]; /* with {axis} in it */
  bool x_log2;
  hr_view view;
  size_t x; /* index of the axis that is the abscissa */
  size_t axis_count;
  hr_axis axes[HR_SWEEP_AXES_MAX];
  size_t order[HR_SWEEP_AXES_MAX]; /* each axis after those that it depends on */
  size_t case_count;               /* 0: no cases; else axis 0 is "case" */
  char (*case_names)[48];          /* owned */
  bool compared;                   /* with the case `baseline` */
  size_t baseline;
  hr_sweep_kind kind;
  hr_expression fields[HR_SWEEP_FIELDS_MAX]; /* in the order of hr_problem_fields() */
  size_t point_count;
  int64_t *points;        /* axis_count values each; owned */
  uint16_t *point_series; /* owned */
  size_t series_count;
  char (*series)[128]; /* owned */
};

/** A predicted time, and the interval in which nine of ten measured times lie. */
typedef struct hr_sweep_time {
  double ns, low_ns, high_ns;
} hr_sweep_time;

/** hr_sweep_predict() with its interval. */
hr_status hr_sweep_predict_time(const hr_hardware *hardware, const hr_sweep_point *point, hr_sweep_time *time,
                                hr_error *error);

/** Sorts the axes and lists points and series; `input` is the file's name in messages. */
hr_status hr_sweep_enumerate(hr_sweep *sweep, const char *input, hr_error *error);

/** The point of the case `baseline` whose other axes, as far as they are lists and ranges, have the values of a point;
 *  SIZE_MAX if there is none, and for points of that case. */
size_t hr_sweep_baseline(const hr_sweep *sweep, size_t index);

/** Writes `label` with every {axis} replaced by its value (a case's by its name). HR_ERROR_INVALID with the
 *  reason in `why` for a name that is no axis, a missing "}", or a text that does not fit. */
hr_status hr_sweep_fill_label(const hr_sweep *sweep, const char *label, const int64_t *values, char *to, size_t size,
                              char why[HR_EXPRESSION_WHY_SIZE]);

/** The fields of layers and steps, and what they make of a point: model, workload and problem. */
const hr_problem_field *hr_layer_fields(void);
const hr_problem_field *hr_step_fields(void);
hr_status hr_make_layer_point(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error);
hr_status hr_make_step_point(const int64_t *sizes, hr_dtype dtype, hr_sweep_point *point, hr_error *error);

/** About how many operators the layer of a point has. */
int hr_sweep_layer_operators(const hr_sweep_point *point);

/** HR_ERROR_UNSUPPORTED for gradients in a format that has none. */
hr_status hr_sweep_check_gradients(const hr_sweep_point *point, hr_error *error);

/** Kind and problem of a row of an attention point: the call, or its gradients. */
void hr_sweep_set_attention(hr_result *result, const hr_sweep_point *point);

#endif
