/* Products of a warpgroup, of which each warp has 16 rows. They are done at once, or as late as somebody waits for
 * them; sums are NaN meanwhile, and factors are read when the product is done, from shared memory and from
 * registers. */
#include "block.h"
#include "tensor.h"

#include <cmath>
#include <cstring>

namespace emulation {

constexpr int DEPTH = 16, WIDTH_MOST = 256, ROWS = 16;

/* ---- operands ---- */

/* Where an operand of 16-bit numbers lies: a matrix descriptor of the PTX manual. */
struct operand {
  unsigned first, jump, step; /* bytes */
};

static operand read_descriptor(word64 bits)
{
  if (bits >> 62 != 1)
    fail("wgmma: the emulation knows operands swizzled by 128 bytes");
  if (bits >> 49 & 7)
    fail("wgmma: the emulation knows no base offset");
  return {(unsigned)(bits & 0x3FFF) << 4, (unsigned)(bits >> 16 & 0x3FFF) << 4, (unsigned)(bits >> 32 & 0x3FFF) << 4};
}

/* Number (i, k), i across the depth. */
static unsigned place_of(const operand &o, bool across, int i, int k)
{
  if (across)
    return o.first + (unsigned)(i / 64) * o.jump + (unsigned)(k / 8) * o.step + (unsigned)(k % 8 * 128 + i % 64 * 2);
  return o.first + (unsigned)(i / 8) * o.step + (unsigned)(i % 8 * 128 + k * 2);
}

static float number_of(format type, unsigned bits)
{
  return type == format::f16 ? from_half((unsigned short)bits) : __builtin_bit_cast(float, bits << 16);
}

static float shared_number(const block &b, format type, unsigned address)
{
  unsigned short bits;
  memcpy(&bits, b.shared + swizzled(address), sizeof bits);
  return number_of(type, bits);
}

static void check_operand(const operand &o, bool across, int rows)
{
  unsigned last = place_of(o, across, rows - 1, DEPTH - 1);
  shared_bytes(o.first & ~127u, 128, 16, "wgmma");
  shared_bytes(last & ~127u, 128, 16, "wgmma");
}

/* ---- products ---- */

static void multiply_warp(const block &b, unsigned first_row, product *const *lanes)
{
  static float left[ROWS][DEPTH], right[DEPTH][WIDTH_MOST], sums[ROWS][WIDTH_MOST];
  const product &p = *lanes[0];
  const int n = (int)p.columns;
  operand right_at = read_descriptor(p.b), left_at = p.a_words[0] ? operand{} : read_descriptor(p.a);
  for (int column = 0; column < n; column++)
    for (int k = 0; k < DEPTH; k++)
      right[k][column] = shared_number(b, p.type, place_of(right_at, p.across, column, k));
  for (int row = 0; row < ROWS && !p.a_words[0]; row++)
    for (int k = 0; k < DEPTH; k++)
      left[row][k] = shared_number(b, p.type, place_of(left_at, false, (int)first_row + row, k));
  for (int t = 0; t < LANES; t++) {
    for (int e = 0; e < 4 && p.a_words[0]; e++)
      for (int i = 0; i < 2; i++)
        left[t / 4 + e % 2 * 8][t % 4 * 2 + e / 2 * 8 + i] =
            number_of(p.type, *lanes[t]->a_words[e] >> 16 * i & 0xFFFF);
    for (int i = 0; i < n / 2; i++)
      sums[t / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2] = p.adds ? lanes[t]->before[i] : 0;
  }
  for (int row = 0; row < ROWS; row++)
    for (int k = 0; k < DEPTH; k++)
      for (int column = 0; column < n; column++)
        sums[row][column] += left[row][k] * right[k][column];
  for (int t = 0; t < LANES; t++)
    for (int i = 0; i < n / 2; i++)
      *lanes[t]->d[i] = sums[t / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2];
}

/* Chunks of 16 bytes that a warp's product takes of an operand, in rows (of the result) first … end − 1. */
static void fetch_operand(const operand &o, bool across, int first, int end, word64 number)
{
  const block &b = *the.running->owner;
  const unsigned component = product_component();
  for (int i = first; i < end; i += across ? 8 : 1)
    for (int k = 0; k < DEPTH; k += across ? 1 : 8)
      note_fetch(b.shared + swizzled(place_of(o, across, i, k)), 16, component, (uint32_t)number, "a product reads");
}

/* Registers that were the program's since the last fence are not the product's. */
static void check_fenced(const thread &t, const void *sums, const void *factors)
{
  bool touched = !t.fenced;
  for (const void *at : t.touched)
    touched |= at == sums || at == factors;
  if (touched)
    fail("wgmma: with no wgmma.fence since its registers were the program's");
}

void products_fence()
{
  the.running->fenced = true;
  the.running->touched.clear();
}

/* The oldest product of every lane; those behind it in the same registers take its sums. */
static void do_oldest(thread *const *lanes)
{
  product *products[LANES];
  for (int t = 0; t < LANES; t++) {
    products[t] = &lanes[t]->products.front();
    if (products[t]->b != products[0]->b || products[t]->a != products[0]->a ||
        products[t]->columns != products[0]->columns || products[t]->adds != products[0]->adds)
      fail("wgmma: lanes of a warp differ in what they multiply");
  }
  unsigned warp = lanes[0]->number / LANES % 4;
  multiply_warp(*lanes[0]->owner, warp * ROWS, products);
  for (int t = 0; t < LANES; t++) {
    product done = std::move(lanes[t]->products.front());
    lanes[t]->products.pop_front();
    lanes[t]->products_done++;
    for (product &next : lanes[t]->products) {
      if (next.d[0] != done.d[0])
        continue;
      for (size_t i = 0; i < next.d.size(); i++)
        next.before[i] = *done.d[i];
      break;
    }
  }
}

/* Up to product number `end` of each lane. */
static void do_until(word64 end, const char *what)
{
  thread *own = the.running;
  together(~0u, what, *own, [&](thread *const *lanes) {
    while (lanes[0]->products_done < end) {
      for (int t = 0; t < LANES; t++)
        if (lanes[t]->products_done != lanes[0]->products_done || lanes[t]->products.empty())
          fail("%s: lanes of a warp have other numbers of products under way", what);
      do_oldest(lanes);
    }
  });
}

void multiply_group(format type, unsigned columns, float *const *d, unsigned *const *a_words, word64 a, word64 b,
                    bool adds, bool across)
{
  thread &t = *the.running;
  product p = {type, columns, across, adds, a, b, {}, {}, {}};
  operand right = read_descriptor(b), left = a_words ? operand{} : read_descriptor(a);
  check_fenced(t, d[0], a_words ? a_words[0] : nullptr);
  if (a_words)
    memcpy(p.a_words, a_words, sizeof p.a_words);
  else
    check_operand(left, false, 64);
  check_operand(right, across, (int)columns);
  bool pending = false;
  for (const product &other : t.products)
    pending |= other.d[0] == d[0];
  for (unsigned i = 0; i < columns / 2; i++) {
    p.d.push_back(d[i]);
    p.before.push_back(pending ? NAN : *d[i]);
    *d[i] = NAN;
  }
  t.products.push_back(std::move(p));
  t.products_begun++;
  t.used.push_back({t.products_begun, d[0], a_words ? a_words[0] : nullptr});
  if (lane() > 0)
    return;
  fetch_operand(right, across, 0, (int)columns, t.products_begun);
  const int first_row = (int)(t.number / LANES % 4) * ROWS;
  if (!a_words)
    fetch_operand(left, false, first_row, first_row + ROWS, t.products_begun);
}

void products_commit()
{
  thread &t = *the.running;
  t.product_groups.push_back(t.products_begun);
  struct choice {
    bool at_once;
  } mine = {false};
  together(~0u, "wgmma.commit_group", mine, [](choice *const *lanes) {
    bool at_once = random_below(100) < the.eagerness;
    for (int i = 0; i < LANES; i++)
      lanes[i]->at_once = at_once;
  });
  if (mine.at_once)
    do_until(t.products_begun, "wgmma.commit_group, at once");
}

void products_wait(unsigned groups_left)
{
  thread &t = *the.running;
  word64 end = 0;
  for (; t.product_groups.size() > groups_left; t.product_groups.pop_front())
    end = t.product_groups.front();
  do_until(end, "wgmma.wait_group");
  know_products((uint32_t)end);
  for (; !t.used.empty() && t.used.front().number <= end; t.used.pop_front()) {
    t.touched.push_back(t.used.front().sums);
    if (t.used.front().factors)
      t.touched.push_back(t.used.front().factors);
  }
}

void registers_change(unsigned count)
{
  if (count % 8 != 0 || count < 24 || count > 256)
    fail("setmaxnreg %u: a multiple of 8 from 24 to 256", count);
  meet_lanes(~0u, "setmaxnreg");
}

} // namespace emulation
