/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory, and cp.async copies to it. Most copies complete as late as they may and some at once, so that both
 * reading too early and overwriting too early are found. */
#include "block.h"
#include "memory.h"

#include <cstring>

namespace emulation {

static block &own_block()
{
  return *the.running->owner;
}

void *dynamic_shared()
{
  return own_block().shared + SHARED_DYNAMIC_AT;
}

/* Static shared memory is reserved when a program is loaded, before it runs: the driver counts the bytes of each
 * program. */
unsigned reserved_bytes;

unsigned reserve_shared(unsigned bytes, unsigned alignment)
{
  unsigned place = (reserved_bytes + alignment - 1) / alignment * alignment;
  reserved_bytes = place + bytes;
  return place;
}

static unsigned static_at()
{
  return SHARED_DYNAMIC_AT + (the.job.shared_bytes + 15) / 16 * 16;
}

void *static_shared(unsigned place)
{
  return own_block().shared + static_at() + place;
}

unsigned shared_address(const void *data)
{
  const block &b = own_block();
  ptrdiff_t offset = (const byte *)data - b.shared;
  if (offset < 0 || offset > (ptrdiff_t)SHARED_WINDOW)
    fail("%p is no address of the block's shared memory", data);
  return (unsigned)offset | b.rank << SHARED_RANK;
}

static byte *bytes_of(const block &b, unsigned offset, unsigned bytes, unsigned alignment, const char *what)
{
  if (offset % alignment != 0)
    fail("%s: shared address %u is not a multiple of %u", what, offset, alignment);
  if (offset < SHARED_DYNAMIC_AT || offset + bytes > static_at() + the.job.static_bytes)
    fail("%s: %u bytes at shared address %u, where the block has %u", what, bytes, offset - SHARED_DYNAMIC_AT,
         the.job.shared_bytes);
  return b.shared + offset;
}

byte *shared_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what)
{
  const block &b = own_block();
  if (address >> SHARED_RANK != b.rank)
    fail("%s: the address is of another block of the cluster", what);
  return bytes_of(b, address & (SHARED_WINDOW - 1), bytes, alignment, what);
}

byte *cluster_bytes(unsigned address, unsigned bytes, unsigned alignment, const char *what)
{
  const cluster &c = *own_block().owner;
  unsigned rank = address >> SHARED_RANK;
  if (rank >= c.blocks.size())
    fail("%s: block %u of a cluster of %zu", what, rank, c.blocks.size());
  if (!knows_block(*c.blocks[rank]))
    fail("%s: block %u of the cluster may not have begun", what, rank);
  if (c.blocks[rank]->left == 0)
    fail("%s: block %u of the cluster has ended", what, rank);
  return bytes_of(*c.blocks[rank], address & (SHARED_WINDOW - 1), bytes, alignment, what);
}

/* ---- cp.async ---- */

static void deliver(const copy &c)
{
  memcpy(c.to, c.from, c.taken);
  memset(c.to + c.taken, 0, c.bytes - c.taken);
}

void cp_async(unsigned to, const void *from, unsigned bytes, unsigned taken)
{
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail("cp.async of %u bytes", bytes);
  if (taken > bytes)
    fail("cp.async of %u bytes that takes %u", bytes, taken);
  if (taken > 0)
    check_global(from, taken, bytes, "cp.async");
  copy c = {shared_bytes(to, bytes, bytes, "cp.async"), (const byte *)from, bytes, taken, false};
  note_async_write(c.to, bytes, false);
  c.delivered = random_below(100) < the.eager_percent;
  if (c.delivered)
    deliver(c);
  the.running->open.push_back(c);
}

/* After the wait, the bytes count as written by the thread that waited. */
static void receive(const std::vector<copy> &copies)
{
  const thread &t = *the.running;
  for (const copy &c : copies) {
    if (!c.delivered)
      deliver(c);
    note_async_write_done(t, c.to, c.bytes, t.known.clock[t.id]);
  }
}

void cp_async_commit()
{
  thread &t = *the.running;
  t.groups.push_back(std::move(t.open));
  t.open.clear();
}

void cp_async_wait(unsigned groups_left)
{
  thread &t = *the.running;
  for (; !t.groups.empty() && (groups_left == ~0u || t.groups.size() > groups_left); t.groups.pop_front())
    receive(t.groups.front());
  if (groups_left != ~0u)
    return;
  receive(t.open);
  t.open.clear();
}

} // namespace emulation
