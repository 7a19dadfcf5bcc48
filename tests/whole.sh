#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# whole.sh COMMAND…: runs a test that ./test.sh leaves to ./test.sh --long, which sets HEADROOM_TEST=whole.
case " ${HEADROOM_TEST:-} " in *" whole "*) exec "$@" ;; esac
echo "only with HEADROOM_TEST=whole"
exit 77
