#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Floating-point numbers in the library become text, and text numbers, through src/base/text.h alone: other functions of the
# C library use the decimal point of the process's locale. Prints each statement that does not.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
git ls-files -z 'src/*.c' 'src/*.h' ':!src/runtime/cuda/kernels' ':!src/base/text.*' | xargs -0 awk '
  BEGIN { RS = ";" }
  FNR == 1 { files++ }
  {
    gsub(/%%/, "")
    gsub(/[ \n]+/, " ")
    number = "\"[^\"]*%[-+#0]*([0-9]+|\\*)?(\\.([0-9]+|\\*))?[lL]?[aAeEfFgG]"
    if ($0 ~ "(printf|scanf) ?\\(.*" number || $0 ~ /(^|[^a-z_])(strto[fd]|strtold|atof|v[a-z]*printf) ?\(/) {
      print FILENAME ": " $0
      found++
    }
  }
  END { print found + 0 " statements in " files " files"; exit found > 0 || files < 100 }'
