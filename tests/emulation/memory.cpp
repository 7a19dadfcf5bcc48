/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include "block.h"

#include <cstring>
#include <map>
#include <sys/mman.h>

namespace emulation {

constexpr size_t PAGE = 4096, ALIGNMENT = 256, POISONED_MAX = (size_t)256 << 20;
constexpr size_t RESERVED =
    (size_t)1 << 40; /* of address space, not memory; no address is reused before all were used */
constexpr byte POISON = 0xFF;

struct buffer {
  size_t bytes;
  byte *pages;
  size_t page_bytes;
};

static std::map<byte *, buffer> buffers;
static byte *reserve, *next_pages;
static size_t used, changes = 1; /* changes: of the list of buffers */

static size_t round_up(size_t bytes, size_t step)
{
  return (bytes + step - 1) / step * step;
}

static bool make_reserve()
{
  if (reserve)
    return true;
  void *map = mmap(nullptr, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return false;
  reserve = next_pages = (byte *)map;
  return true;
}

void *memory_allocate(size_t bytes)
{
  static unsigned turn;
  size_t page_bytes = round_up(bytes > 0 ? bytes : 1, PAGE);
  if (!make_reserve() || used + page_bytes > MEMORY_BYTES)
    return nullptr;
  if (next_pages + page_bytes + 2 * PAGE > reserve + RESERVED)
    return nullptr;
  byte *pages = next_pages + PAGE;
  if (mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0)
    return nullptr;
  next_pages = pages + page_bytes;
  if (page_bytes <= POISONED_MAX)
    memset(pages, POISON, page_bytes);
  byte *data = turn++ % 2 ? pages : pages + page_bytes - round_up(bytes > 0 ? bytes : 1, ALIGNMENT);
  buffers[data] = {bytes, pages, page_bytes};
  used += page_bytes;
  changes++;
  return data;
}

bool memory_free(void *data)
{
  auto found = buffers.find((byte *)data);
  if (found == buffers.end())
    return false;
  const buffer &b = found->second;
  madvise(b.pages, b.page_bytes, MADV_DONTNEED);
  mprotect(b.pages, b.page_bytes, PROT_NONE);
  used -= b.page_bytes;
  buffers.erase(found);
  changes++;
  return true;
}

size_t memory_used()
{
  return used;
}

/* The last buffer that begins at or before the address. */
static std::map<byte *, buffer>::const_iterator before(const void *address)
{
  auto after = buffers.upper_bound((byte *)address);
  return after == buffers.begin() ? buffers.end() : std::prev(after);
}

bool memory_is_near(const void *data)
{
  return reserve && (size_t)((const byte *)data - reserve) < RESERVED;
}

bool memory_holds(const void *data, size_t bytes)
{
  static std::map<byte *, buffer>::const_iterator last;
  static size_t known;
  if (known == changes && (size_t)((const byte *)data - last->first) + bytes <= last->second.bytes &&
      (const byte *)data >= last->first)
    return true;
  auto found = before(data);
  bool holds = found != buffers.end() && (const byte *)data + bytes <= found->first + found->second.bytes;
  last = found;
  known = holds ? changes : 0;
  return holds;
}

std::string memory_words(const void *address)
{
  char text[160];
  const byte *at = (const byte *)address;
  auto found = before(address);
  auto next = buffers.upper_bound((byte *)address);
  if (found != buffers.end() && at < found->second.pages + found->second.page_bytes + PAGE)
    snprintf(text, sizeof text, "%td bytes behind the beginning of a buffer of %zu bytes", at - found->first,
             found->second.bytes);
  else if (next != buffers.end() && at >= next->second.pages - PAGE)
    snprintf(text, sizeof text, "%td bytes before a buffer of %zu bytes", next->first - at, next->second.bytes);
  else if (reserve && at >= reserve && at < reserve + RESERVED)
    snprintf(text, sizeof text, "device memory that is not, or no longer, a buffer's");
  else
    snprintf(text, sizeof text, "address %p, which is no memory of the device", address);
  return text;
}

/* Bytes between a buffer and its guard pages do not belong to it. */
std::string memory_damage()
{
  char text[120];
  for (const auto &[data, b] : buffers) {
    if (b.page_bytes > POISONED_MAX)
      continue;
    for (const byte *at = b.pages; at < b.pages + b.page_bytes; at++) {
      if (at == data)
        at = data + b.bytes;
      if (at < b.pages + b.page_bytes && *at != POISON) {
        snprintf(text, sizeof text, "writes %td bytes behind the beginning of a buffer of %zu bytes", at - data,
                 b.bytes);
        return text;
      }
    }
  }
  return "";
}

void check_global(const void *data, unsigned bytes, unsigned alignment, const char *what)
{
  if ((uintptr_t)data % alignment != 0)
    fail("%s at %p, which is not a multiple of %u", what, data, alignment);
  if (!memory_holds(data, bytes))
    fail("%s of %u bytes: %s", what, bytes, memory_words(data).c_str());
  check_follows(what);
}

} // namespace emulation
