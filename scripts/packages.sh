# SPDX-License-Identifier: Apache-2.0
# Sourced by quickstart.sh and test.sh: the Debian packages that Headroom needs, and their installation.

# One row per package: group | Debian package | probe | purpose
# A probe is a command on the PATH, pkg:NAME for pkg-config, file:PATH below an include folder, or path:PATH.
packages_table='
build | gcc          | cc                          | the C compiler
build | libc6-dev    | file:stdio.h                | the C library to build against
build | cmake        | cmake                       | describes the build
build | ninja-build  | ninja                       | runs the build
build | pkg-config   | pkg-config                  | finds the libraries
build | libjansson-dev | pkg:jansson               | reads and writes JSON
build | libsqlite3-dev | pkg:sqlite3              | keeps results
build | libcsv-dev   | file:csv.h                  | reads and writes CSV
build | libutf8proc-dev | pkg:libutf8proc         | decodes UTF-8, knows the width of characters
build | libxxhash-dev | pkg:libxxhash             | hashes cache keys and the points of a sweep
build | libjs-chart.js | path:/usr/share/javascript/chart.js/chart.min.js | draws the charts of HTML reports
build | libdnnl-dev  | file:oneapi/dnnl/dnnl.h     | oneDNN: GEMMs on the CPU
test  | g++          | c++                         | compiles the headers as C++, and GPU programs for the emulated GPU
test  | libcmocka-dev | pkg:cmocka                 | runs the unit tests
test  | libmd4c-dev  | pkg:md4c                    | a Markdown parser, which reads reports back
test  | libgumbo-dev | pkg:gumbo                   | an HTML parser, which reads reports back
test  | abigail-tools | abidiff                    | compares the libraries with those of the last release
test  | git          | git                         | lists the files to check
test  | clang        | clang                       | reads the headers for the Python package; the second compiler
test  | python3      | python3                     | runs the tests that parse pictures and rows, and those of scripts
long  | libclang-rt-14-dev | clang_runtime         | the fuzzer
long  | clang-tidy   | clang-tidy                  | static analysis
long  | clang-format-14 | clang-format-14          | formats the code
long  | valgrind     | valgrind                    | memory errors without instrumentation
long  | gcc-aarch64-linux-gnu | aarch64-linux-gnu-gcc | the cross compiler for arm64
long  | qemu-user    | qemu-aarch64                | runs the tests of the build for arm64
programs | python3-pip | pip3                  | downloads NVRTC, which compiles GPU programs
test  | gnuplot-nox  | gnuplot                     | draws the pictures of headroom plot
long  | chromium     | chromium                    | opens HTML reports
long  | openmpi-bin  | mpirun                      | several processes that share a sweep
'

package_present() { # PROBE
  case $1 in
  pkg:*) command -v pkg-config >/dev/null && pkg-config --exists "${1#pkg:}" ;;
  file:*)
    local folder
    for folder in /usr/include /usr/local/include /usr/include/"$(uname -m)"-linux-gnu; do
      [ -e "$folder/${1#file:}" ] && return 0
    done
    return 1 ;;
  path:*) [ -e "${1#path:}" ] ;;
  clang_runtime) compgen -G '/usr/lib/llvm*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null ;;
  *) command -v "$1" >/dev/null ;;
  esac
}

# install_packages GROUP…: lists missing packages with their purpose and installs them with apt. Silent if none is missing.
install_packages() {
  local group package probe why names=() lines=
  while IFS='|' read -r group package probe why; do
    read -r group <<<"$group" && read -r package <<<"$package" && read -r probe <<<"$probe" || continue
    case " $* " in *" $group "*) ;; *) continue ;; esac
    package_present "$probe" && continue
    names+=("$package")
    lines+=$(printf '  %-18s %s' "$package" "${why# }")$'\n'
  done <<<"$packages_table"
  [ ${#names[@]} -gt 0 ] || return 0

  printf 'These packages are missing:\n%s' "$lines"
  if ! command -v apt-get >/dev/null; then
    echo 'This system has no apt. The names above are those of Debian and Ubuntu; please install what they are called'
    echo 'here (development files included), then run this again.'
    return 1
  fi
  local root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo 'Installing them takes root, and there is no sudo here. As root, run:'
      echo "  apt-get update && apt-get install --no-install-recommends ${names[*]}"
      return 1
    fi
    root=(sudo)
    [ -t 0 ] || root=(sudo -n)
  fi
  echo "Installing them with ${root[*]:+${root[*]} }apt-get; this takes a minute."
  apt_quietly "${root[@]}" -- update -qq || echo 'The package lists could not be refreshed; trying with those that are here.'
  apt_quietly "${root[@]}" -- install -y -qq --no-install-recommends "${names[@]}"
}

# Runs apt-get with its output shown only if it fails.
apt_quietly() { # [SUDO…] -- ARGUMENT…
  local root=() log status=0
  while [ "$1" != -- ]; do root+=("$1"); shift; done
  shift
  log=$(mktemp)
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 "$@" </dev/null >"$log" 2>&1 || status=$?
  [ $status = 0 ] || { echo "apt-get $1 failed:"; tail -n 15 "$log"; }
  rm -f "$log"
  return $status
}

# The Debian mirror that this machine's apt is set to; nothing is printed where it has none.
debian_mirror() {
  local list parts
  eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
  { grep -rhv '^ *#' "$list" "$parts" 2>/dev/null || true; } | grep -oE '[a-z]+:/[^ ]*/debian/?( |$)' | head -n 1
}

# build_preset PRESET [OPTION…]: configures once and builds incrementally, with options of cmake --build; prints output
# only on failure.
build_preset() {
  local log=build/$1.log
  mkdir -p build
  { { [ -f "build/$1/build.ninja" ] || cmake --preset "$1"; } && cmake --build --preset "$@"; } >"$log" 2>&1 && return 0
  echo "Building $1 failed; the end of $log:"
  tail -n 40 "$log"
  return 1
}
