/* SPDX-License-Identifier: Apache-2.0 */
/* Warp-synchronous operations, and barriers of blocks and clusters. */
#include "block.h"

#include <cstring>

namespace emulation {

warp &own_warp()
{
  return the.running->owner->warps[the.running->number / LANES];
}

unsigned lane()
{
  return the.running->number % LANES;
}

unsigned cluster_rank()
{
  return the.running->owner->rank;
}

/* Leaves out the lanes that a small block does not have. */
static unsigned own_lanes(unsigned mask)
{
  unsigned count = own_warp().count;
  return count < LANES ? mask & ((1u << count) - 1) : mask;
}

meeting &join(unsigned mask, const char *what, void *mine, bool *last)
{
  warp &w = own_warp();
  mask = own_lanes(mask);
  if (!(mask >> lane() & 1))
    fail("%s with a mask %08x that the lane is not in", what, mask);
  meeting *m = nullptr;
  for (meeting &other : w.meetings)
    if (other.arrived && other.mask == mask)
      m = &other;
  for (size_t i = 0; !m && i < sizeof w.meetings / sizeof *w.meetings; i++)
    if (!w.meetings[i].arrived)
      m = &w.meetings[i];
  if (!m)
    fail("%s: the warp's lanes are apart in too many places", what);
  if (m->arrived == 0) {
    m->mask = mask;
    m->what = what;
  } else if (m->what != what && strcmp(m->what, what) != 0) {
    fail("%s, where other lanes of the warp are at %s", what, m->what);
  }
  m->arrived |= 1u << lane();
  m->lanes[lane()] = mine;
  *last = m->arrived == mask;
  return *m;
}

void part(meeting &m, bool last)
{
  warp &w = own_warp();
  if (last) {
    m.arrived = 0;
    w.met++;
    the.events++;
    return;
  }
  const char *what = m.what;
  while (m.arrived >> lane() & 1) /* a meeting with another mask may end earlier */
    wait_while(w.met, w.met, what);
}

/* Afterwards every lane knows what the other lanes knew. */
void meet_lanes(unsigned mask, const char *what)
{
  thread *own = the.running;
  mask = own_lanes(mask);
  together(mask, what, *own, [&](thread *const *lanes) {
    knowledge all;
    for (int i = 0; i < LANES; i++)
      if (mask >> i & 1)
        learn(all, lanes[i]->known);
    for (int i = 0; i < LANES; i++)
      if (mask >> i & 1) {
        learn(lanes[i]->known, all);
        tick(*lanes[i]);
      }
  });
}

void shuffle_lane(unsigned mask, void *value, unsigned bytes, int lane, const char *what)
{
  struct taking {
    void *value;
    int lane;
    byte taken[16];
  } mine = {value, lane, {}};
  mask = own_lanes(mask);
  if (bytes > sizeof mine.taken)
    fail("%s of %u bytes", what, bytes);
  if (!(mask >> lane & 1))
    fail("%s from lane %d, which is not in the mask %08x", what, lane, mask);
  together(mask, what, mine, [&](taking *const *lanes) {
    for (int i = 0; i < LANES; i++)
      if (mask >> i & 1)
        memcpy(lanes[i]->taken, lanes[lanes[i]->lane]->value, bytes);
  });
  memcpy(value, mine.taken, bytes);
}

unsigned ballot(unsigned mask, bool vote)
{
  struct voting {
    bool vote;
    unsigned result;
  } mine = {vote, 0};
  mask = own_lanes(mask);
  together(mask, "a vote", mine, [&](voting *const *lanes) {
    unsigned votes = 0;
    for (int i = 0; i < LANES; i++)
      if (mask >> i & 1)
        votes |= (unsigned)lanes[i]->vote << i;
    for (int i = 0; i < LANES; i++)
      if (mask >> i & 1)
        lanes[i]->result = votes;
  });
  return mine.result;
}

/* ---- barriers ---- */

/* A thread that waits knows no more than when it came. */
static void end_phase(barrier_state &s, const block &b)
{
  if (s.waiters.size() == b.threads.size() && b.owner->blocks.size() == 1) {
    learn_from_each_other(s.waiters);
  } else {
    for (const thread *t : s.waiters)
      learn(s.known, t->known);
    for (thread *t : s.waiters)
      learn(t->known, s.known);
  }
  for (thread *t : s.waiters)
    tick(*t);
  s.waiters.clear();
  s.known = {};
  s.arrived = 0;
  s.over++;
}

void barrier(unsigned number, unsigned threads, bool waits)
{
  block &b = *the.running->owner;
  if (number >= 16)
    fail("barrier %u: there are 16", number);
  barrier_state &s = b.barriers[number];
  if (s.arrived > 0 && s.threads != threads)
    fail("barrier %u of %u threads, where others came for %u", number, threads, s.threads);
  if (threads == 0 || threads > b.threads.size())
    fail("barrier %u of %u threads in a block of %zu", number, threads, b.threads.size());
  s.threads = threads;
  word64 before = s.over;
  the.events++;
  if (waits) {
    s.waiters.push_back(the.running);
  } else {
    learn(s.known, the.running->known);
    tick(*the.running);
  }
  if (++s.arrived == threads) {
    b.full_barriers += s.waiters.size() == b.threads.size();
    end_phase(s, b);
  } else if (waits)
    wait_while(s.over, before, number == 0 ? "__syncthreads" : "a named barrier");
  pause();
}

/* No thread enters the next phase before all threads have read the votes of this one; they are kept until the next
 * phase ends. */
bool barrier_any(bool vote)
{
  block &b = *the.running->owner;
  barrier_state &s = b.barriers[0];
  const bool last = s.arrived + 1 == b.threads.size();
  s.votes[0] |= vote;
  if (last) {
    s.votes[1] = s.votes[0];
    s.votes[0] = false;
  }
  barrier(0, (unsigned)b.threads.size(), true);
  return s.votes[1];
}

/* Whoever waits learns `known`. */
static void arrive_at_cluster(const knowledge &known)
{
  cluster &c = *the.running->owner->owner;
  if (the.running->cluster_arrivals > the.running->cluster_waits)
    fail("barrier.cluster.arrive twice, with no wait between");
  the.events++;
  the.running->cluster_arrivals++;
  learn(c.known, known);
  tick(*the.running);
  if (++c.arrived == c.blocks.size() * the.running->owner->threads.size()) {
    c.arrived = 0;
    c.over++;
    c.released = std::move(c.known);
    c.known = {};
  }
}

void cluster_arrive()
{
  arrive_at_cluster(the.running->known);
}

/* Others learn only that the thread has begun. */
void cluster_arrive_relaxed()
{
  knowledge begun = {vector_clock(the.running->id + 1, 0), {}};
  begun.clock[the.running->id] = 1;
  arrive_at_cluster(begun);
}

/* Waits until the phase of this thread's last arrival is complete. */
void cluster_wait()
{
  const cluster &c = *the.running->owner->owner;
  while (c.over < the.running->cluster_arrivals)
    wait_while(c.over, c.over, "a barrier of the cluster");
  the.running->cluster_waits = the.running->cluster_arrivals;
  learn(the.running->known, c.released);
}

} // namespace emulation
