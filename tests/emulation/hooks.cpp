/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that compilers insert calls to: -fsanitize=thread for every memory access, -fsanitize=alignment for
 * misaligned ones. These replace the sanitizers' libraries: an access is recorded (races.h) and must be inside a buffer
 * and aligned. */
#include "block.h"
#include "memory.h"
#include "races.h"

#include <cstring>

namespace emulation {

static void take_access(const void *data, unsigned bytes, bool writes)
{
  if (!the.running || the.failed)
    return;
  if (!memory_is_near(data))
    writes ? note_write(data, bytes) : note_read(data, bytes);
  else if (!memory_holds(data, bytes))
    fail("%s %u bytes, %s", writes ? "writes" : "reads", bytes, memory_words(data).c_str());
  else
    check_follows(writes ? "writes" : "reads");
}

/* The compiler's description of the access. */
struct mismatch {
  const char *file;
  unsigned line, column;
  const void *type;
  byte alignment, kind; /* alignment: log2 of it */
};

} // namespace emulation

#define HOOK(NAME, BYTES, WRITES)                  \
  extern "C" void __tsan_##NAME##BYTES(void *data) \
  {                                                \
    emulation::take_access(data, BYTES, WRITES);   \
  }
#define HOOKS(BYTES)                 \
  HOOK(read, BYTES, false)           \
  HOOK(write, BYTES, true)           \
  HOOK(unaligned_read, BYTES, false) \
  HOOK(unaligned_write, BYTES, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS
#undef HOOK

extern "C" {
/* Called by -fsanitize=alignment for an address that is not a multiple of its type's alignment, which a GPU would
 * refuse. */
void __ubsan_handle_type_mismatch_v1(const emulation::mismatch *about, void *address)
{
  if (address && emulation::the.running)
    emulation::fail("reads or writes at %p, which is not a multiple of %u", address, 1u << about->alignment);
}

void __tsan_init()
{
}

void __tsan_func_entry(void *)
{
}

void __tsan_func_exit(void *)
{
}

void __tsan_read_range(void *data, unsigned long bytes)
{
  emulation::take_access(data, (unsigned)bytes, false);
}

void __tsan_write_range(void *data, unsigned long bytes)
{
  emulation::take_access(data, (unsigned)bytes, true);
}

void *__tsan_memcpy(void *to, const void *from, unsigned long bytes)
{
  emulation::take_access(from, (unsigned)bytes, false);
  emulation::take_access(to, (unsigned)bytes, true);
  return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, unsigned long bytes)
{
  emulation::take_access(from, (unsigned)bytes, false);
  emulation::take_access(to, (unsigned)bytes, true);
  return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, unsigned long bytes)
{
  emulation::take_access(to, (unsigned)bytes, true);
  return memset(to, value, bytes);
}

void *__wrap_memcpy(void *to, const void *from, unsigned long bytes)
{
  return __tsan_memcpy(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, unsigned long bytes)
{
  return __tsan_memmove(to, from, bytes);
}

void *__wrap_memset(void *to, int value, unsigned long bytes)
{
  return __tsan_memset(to, value, bytes);
}
}
