/* SPDX-License-Identifier: Apache-2.0 */
/* One host thread at a time has the emulated GPU. Launches of several threads pass it to each other between the turns
 * of their warps, so that blocks of launches on different streams run interleaved. */
#pragma once

namespace emulation {

/** While one exists, its host thread has the GPU. Threads get it in the order in which they ask; one that has it may
 *  ask again. */
struct turn {
  turn();
  ~turn();
  turn(const turn &) = delete;
};

/** Whether another host thread waits for the GPU. */
bool others_wait();

/** Lets each of the threads that wait have a turn first. */
void pass_turn();

} // namespace emulation
