/* SPDX-License-Identifier: Apache-2.0 */
#include "races.h"
#include "block.h"

#include <algorithm>

namespace emulation {

constexpr unsigned WORD = 2;   /* bytes tracked together: one 16-bit element, or two of fp8 */
constexpr unsigned CHUNK = 16; /* bytes tracked together for asynchronous reads */

/* The last writer and the readers since then of a word. Masks mark the bytes that were accessed. Threads that access
 * other bytes of the word replace the earlier threads, so some races of single bytes stay undetected. */
struct cell {
  uint32_t write_clock, read_clock; /* of several readers: the block's full barriers before the last of them */
  uint16_t writer, reader;          /* numbers within the cluster; readers are of the block */
  uint8_t written : 4, by_tma : 1, read;
  uint16_t readers; /* index of the readers' clocks, from 1; 0: at most one reader */
};

/* The last asynchronous read by a component (a thread's TMA stores, a warp's WGMMAs). */
struct async_read {
  unsigned component;
  uint32_t clock;
};

struct race_log {
  std::vector<cell> cells;
  std::vector<vector_clock> readers;
  std::vector<uint16_t> spare_readers;
  std::vector<std::vector<async_read>>
      async_reads; /* by chunk, since it was written; empty before the first asynchronous read */
  unsigned first, threads;
  size_t used_first, used_end; /* of cells: others are as at the beginning */
};

static std::vector<race_log *> spare_logs;

race_log *begin_race_log(unsigned bytes, unsigned first, unsigned threads)
{
  race_log *log = spare_logs.empty() ? new race_log() : spare_logs.back();
  if (!spare_logs.empty())
    spare_logs.pop_back();
  for (size_t i = log->used_first; i < log->used_end; i++)
    log->cells[i] = cell{};
  log->cells.resize((bytes + WORD - 1) / WORD);
  log->used_first = log->cells.size(), log->used_end = 0;
  log->spare_readers.clear();
  for (size_t i = log->readers.size(); i > 0; i--)
    log->spare_readers.push_back((uint16_t)i);
  for (std::vector<async_read> &chunk : log->async_reads)
    chunk.clear();
  log->first = first;
  log->threads = threads;
  return log;
}

void end_race_log(race_log *log)
{
  if (log)
    spare_logs.push_back(log);
}

/* ---- clocks ---- */

static unsigned blocks_of_cluster()
{
  return the.job.program->cluster[0];
}

static unsigned threads_of_block()
{
  return the.job.size.x * the.job.size.y * the.job.size.z;
}

static unsigned warps_of_block()
{
  return (threads_of_block() + LANES - 1) / LANES;
}

void begin_clock(thread &t)
{
  t.known.clock.assign(blocks_of_cluster() * (threads_of_block() + warps_of_block()), 0);
  t.known.published.clear();
  tick(t);
}

/* Most of the detector's time is in these two loops over threads. */
#define WIDE __attribute__((target_clones("avx2", "default")))

WIDE static void take_later(uint32_t *to, const uint32_t *from, size_t count)
{
  for (size_t i = 0; i < count; i++)
    to[i] = to[i] > from[i] ? to[i] : from[i];
}

WIDE static bool any_later(const uint32_t *clocks, const uint32_t *known, size_t count)
{
  bool any = false;
  for (size_t i = 0; i < count; i++)
    any |= clocks[i] > known[i];
  return any;
}

static void learn_clock(vector_clock &to, const vector_clock &from)
{
  if (to.size() < from.size())
    to.resize(from.size());
  take_later(to.data(), from.data(), from.size());
}

void learn(knowledge &to, const knowledge &from)
{
  learn_clock(to.clock, from.clock);
  learn_clock(to.published, from.published);
}

/* Nobody knows more of a thread than itself, or of a warp's WGMMAs than its lanes. */
void learn_from_each_other(const std::vector<thread *> &threads)
{
  static knowledge all;
  all.clock.assign(threads[0]->known.clock.size(), 0);
  all.published.clear();
  for (const thread *t : threads) {
    const unsigned warp = threads_of_block() + t->number / LANES;
    all.clock[t->id] = t->known.clock[t->id];
    all.clock[warp] = t->known.clock[warp] > all.clock[warp] ? t->known.clock[warp] : all.clock[warp];
    learn_clock(all.published, t->known.published);
  }
  for (thread *t : threads) {
    std::copy(all.clock.begin(), all.clock.end(), t->known.clock.begin());
    learn_clock(t->known.published, all.published);
  }
}

void tick(thread &t)
{
  t.known.clock[t.id]++;
}

uint32_t next_clock(thread &t)
{
  tick(t);
  return t.known.clock[t.id];
}

void fence_proxy_async()
{
  thread &t = *the.running;
  learn_clock(t.known.published, t.known.clock);
  tick(t);
}

unsigned wgmma_component()
{
  const thread &t = *the.running;
  return blocks_of_cluster() * threads_of_block() + t.owner->rank * warps_of_block() + t.number / LANES;
}

void know_wgmmas(uint32_t number)
{
  uint32_t &known = the.running->known.clock[wgmma_component()];
  known = number > known ? number : known;
}

bool knows_block(const block &b)
{
  for (const thread *t : b.threads)
    if (the.running->known.clock[t->id] > 0)
      return true;
  return false;
}

/* ---- reporting a race ---- */

/* "thread 5", "thread 5 of block 1 of the cluster" */
static std::string name_of(unsigned id)
{
  std::string name = "thread " + std::to_string(id % threads_of_block());
  return blocks_of_cluster() == 1 ? name
                                  : name + " of block " + std::to_string(id / threads_of_block()) + " of the cluster";
}

[[noreturn]] static void race(const char *what, unsigned at, unsigned other, const char *did, bool under_way)
{
  unsigned offset = at - SHARED_DYNAMIC_AT;
  std::string name = name_of(other);
  if (under_way)
    fail("%s byte %u of shared memory while a copy to it is pending, of %s", what, offset, name.c_str());
  fail("%s byte %u of shared memory, which %s %s, with no barrier between", what, offset, name.c_str(), did);
}

static void check_written(const cell &c, const thread &t, uint8_t mask, unsigned at, const char *what)
{
  if (!(c.written & mask))
    return;
  if (c.write_clock == UNDER_WAY || (c.writer != t.id && c.write_clock > t.known.clock[c.writer]))
    race(what, at, c.writer, "wrote", c.write_clock == UNDER_WAY);
}

/* TMA and WGMMA (the async proxy) also need a fence.proxy.async after the threads' writes. */
static void check_published(const cell &c, const thread &t, uint8_t mask, unsigned at, const char *what)
{
  check_written(c, t, mask, at, what);
  if (!(c.written & mask) || c.by_tma)
    return;
  if (c.writer >= t.known.published.size() || c.write_clock > t.known.published[c.writer])
    fail("%s byte %u of shared memory, which %s wrote, with no fence.proxy.async between", what, at - SHARED_DYNAMIC_AT,
         name_of(c.writer).c_str());
}

static void check_not_read(const race_log &log, const cell &c, const thread &t, uint8_t mask, unsigned at)
{
  if (!(c.read & mask))
    return;
  if (!c.readers) {
    if (c.reader != t.id && c.read_clock > t.known.clock[c.reader])
      race("writes", at, c.reader, "reads", false);
    return;
  }
  if (t.number + log.first == t.id && t.owner->full_barriers > c.read_clock)
    return; /* all threads of the block have met since */
  const vector_clock &clocks = log.readers[c.readers - 1];
  if (!any_later(clocks.data(), t.known.clock.data() + log.first, clocks.size()))
    return;
  for (unsigned i = 0; i < clocks.size(); i++)
    if (log.first + i != t.id && clocks[i] > t.known.clock[log.first + i])
      race("writes", at, log.first + i, "reads", false);
}

static void check_no_async_read(race_log &log, const thread &t, unsigned at)
{
  if (log.async_reads.empty())
    return;
  std::vector<async_read> &chunk = log.async_reads[at / CHUNK];
  const unsigned threads = blocks_of_cluster() * threads_of_block();
  for (const async_read &f : chunk) {
    if (f.clock <= t.known.clock[f.component])
      continue;
    if (f.component < threads)
      fail("writes byte %u of shared memory, which a TMA store of %s reads and may still be pending",
           at - SHARED_DYNAMIC_AT, name_of(f.component).c_str());
    fail("writes byte %u of shared memory, which a WGMMA of warp %u reads and may still be pending",
         at - SHARED_DYNAMIC_AT, (f.component - threads) % warps_of_block());
  }
  chunk.clear();
}

/* ---- accesses by threads ---- */

static void forget_readers(race_log &log, cell &c)
{
  if (c.readers)
    log.spare_readers.push_back(c.readers);
  c.readers = 0;
  c.read = 0;
}

/* Two readers that are not ordered with each other. */
static void add_reader(race_log &log, cell &c, const thread &t)
{
  if (!c.readers) {
    if (log.spare_readers.empty()) {
      if (log.readers.size() == 0xFFFF)
        return; /* the first reader stands for all */
      log.readers.emplace_back();
      log.spare_readers.push_back((uint16_t)log.readers.size());
    }
    c.readers = log.spare_readers.back();
    log.spare_readers.pop_back();
    log.readers[c.readers - 1].assign(log.threads, 0);
    log.readers[c.readers - 1][c.reader - log.first] = c.read_clock;
    c.read_clock = 0;
  }
  log.readers[c.readers - 1][t.number] = t.known.clock[t.id];
  const uint32_t barriers = log.first + t.number == t.id ? t.owner->full_barriers : UNDER_WAY;
  c.read_clock = barriers > c.read_clock ? barriers : c.read_clock;
}

static void read_word(race_log &log, cell &c, const thread &t, uint8_t mask, unsigned at)
{
  check_written(c, t, mask, at, "reads");
  if (c.read && c.read != mask)
    forget_readers(log, c);
  if (c.readers || (c.read && c.reader != t.id && c.read_clock > t.known.clock[c.reader])) {
    add_reader(log, c, t);
  } else {
    c.reader = (uint16_t)t.id;
    c.read_clock = t.known.clock[t.id];
  }
  c.read = mask;
}

static void write_word(race_log &log, cell &c, const thread &t, uint8_t mask, unsigned at, uint32_t clock, bool by_tma)
{
  by_tma ? check_published(c, t, mask, at, "a TMA load writes") : check_written(c, t, mask, at, "writes");
  check_not_read(log, c, t, mask, at);
  check_no_async_read(log, t, at);
  forget_readers(log, c);
  c.written = (c.writer == t.id && c.write_clock == clock ? c.written | mask : mask) & 15;
  c.by_tma = by_tma;
  c.writer = (uint16_t)t.id;
  c.write_clock = clock;
}

/* The block of the thread's cluster whose shared memory holds an address; mostly the thread's own block. */
static const block *block_at(const thread &t, const void *data)
{
  for (unsigned i = 0; i < t.owner->owner->blocks.size(); i++) {
    const block *b = i == 0 ? t.owner : t.owner->owner->blocks[i == t.owner->rank ? 0 : i];
    if ((size_t)((const byte *)data - b->shared) < SHARED_WINDOW)
      return b;
  }
  return nullptr;
}

/* Calls use(cell, mask, byte of the window) for the words of a shared memory access. */
template <class USE> static void each_word(const thread &t, const void *data, unsigned bytes, USE use)
{
  const block *b = block_at(t, data);
  if (!b)
    return;
  race_log *log = b->log;
  size_t at = (size_t)((const byte *)data - b->shared);
  const size_t behind = (at + bytes + WORD - 1) / WORD;
  if (behind > log->cells.size())
    return;
  log->used_first = std::min(log->used_first, at / WORD), log->used_end = std::max(log->used_end, behind);
  for (size_t end = at + bytes; at < end;) {
    size_t first = at % WORD, count = WORD - first < end - at ? WORD - first : end - at;
    use(*log, log->cells[at / WORD], (uint8_t)(((1u << count) - 1) << first), (unsigned)at);
    at += count;
  }
}

void note_read(const void *data, unsigned bytes)
{
  const thread &t = *the.running;
  each_word(t, data, bytes, [&](race_log &log, cell &c, uint8_t mask, unsigned at) { read_word(log, c, t, mask, at); });
}

void note_write(const void *data, unsigned bytes)
{
  const thread &t = *the.running;
  each_word(t, data, bytes, [&](race_log &log, cell &c, uint8_t mask, unsigned at) {
    write_word(log, c, t, mask, at, t.known.clock[t.id], false);
  });
}

void note_async_write(const void *data, unsigned bytes, bool by_tma)
{
  const thread &t = *the.running;
  each_word(t, data, bytes, [&](race_log &log, cell &c, uint8_t mask, unsigned at) {
    write_word(log, c, t, mask, at, UNDER_WAY, by_tma);
  });
}

void note_async_write_done(const thread &t, const void *data, unsigned bytes, uint32_t clock)
{
  each_word(t, data, bytes, [&](race_log &, cell &c, uint8_t, unsigned) {
    if (c.writer == t.id && c.write_clock == UNDER_WAY)
      c.write_clock = clock;
  });
}

/* ---- asynchronous reads ---- */

static std::vector<async_read> &async_reads_at(const void *data)
{
  const block &b = *the.running->owner;
  std::vector<std::vector<async_read>> &async_reads = b.log->async_reads;
  if (async_reads.empty())
    async_reads.resize(SHARED_WINDOW / CHUNK);
  return async_reads[(size_t)((const byte *)data - b.shared) / CHUNK];
}

static void remember(std::vector<async_read> &chunk, unsigned component, uint32_t clock)
{
  for (async_read &f : chunk) {
    if (f.component == component) {
      f.clock = clock;
      return;
    }
  }
  chunk.push_back({component, clock});
}

void note_async_read(const void *data, unsigned bytes, unsigned component, uint32_t clock, const char *what)
{
  const thread &t = *the.running;
  each_word(t, data, bytes,
            [&](race_log &, const cell &c, uint8_t mask, unsigned at) { check_published(c, t, mask, at, what); });
  remember(async_reads_at(data), component, clock);
}

void note_async_read_done(const void *data, unsigned bytes)
{
  const thread &t = *the.running;
  for (unsigned i = 0; i < bytes; i += CHUNK)
    remember(async_reads_at((const byte *)data + i), t.id, t.known.clock[t.id]);
}

/* ---- the end of a block ---- */

std::string find_late_writes(const block &b)
{
  if (b.owner->blocks.size() == 1)
    return "";
  for (size_t i = 0; i < b.log->cells.size(); i++) {
    const cell &c = b.log->cells[i];
    bool known = !c.written || c.writer / threads_of_block() == b.rank;
    for (size_t j = 0; j < b.threads.size() && !known; j++)
      known = b.threads[j]->known.clock[c.writer] >= c.write_clock;
    if (!known)
      return "block " + std::to_string(b.rank) + " of the cluster may end before byte " +
             std::to_string(i * WORD - SHARED_DYNAMIC_AT) + " of its shared memory is written by " + name_of(c.writer);
  }
  return "";
}

} // namespace emulation
