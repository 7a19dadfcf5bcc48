/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduler of blocks and warps, of one launch or of several that run at the same time. The order differs from launch
 * to launch, and some warps run far ahead of others. */
#include "tensor.h"
#include "threads.h"
#include "turns.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

namespace emulation {

constexpr size_t PAGE = 4096;
constexpr unsigned RESIDENT_THREADS = 2048; /* of blocks that run concurrently, if there is more than one */
constexpr unsigned CANARY_BYTES = 1024;     /* guard bytes after shared memory, checked when the block ends */
constexpr byte POISON = 0xFF;               /* NaN in every format, −1 as an integer */

unsigned random_below(unsigned count)
{
  uint64_t z = the.random += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (unsigned)((z ^ (z >> 31)) >> 32) % count;
}

/* ---- blocks ---- */

/* Blocks that have ended leave these to later blocks of any launch. */
struct spares {
  std::vector<thread *> threads;
  std::vector<byte *> memory;
};

static spares spare;

static byte *take_shared_memory()
{
  if (!spare.memory.empty()) {
    byte *memory = spare.memory.back();
    spare.memory.pop_back();
    return memory;
  }
  /* Pages around the shared memory window are not accessible. */
  byte *map = (byte *)mmap(nullptr, SHARED_WINDOW + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(map + PAGE, SHARED_WINDOW, PROT_READ | PROT_WRITE) != 0) {
    fputs("emulation: no memory for a block\n", stderr);
    abort();
  }
  return map + PAGE;
}

static unsigned shared_end()
{
  return SHARED_DYNAMIC_AT + (the.job.shared_bytes + 15) / 16 * 16 + the.job.static_bytes;
}

static void choose_laziness(warp &w)
{
  w.laziness = random_below(4) == 0 ? 15 : random_below(3);
}

void wait_for_kernel_before()
{
  the.running->owner->follows = true;
}

void check_follows(const char *what)
{
  if (the.job.early && !the.running->owner->follows)
    fail("%s: global memory before griddepcontrol.wait, in a kernel that is launched early", what);
}

static block *begin_block(cluster &owner, unsigned rank, unsigned number)
{
  const dim3 &grid = the.job.grid, &size = the.job.size;
  block *b = new block();
  b->owner = &owner;
  b->rank = rank;
  b->index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
  b->shared = take_shared_memory();
  memset(b->shared, POISON, shared_end() + CANARY_BYTES);
  b->left = size.x * size.y * size.z;
  b->log = begin_race_log(shared_end(), rank * b->left, b->left);
  for (unsigned i = 0; i < b->left; i++) {
    if (spare.threads.empty())
      spare.threads.push_back(make_thread());
    b->threads.push_back(spare.threads.back());
    spare.threads.pop_back();
    begin_thread(*b->threads[i], *b, i);
  }
  b->warps.resize((b->left + LANES - 1) / LANES);
  for (unsigned i = 0; i < b->warps.size(); i++) {
    warp &w = b->warps[i];
    w.owner = b;
    w.first = i * LANES;
    w.count = b->left - w.first < LANES ? b->left - w.first : LANES;
    choose_laziness(w);
    the.warps.push_back(&w);
  }
  return b;
}

/* Clusters extend along x, as in all programs of the library. */
static void begin_cluster(unsigned first_block, unsigned blocks)
{
  cluster *c = new cluster();
  for (unsigned rank = 0; rank < blocks; rank++)
    c->blocks.push_back(begin_block(*c, rank, first_block + rank));
  the.clusters.push_back(c);
}

static void end_block(block *b)
{
  for (thread *t : b->threads)
    spare.threads.push_back(t);
  spare.memory.push_back(b->shared);
  end_race_log(b->log);
  for (size_t i = 0; i < the.warps.size();) {
    if (the.warps[i]->owner == b)
      the.warps.erase(the.warps.begin() + (ptrdiff_t)i);
    else
      i++;
  }
  delete b;
}

static void end_cluster(cluster *c)
{
  for (block *b : c->blocks)
    end_block(b);
  delete c;
}

static bool is_over(const cluster &c)
{
  for (const block *b : c.blocks)
    if (b->left > 0)
      return false;
  return true;
}

static bool has_work(const thread &t)
{
  bool some = !t.open.empty();
  for (const std::vector<copy> &group : t.groups)
    some |= !group.empty();
  return some || !t.wgmmas.empty() || !t.stores.empty();
}

/* Checks of a block whose threads have all ended. */
static bool check_block(const block &b)
{
  char text[200];
  for (const byte *at = b.shared + shared_end(); at < b.shared + shared_end() + CANARY_BYTES; at++) {
    if (*at != POISON) {
      snprintf(text, sizeof text, "block %u %u %u wrote %td bytes behind its shared memory", b.index.x, b.index.y,
               b.index.z, at - b.shared - shared_end());
      return report_error(text);
    }
  }
  for (const thread *t : b.threads) {
    if (has_work(*t)) {
      snprintf(text, sizeof text, "block %u %u %u, thread %u ended with cp.async, TMA or WGMMA operations pending",
               b.index.x, b.index.y, b.index.z, t->number);
      return report_error(text);
    }
  }
  if (tma_pending_for(b)) {
    snprintf(text, sizeof text, "block %u %u %u ended with TMA copies pending", b.index.x, b.index.y, b.index.z);
    return report_error(text);
  }
  std::string late = find_late_writes(b);
  return late.empty() || report_error(late);
}

/* ---- the scheduler ---- */

/* Runs the lanes that can run; false if none could. */
static bool run_warp(warp &w)
{
  bool ran = false;
  for (unsigned i = w.first; i < w.first + w.count && !the.failed; i++) {
    thread &t = *w.owner->threads[i];
    if (!can_run(t))
      continue;
    resume(t);
    ran = true;
  }
  return ran;
}

/* Several steps of one warp. Depending on the launch, warps drift apart or run in step. */
static bool give_turns(warp &w, bool drifts)
{
  unsigned turns = drifts ? 1 + random_below(64) : 1;
  bool ran = false;
  w.pauses = false;
  while (turns-- > 0 && !w.pauses && !the.failed && run_warp(w))
    ran = true;
  if (drifts && random_below(64) == 0)
    choose_laziness(w);
  return ran;
}

/* "96 at __syncthreads, 32 at a shuffle" */
static std::string who_waits()
{
  std::map<std::string, unsigned> counts;
  for (const warp *w : the.warps)
    for (unsigned i = w->first; i < w->first + w->count; i++) {
      const thread &t = *w->owner->threads[i];
      if (!t.over)
        counts[t.wait.count ? t.wait.what : "nothing"]++;
    }
  std::string text;
  for (const auto &[what, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " at " + what;
  return text;
}

/* One step of every warp, in random order. False if no warp could run. */
static bool give_everyone_turns(bool drifts)
{
  bool ran = false, skipped = false;
  std::vector<warp *> order = the.warps;
  for (size_t i = order.size(); i > 1; i--)
    std::swap(order[i - 1], order[random_below((unsigned)i)]);
  for (warp *w : order) {
    if (the.failed)
      return true;
    if (drifts && w->laziness > 0 && random_below(w->laziness + 1) > 0)
      skipped = true;
    else
      ran |= give_turns(*w, drifts);
  }
  if (!ran && skipped) { /* do not skip warps when no other warp can run */
    for (warp *w : order)
      ran |= !the.failed && give_turns(*w, false);
  }
  return ran;
}

/* A launch takes its state along while others have the GPU. Some launches run far ahead of others. */
static void let_others_run()
{
  if (!others_wait() || random_below(3) == 0)
    return;
  machine mine = std::move(the);
  the = machine();
  pass_turn();
  the = std::move(mine);
  blockDim = the.job.size;
  gridDim = the.job.grid;
}

static bool run_residents(unsigned blocks, unsigned per_cluster, unsigned most)
{
  bool drifts = random_below(4) > 0;
  unsigned begun = 0;
  while (begun < blocks || !the.clusters.empty()) {
    let_others_run();
    for (; begun < blocks && the.clusters.size() < most; begun += per_cluster)
      begin_cluster(begun, per_cluster);
    bool ran = give_everyone_turns(drifts);
    if (!ran && !tma_pending())
      return report_error("threads wait for each other: " + who_waits());
    tma_progress(ran ? the.eager_percent / 4 + 5 : 100);
    if (the.failed)
      return false;
    for (size_t i = 0; i < the.clusters.size();) {
      cluster *c = the.clusters[i];
      if (!is_over(*c)) {
        i++;
        continue;
      }
      for (const block *b : c->blocks)
        if (!check_block(*b))
          return false;
      the.clusters.erase(the.clusters.begin() + (ptrdiff_t)i);
      end_cluster(c);
    }
  }
  return true;
}

bool run_grid(const launch &job)
{
  static uint64_t launches;
  the = machine();
  the.job = job;
  the.random = ++launches * 0xD1342543DE82EF95u;
  the.eager_percent = random_below(3) * 50;
  blockDim = job.size;
  gridDim = job.grid;
  const unsigned *shape = job.program->cluster;
  unsigned per_cluster = shape[0] * shape[1] * shape[2], threads = per_cluster * job.size.x * job.size.y * job.size.z;
  fault_guard guard;
  bool good = run_residents(job.grid.x * job.grid.y * job.grid.z, per_cluster,
                            threads < RESIDENT_THREADS ? RESIDENT_THREADS / threads : 1);
  tma_discard();
  std::vector<cluster *> left = std::move(the.clusters); /* after a failed launch */
  for (cluster *c : left)
    end_cluster(c);
  return good;
}

} // namespace emulation
