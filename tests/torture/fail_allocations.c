/* SPDX-License-Identifier: Apache-2.0 */
/* malloc() and its family with faults: the n-th allocation of the process fails, or that and all later ones.
 *
 * Preloaded (LD_PRELOAD), so that allocations of every library count: jansson's, SQLite's, the C library's own. The
 * functions stand before those of the address sanitizer, which sees what they pass on. Libraries that end the process
 * when memory runs out are not counted: the C++ and OpenMP run times, on which oneDNN stands, the loader, and hwloc.
 *   TORTURE_FAIL=N     the N-th allocation returns NULL with ENOMEM
 *   TORTURE_AFTER=1    so does every later one
 *   TORTURE_COUNT=FILE the number of allocations is written there at the end
 *   TORTURE_TRACE=1    a failure writes its call stack to standard error */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*memalign)(size_t, size_t);
  void (*free)(void *);
} next;

static atomic_long allocations;
static _Thread_local bool paused;       /* nothing fails or is counted */
static long fail_at;                    /* 0: none */
static bool started, fail_after, trace; /* before: what the loader and the sanitizers need to begin */

/* What dlsym() itself allocates before it has found the functions; never freed. */
static alignas(max_align_t) char early[16384];
static size_t early_bytes;

static bool is_early(const void *block)
{
  uintptr_t at = (uintptr_t)block;
  return at >= (uintptr_t)early && at < (uintptr_t)early + sizeof early;
}

static void *take_early(size_t size)
{
  size_t bytes = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
  if (bytes > sizeof early - early_bytes)
    return NULL;
  early_bytes += bytes;
  return early + early_bytes - bytes;
}

/* Finds the function of the next object that has it. POSIX lets a pointer to data hold a pointer to a function. */
static void find(const char *name, void *function)
{
  void *found = dlsym(RTLD_NEXT, name);
  memcpy(function, &found, sizeof found);
}

static void find_all(void)
{
  static bool finding;
  if (finding)
    return;
  finding = true;
  find("calloc", &next.calloc);
  find("realloc", &next.realloc);
  find("memalign", &next.memalign);
  find("free", &next.free);
  find("malloc", &next.malloc);
}

__attribute__((constructor)) static void read_environment(void)
{
  const char *fail = getenv("TORTURE_FAIL"), *after = getenv("TORTURE_AFTER");
  started = true;
  fail_after = after && after[0] == '1';
  trace = getenv("TORTURE_TRACE") != NULL;
  fail_at = fail ? strtol(fail, NULL, 10) : 0;
  unsetenv("LD_PRELOAD"); /* gnuplot's allocations do not fail */
}

__attribute__((destructor)) static void write_count(void)
{
  const char *path = getenv("TORTURE_COUNT");
  char text[32];
  int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&allocations));
  int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  if (file >= 0 && write(file, text, (size_t)length) != length)
    _exit(99);
}

static bool ends_the_process(void *caller)
{
  static const char *const libraries[] = {"libstdc++", "libgomp", "libdnnl", "libomp", "libhwloc", "ld-linux"};
  Dl_info object;
  if (!dladdr(caller, &object) || !object.dli_fname)
    return false;
  const char *slash = strrchr(object.dli_fname, '/'), *name = slash ? slash + 1 : object.dli_fname;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
      return true;
  }
  return false;
}

static void write_stack(void)
{
  void *stack[40];
  paused = true; /* backtrace() allocates at first */
  backtrace_symbols_fd(stack, backtrace(stack, 40), STDERR_FILENO);
  paused = false;
}

static bool fails(void *caller)
{
  if (!started || paused || ends_the_process(caller))
    return false;
  long number = atomic_fetch_add(&allocations, 1) + 1;
  bool failing = fail_at > 0 && (number == fail_at || (fail_after && number > fail_at));
  if (failing && trace)
    write_stack();
  if (failing)
    errno = ENOMEM;
  return failing;
}

void *malloc(size_t size)
{
  if (!next.malloc)
    find_all();
  if (!next.malloc)
    return take_early(size);
  return fails(__builtin_return_address(0)) ? NULL : next.malloc(size);
}

void *calloc(size_t count, size_t size)
{
  if (!next.malloc)
    find_all();
  if (!next.malloc)
    return take_early(count * size);
  return fails(__builtin_return_address(0)) ? NULL : next.calloc(count, size);
}

void *realloc(void *block, size_t size)
{
  if (!next.malloc)
    find_all();
  if (fails(__builtin_return_address(0)))
    return NULL;
  if (!is_early(block))
    return next.realloc(block, size);
  void *moved = next.malloc(size);
  size_t rest = (size_t)(early + sizeof early - (char *)block);
  return moved ? memcpy(moved, block, size < rest ? size : rest) : NULL;
}

static void *take_aligned(void *caller, size_t alignment, size_t size)
{
  if (!next.malloc)
    find_all();
  return fails(caller) ? NULL : next.memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
  return take_aligned(__builtin_return_address(0), alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
  return take_aligned(__builtin_return_address(0), alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
  int before = errno;
  void *found = take_aligned(__builtin_return_address(0), alignment, size);
  errno = before;
  if (!found)
    return ENOMEM;
  *block = found;
  return 0;
}

int hwloc_topology_load(void *topology);
int hwloc_topology_load(void *topology)
{
  int (*load)(void *);
  paused = true;
  find("hwloc_topology_load", &load);
  int result = load(topology);
  paused = false;
  return result;
}

void free(void *block)
{
  if (block && !is_early(block))
    next.free(block);
}
