/* Accesses to a block's shared memory that no barrier orders. Programs are compiled with the hooks of
 * -fsanitize=thread, which end here: each thread has a vector clock, each word the threads that wrote and read it last
 * (as FastTrack has it: Flanagan and Freund, PLDI 2009). What orders: barriers, __syncwarp, mbarriers, waiting for
 * one's own copies. Shuffles and products of a warp do not. The hooks also see to it that accesses lie within a buffer
 * and, those of -fsanitize=alignment, that they are aligned. */
#pragma once
#include <cstdint>
#include <vector>

namespace emulation {

struct block;
struct thread;

typedef std::vector<uint32_t> vector_clock; /* of a block's threads */

/** For a block of `threads` threads that use `bytes` of its window; NULL in clusters, where nothing is looked at. */
struct race_log;
race_log *begin_race_log(unsigned bytes, unsigned threads);
void end_race_log(race_log *log);

/** An access of the running thread. */
void note_read(const void *data, unsigned bytes);
void note_write(const void *data, unsigned bytes);

/** A read by others than threads, of what this one knows of. */
void check_read(const void *data, unsigned bytes);

/** A copy that somebody else does for this thread: nobody may touch the bytes until note_arrival(), which says with
 *  which of the thread's clocks they were written; the thread's own is new when the copy begins. */
void note_departure(const void *data, unsigned bytes);
void note_arrival(const thread &t, const void *data, unsigned bytes, uint32_t clock);
uint32_t next_clock(thread &t);

/** What `from` knows, `to` knows too. */
void learn(vector_clock &to, const vector_clock &from);

/** The thread's clock goes on, so that what follows is not known to those who have learnt from it. */
void tick(thread &t);

} // namespace emulation
