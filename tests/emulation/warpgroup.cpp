/* SPDX-License-Identifier: Apache-2.0 */
/* WGMMA: each warp of the warpgroup computes 16 rows. A WGMMA is executed at once, or not before a thread waits for it.
 * Until then its accumulators are NaN; A and B are read when it is executed, from shared memory and registers. */
#include "block.h"
#include "tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace emulation {

constexpr int DEPTH_MAX = 32, WIDTH_MAX = 256, ROWS = 16;

/* Bytes of an element; k is 32 bytes. */
static int bytes_of(format type)
{
  return type == format::e4m3 ? 1 : 2;
}

static int depth_of(format type)
{
  return 32 / bytes_of(type);
}

/* ---- operands ---- */

/* An operand in shared memory, from a matrix descriptor (PTX manual): byte offsets. */
struct operand {
  unsigned first, jump, step; /* start address, leading and stride byte offsets */
};

static operand read_descriptor(word64 bits)
{
  if (bits >> 62 != 1)
    fail("wgmma: the emulation supports only operands with the 128-byte swizzle");
  if (bits >> 49 & 7)
    fail("wgmma: the emulation does not support a base offset");
  return {(unsigned)(bits & 0x3FFF) << 4, (unsigned)(bits >> 16 & 0x3FFF) << 4, (unsigned)(bits >> 32 & 0x3FFF) << 4};
}

/* Address of element (i, k) of `bytes` bytes; k is the reduction dimension. `across`: i is the contiguous dimension
 * (MN-major, of 16-bit elements). */
static unsigned element_address(const operand &o, bool across, int bytes, int i, int k)
{
  if (across)
    return o.first + (unsigned)(i / 64) * o.jump + (unsigned)(k / 8) * o.step + (unsigned)(k % 8 * 128 + i % 64 * 2);
  return o.first + (unsigned)(i / 8) * o.step + (unsigned)(i % 8 * 128 + k * bytes);
}

/* Element i of a word. */
static float element_of(format type, unsigned word, int i)
{
  if (type == format::e4m3)
    return from_e4m3((byte)(word >> 8 * i));
  unsigned bits = word >> 16 * i & 0xFFFF;
  return type == format::f16 ? from_half((unsigned short)bits) : __builtin_bit_cast(float, bits << 16);
}

static float shared_element(const block &b, format type, unsigned address)
{
  unsigned word = 0;
  memcpy(&word, b.shared + swizzled(address), (size_t)bytes_of(type));
  return element_of(type, word, 0);
}

static void check_operand(format type, const operand &o, bool across, int rows)
{
  unsigned last = element_address(o, across, bytes_of(type), rows - 1, depth_of(type) - 1);
  unsigned rank = the.running->owner->rank << SHARED_RANK;
  shared_bytes((o.first & ~127u) | rank, 128, 16, "wgmma");
  shared_bytes((last & ~127u) | rank, 128, 16, "wgmma");
}

/* ---- execution ---- */

static void execute_warp(const block &b, unsigned first_row, pending_wgmma *const *lanes)
{
  static float left[ROWS][DEPTH_MAX], right[DEPTH_MAX][WIDTH_MAX], accumulators[ROWS][WIDTH_MAX];
  const pending_wgmma &p = *lanes[0];
  const int n = (int)p.columns, bytes = bytes_of(p.type), depth = depth_of(p.type), wide = 4 / bytes;
  operand right_at = read_descriptor(p.b), left_at = p.a_words[0] ? operand{} : read_descriptor(p.a);
  for (int column = 0; column < n; column++)
    for (int k = 0; k < depth; k++)
      right[k][column] = shared_element(b, p.type, element_address(right_at, p.across, bytes, column, k));
  for (int row = 0; row < ROWS && !p.a_words[0]; row++)
    for (int k = 0; k < depth; k++)
      left[row][k] = shared_element(b, p.type, element_address(left_at, false, bytes, (int)first_row + row, k));
  for (int t = 0; t < LANES; t++) {
    for (int e = 0; e < 4 && p.a_words[0]; e++)
      for (int i = 0; i < wide; i++)
        left[t / 4 + e % 2 * 8][(t % 4 + e / 2 * 4) * wide + i] = element_of(p.type, *lanes[t]->a_words[e], i);
    for (int i = 0; i < n / 2; i++)
      accumulators[t / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2] = p.adds ? lanes[t]->before[i] : 0;
  }
  for (int row = 0; row < ROWS; row++)
    for (int k = 0; k < depth; k++)
      for (int column = 0; column < n; column++)
        accumulators[row][column] += left[row][k] * right[k][column];
  for (int t = 0; t < LANES; t++)
    for (int i = 0; i < n / 2; i++)
      *lanes[t]->d[i] = accumulators[t / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2];
}

/* Records the asynchronous reads of 16-byte chunks of an operand, for rows (of the result) first … end − 1. */
static void note_operand_reads(format type, const operand &o, bool across, int first, int end, word64 number)
{
  const block &b = *the.running->owner;
  const unsigned component = wgmma_component();
  const int bytes = bytes_of(type);
  for (int i = first; i < end; i += across ? 8 : 1)
    for (int k = 0; k < depth_of(type); k += across ? 1 : 16 / bytes)
      note_async_read(b.shared + swizzled(element_address(o, across, bytes, i, k)), 16, component, (uint32_t)number,
                      "a WGMMA reads");
}

/* Registers that the program may have accessed since the last wgmma.fence must not be used by a WGMMA. */
static void check_fenced(const thread &t, const void *accumulators, const void *a_registers)
{
  bool touched = !t.fenced;
  for (const void *at : t.touched)
    touched |= at == accumulators || at == a_registers;
  if (touched)
    fail("wgmma: with no wgmma.fence since the program may have accessed its registers");
}

void wgmma_fence()
{
  the.running->fenced = true;
  the.running->touched.clear();
}

/* Executes the oldest WGMMA of every lane. The next one with the same accumulators continues from its result. */
static void execute_oldest(thread *const *lanes)
{
  pending_wgmma *wgmmas[LANES];
  for (int t = 0; t < LANES; t++) {
    wgmmas[t] = &lanes[t]->wgmmas.front();
    if (wgmmas[t]->b != wgmmas[0]->b || wgmmas[t]->a != wgmmas[0]->a || wgmmas[t]->columns != wgmmas[0]->columns ||
        wgmmas[t]->adds != wgmmas[0]->adds)
      fail("wgmma: lanes of a warp have different operands");
  }
  unsigned warp = lanes[0]->number / LANES % 4;
  execute_warp(*lanes[0]->owner, warp * ROWS, wgmmas);
  for (int t = 0; t < LANES; t++) {
    pending_wgmma done = std::move(lanes[t]->wgmmas.front());
    lanes[t]->wgmmas.pop_front();
    lanes[t]->wgmmas_done++;
    for (pending_wgmma &next : lanes[t]->wgmmas) {
      if (next.d[0] != done.d[0])
        continue;
      for (size_t i = 0; i < next.d.size(); i++)
        next.before[i] = *done.d[i];
      break;
    }
  }
}

/* Executes WGMMAs up to number `end` of each lane. */
static void execute_until(word64 end, const char *what)
{
  thread *own = the.running;
  together(~0u, what, *own, [&](thread *const *lanes) {
    while (lanes[0]->wgmmas_done < end) {
      for (int t = 0; t < LANES; t++)
        if (lanes[t]->wgmmas_done != lanes[0]->wgmmas_done || lanes[t]->wgmmas.empty())
          fail("%s: lanes of a warp have different numbers of pending WGMMAs", what);
      execute_oldest(lanes);
    }
  });
}

void wgmma(format type, unsigned columns, float *const *d, unsigned *const *a_words, word64 a, word64 b, bool adds,
           bool across)
{
  thread &t = *the.running;
  pending_wgmma p = {type, columns, across, adds, a, b, {}, {}, {}};
  operand right = read_descriptor(b), left = a_words ? operand{} : read_descriptor(a);
  check_fenced(t, d[0], a_words ? a_words[0] : nullptr);
  if (a_words)
    memcpy(p.a_words, a_words, sizeof p.a_words);
  else
    check_operand(type, left, false, 64);
  check_operand(type, right, across, (int)columns);
  bool pending = false;
  for (const pending_wgmma &other : t.wgmmas)
    pending |= other.d[0] == d[0];
  for (unsigned i = 0; i < columns / 2; i++) {
    p.d.push_back(d[i]);
    p.before.push_back(pending ? NAN : *d[i]);
    *d[i] = NAN;
  }
  t.wgmmas.push_back(std::move(p));
  t.wgmmas_begun++;
  t.used.push_back({t.wgmmas_begun, d[0], a_words ? a_words[0] : nullptr});
  if (lane() > 0)
    return;
  note_operand_reads(type, right, across, 0, (int)columns, t.wgmmas_begun);
  const int first_row = (int)(t.number / LANES % 4) * ROWS;
  if (!a_words)
    note_operand_reads(type, left, false, first_row, first_row + ROWS, t.wgmmas_begun);
}

void wgmma_commit()
{
  thread &t = *the.running;
  t.wgmma_groups.push_back(t.wgmmas_begun);
  struct choice {
    bool at_once;
  } mine = {false};
  together(~0u, "wgmma.commit_group", mine, [](choice *const *lanes) {
    bool at_once = random_below(100) < the.eager_percent;
    for (int i = 0; i < LANES; i++)
      lanes[i]->at_once = at_once;
  });
  if (mine.at_once)
    execute_until(t.wgmmas_begun, "wgmma.commit_group, at once");
}

void wgmma_wait(unsigned groups_left)
{
  thread &t = *the.running;
  word64 end = 0;
  for (; t.wgmma_groups.size() > groups_left; t.wgmma_groups.pop_front())
    end = t.wgmma_groups.front();
  execute_until(end, "wgmma.wait_group");
  know_wgmmas((uint32_t)end);
  for (; !t.used.empty() && t.used.front().number <= end; t.used.pop_front()) {
    t.touched.push_back(t.used.front().accumulators);
    if (t.used.front().a_registers)
      t.touched.push_back(t.used.front().a_registers);
  }
}

/* What warpgroups give back is all that others can take, and one that wants more waits for ever. A block is launched
 * with as many registers a thread, a multiple of 8, as all its threads can have. */
static void check_registers(unsigned count)
{
  const unsigned threads = (unsigned)the.running->owner->threads.size();
  const unsigned launched = std::min(65536 / threads, 255u) / 8 * 8;
  std::map<unsigned, unsigned> &registers = the.running->owner->registers;
  registers[the.running->number / 128] = count;
  unsigned all = 0;
  for (const auto &of_warpgroup : registers)
    all += of_warpgroup.second;
  if (registers.size() == threads / 128 && all > launched * (threads / 128))
    fail("setmaxnreg: %u registers for the threads of %u warpgroups, of %u each at the launch", all, threads / 128,
         launched);
}

void setmaxnreg(unsigned count)
{
  if (count % 8 != 0 || count < 24 || count > 256)
    fail("setmaxnreg %u: a multiple of 8 from 24 to 256", count);
  meet_lanes(~0u, "setmaxnreg");
  check_registers(count);
}

} // namespace emulation
