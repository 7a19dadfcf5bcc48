/* Accesses to shared memory that no barrier orders. Programs are compiled with hooks (hooks.cpp): each thread has a
 * vector clock, each word the threads that wrote and read it last (as FastTrack has it: Flanagan and Freund, PLDI
 * 2009). What orders: barriers, __syncwarp, mbarriers, waiting for one's own copies. Shuffles and products of a warp do
 * not. The copy engine and products of warpgroups fetch what they read: they see what threads wrote before a
 * fence.proxy.async, and until they are waited for nobody may write there. */
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace emulation {

struct block;
struct thread;

/* Of a cluster's threads, then of its warps: products that were waited for. */
typedef std::vector<uint32_t> vector_clock;

/* Up to which clocks a thread knows what others did, and up to which the copy engine and products see what they
 * wrote. */
struct knowledge {
  vector_clock clock, published;
};

/** For a block of `threads` threads, the first being `first` of its cluster, that use `bytes` of its window. */
struct race_log;
race_log *begin_race_log(unsigned bytes, unsigned first, unsigned threads);
void end_race_log(race_log *log);

/** Before a thread begins: it knows nothing. */
void begin_clock(thread &t);

/** An access of the running thread. */
void note_read(const void *data, unsigned bytes);
void note_write(const void *data, unsigned bytes);

/** A copy that somebody else does for this thread: nobody may touch the bytes until note_arrival(), which says with
 *  which of the thread's clocks they were written; the thread's own is new when the copy begins. */
void note_departure(const void *data, unsigned bytes, bool by_engine);
void note_arrival(const thread &t, const void *data, unsigned bytes, uint32_t clock);
uint32_t next_clock(thread &t);

/** A read of bytes of the block, within 16 at a multiple of 16, by the copy engine or a product. Until a thread
 *  knows that `clock` of `component` is over it must not write there. */
void note_fetch(const void *data, unsigned bytes, unsigned component, uint32_t clock, const char *what);
constexpr uint32_t UNDER_WAY = 0xFFFFFFFF;

/** Fetches of the thread's own component that were UNDER_WAY are over. */
void note_fetched(const void *data, unsigned bytes);

/** The component of a warp's products, the running thread's. */
unsigned product_component();
void know_products(uint32_t number);

/** What the running thread knows of is seen by the copy engine and by products. */
void writes_publish();

/** Before the running thread writes to another block of the cluster, which must have begun. */
bool knows_block(const block &b);

/** A block is over: no other of the cluster may still have to write to it. "" or what is wrong. */
std::string find_late_writes(const block &b);

/** What `from` knows, `to` knows too. */
void learn(knowledge &to, const knowledge &from);

/** The thread's clock goes on, so that what follows is not known to those who have learnt from it. */
void tick(thread &t);

} // namespace emulation
