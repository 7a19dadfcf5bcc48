#!/usr/bin/env bash
# The portable command needs nothing but the C library, no newer one than 2.34 (Ubuntu 22.04 has 2.35, RHEL 9 2.34), and
# works in an empty environment from another folder.
#   test_portable.sh PATH_OF_THE_COMMAND
set -euo pipefail
command=$1
needed=$(objdump -p "$command" | awk '$1 == "NEEDED" { print $2 }')
extra=$(grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]*)\.so\.[0-9]+$' <<<"$needed" || true)
[ -z "$extra" ] || { echo "it needs" $extra; exit 1; }

newest=$(objdump -T "$command" | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -1)
[ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -1)" = GLIBC_2.34 ] || { echo "it needs $newest"; exit 1; }

cd /
env -i "$command" --version
env -i "$command" describe gpt2 >/dev/null
echo "needs" $needed "and at least $newest"
