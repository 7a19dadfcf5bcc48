#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# topology.sh FOLDER SOCKETS CORES THREADS: writes the files of /sys/devices/system (HEADROOM_CPU_TOPOLOGY) of a machine
# with so many sockets, cores of a socket and hardware threads of a core. Each socket is a NUMA node of 1 GiB and has an
# L3 cache of 32 MiB, each core an L2 of 1 MiB. Processors are numbered socket by socket, core by core.
set -eu
folder=$1 sockets=$2 cores=$3 threads=$4
range() { # FIRST COUNT
  [ "$2" -eq 1 ] && echo "$1" || echo "$1-$(($1 + $2 - 1))"
}
cache() { # PROCESSOR INDEX LEVEL TYPE SIZE SHARED
  mkdir -p "$folder/cpu/cpu$1/cache/index$2"
  (cd "$folder/cpu/cpu$1/cache/index$2" && echo "$3" > level && echo "$4" > type && echo "$5" > size &&
    echo "$6" > shared_cpu_list)
}
of_socket=$((cores * threads))
mkdir -p "$folder/cpu" "$folder/node"
range 0 $((sockets * of_socket)) > "$folder/cpu/online"
range 0 "$sockets" > "$folder/node/online"
processor=0
while [ $processor -lt $((sockets * of_socket)) ]; do
  socket=$(range $((processor / of_socket * of_socket)) $of_socket)
  core=$(range $((processor / threads * threads)) "$threads")
  mkdir -p "$folder/cpu/cpu$processor/topology" "$folder/node/node$((processor / of_socket))"
  echo "$socket" > "$folder/cpu/cpu$processor/topology/package_cpus_list"
  echo "$core" > "$folder/cpu/cpu$processor/topology/core_cpus_list"
  echo "$socket" > "$folder/node/node$((processor / of_socket))/cpulist"
  echo "Node $((processor / of_socket)) MemTotal: 1048576 kB" > "$folder/node/node$((processor / of_socket))/meminfo"
  cache $processor 0 1 Data 32K "$core"
  cache $processor 1 1 Instruction 32K "$core"
  cache $processor 2 2 Unified 1024K "$core"
  cache $processor 3 3 Unified 32768K "$socket"
  processor=$((processor + 1))
done
