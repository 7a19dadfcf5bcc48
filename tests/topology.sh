#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# topology.sh FOLDER SOCKETS CORES THREADS [apart]: writes the files of /sys/devices/system (HEADROOM_CPU_TOPOLOGY) of a
# machine with so many sockets, cores of a socket and hardware threads of a core. Each socket is a NUMA node of 1 GiB and
# has an L3 cache of 32 MiB, each core an L2 of 1 MiB. Processors are numbered socket by socket, core by core; `apart`:
# first threads of all cores, then second ones, as on most servers.
set -eu
folder=$1 sockets=$2 cores=$3 threads=$4 apart=${5:-}
all=$((sockets * cores))
list() { # FIRST_CORE COUNT: their processors, as Linux lists them
  if [ -z "$apart" ]; then
    echo "$(($1 * threads))-$((($1 + $2) * threads - 1))"
    return
  fi
  text='' thread=0
  while [ $thread -lt "$threads" ]; do
    text=$text${text:+,}$((thread * all + $1))-$((thread * all + $1 + $2 - 1))
    thread=$((thread + 1))
  done
  echo "$text"
}
cache() { # PROCESSOR INDEX LEVEL TYPE SIZE SHARED
  cache=$folder/cpu/cpu$1/cache/index$2
  echo "$3" > "$cache/level"
  echo "$4" > "$cache/type"
  echo "$5" > "$cache/size"
  echo "$6" > "$cache/shared_cpu_list"
}
mkdir -p "$folder/cpu" "$folder/node"
echo "0-$((all * threads - 1))" > "$folder/cpu/online"
echo "0-$((sockets - 1))" > "$folder/node/online"
processor=0
while [ $processor -lt $((all * threads)) ]; do
  core=$((processor / threads))
  [ -z "$apart" ] || core=$((processor % all))
  socket=$((core / cores))
  of_core=$(list $core 1) of_socket=$(list $((socket * cores)) "$cores")
  caches=$folder/cpu/cpu$processor/cache
  mkdir -p "$folder/cpu/cpu$processor/topology" "$caches/index0" "$caches/index1" "$caches/index2" "$caches/index3" \
    "$folder/node/node$socket"
  echo "$of_socket" > "$folder/cpu/cpu$processor/topology/package_cpus_list"
  echo "$of_core" > "$folder/cpu/cpu$processor/topology/core_cpus_list"
  echo "$of_socket" > "$folder/node/node$socket/cpulist"
  echo "Node $socket MemTotal: 1048576 kB" > "$folder/node/node$socket/meminfo"
  cache $processor 0 1 Data 32K "$of_core"
  cache $processor 1 1 Instruction 32K "$of_core"
  cache $processor 2 2 Unified 1024K "$of_core"
  cache $processor 3 3 Unified 32768K "$of_socket"
  processor=$((processor + 1))
done
