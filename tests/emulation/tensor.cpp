/* SPDX-License-Identifier: Apache-2.0 */
/* mbarriers, and TMA loads and stores. A TMA operation completes at once or some time later, but before a wait for it
 * ends. */
#include "tensor.h"
#include "block.h"
#include "memory.h"

#include <cstring>
#include <functional>

namespace emulation {

/* ---- mbarriers ---- */

static mbarrier &barrier_at(block &b, unsigned address, const char *what)
{
  auto found = b.mbarriers.find(address & (SHARED_WINDOW - 1));
  if (found == b.mbarriers.end())
    fail("%s: there is no mbarrier at shared address %u", what, address);
  return found->second;
}

static block &own_block()
{
  return *the.running->owner;
}

/* Completes the phase if all arrivals and bytes have come. */
static void complete_phase(mbarrier &m)
{
  if (m.pending > 0 || m.bytes != 0)
    return;
  m.phases++;
  m.released = m.known;
  m.pending = m.count;
  the.events++;
}

void mbarrier_init(unsigned address, unsigned count)
{
  shared_bytes(address, 8, 8, "mbarrier.init");
  if (count == 0 || own_block().mbarriers.count(address & (SHARED_WINDOW - 1)))
    fail("mbarrier.init: %s", count == 0 ? "for no arrivals" : "there is one already");
  own_block().mbarriers[address & (SHARED_WINDOW - 1)] = {count, count, 0, 0, {}, {}, false};
}

void fence_mbarrier_init()
{
  for (auto &entry : own_block().mbarriers)
    entry.second.published = true;
}

static void arrive(mbarrier &m, unsigned expected_bytes)
{
  if (m.pending == 0)
    fail("mbarrier.arrive: more than the %u arrivals of a phase", m.count);
  learn(m.known, the.running->known);
  tick(*the.running);
  m.bytes += expected_bytes;
  m.pending--;
  the.events++;
  complete_phase(m);
  pause();
}

void mbarrier_arrive(unsigned address, unsigned expected_bytes)
{
  arrive(barrier_at(own_block(), address, "mbarrier.arrive"), expected_bytes);
}

void mbarrier_arrive_in_block(unsigned address)
{
  cluster_bytes(address, 8, 8, "mbarrier.arrive");
  arrive(barrier_at(*own_block().owner->blocks[address >> SHARED_RANK], address, "mbarrier.arrive"), 0);
}

bool mbarrier_try_wait(unsigned address, unsigned parity)
{
  mbarrier &m = barrier_at(own_block(), address, "mbarrier.try_wait");
  if (parity > 1)
    fail("mbarrier.try_wait: a parity of %u", parity);
  if ((m.phases & 1) == parity)
    wait_while(m.phases, m.phases, "an mbarrier");
  if ((m.phases & 1) == parity)
    return false;
  learn(the.running->known, m.released);
  return true;
}

/* ---- pending TMA operations ---- */

bool tma_pending()
{
  return !the.tma.empty();
}

void tma_discard()
{
  the.tma.clear();
}

bool tma_pending_for(const block &b)
{
  for (const tma_operation &e : the.tma)
    if (e.from->owner == &b)
      return true;
  return false;
}

void tma_progress(unsigned percent)
{
  for (size_t i = the.tma.size(); i > 0; i--) {
    tma_operation e = std::move(the.tma.front());
    the.tma.pop_front();
    if (random_below(100) < percent)
      e.work();
    else
      the.tma.push_back(std::move(e));
  }
}

static void send(word64 store, std::function<void()> work)
{
  if (random_below(100) < the.eager_percent)
    work();
  else
    the.tma.push_back({the.running, store, std::move(work)});
}

/* ---- TMA boxes ---- */

unsigned swizzled(unsigned address, unsigned mask)
{
  return address ^ ((address >> 7 & mask) << 4);
}

static unsigned box_bytes(const tensor_description &t)
{
  unsigned elements = 1;
  for (unsigned i = 0; i < t.rank; i++)
    elements *= t.box[i];
  return elements * t.element;
}

/* Calls use(bytes in the block's window, bytes in the tensor or NULL, elements in the tensor) for every 16-byte
 * chunk. */
template <class USE>
static void each_chunk(byte *window, unsigned shared, const tensor_description &t, const int *first, USE use)
{
  const unsigned wide = 16 / t.element, chunks = t.box[0] / wide;
  unsigned rows = box_bytes(t) / (t.box[0] * t.element);
  for (unsigned row = 0; row < rows; row++)
    for (unsigned chunk = 0; chunk < chunks; chunk++) {
      int64_t x = first[0] + (int64_t)(chunk * wide), left = (int64_t)t.dims[0] - x;
      byte *at = (byte *)t.base + x * t.element;
      bool inside = x >= 0 && left > 0;
      unsigned rest = row;
      for (unsigned i = 1; i < t.rank; rest /= t.box[i], i++) {
        int64_t y = first[i] + (int64_t)(rest % t.box[i]);
        inside &= y >= 0 && y < (int64_t)t.dims[i];
        at += y * (int64_t)t.strides[i - 1];
      }
      unsigned elements = !inside ? 0 : left < wide ? (unsigned)left : wide;
      use(window + swizzled(shared + row * t.box[0] * t.element + chunk * 16, t.swizzle), inside ? at : nullptr,
          elements);
    }
}

static tensor_description read_map(const void *map, const char *what)
{
  tensor_description t;
  memcpy(&t, map, sizeof t);
  if (t.magic != TENSOR_MAGIC || t.rank != 4)
    fail("%s: no tensor map of 4 dimensions", what);
  return t;
}

static void check_boxes(const tensor_description &t, byte *window, unsigned shared, const int *first, const char *what)
{
  check_follows(what);
  each_chunk(window, shared, t, first, [&](byte *, const byte *at, unsigned elements) {
    if (at && !memory_holds(at, elements * t.element))
      fail("%s: %u bytes of the box: %s", what, elements * t.element, memory_words(at).c_str());
  });
}

/* The published mbarrier that a load of `what` signals. */
static mbarrier &load_barrier(block &b, unsigned barrier, const char *what)
{
  mbarrier &m = barrier_at(b, barrier, what);
  if (!m.published)
    fail("%s: its mbarrier was not published (fence.mbarrier_init)", what);
  return m;
}

/* Writes `bytes` bytes to `to` by `deliver`, which then count for the mbarrier: TMA some time, otherwise at once, as
 * the block may end before its stores to others arrive. */
static void send_load(mbarrier &m, byte *to, unsigned bytes, bool by_tma, std::function<void()> deliver)
{
  thread *from = the.running;
  note_async_write(to, bytes, by_tma);
  uint32_t clock = next_clock(*from);
  auto work = [=, &m] {
    deliver();
    note_async_write_done(*from, to, bytes, clock);
    knowledge written = {vector_clock(from->id + 1, 0), {}};
    written.clock[from->id] = clock;
    learn(m.known, written);
    m.bytes -= bytes;
    the.events++;
    complete_phase(m);
  };
  by_tma ? send(0, work) : work();
}

static void load_box(block *b, unsigned to, const void *map, unsigned barrier, const int *first)
{
  tensor_description t = read_map(map, "a TMA load");
  unsigned bytes = box_bytes(t), offset = to & (SHARED_WINDOW - 1);
  int at[4] = {first[0], first[1], first[2], first[3]};
  shared_bytes(to, bytes, 128, "a TMA load");
  check_boxes(t, b->shared, offset, at, "a TMA load");
  mbarrier &m = load_barrier(*b, barrier, "a TMA load");
  send_load(m, b->shared + offset, bytes, true, [=] {
    each_chunk(b->shared, offset, t, at, [&](byte *shared, const byte *from, unsigned elements) {
      memset(shared, 0, 16);
      if (from)
        memcpy(shared, from, elements * t.element);
    });
  });
}

void bulk_load(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
  const char *what = "a bulk load";
  byte *at = shared_bytes(to, bytes, 16, what);
  if (bytes % 16 != 0)
    fail("%s of %u bytes", what, bytes);
  check_global(from, bytes, 16, what);
  mbarrier &m = load_barrier(own_block(), barrier, what);
  send_load(m, at, bytes, true, [=] { memcpy(at, from, bytes); });
}

void tma_load(unsigned to, const void *map, unsigned barrier, const int *first)
{
  load_box(&own_block(), to, map, barrier, first);
}

void tma_load_multicast(unsigned to, const void *map, unsigned barrier, const int *first, unsigned blocks)
{
  const auto &all = own_block().owner->blocks;
  if (blocks == 0 || blocks >> all.size() != 0)
    fail("a TMA load to blocks 0x%x of a cluster of %zu", blocks, all.size());
  for (unsigned i = 0; i < all.size(); i++)
    if (blocks >> i & 1) {
      cluster_bytes((to & (SHARED_WINDOW - 1)) | i << SHARED_RANK, 16, 16, "a TMA load");
      load_box(all[i], to, map, barrier, first);
    }
}

void store_async(unsigned to, const void *value, unsigned bytes, unsigned barrier)
{
  const char *what = "st.async";
  struct {
    byte bytes[16];
  } sent;
  byte *at = cluster_bytes(to, bytes, bytes, what);
  if (to >> SHARED_RANK != barrier >> SHARED_RANK)
    fail("%s to block %u of the cluster, for an mbarrier of block %u", what, to >> SHARED_RANK, barrier >> SHARED_RANK);
  memcpy(sent.bytes, value, bytes);
  mbarrier &m = load_barrier(*own_block().owner->blocks[to >> SHARED_RANK], barrier, what);
  send_load(m, at, bytes, false, [=] { memcpy(at, sent.bytes, bytes); });
}

void tma_store(const void *map, unsigned from, const int *first)
{
  tensor_description t = read_map(map, "a TMA store");
  block *b = &own_block();
  unsigned offset = from & (SHARED_WINDOW - 1);
  int at[4] = {first[0], first[1], first[2], first[3]};
  shared_bytes(from, box_bytes(t), 128, "a TMA store");
  check_boxes(t, b->shared, offset, at, "a TMA store");
  thread &own = *the.running;
  own.stores.push_back({b->shared + offset, box_bytes(t)});
  own.stores_begun++;
  for (unsigned i = 0; i < box_bytes(t); i += 16)
    note_async_read(b->shared + offset + i, 16, own.id, UNDER_WAY, "a TMA store reads");
  send(own.stores_begun, [=] {
    each_chunk(b->shared, offset, t, at, [&](const byte *shared, byte *to, unsigned elements) {
      if (to)
        memcpy(to, shared, elements * t.element);
    });
    the.events++;
  });
}

void tma_commit()
{
  the.running->stores_committed = the.running->stores_begun;
}

/* Waits for all stores that this thread has committed; the programs never wait for fewer. */
void tma_wait(unsigned groups_left)
{
  if (groups_left != 0)
    fail("cp.async.bulk.wait_group %u: the emulation supports only 0", groups_left);
  thread &own = *the.running;
  for (size_t i = the.tma.size(); i > 0; i--) {
    tma_operation e = std::move(the.tma.front());
    the.tma.pop_front();
    if (e.store > 0 && e.store <= own.stores_committed && e.from == &own)
      e.work();
    else
      the.tma.push_back(std::move(e));
  }
  for (word64 left = own.stores_begun - own.stores_committed; own.stores.size() > left; own.stores.pop_front())
    note_async_read_done(own.stores.front().from, own.stores.front().bytes);
}

const char *describe_tensor(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle)
{
  static const unsigned masks[] = {0, 1, 3, 7};
  tensor_description t = {TENSOR_MAGIC, (byte *)address, {}, {}, {}, rank, type == 0 ? 1u : 2u, 0};
  static_assert(sizeof t <= 128, "a tensor map has 128 bytes");
  if (rank != 4 || (type != 0 && type != 6 && type != 9) || interleave != 0 || swizzle < 0 || swizzle > 3)
    return "the emulation supports only 4 dimensions of 8-bit and 16-bit elements";
  if ((uintptr_t)address % 16 != 0)
    return "a tensor's address is not a multiple of 16";
  for (unsigned i = 0; i < rank; i++) {
    if (dims[i] == 0 || dims[i] > (uint64_t)1 << 32 || box[i] == 0 || box[i] > 256 || steps[i] != 1)
      return "a tensor's size or box is out of bounds";
    t.dims[i] = dims[i];
    t.box[i] = box[i];
  }
  for (unsigned i = 0; i + 1 < rank; i++) {
    if (strides[i] % 16 != 0 || strides[i] >= (uint64_t)1 << 40)
      return "a tensor's stride is not a multiple of 16 below 2^40";
    t.strides[i] = strides[i];
  }
  t.swizzle = masks[swizzle];
  if (swizzle > 0 && box[0] * t.element != 16u << swizzle)
    return "the emulation supports only swizzles of whole rows";
  if (box[0] * t.element % 16 != 0)
    return "a box's rows are not of whole 16 bytes";
  memcpy(map, &t, sizeof t);
  return nullptr;
}

} // namespace emulation
