/* SPDX-License-Identifier: Apache-2.0 */
/* State of the emulated GPU: threads as fibers of one host thread, in warps, blocks and clusters. Internal to the
 * emulated driver. */
#pragma once
#include "machine.h"
#include "races.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace emulation {

struct block;

/* A thread waits until *count differs from `is`. */
struct waiting {
  const word64 *count;
  word64 is;
  const char *what;
};

/* A pending cp.async. */
struct copy {
  byte *to;
  const byte *from;
  unsigned bytes, taken;
  bool delivered; /* completed before a thread waited for it */
};

/* One thread's part of a pending WGMMA. */
struct pending_wgmma {
  format type;
  unsigned columns;
  bool across, adds;    /* across: B is MN-major */
  word64 a, b;          /* matrix descriptors */
  unsigned *a_words[4]; /* A in registers, else NULL */
  std::vector<float *> d;
  std::vector<float> before; /* accumulators before it; NaN while a WGMMA that writes them is pending */
};

/* The first accumulator and A register of WGMMA `number`. */
struct registers_used {
  word64 number;
  const void *accumulators, *a_registers;
};

/* A box that a pending TMA store reads. */
struct store {
  const byte *from;
  unsigned bytes;
};

struct thread {
  waiting wait;
  void *stack_pointer;
  block *owner;
  unsigned number; /* within the block: x fastest */
  unsigned id;     /* within the cluster */
  uint3 index;
  bool over;
  knowledge known;
  word64 cluster_arrivals, cluster_waits;
  char *stack;
  std::deque<std::vector<copy>> groups; /* committed cp.async groups, the oldest first */
  std::vector<copy> open;               /* not yet committed */
  std::deque<pending_wgmma> wgmmas;     /* pending, the oldest first */
  word64 wgmmas_begun, wgmmas_done;
  std::deque<word64> wgmma_groups;   /* wgmmas_begun at each commit */
  std::deque<registers_used> used;   /* by WGMMAs that were not waited for */
  std::vector<const void *> touched; /* registers that the program may have accessed since the last wgmma.fence */
  bool fenced;                       /* whether it ever executed wgmma.fence */
  std::deque<store> stores;          /* the oldest first */
  word64 stores_begun, stores_committed;
};

/* Lanes that meet; the last lane of the mask does the work for all. */
struct meeting {
  unsigned mask, arrived;
  const char *what;
  void *lanes[LANES];
};

struct warp {
  block *owner;
  unsigned first, count; /* of the block's threads */
  meeting meetings[4];   /* several, for different masks */
  word64 met;            /* meetings that ended */
  unsigned laziness;     /* how often the scheduler skips the warp */
  bool pauses;           /* it gives way to other warps */
};

struct barrier_state {
  unsigned arrived, threads;
  word64 over;
  knowledge known;                /* of the threads that have arrived */
  std::vector<thread *> waiters;  /* threads that acquire it when all have arrived */
  bool votes[2] = {false, false}; /* of this phase and of the one before */
};

/* An mbarrier in shared memory. A phase completes when all arrivals and bytes have come. */
struct mbarrier {
  unsigned count, pending;
  int64_t bytes;
  word64 phases;
  knowledge known, released; /* released: at the end of the last phase */
  bool published;            /* fence.mbarrier_init was executed, so that TMA may use it */
};

struct cluster {
  std::vector<block *> blocks;
  unsigned arrived;
  word64 over;
  knowledge known, released; /* of the threads that have arrived; at the end of the last phase */
};

struct block {
  cluster *owner;
  unsigned rank;
  uint3 index;
  byte *shared; /* SHARED_WINDOW bytes */
  std::vector<thread *> threads;
  std::vector<warp> warps;
  unsigned left;        /* threads that have not ended */
  bool follows = false; /* griddepcontrol.wait: the kernel before is over */
  barrier_state barriers[16];
  uint32_t full_barriers; /* that ended, of all its threads */
  race_log *log;
  std::map<unsigned, mbarrier> mbarriers; /* by shared address */
  std::map<unsigned, unsigned> registers; /* of a thread, by warpgroup: of setmaxnreg */
};

/* The current launch. */
struct launch {
  const kernel *program;
  dim3 grid, size;
  unsigned shared_bytes, static_bytes; /* static: all __shared__ variables of the program */
  void **arguments;
  bool early; /* programmatic serialization: the kernel before may still run */
};

/* Fails in a block that began early and has not waited for the kernel before. */
void check_follows(const char *what);

/* A TMA load or store that has not been completed. */
struct tma_operation {
  thread *from;
  word64 store; /* number of the thread's TMA store, from 1; 0: a load */
  std::function<void()> work;
};

/* State of the machine, which is that of the launch that has its turn. */
struct machine {
  launch job;
  std::vector<cluster *> clusters; /* the blocks that run concurrently */
  std::vector<warp *> warps;       /* theirs */
  std::deque<tma_operation> tma;   /* the oldest first */
  thread *running;                 /* NULL while the scheduler runs */
  void *scheduler;                 /* its stack pointer while a thread runs */
  word64 events;                   /* events that may let a waiting thread run */
  uint64_t random;
  unsigned eager_percent; /* percent of asynchronous operations that complete at once */
  bool failed;
  std::string problem;
};

extern machine the;

unsigned random_below(unsigned count);

/** Runs all blocks; returns false and sets the.problem on an error. */
bool run_grid(const launch &job);

/** Blocks the calling thread until *count differs from `is`. */
void wait_while(const word64 &count, word64 is, const char *what);

warp &own_warp();

/** The meeting of the lanes in `mask`; the last lane calls `work(lanes)` once. */
meeting &join(unsigned mask, const char *what, void *mine, bool *last);
void part(meeting &m, bool last);

template <class T, class WORK> void together(unsigned mask, const char *what, T &mine, WORK work)
{
  bool last;
  meeting &m = join(mask, what, &mine, &last);
  if (last)
    work((T *const *)m.lanes);
  part(m, last);
}

} // namespace emulation
