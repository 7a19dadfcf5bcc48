/* What runs on the emulated GPU: threads as fibers of one host thread, in warps, blocks and clusters. Inside of the
 * driver. */
#pragma once
#include "machine.h"
#include "races.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace emulation {

struct block;

/* A thread goes on when *count is no longer `is`. */
struct waiting {
  const word64 *count;
  word64 is;
  const char *what;
};

/* A copy to shared memory that is on its way. */
struct copy {
  byte *to;
  const byte *from;
  unsigned bytes, taken;
  bool delivered; /* before anybody waited for it */
};

/* A product of a warpgroup that is under way, a thread's part. */
struct product {
  format type;
  unsigned columns;
  bool across, adds;    /* across: the second factor runs across the depth */
  word64 a, b;          /* descriptors */
  unsigned *a_words[4]; /* the first factor in registers, else NULL */
  std::vector<float *> d;
  std::vector<float> before; /* sums before it, which are NaN meanwhile */
};

/* Where the registers of product `number` begin. */
struct registers_used {
  word64 number;
  const void *sums, *factors;
};

/* A box on its way from shared memory. */
struct store {
  const byte *from;
  unsigned bytes;
};

struct thread {
  waiting wait;
  void *stack_pointer;
  block *owner;
  unsigned number; /* of the block: x fastest */
  unsigned id;     /* of the cluster */
  uint3 index;
  bool over;
  knowledge known;
  word64 cluster_arrivals, cluster_waits;
  char *stack;
  std::deque<std::vector<copy>> groups; /* committed, the oldest first */
  std::vector<copy> open;               /* not yet */
  std::deque<product> products;         /* the oldest first */
  word64 products_begun, products_done;
  std::deque<word64> product_groups; /* products_begun when each was committed */
  std::deque<registers_used> used;   /* by products that were not waited for */
  std::vector<const void *> touched; /* registers that were the program's since the last fence */
  bool fenced;                       /* ever */
  std::deque<store> stores;          /* the oldest first */
  word64 stores_begun, stores_committed;
};

/* Lanes that come together; the last of the mask does the work for all. */
struct meeting {
  unsigned mask, arrived;
  const char *what;
  void *lanes[LANES];
};

struct warp {
  block *owner;
  unsigned first, count; /* of the block's threads */
  meeting meetings[4];   /* of different masks at a time */
  word64 met;            /* meetings that are over */
  unsigned laziness;     /* how often it is left out */
  bool pauses;           /* its turn is over */
};

struct barrier_state {
  unsigned arrived, threads;
  word64 over;
  knowledge known;                /* of those that have arrived */
  std::vector<thread *> waiters;  /* that learn it when all have */
  bool votes[2] = {false, false}; /* of this phase, and of the one before */
};

/* In shared memory: a phase is over when all arrivals and bytes have come. */
struct mbarrier {
  unsigned count, pending;
  int64_t bytes;
  word64 phases;
  knowledge known, released; /* released: by the last phase */
  bool published;            /* to the copy engine */
};

struct cluster {
  std::vector<block *> blocks;
  unsigned arrived;
  word64 over;
  knowledge known, released; /* of those that have arrived; by the last phase */
};

struct block {
  cluster *owner;
  unsigned rank;
  uint3 index;
  byte *shared; /* SHARED_WINDOW bytes */
  std::vector<thread *> threads;
  std::vector<warp> warps;
  unsigned left; /* threads that are not over */
  barrier_state barriers[16];
  race_log *log;
  std::map<unsigned, mbarrier> mbarriers; /* by shared address */
};

/* The launch that runs. */
struct launch {
  const kernel *program;
  dim3 grid, size;
  unsigned shared_bytes, static_bytes; /* static: of all variables of the program */
  void **arguments;
};

/* What the machine is doing, of which there is one in a process. */
struct machine {
  launch job;
  thread *running; /* NULL: none, the scheduler is */
  void *scheduler; /* its stack pointer while a thread runs */
  word64 events;   /* what may let another thread go on */
  uint64_t random;
  unsigned eagerness; /* of copies: percent that arrive before somebody waits for them */
  bool failed;
  std::string problem;
};

extern machine the;

unsigned random_below(unsigned count);

/** Runs all blocks; false with the.problem if something went wrong. */
bool run_grid(const launch &job);

/** The calling thread stops until *count differs from `is`. */
void wait_while(const word64 &count, word64 is, const char *what);

warp &own_warp();

/** The meeting of the lanes in `mask`; `work(lanes)` is done once, by the last. */
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
