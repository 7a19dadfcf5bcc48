#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs test_draw_sweeps.py with a Python that has matplotlib. Exit code 77: skipped, because there is none.
for python in python3 /usr/bin/python3; do
  "$python" -c 'import matplotlib' 2> /dev/null && exec "$python" "$(dirname "$0")/test_draw_sweeps.py"
done
echo 'left out: there is no Python with matplotlib (Debian: python3-matplotlib)'
exit 77
