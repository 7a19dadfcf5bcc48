#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hardening.sh COMMAND LIBRARY|- [OBJECTS]: what readelf shows of cmake/hardening.cmake. The command and the library
# ("-": there is none) are position-independent, their tables are read-only once they are loaded, their stacks not
# executable. OBJECTS, the folder of a build for users: the code checks its stack and the sizes of the buffers of the C
# library's functions, probes the pages of large frames, and marks where indirect jumps may lead.
set -u
failed=0
say() {
  echo "$1"
  failed=$((failed + 1))
}
linked() { # FILE
  dynamic=$(readelf -dW "$1") headers=$(readelf -hlW "$1")
  echo "$headers" | grep -q 'Type: *DYN' || say "$1: is not position-independent"
  echo "$headers" | grep -q GNU_RELRO || say "$1: has no RELRO"
  echo "$headers" | grep 'GNU_STACK' | grep -q 'RW ' || say "$1: its stack is executable, or not described"
  echo "$dynamic" | grep -q '(FLAGS_1).*NOW' || say "$1: is not bound when it is loaded (BIND_NOW)"
  ! echo "$dynamic" | grep -q TEXTREL || say "$1: its code is relocated (TEXTREL)"
}
linked "$1"
readelf -dW "$1" | grep -q '(FLAGS_1).*PIE' || say "$1: is not a PIE"
[ "$2" = - ] || linked "$2"

# with SYMBOL: how many objects refer to it
with() {
  for object in $objects; do
    readelf -sW "$object" | grep -q "UND $1" && echo "$object"
  done | wc -l
}
if [ $# -gt 2 ]; then # a share of the objects; none of the kernels, whose stacks are not checked: it costs them 2-3%
  objects=$(find "$3" -name '*.o' | grep -vE '_(portable|neon|avx2|avx512|avx512_bf16|amx)\.c\.o$' | sort)
  [ "$(echo "$objects" | wc -l)" -lt 100 ] || objects=$(echo "$objects" | awk 'NR % 4 == 1')
  count=$(echo "$objects" | wc -l)
  [ "$count" -ge 20 ] || say "$3: found only $count objects"
  [ "$(with __stack_chk_fail)" -ge $((count / 4)) ] || say "$3: stacks are not checked (-fstack-protector-strong)"
  [ "$(with '__[a-z]*_chk$')" -ge $((count / 8)) ] || say "$3: buffers are not checked (_FORTIFY_SOURCE)"
  if [ "$(uname -m)" = x86_64 ]; then
    unmarked=$(for object in $objects; do readelf -nW "$object" | grep -q 'IBT, SHSTK' || echo "$object"; done)
    [ -z "$unmarked" ] || say "without CET (-fcf-protection): $(echo "$unmarked" | head -n 3)"
    probes=$(for object in $objects; do objdump -d "$object"; done | grep -c 'orq  *\$0x0,(%rsp)')
    [ "$probes" -gt 0 ] || say "$3: pages of large frames are not probed (-fstack-clash-protection)"
  fi
fi
[ $failed = 0 ]
