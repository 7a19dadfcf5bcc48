#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the compiled objects of the library, which show calls that macros and public headers hide from a grep:
#   - a module calls only the modules that edges.txt allows it;
#   - analysis/, model/, schedule/, shape/, json/, csv/, suggest/, hardware/, base/ and catalog/ use no file, clock,
#     environment, device or stream;
#   - nothing in the library ends the process, prints to standard streams, or uses a function with hidden state;
#   - there are no mutable globals.
# objects_exceptions.txt lists exceptions with their reasons.
#   objects.sh FOLDER_OF_OBJECTS        (…/headroom_objects.dir/src)
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"

# Objects of sources that were moved or removed stay in a build folder.
objects=$(find . -name '*.o' | sort | sed 's|^\./||' | while read -r object; do
  [ ! -e "$here/../../src/${object%.o}" ] || echo "$object"
done)
[ -n "$objects" ] || { echo "no objects in $1"; exit 1; }

# Rows "symbol FILE KIND NAME" and "data FILE SECTION NAME".
facts() {
  nm -A $objects | awk '{ file = $0; sub(/:.*/, "", file); print "symbol", file, $(NF - 1), $NF }'
  objdump -t $objects | awk '
    /^[^ ].*: +file format/ { file = $0; sub(/:.*/, "", file); next }
    $3 == "O" || $4 ~ /^\.(data|bss|tdata|tbss)/ { for (i = 2; i <= NF; i++) if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/) { print "data", file, $i, $NF; break } }'
}

facts | awk -v table="$here/edges.txt" -v exceptions="$here/objects_exceptions.txt" '
  function module_of(path,    m, best) {
    best = ""
    for (m in known) if (index(path "/", m "/") == 1 && length(m) > length(best)) best = m
    return best
  }
  function forbid(set, words,    i, n, list) { n = split(words, list, " "); for (i = 1; i <= n; i++) set[list[i]] = 1 }
  function complain(file, name, text) {
    sub(/\.o$/, "", file)
    if ((file, name) in excused) { used[file, name] = 1; return }
    print "src/" file ": " text; bad = 1
  }
  BEGIN {
    while ((getline line < table) > 0) {
      if (line ~ /^#/ || line !~ /:/) continue
      name = line; sub(/:.*/, "", name)
      rest = line; sub(/^[^:]*:/, "", rest)
      known[name] = 1
      count = split(rest, names, " ")
      for (i = 1; i <= count; i++) { to = names[i]; gsub(/[][]/, "", to); allowed[name, to] = 1 }
    }
    while ((getline line < exceptions) > 0)
      if (line !~ /^#/ && split(line, part, " ") >= 2) excused[part[1], part[2]] = 1
    forbid(never, "exit _exit _Exit quick_exit abort __assert_fail system popen printf puts putchar vprintf perror" \
           " __printf_chk __vprintf_chk stdout stderr stdin rand srand random srandom strtok localtime gmtime ctime" \
           " asctime strerror setlocale signal setenv putenv unsetenv gets strcpy strcat sprintf vsprintf alloca")
    forbid(impure, "fopen fopen64 fdopen freopen open open64 openat read write fread fwrite fprintf fputs fputc fgets" \
           " getc fgetc stat stat64 fstat opendir getenv secure_getenv clock_gettime clock time gettimeofday nanosleep" \
           " usleep sleep dlopen dlsym pthread_create sysconf sched_getaffinity mmap mmap64 ioctl uname gethostname")
  }
  { file[NR] = $2 }
  $1 == "symbol" && $3 ~ /^[TDBRVW]$/ { home[$4] = $2 }
  $1 == "symbol" && $3 ~ /^[UwT]$/ { row++; row_file[row] = $2; row_kind[row] = $3; row_name[row] = $4 }
  $1 == "data" && $3 !~ /^\.data\.rel\.ro/ && $4 !~ /^\./ {
    name = $4; sub(/\.[0-9]+$/, "", name)
    complain($2, name, name " is a mutable global (" $3 ")")
  }
  END {
    for (i = 1; i <= row; i++) {
      if (row_kind[i] == "T") continue
      from = module_of(row_file[i]); name = row_name[i]
      if (from == "") { complain(row_file[i], name, "belongs to no module of edges.txt"); continue }
      if (name in never) complain(row_file[i], name, "uses " name "(), which a library must not")
      if ((name in impure) && from ~ /^(analysis|model|schedule|shape|json|csv|suggest|hardware|base|catalog)/) complain(row_file[i], name, from " is pure, but uses " name "()")
      if (name in home) {
        to = module_of(home[name]); calls++
        if (to != from && !((from, to) in allowed)) complain(row_file[i], name, from " may not call " to " (" name ")")
      }
    }
    for (pair in excused) if (!(pair in used)) { split(pair, part, SUBSEP); print "objects_exceptions.txt: " part[1] " " part[2] " is needed no more"; bad = 1 }
    print calls + 0 " references between files of the library"
    exit bad || !calls
  }'
