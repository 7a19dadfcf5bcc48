/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as the scheduler sees them. */
#pragma once
#include "block.h"

#include <csignal>

namespace emulation {

thread *make_thread();

/** Thread `number` of a block, before its first instruction. */
void begin_thread(thread &t, block &owner, unsigned number);

bool can_run(const thread &t);

/** Runs the thread until it waits or ends; later lanes of its warp may run, too. */
void resume(thread &t);

/** Sets the launch's error without a thread; returns false. */
bool report_error(const std::string &text);

/** While an object exists, a thread that touches a guard page ends the launch with an error. */
struct fault_guard {
  std::vector<char> memory; /* of the signal stack */
  stack_t stack_before;

  fault_guard();
  ~fault_guard();
};

} // namespace emulation
