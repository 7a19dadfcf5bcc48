/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "runtime/cpu/host/processors.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (HR_PROCESSORS_MAX / 64)

bool hr_processors_has(const hr_processors *set, int processor)
{
  return processor >= 0 && processor < HR_PROCESSORS_MAX && (set->words[processor / 64] >> processor % 64 & 1) != 0;
}

void hr_processors_add(hr_processors *set, int processor)
{
  if (processor >= 0 && processor < HR_PROCESSORS_MAX)
    set->words[processor / 64] |= UINT64_C(1) << processor % 64;
}

void hr_processors_remove(hr_processors *set, int processor)
{
  if (hr_processors_has(set, processor))
    set->words[processor / 64] ^= UINT64_C(1) << processor % 64;
}

int hr_processors_next(const hr_processors *set, int from)
{
  for (int at = from; at < HR_PROCESSORS_MAX; at = (at / 64 + 1) * 64) {
    uint64_t rest = set->words[at / 64] >> at % 64;
    if (rest)
      return at + __builtin_ctzll(rest);
  }
  return -1;
}

int hr_processors_count(const hr_processors *set)
{
  int count = 0;
  for (size_t i = 0; i < WORDS; i++)
    count += __builtin_popcountll(set->words[i]);
  return count;
}

bool hr_processors_equal(const hr_processors *a, const hr_processors *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

bool hr_processors_include(const hr_processors *set, const hr_processors *part)
{
  const hr_processors both = hr_processors_in_both(set, part);
  return hr_processors_equal(&both, part);
}

hr_processors hr_processors_in_both(const hr_processors *a, const hr_processors *b)
{
  hr_processors both;
  for (size_t i = 0; i < WORDS; i++)
    both.words[i] = a->words[i] & b->words[i];
  return both;
}

void hr_processors_add_all(hr_processors *set, const hr_processors *others)
{
  for (size_t i = 0; i < WORDS; i++)
    set->words[i] |= others->words[i];
}

hr_processors hr_processors_read(const char *list)
{
  hr_processors set = {.words = {0}};
  for (char *end;; list = end + 1) {
    long first = strtol(list, &end, 10), last = first;
    if (end == list)
      return set;
    if (*end == '-')
      last = strtol(end + 1, &end, 10);
    for (long i = first; i <= last && i < HR_PROCESSORS_MAX; i++)
      hr_processors_add(&set, (int)i);
    if (*end != ',')
      return set;
  }
}

/* 0: the calling thread. The system's sets are arrays of longs, which little-endian words equal. */
static bool get_affinity(pid_t thread, hr_processors *set)
{
  *set = (hr_processors){.words = {0}};
  return sched_getaffinity(thread, sizeof *set, (cpu_set_t *)(void *)set) == 0;
}

static bool set_affinity(pid_t thread, const hr_processors *set)
{
  return sched_setaffinity(thread, sizeof *set, (const cpu_set_t *)(const void *)set) == 0;
}

bool hr_processors_of_thread(hr_processors *set)
{
  return get_affinity(0, set);
}

bool hr_processors_bind_thread(const hr_processors *set)
{
  return set_affinity(0, set);
}

/* Binds the threads of the process to *bind, or adds their processors to *found. False unless it could for each. */
static bool each_thread(const hr_processors *bind, hr_processors *found)
{
  DIR *tasks = opendir("/proc/self/task");
  bool all = tasks != NULL;
  for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
    hr_processors own;
    pid_t thread = (pid_t)atoi(entry->d_name); /* 0: "." and ".." */
    if (thread == 0)
      continue;
    if (bind)
      all = set_affinity(thread, bind) && all;
    else if (found && get_affinity(thread, &own)) /* or the thread has ended meanwhile */
      hr_processors_add_all(found, &own);
  }
  if (tasks)
    closedir(tasks);
  return all;
}

bool hr_processors_of_process(hr_processors *set)
{
  *set = (hr_processors){.words = {0}};
  return each_thread(NULL, set) || get_affinity(0, set);
}

bool hr_processors_bind_process(const hr_processors *set)
{
  return each_thread(set, NULL);
}
