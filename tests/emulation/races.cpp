#include "races.h"
#include "block.h"
#include "memory.h"

#include <cstring>

namespace emulation {

constexpr uint32_t UNDER_WAY = 0xFFFFFFFF;
constexpr unsigned WORD = 2; /* bytes that are looked at together: an element, or two of fp8 */

/* Of a word: who wrote it last, and who has read it since. Masks say which of the bytes; threads that use other bytes
 * of it take the place of those before, who are forgotten, so that some races of single bytes go unseen. */
struct cell {
  uint32_t write_clock, read_clock;
  uint16_t writer, reader;
  uint8_t written, read;
  uint16_t readers; /* index of their clocks, from 1; 0: there is one reader at most */
};

struct race_log {
  std::vector<cell> cells;
  std::vector<vector_clock> readers;
  std::vector<uint16_t> spare_readers;
  unsigned threads;
};

static std::vector<race_log *> spare_logs;

race_log *begin_race_log(unsigned bytes, unsigned threads)
{
  race_log *log = spare_logs.empty() ? new race_log() : spare_logs.back();
  if (!spare_logs.empty())
    spare_logs.pop_back();
  log->cells.assign((bytes + WORD - 1) / WORD, cell{});
  log->readers.clear();
  log->spare_readers.clear();
  log->threads = threads;
  return log;
}

void end_race_log(race_log *log)
{
  if (log)
    spare_logs.push_back(log);
}

void learn(vector_clock &to, const vector_clock &from)
{
  if (to.size() < from.size())
    to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++)
    to[i] = to[i] > from[i] ? to[i] : from[i];
}

void tick(thread &t)
{
  if (!t.clock.empty())
    t.clock[t.number]++;
}

uint32_t next_clock(thread &t)
{
  tick(t);
  return t.clock.empty() ? 0 : t.clock[t.number];
}

/* ---- what is wrong ---- */

[[noreturn]] static void race(const char *what, unsigned at, unsigned other, const char *did, bool under_way)
{
  unsigned offset = at - SHARED_DYNAMIC_AT;
  if (under_way)
    fail("%s byte %u of shared memory while thread %u's copy to it is under way", what, offset, other);
  fail("%s byte %u of shared memory, which thread %u %s, with no barrier between", what, offset, other, did);
}

static void check_written(const cell &c, const thread &t, uint8_t mask, unsigned at, const char *what)
{
  if (!(c.written & mask))
    return;
  if (c.write_clock == UNDER_WAY || (c.writer != t.number && c.write_clock > t.clock[c.writer]))
    race(what, at, c.writer, "wrote", c.write_clock == UNDER_WAY);
}

static void check_not_read(const race_log &log, const cell &c, const thread &t, uint8_t mask, unsigned at)
{
  if (!(c.read & mask))
    return;
  if (!c.readers) {
    if (c.reader != t.number && c.read_clock > t.clock[c.reader])
      race("writes", at, c.reader, "reads", false);
    return;
  }
  const vector_clock &clocks = log.readers[c.readers - 1];
  for (unsigned i = 0; i < clocks.size(); i++)
    if (i != t.number && clocks[i] > t.clock[i])
      race("writes", at, i, "reads", false);
}

/* ---- words ---- */

static void forget_readers(race_log &log, cell &c)
{
  if (c.readers)
    log.spare_readers.push_back(c.readers);
  c.readers = 0;
  c.read = 0;
}

/* Two readers that do not know of each other. */
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
    log.readers[c.readers - 1][c.reader] = c.read_clock;
  }
  log.readers[c.readers - 1][t.number] = t.clock[t.number];
}

static void read_word(race_log &log, cell &c, const thread &t, uint8_t mask, unsigned at)
{
  check_written(c, t, mask, at, "reads");
  if (c.read && c.read != mask)
    forget_readers(log, c);
  if (c.readers || (c.read && c.reader != t.number && c.read_clock > t.clock[c.reader])) {
    add_reader(log, c, t);
  } else {
    c.reader = (uint16_t)t.number;
    c.read_clock = t.clock[t.number];
  }
  c.read = mask;
}

static void write_word(race_log &log, cell &c, const thread &t, uint8_t mask, unsigned at, uint32_t clock)
{
  check_written(c, t, mask, at, "writes");
  check_not_read(log, c, t, mask, at);
  forget_readers(log, c);
  c.written = c.writer == t.number && c.write_clock == clock ? c.written | mask : mask;
  c.writer = (uint16_t)t.number;
  c.write_clock = clock;
}

/* use(cell, mask, byte of the window) for the words of an access to the block's own shared memory. */
template <class USE> static void each_word(const thread &t, const void *data, unsigned bytes, USE use)
{
  race_log *log = t.owner->log;
  size_t at = (size_t)((const byte *)data - t.owner->shared);
  if (!log || at >= SHARED_WINDOW || (at + bytes + WORD - 1) / WORD > log->cells.size())
    return;
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
    write_word(log, c, t, mask, at, t.clock[t.number]);
  });
}

void check_read(const void *data, unsigned bytes)
{
  const thread &t = *the.running;
  each_word(t, data, bytes,
            [&](race_log &, const cell &c, uint8_t mask, unsigned at) { check_written(c, t, mask, at, "reads"); });
}

void note_departure(const void *data, unsigned bytes)
{
  const thread &t = *the.running;
  each_word(t, data, bytes,
            [&](race_log &log, cell &c, uint8_t mask, unsigned at) { write_word(log, c, t, mask, at, UNDER_WAY); });
}

void note_arrival(const thread &t, const void *data, unsigned bytes, uint32_t clock)
{
  each_word(t, data, bytes, [&](race_log &, cell &c, uint8_t, unsigned) {
    if (c.writer == t.number && c.write_clock == UNDER_WAY)
      c.write_clock = clock;
  });
}

/* ---- the hooks ---- */

static void take_access(const void *data, unsigned bytes, bool writes)
{
  if (!the.running || the.failed)
    return;
  size_t at = (size_t)((const byte *)data - the.running->owner->shared);
  if (at < SHARED_WINDOW)
    writes ? note_write(data, bytes) : note_read(data, bytes);
  else if (memory_is_near(data) && !memory_holds(data, bytes))
    fail("%s %u bytes, %s", writes ? "writes" : "reads", bytes, memory_words(data).c_str());
}

/* What the compiler says of it. */
struct mismatch {
  const char *file;
  unsigned line, column;
  const void *type;
  byte alignment, kind; /* alignment: of two, the power */
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
/* Of -fsanitize=alignment: an address is no multiple of what its type asks for, as a GPU would not forgive. */
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
}
