/* Threads as the scheduler sees them. */
#pragma once
#include "block.h"

#include <csignal>

namespace emulation {

thread *make_thread();

/** Thread `number` of a block, before its first instruction. */
void begin_thread(thread &t, block &owner, unsigned number);

bool can_run(const thread &t);

/** Until it waits or is over; lanes behind it in its warp may run, too. */
void resume(thread &t);

/** Notes the launch's problem, with no thread to blame; false. */
bool complain(const std::string &text);

/** While there is one, a thread that touches what it must not ends the launch. */
struct fault_guard {
  struct sigaction before[2];
  stack_t stack_before;

  fault_guard();
  ~fault_guard();
};

} // namespace emulation
