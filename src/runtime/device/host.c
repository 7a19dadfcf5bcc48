/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/host.h"

#include "base/error.h"
#include "base/quantity.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20) /* of x86-64 and aarch64 with small pages of 4 KiB */

/* Reads the number in a file; false for "max" and missing files. */
static bool read_number(const char *path, uint64_t *value)
{
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  bool found = fscanf(file, "%" SCNu64, value) == 1;
  fclose(file);
  return found;
}

/* Reads the number after a key at the start of a line: "MemAvailable:  123 kB", "inactive_file 123". */
static bool read_keyed(const char *path, const char *key, uint64_t *value)
{
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  char line[256];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    size_t length = strlen(key);
    found = strncmp(line, key, length) == 0 && sscanf(line + length, "%" SCNu64, value) == 1;
  }
  fclose(file);
  return found;
}

size_t hr_host_peak_begin(void)
{
  uint64_t resident_kb = 0;
  FILE *file = fopen("/proc/self/clear_refs", "we");
  if (!file)
    return 0;
  bool cleared = fputs("5", file) >= 0; /* resets the peak only: proc(5) */
  cleared = fclose(file) == 0 && cleared;
  return cleared && read_keyed("/proc/self/status", "VmRSS:", &resident_kb) ? (size_t)resident_kb * 1024 : 0;
}

double hr_host_peak_since(size_t before)
{
  uint64_t peak_kb = 0;
  if (!read_keyed("/proc/self/status", "VmHWM:", &peak_kb))
    return (double)NAN;
  return fmax(0, (double)peak_kb * 1024 - (double)before);
}

/* The folder of the process's group: the controller's, "/sys/fs/cgroup/memory" (v1) or "/sys/fs/cgroup" (v2), and the
 * path below it from /proc/self/cgroup. */
static bool cgroup_path(const char *controller, char *path, size_t size)
{
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file)
    return false;
  char line[512];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':'), *below = names ? strchr(names + 1, ':') : NULL;
    if (!below)
      continue;
    *below++ = '\0';
    if (strcmp(names + 1, controller) != 0)
      continue;
    snprintf(path, size, "/sys/fs/cgroup%s%s%s", *controller ? "/" : "", controller, below);
    found = true;
  }
  fclose(file);
  return found;
}

typedef struct cgroup_files {
  const char *controller, *limit, *usage, *reclaimable;
} cgroup_files;

/* Limits *available to what one group leaves. Inactive page cache counts as free. */
static void limit_by_group(const cgroup_files *files, const char *group, size_t *available)
{
  char path[1024];
  uint64_t limit = 0, usage = 0, cache = 0;
  snprintf(path, sizeof path, "%.900s/%s", group, files->limit);
  if (!read_number(path, &limit))
    return;
  snprintf(path, sizeof path, "%.900s/%s", group, files->usage);
  if (!read_number(path, &usage))
    return;
  snprintf(path, sizeof path, "%.900s/memory.stat", group);
  if (read_keyed(path, files->reclaimable, &cache))
    usage -= cache < usage ? cache : usage;
  uint64_t left = limit > usage ? limit - usage : 0;
  if (left < *available)
    *available = (size_t)left;
}

size_t hr_host_memory_available(void)
{
  static const cgroup_files versions[] = {
      {"", "memory.max", "memory.current", "inactive_file "},
      {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
  };
  size_t available = SIZE_MAX;
  uint64_t kib = 0;
  if (read_keyed("/proc/meminfo", "MemAvailable:", &kib) && kib < SIZE_MAX / 1024)
    available = (size_t)kib * 1024;
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    char group[800];
    if (!cgroup_path(versions[i].controller, group, sizeof group))
      continue;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
      *end = '\0';
      if (strlen(group) < strlen("/sys/fs/cgroup"))
        break;
      limit_by_group(&versions[i], group, &available);
    }
  }
  return available;
}

bool hr_host_group_processors(char *list, size_t size)
{
  static const char *const files[][2] = {
      {"", "cpuset.cpus.effective"}, {"cpuset", "cpuset.effective_cpus"}, {"cpuset", "cpuset.cpus"}};
  bool found = false;
  for (size_t i = 0; !found && i < sizeof files / sizeof *files; i++) {
    char group[800], path[1024];
    if (!cgroup_path(files[i][0], group, sizeof group))
      continue;
    snprintf(path, sizeof path, "%.900s/%s", group, files[i][1]);
    FILE *file = fopen(path, "re");
    found = file && fgets(list, (int)size, file);
    if (file)
      fclose(file);
  }
  return found;
}

int hr_host_cpu_quota(void)
{
  char group[800], path[1024];
  uint64_t quota = 0, period = 0;
  if (cgroup_path("", group, sizeof group)) {
    snprintf(path, sizeof path, "%.900s/cpu.max", group);
    FILE *file = fopen(path, "re");
    bool limited = file && fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
    if (file)
      fclose(file);
    if (!limited)
      quota = period = 0;
  }
  if (period == 0 && cgroup_path("cpu,cpuacct", group, sizeof group)) {
    snprintf(path, sizeof path, "%.900s/cpu.cfs_quota_us", group);
    bool limited = read_number(path, &quota);
    snprintf(path, sizeof path, "%.900s/cpu.cfs_period_us", group);
    if (!limited || !read_number(path, &period))
      quota = period = 0;
  }
  if (period == 0 || quota == 0 || quota / period > 1000000)
    return 0; /* no quota is -1 in v1, which reads as a huge number */
  return (int)(quota / period + (quota % period != 0));
}

/* The file has: time on a core, time waiting for one (ns), time slices. */
static bool read_wait(const char *task, uint64_t *waited)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", task);
  FILE *file = fopen(path, "re");
  if (!file)
    return false;
  uint64_t ran;
  bool found = fscanf(file, "%" SCNu64 " %" SCNu64, &ran, waited) == 2;
  fclose(file);
  return found;
}

double hr_host_waited_ns(const hr_device *device)
{
  (void)device;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks)
    return (double)NAN;
  double sum = 0;
  bool any = false;
  for (struct dirent *entry; (entry = readdir(tasks));) {
    uint64_t waited;
    if (entry->d_name[0] != '.' && read_wait(entry->d_name, &waited)) {
      sum += (double)waited;
      any = true;
    }
  }
  closedir(tasks);
  return any ? sum : (double)NAN;
}

size_t hr_host_device_memory(const hr_device *device)
{
  (void)device;
  return hr_host_memory_available();
}

/* The page size: 4 KiB on x86-64, up to 64 KiB on aarch64. */
static size_t page_bytes(void)
{
  long bytes = sysconf(_SC_PAGESIZE);
  return bytes > 0 ? (size_t)bytes : 4096;
}

/* Buffers begin at a page and share none. Larger ones ask for huge pages: a kernel that streams misses the TLB less,
 * and two threads read 32 GB/s instead of 25 (AMD EPYC, Zen 5, in a virtual machine, 2026-11-28). */
hr_status hr_host_allocate(hr_device *device, size_t bytes, void **data, hr_error *error)
{
  size_t available = hr_host_memory_available();
  available -= available / 16; /* left for other processes */
  char wanted[HR_NUMBER_SIZE], there[HR_NUMBER_SIZE];
  hr_write_bytes(wanted, sizeof wanted, (double)bytes);
  hr_write_bytes(there, sizeof there, (double)available);
  if (bytes > available)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: a buffer of %s does not fit the free %s", device->name, wanted,
                   there);
  size_t page = page_bytes(), whole = (bytes + page - 1) / page * page;
  const bool huge = whole >= HUGE_PAGE_BYTES;
  void *memory = NULL;
  if (posix_memalign(&memory, huge ? HUGE_PAGE_BYTES : page, whole) != 0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory for a buffer of %s", device->name, wanted);
  madvise(memory, whole, MADV_DONTNEED); /* recycled pages count as resident only once written to */
  if (huge)
    madvise(memory, whole, MADV_HUGEPAGE); /* a system without them goes on as before */
  *data = memory;
  return HR_OK;
}

void hr_host_release(hr_device *device, void *data, size_t bytes)
{
  (void)device;
  (void)bytes;
  free(data);
}

hr_status hr_host_write(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  (void)device;
  (void)error;
  memcpy(to, from, bytes);
  return HR_OK;
}

hr_status hr_host_read(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  return hr_host_write(device, to, from, bytes, error);
}
