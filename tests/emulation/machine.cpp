/* Threads of blocks as fibers, taken in an order that changes from launch to launch: some warps far ahead of others. */
#include "block.h"
#include "memory.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/ucontext.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

machine the;

constexpr size_t STACK_BYTES = 128 << 10, PAGE = 4096;
constexpr unsigned RESIDENT_THREADS = 2048; /* of blocks that run at the same time, if there is more than one */
constexpr unsigned CANARY_BYTES = 1024;     /* behind shared memory; looked at when the block is over */
constexpr byte POISON = 0xFF;               /* NaN in every format, −1 as an integer */

unsigned random_below(unsigned count)
{
  uint64_t z = the.random += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (unsigned)((z ^ (z >> 31)) >> 32) % count;
}

/* ---- fibers ---- */

/* Keeps the registers that a function has to keep on the stack, and changes stacks. */
extern "C" void emulation_switch(void **from, void *to);
asm(R"(
  .text
  .globl emulation_switch
  .hidden emulation_switch
  .type emulation_switch, @function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size emulation_switch, .-emulation_switch
)");

static bool can_run(const thread &t)
{
  return !t.over && (!t.wait.count || *t.wait.count != t.wait.is);
}

static void make_current(thread &t)
{
  the.running = &t;
  threadIdx = t.index;
  blockIdx = t.owner->index;
}

/* To the next lane of the warp that can run, or to the scheduler. */
static void leave()
{
  thread &own = *the.running;
  const std::vector<thread *> &threads = own.owner->threads;
  for (unsigned i = own.number + 1; i % LANES != 0 && i < threads.size() && !the.failed; i++) {
    if (can_run(*threads[i])) {
      make_current(*threads[i]);
      emulation_switch(&own.stack_pointer, threads[i]->stack_pointer);
      return;
    }
  }
  emulation_switch(&own.stack_pointer, the.scheduler);
}

static void run_thread()
{
  the.running->owner->begun = true;
  the.job.program->run(the.job.arguments);
  thread &t = *the.running;
  t.over = true;
  t.owner->left--;
  the.events++;
  leave();
}

static thread *make_thread()
{
  thread *t = new thread();
  char *map = (char *)mmap(nullptr, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(map, PAGE, PROT_NONE) != 0) {
    fputs("emulation: no memory for a thread\n", stderr);
    abort();
  }
  t->stack = map + PAGE;
  return t;
}

static void begin_thread(thread &t, block &owner, unsigned number)
{
  const dim3 &size = the.job.size;
  t.owner = &owner;
  t.number = number;
  t.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
  t.over = false;
  t.cluster_arrivals = 0;
  t.wait = {nullptr, 0, nullptr};
  t.groups.clear();
  t.open.clear();
  void **top = (void **)(t.stack + STACK_BYTES - 64);
  *--top = nullptr; /* where run_thread() would return to; and it begins with the stack as a call leaves it */
  *--top = (void *)run_thread;
  for (int i = 0; i < 6; i++)
    *--top = nullptr;
  t.stack_pointer = top;
}

/* Until it waits or is over. */
static void resume(thread &t)
{
  make_current(t);
  emulation_switch(&the.scheduler, t.stack_pointer);
  the.running = nullptr;
}

void wait_while(const word64 &count, word64 is, const char *what)
{
  the.running->wait = {&count, is, what};
  while (count == is)
    leave();
  the.running->wait.count = nullptr;
}

void pause()
{
  leave();
}

/* ---- what goes wrong ---- */

static void note_problem(const char *text)
{
  char where[160] = "";
  if (the.running) {
    const thread &t = *the.running;
    snprintf(where, sizeof where, ", block %u %u %u, thread %u %u %u", t.owner->index.x, t.owner->index.y,
             t.owner->index.z, t.index.x, t.index.y, t.index.z);
  }
  the.failed = true;
  the.problem = std::string("kernel ") + the.job.program->name + where + ": " + text;
}

/* Only for threads: the scheduler has nowhere to go. */
void fail(const char *format, ...)
{
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  note_problem(text);
  for (;;)
    leave();
}

static bool complain(const std::string &text)
{
  note_problem(text.c_str());
  return false;
}

/* A page that nobody may touch: the thread that did is not gone on with. */
static void on_fault(int number, siginfo_t *about, void *)
{
  if (!the.running) {
    signal(number, SIG_DFL);
    return;
  }
  std::string where = memory_words(about->si_addr);
  fail("touches %s", where.c_str());
}

struct fault_guard {
  struct sigaction before[2];
  stack_t stack_before;

  fault_guard()
  {
    static char memory[64 << 10];
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
  }

  ~fault_guard()
  {
    sigaction(SIGSEGV, &before[0], nullptr);
    sigaction(SIGBUS, &before[1], nullptr);
    sigaltstack(&stack_before, nullptr);
  }
};

/* ---- blocks ---- */

/* Blocks that run at the same time, with what they need. */
struct residents {
  std::vector<cluster *> clusters;
  std::vector<warp *> warps;
  std::vector<thread *> spare_threads;
  std::vector<byte *> spare_memory;
};

static residents here;

static byte *take_shared_memory()
{
  if (!here.spare_memory.empty()) {
    byte *memory = here.spare_memory.back();
    here.spare_memory.pop_back();
    return memory;
  }
  /* Pages around the window belong to nobody. */
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
  for (unsigned i = 0; i < b->left; i++) {
    if (here.spare_threads.empty())
      here.spare_threads.push_back(make_thread());
    b->threads.push_back(here.spare_threads.back());
    here.spare_threads.pop_back();
    begin_thread(*b->threads[i], *b, i);
  }
  b->warps.resize((b->left + LANES - 1) / LANES);
  for (unsigned i = 0; i < b->warps.size(); i++) {
    warp &w = b->warps[i];
    w.owner = b;
    w.first = i * LANES;
    w.count = b->left - w.first < LANES ? b->left - w.first : LANES;
    here.warps.push_back(&w);
  }
  return b;
}

/* Clusters lie along x, as those of the programs do. */
static void begin_cluster(unsigned first_block, unsigned blocks)
{
  cluster *c = new cluster();
  for (unsigned rank = 0; rank < blocks; rank++)
    c->blocks.push_back(begin_block(*c, rank, first_block + rank));
  here.clusters.push_back(c);
}

static void end_block(block *b)
{
  for (thread *t : b->threads)
    here.spare_threads.push_back(t);
  here.spare_memory.push_back(b->shared);
  for (size_t i = 0; i < here.warps.size();) {
    if (here.warps[i]->owner == b)
      here.warps.erase(here.warps.begin() + (ptrdiff_t)i);
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

static bool has_copies(const thread &t)
{
  bool some = !t.open.empty();
  for (const std::vector<copy> &group : t.groups)
    some |= !group.empty();
  return some;
}

/* What can be seen when all threads are over. */
static bool check_block(const block &b)
{
  char text[200];
  for (const byte *at = b.shared + shared_end(); at < b.shared + shared_end() + CANARY_BYTES; at++) {
    if (*at != POISON) {
      snprintf(text, sizeof text, "block %u %u %u wrote %td bytes behind its shared memory", b.index.x, b.index.y,
               b.index.z, at - b.shared - shared_end());
      return complain(text);
    }
  }
  for (const thread *t : b.threads) {
    if (has_copies(*t)) {
      snprintf(text, sizeof text, "block %u %u %u, thread %u ended with copies on their way", b.index.x, b.index.y,
               b.index.z, t->number);
      return complain(text);
    }
  }
  for (const barrier_state &s : b.barriers) {
    if (s.arrived != 0) {
      snprintf(text, sizeof text, "block %u %u %u ended with %u of %u threads at barrier %td", b.index.x, b.index.y,
               b.index.z, s.arrived, s.threads, &s - b.barriers);
      return complain(text);
    }
  }
  return true;
}

/* ---- the scheduler ---- */

/* Runs the lanes that can; false if there was none. */
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

static void choose_laziness(warp &w)
{
  w.laziness = random_below(4) == 0 ? 15 : random_below(3);
}

/* Some turns for one warp; the launch has warps that drift apart, or all in step. */
static bool give_turns(warp &w, bool drifts)
{
  unsigned turns = drifts ? 1 + random_below(64) : 1;
  bool ran = false;
  while (turns-- > 0 && !the.failed && run_warp(w))
    ran = true;
  if (drifts && random_below(64) == 0)
    choose_laziness(w);
  return ran;
}

/* "96 at __syncthreads, 32 at a shuffle" */
static std::string who_waits()
{
  std::map<std::string, unsigned> counts;
  for (const warp *w : here.warps)
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

/* One turn over all warps, in any order. False if none of them could go on. */
static bool give_everyone_turns(bool drifts)
{
  bool ran = false, skipped = false;
  std::vector<warp *> order = here.warps;
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
  if (!ran && skipped) { /* nobody is left out when the others cannot go on */
    for (warp *w : order)
      ran |= !the.failed && give_turns(*w, false);
  }
  return ran;
}

static bool run_residents(unsigned blocks, unsigned per_cluster, unsigned most)
{
  bool drifts = random_below(4) > 0;
  unsigned begun = 0;
  while (begun < blocks || !here.clusters.empty()) {
    for (; begun < blocks && here.clusters.size() < most; begun += per_cluster)
      begin_cluster(begun, per_cluster);
    if (!give_everyone_turns(drifts))
      return complain("threads wait for each other: " + who_waits());
    if (the.failed)
      return false;
    for (size_t i = 0; i < here.clusters.size();) {
      cluster *c = here.clusters[i];
      if (!is_over(*c)) {
        i++;
        continue;
      }
      for (const block *b : c->blocks)
        if (!check_block(*b))
          return false;
      here.clusters.erase(here.clusters.begin() + (ptrdiff_t)i);
      end_cluster(c);
    }
  }
  return true;
}

bool run_grid(const launch &job)
{
  static uint64_t launches;
  the.job = job;
  the.failed = false;
  the.running = nullptr;
  the.random = ++launches * 0xD1342543DE82EF95u;
  the.eagerness = random_below(3) * 50;
  blockDim = job.size;
  gridDim = job.grid;
  const unsigned *shape = job.program->cluster;
  unsigned per_cluster = shape[0] * shape[1] * shape[2], threads = per_cluster * job.size.x * job.size.y * job.size.z;
  fault_guard guard;
  bool good = run_residents(job.grid.x * job.grid.y * job.grid.z, per_cluster,
                            threads < RESIDENT_THREADS ? RESIDENT_THREADS / threads : 1);
  for (cluster *c : here.clusters) /* of a launch that failed */
    end_cluster(c);
  here.clusters.clear();
  return good;
}

/* ---- lanes together ---- */

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

/* Without lanes that a small block does not have. */
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
  while (m.arrived >> lane() & 1) /* a meeting of another mask may end before */
    wait_while(w.met, w.met, what);
}

void meet_lanes(unsigned mask, const char *what)
{
  int nothing = 0;
  together(mask, what, nothing, [](int *const *) {});
}

void take_from_lane(unsigned mask, void *value, unsigned bytes, int lane, const char *what)
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
  if (++s.arrived == threads) {
    s.arrived = 0;
    s.over++;
  } else if (waits) {
    wait_while(s.over, before, number == 0 ? "__syncthreads" : "a named barrier");
  }
}

void cluster_arrive()
{
  cluster &c = *the.running->owner->owner;
  the.events++;
  the.running->cluster_arrivals++;
  if (++c.arrived == c.blocks.size() * the.running->owner->threads.size()) {
    c.arrived = 0;
    c.over++;
  }
}

/* Until the phase is over that this thread's last arrival was in. */
void cluster_wait()
{
  const cluster &c = *the.running->owner->owner;
  while (c.over < the.running->cluster_arrivals)
    wait_while(c.over, c.over, "a barrier of the cluster");
}

} // namespace emulation
