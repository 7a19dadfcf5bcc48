/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as fibers of one host thread, and the end of a thread that makes an error. */
#include "threads.h"
#include "memory.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

machine the;

constexpr size_t STACK_BYTES = 128 << 10, SIGNAL_STACK_BYTES = 64 << 10, PAGE = 4096;

/* ---- fibers ---- */

/* Saves the callee-saved registers on the stack and switches stacks. */
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

bool can_run(const thread &t)
{
  return !t.over && (!t.wait.count || *t.wait.count != t.wait.is);
}

static void make_current(thread &t)
{
  the.running = &t;
  threadIdx = t.index;
  blockIdx = t.owner->index;
}

/* Switches to the next lane of the warp that can run, or to the scheduler. */
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
  the.job.program->run(the.job.arguments);
  thread &t = *the.running;
  t.over = true;
  t.owner->left--;
  the.events++;
  leave();
}

thread *make_thread()
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

void begin_thread(thread &t, block &owner, unsigned number)
{
  const dim3 &size = the.job.size;
  t.owner = &owner;
  t.number = number;
  t.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
  t.over = false;
  t.id = owner.rank * size.x * size.y * size.z + number;
  begin_clock(t);
  t.cluster_arrivals = t.cluster_waits = 0;
  t.wait = {nullptr, 0, nullptr};
  t.groups.clear();
  t.open.clear();
  t.wgmmas.clear();
  t.wgmma_groups.clear();
  t.wgmmas_begun = t.wgmmas_done = 0;
  t.used.clear();
  t.touched.clear();
  t.fenced = false;
  t.stores.clear();
  t.stores_begun = t.stores_committed = 0;
  void **top = (void **)(t.stack + STACK_BYTES - 64);
  *--top = nullptr; /* the return address of run_thread(), which is never used; aligns the stack as after a call */
  *--top = (void *)run_thread;
  for (int i = 0; i < 6; i++)
    *--top = nullptr;
  t.stack_pointer = top;
}

/* Runs the thread until it waits or ends. */
void resume(thread &t)
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
  if (random_below(4) > 0)
    return;
  own_warp().pauses = true;
  leave();
}

/* ---- errors ---- */

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

/* Only for threads: the scheduler cannot be unwound. */
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

bool report_error(const std::string &text)
{
  note_problem(text.c_str());
  return false;
}

/* A thread touched a guard page. It is not resumed. */
static void on_fault(int number, siginfo_t *about, void *)
{
  if (!the.running) {
    signal(number, SIG_DFL);
    return;
  }
  std::string where = memory_words(about->si_addr);
  fail("touches %s", where.c_str());
}

static unsigned guards; /* of launches that run at the same time */
static struct sigaction before[2];

static void catch_faults()
{
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before[0]);
  sigaction(SIGBUS, &action, &before[1]);
}

/* A signal stack belongs to a host thread. */
fault_guard::fault_guard() : memory(SIGNAL_STACK_BYTES)
{
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, &stack_before);
  if (guards++ == 0)
    catch_faults();
}

fault_guard::~fault_guard()
{
  if (--guards == 0) {
    sigaction(SIGSEGV, &before[0], nullptr);
    sigaction(SIGBUS, &before[1], nullptr);
  }
  sigaltstack(&stack_before, nullptr);
}

} // namespace emulation
