/* SPDX-License-Identifier: Apache-2.0 */
/* Detects accesses to shared memory that no barrier orders. Programs are compiled with hooks (hooks.cpp). Each thread
 * has a vector clock; each word records the threads that wrote and read it last (FastTrack: Flanagan and Freund, PLDI
 * 2009). Barriers, __syncwarp, mbarriers and waits for a thread's own copies order accesses; shuffles and mma.sync do
 * not. TMA and WGMMA read asynchronously: they see writes of threads before a fence.proxy.async, and no thread may
 * overwrite their operands before they were waited for. */
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace emulation {

struct block;
struct thread;

/* Has the clocks of a cluster's threads, then of its warps: the WGMMAs that were waited for. */
typedef std::vector<uint32_t> vector_clock;

/* The clocks up to which a thread has synchronized with others, and up to which TMA and WGMMA (the async proxy) see
 * their writes. */
struct knowledge {
  vector_clock clock, published;
};

/** For a block of `threads` threads, of which the first has number `first` in the cluster, with `bytes` of shared
 *  memory. */
struct race_log;
race_log *begin_race_log(unsigned bytes, unsigned first, unsigned threads);
void end_race_log(race_log *log);

/** Before a thread's first instruction: it has synchronized with no other. */
void begin_clock(thread &t);

/** An access of the running thread. */
void note_read(const void *data, unsigned bytes);
void note_write(const void *data, unsigned bytes);

/** An asynchronous write for this thread: no thread may access the bytes until note_async_write_done(), which passes
 *  the clock of the thread at which they count as written (next_clock() when the copy begins). */
void note_async_write(const void *data, unsigned bytes, bool by_tma);
void note_async_write_done(const thread &t, const void *data, unsigned bytes, uint32_t clock);
uint32_t next_clock(thread &t);

/** An asynchronous read of bytes within a 16-byte chunk, by TMA or WGMMA. A thread must not write there before it knows
 *  that `clock` of `component` has completed. */
void note_async_read(const void *data, unsigned bytes, unsigned component, uint32_t clock, const char *what);
constexpr uint32_t UNDER_WAY = 0xFFFFFFFF;

/** Reads by the thread's own component that were UNDER_WAY have completed. */
void note_async_read_done(const void *data, unsigned bytes);

/** The component of the WGMMAs of the running thread's warp. */
unsigned wgmma_component();
void know_wgmmas(uint32_t number);

/** fence.proxy.async: TMA and WGMMA see all writes that the running thread knows of. */
void fence_proxy_async();

/** Whether block `b` of the cluster is known to have begun, so that the running thread may write to its shared
 *  memory. */
bool knows_block(const block &b);

/** When a block ends: an error text if another block of the cluster may still write to it, else "". */
std::string find_late_writes(const block &b);

/** Adds the knowledge of `from` to `to`. */
void learn(knowledge &to, const knowledge &from);

/** Adds the knowledge of each of a launch's threads, all in one block, to each. */
void learn_from_each_other(const std::vector<thread *> &threads);

/** Advances the thread's clock, so that later accesses are not covered by what others have learnt from it. */
void tick(thread &t);

} // namespace emulation
