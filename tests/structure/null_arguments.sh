#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public function that returns an hr_status refuses NULL for each pointer that it needs, before anything else, with
# HR_ERROR_INVALID and a line that names function and argument. A program generated from the headers calls each of them,
# with one needed pointer NULL and the others pointing to zeros.
#   null_arguments.sh C_COMPILER LIBRARY…
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Pointers that may be NULL: in every function, and in one.
optional='error note context progress stream
hr_attention_backward_check.backward hr_plan_attention_backward.backward hr_plans_attention_backward.backward
hr_plan_gemm.kernel hr_plan_attention.kernel hr_plan_attention_backward.kernel hr_plan_rowwise.kernel hr_plan_decode.kernel
hr_plan_run_gemm.workspace hr_plan_run_attention.workspace hr_plan_run_attention_backward.workspace hr_plan_run_rowwise.workspace hr_plan_run_decode.workspace
hr_layer_measure.options hr_measure_gemm.options hr_measure_attention.options hr_measure_rowwise.options hr_measure_decode.options
hr_measure_attention_backward.backward hr_measure_attention_backward.options hr_measure_gemm_pair.options
hr_report_description.checkpoint hr_report_advice.confirmation hr_report_results.filter hr_report_changes.names hr_report_changes.changes
hr_store_open.path hr_store_open_with.path hr_store_query.filter hr_store_count.filter hr_store_delete.filter hr_store_delete.deleted
hr_store_copy.change hr_store_merge.change hr_store_export.filter hr_store_import.change
hr_sweep_from_json.which hr_sweep_run.outcome hr_points_measure.outcome
hr_calibrate_device_file.base hr_report_calibration.path hr_resolve_uncalibrated.file
hr_executor_open.options hr_executor_load.what hr_executor_step.logits hr_step_measure.options
hr_communicators_create.options'

# Prints lines "name: parameter, parameter, …"
declarations() {
  cat include/headroom/*.h include/headroom/experimental/*.h | sed -e 's:/\*.*\*/::' -e '/\/\*/,/\*\//d' | tr '\n' ' ' | grep -o 'HR_API hr_status *hr_[a-z_0-9]*([^;]*);' |
    sed -e 's/HR_API hr_status *//' -e 's/  */ /g' -e 's/(/: /' -e 's/);$//'
}
calls() {
  declarations | awk -v optional="$optional" -F ': ' '
    BEGIN { n = split(optional, names, /[ \n]+/); for (i = 1; i <= n; i++) may_be_null[names[i]] = 1 }
    {
      count = split($2, parameters, /, */)
      reports = 0
      for (i = 1; i <= count; i++) {
        name[i] = parameters[i]; sub(/.*[ *]/, "", name[i])
        type[i] = parameters[i]; sub(/[a-z_]*$/, "", type[i])
        kind[i] = type[i] ~ /_fn / ? "function" : type[i] ~ /\*/ ? "pointer" : "value"
        if (name[i] == "error") { kind[i] = "error"; reports = 1 }
      }
      for (i = 1; i <= count; i++) {
        if (kind[i] == "value" || name[i] in may_be_null || ($1 "." name[i]) in may_be_null)
          continue
        arguments = ""
        for (j = 1; j <= count; j++)
          arguments = arguments (j > 1 ? ", " : "") (kind[j] == "error" ? "&error" : kind[j] == "value" ? "0" : \
            j == i ? "NULL" : kind[j] == "function" ? "(" type[j] ")nothing" : "(void *)some")
        printf "  expect(%s(%s), %s, \"%s: %s is NULL\");\n", $1, arguments, reports ? "error.message" : "NULL", $1, name[i]
      }
    }'
}
{
  cat <<'TEXT'
#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <string.h>

static hr_error error;
static _Alignas(64) char some[1 << 20];
static int calls, failed;

static void nothing(void) {}

static void expect(hr_status status, const char *message, const char *expected)
{
  calls++;
  if (status != HR_ERROR_INVALID || (message && strcmp(message, expected) != 0)) {
    printf("expected \"%s\", found %s \"%s\"\n", expected, hr_status_name(status), message ? message : "");
    failed = 1;
  }
  memset(&error, 0, sizeof error);
}

int main(void)
{
  setvbuf(stdout, NULL, _IONBF, 0);
  (void)nothing;
TEXT
  calls
  printf '  printf("%%d calls of %d functions\\n", calls);\n  return failed;\n}\n' "$(declarations | wc -l)"
} >"$folder/calls.c"
compiler=$1
shift
"$compiler" -std=c17 -Wall -Iinclude -o "$folder/calls" "$folder/calls.c" "$@" "-Wl,-rpath,$(dirname "$(realpath "$1")")"
"$folder/calls"
