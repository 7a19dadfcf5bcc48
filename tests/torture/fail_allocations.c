/* SPDX-License-Identifier: Apache-2.0 */
/* malloc() and its family, and mmap(), with faults: the n-th allocation of the process fails, or that and later ones.
 *
 * Preloaded (LD_PRELOAD), so that allocations of every library count: jansson's, SQLite's, the C library's own. The
 * functions stand before those of the address sanitizer, which sees what they pass on. Libraries that end the process
 * when memory runs out are not counted: the C++ and OpenMP run times, on which oneDNN stands, and the loader.
 *   TORTURE_FAIL=N     the N-th allocation returns NULL with ENOMEM
 *   TORTURE_AFTER=1    so does every later one
 *   TORTURE_COUNT=FILE the number of allocations is written there at the end
 *   TORTURE_TRACE=1    a failure writes its call stack to standard error
 *   TORTURE_STOPS=N    numbers of allocations go into that file, too: N or more apart, by the library or the command in
 *                      its only thread
 *   TORTURE_SERVE=FD   one process serves many runs: see serve() */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*mmap)(void *, size_t, int, int, int, off_t);
  void (*free)(void *);
  void (*lose)(const void *); /* of the leak sanitizer: the block may be lost */
} next;

static atomic_long allocations;
static _Thread_local bool paused;       /* nothing fails or is counted */
static long fail_at;                    /* 0: none */
static bool started, fail_after, trace; /* before: what the loader and the sanitizers need to begin */
static int requests = -1;               /* where a driver asks for runs */
static long serve_at;                   /* the allocation at which the next of them begin; 0: none */
static long stops[4096], stop_distance; /* TORTURE_STOPS */
static size_t stop_count;

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
  find("mmap", &next.mmap);
  find("free", &next.free);
  find("__lsan_ignore_object", &next.lose);
  find("malloc", &next.malloc);
}

static pid_t copy;

static void kill_copy(int signal)
{
  (void)signal;
  kill(copy, SIGKILL);
}

/* Starting a process and the run up to the failing allocation take longer than the rest. So the process stops before
 * its first allocation, or at one of TORTURE_STOPS, and writes that allocation's number. Then, for each request,
 *   {N, AFTER}   a copy of it goes on to the end, with TORTURE_FAIL=N and TORTURE_AFTER=AFTER; its status is written
 *   {-N, 0}      it goes on itself, and stops at allocation N
 * as numbers of 64 bits. A copy that has not ended after two minutes is killed. */
static void serve(long number)
{
  int64_t request[2], answer = number;
  int before = errno;
  struct sigaction kill_late = {.sa_handler = kill_copy}, alarm_before;
  sigaction(SIGALRM, &kill_late, &alarm_before);
  paused = true;
  serve_at = 0;
  while (write(requests, &answer, sizeof answer) == sizeof answer &&
         read(requests, request, sizeof request) == sizeof request) {
    if (request[0] < 0) {
      serve_at = -request[0];
      goto end;
    }
    copy = fork();
    if (copy == 0) {
      close(requests);
      fail_at = request[0];
      fail_after = request[1] != 0;
      goto end;
    }
    int status = -1;
    alarm(120);
    while (waitpid(copy, &status, 0) < 0 && errno == EINTR)
      ;
    alarm(0);
    answer = status;
  }
  _exit(0);
end:
  sigaction(SIGALRM, &alarm_before, NULL);
  paused = false;
  errno = before;
}

__attribute__((constructor)) static void read_environment(void)
{
  const char *fail = getenv("TORTURE_FAIL"), *after = getenv("TORTURE_AFTER"), *distance = getenv("TORTURE_STOPS");
  const char *file = getenv("TORTURE_SERVE");
  started = true;
  fail_after = after && after[0] == '1';
  trace = getenv("TORTURE_TRACE") != NULL;
  fail_at = fail ? strtol(fail, NULL, 10) : 0;
  stop_distance = distance ? strtol(distance, NULL, 10) : 0;
  unsetenv("LD_PRELOAD"); /* gnuplot's allocations do not fail */
  if (file) {
    requests = (int)strtol(file, NULL, 10);
    unsetenv("TORTURE_SERVE");
    serve(0);
  }
}

__attribute__((destructor)) static void write_count(void)
{
  const char *path = getenv("TORTURE_COUNT");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  if (file < 0)
    return;
  char text[32];
  for (size_t i = 0; i <= stop_count; i++) {
    int length = snprintf(text, sizeof text, "%ld\n", i == 0 ? atomic_load(&allocations) : stops[i - 1]);
    if (write(file, text, (size_t)length) != length)
      _exit(99);
  }
  close(file);
}

enum caller_kind { UNKNOWN, HEADROOM, ENDS_THE_PROCESS, LOADER, OTHER };

/* Returns the kind of the library or program that has the instruction. */
static enum caller_kind find_kind(void *caller)
{
  static const char *const libraries[] = {"libstdc++", "libgomp", "libdnnl", "libomp"};
  Dl_info object;
  if (!dladdr(caller, &object) || !object.dli_fname)
    return OTHER;
  const char *slash = strrchr(object.dli_fname, '/'), *name = slash ? slash + 1 : object.dli_fname;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
      return ENDS_THE_PROCESS;
  }
  if (strncmp(name, "headroom", 8) == 0 || strncmp(name, "libheadroom", 11) == 0)
    return HEADROOM;
  return strncmp(name, "ld-linux", 8) == 0 ? LOADER : OTHER;
}

/* The same, remembered: dladdr() takes longer than an allocation. */
static enum caller_kind kind_of(void *caller)
{
  static _Atomic uint64_t known[1024]; /* address · 8 + kind */
  uint64_t address = (uint64_t)(uintptr_t)caller;
  _Atomic uint64_t *place = &known[(address ^ address >> 10) % (sizeof known / sizeof *known)];
  uint64_t entry = atomic_load_explicit(place, memory_order_relaxed);
  if (entry >> 3 == address && entry % 8 != UNKNOWN)
    return (enum caller_kind)(entry % 8);
  enum caller_kind kind = find_kind(caller);
  atomic_store_explicit(place, address << 3 | (uint64_t)kind, memory_order_relaxed);
  return kind;
}

/* Counts the entries of /proc/self/task or /proc/self/fd that `counts` accepts. */
static int count_entries(const char *path, bool (*counts)(int folder, const char *name))
{
  int count = 0;
  paused = true;
  DIR *folder = opendir(path);
  for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
    count += entry->d_name[0] != '.' && counts(dirfd(folder), entry->d_name);
  if (folder)
    closedir(folder);
  paused = false;
  return count;
}

static bool any_entry(int folder, const char *name)
{
  (void)folder, (void)name;
  return true;
}

/* A file or folder whose position a copy of the process would move. SQLite sets it before it reads. */
static bool has_position(int folder, const char *name)
{
  char path[4096];
  long number = strtol(name, NULL, 10);
  ssize_t length = readlinkat(folder, name, path, sizeof path);
  return number > STDERR_FILENO && number != folder && length > 3 && path[0] == '/' &&
         memcmp(path + length - 3, ".db", 3) != 0;
}

/* Whether copies of the process can go on from here: there is no other thread, no file is being read, and no lock is
 * held that knows its owner's thread, as SQLite's do. */
static bool is_stop(enum caller_kind kind, long number)
{
  long last = stop_count > 0 ? stops[stop_count - 1] : 0;
  return kind == HEADROOM && stop_distance > 0 && number - last >= stop_distance &&
         stop_count < sizeof stops / sizeof *stops && count_entries("/proc/self/task", any_entry) == 1 &&
         count_entries("/proc/self/fd", has_position) == 0;
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
  if (!started || paused)
    return false;
  enum caller_kind kind = kind_of(caller);
  if (kind == ENDS_THE_PROCESS || kind == LOADER)
    return false;
  long number = atomic_fetch_add(&allocations, 1) + 1;
  if (is_stop(kind, number))
    stops[stop_count++] = number;
  if (number == serve_at)
    serve(number);
  bool failing = fail_at > 0 && (number == fail_at || (fail_after && number > fail_at));
  if (failing && trace)
    write_stack();
  if (failing)
    errno = ENOMEM;
  return failing;
}

/* The block. glibc's loader loses names of libraries; to find out that it was the loader takes the sanitizer 100 ms. */
static void *allocated(void *caller, void *block)
{
  if (started && next.lose && block && kind_of(caller) == LOADER)
    next.lose(block);
  return block;
}

void *malloc(size_t size)
{
  if (!next.malloc)
    find_all();
  if (!next.malloc)
    return take_early(size);
  void *caller = __builtin_return_address(0);
  return fails(caller) ? NULL : allocated(caller, next.malloc(size));
}

void *calloc(size_t count, size_t size)
{
  if (!next.malloc)
    find_all();
  if (!next.malloc)
    return take_early(count * size);
  void *caller = __builtin_return_address(0);
  return fails(caller) ? NULL : allocated(caller, next.calloc(count, size));
}

void *realloc(void *block, size_t size)
{
  if (!next.malloc)
    find_all();
  void *caller = __builtin_return_address(0);
  if (fails(caller))
    return NULL;
  if (!is_early(block))
    return allocated(caller, next.realloc(block, size));
  void *moved = next.malloc(size);
  size_t rest = (size_t)(early + sizeof early - (char *)block);
  return moved ? memcpy(moved, block, size < rest ? size : rest) : NULL;
}

static void *take_aligned(void *caller, size_t alignment, size_t size)
{
  if (!next.malloc)
    find_all();
  return fails(caller) ? NULL : allocated(caller, next.memalign(alignment, size));
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

/* oneDNN crashes where it gets no memory for code: where all later ones fail, so do its own, before which Headroom asks
 * for memory itself. */
static bool fails_to_map(void *caller)
{
  bool late = fail_after && fail_at > 0 && atomic_load(&allocations) + 1 >= fail_at;
  return fails(caller) || (started && !paused && late && kind_of(caller) == ENDS_THE_PROCESS);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t from)
{
  if (!next.mmap)
    find_all();
  return fails_to_map(__builtin_return_address(0)) ? MAP_FAILED : next.mmap(at, size, protection, flags, file, from);
}

void free(void *block)
{
  if (block && !is_early(block))
    next.free(block);
}
