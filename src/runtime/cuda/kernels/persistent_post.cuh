/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks of persistent.cu pass on to each other: an element is there once its bits are not those of an absent one,
 * so that no flag, fence or counter is needed, and a result is seen as soon as it is in the L2. A launch posts to one
 * of two sets, and makes absent what it does not post to: its own elements of the other set, which the launch before
 * used. */

/* The place of this launch's set beside the first, and that of the other set beside this one, in elements. */
struct post {
  int64 here, other;

  __device__ explicit post(const persistent_call &call)
  {
    const bool second = *(const volatile unsigned *)call.counters % 2 != 0;
    here = second ? call.set : 0;
    other = second ? -call.set : call.set;
  }
};

__device__ inline bool has_absent(unsigned word)
{
  return (word & 0xFFFF) == HR_PERSISTENT_ABSENT || word >> 16 == HR_PERSISTENT_ABSENT;
}

__device__ inline bool has_absent(const uint4 &chunk)
{
  return has_absent(chunk.x) || has_absent(chunk.y) || has_absent(chunk.z) || has_absent(chunk.w);
}

__device__ inline uint4 read_chunk(const void *from)
{
  uint4 c;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(c.x), "=r"(c.y), "=r"(c.z), "=r"(c.w)
               : "l"(from)
               : "memory");
  return c;
}

__device__ inline void store_chunk(uint4 *to, const uint4 &c)
{
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(c.x), "r"(c.y), "r"(c.z), "r"(c.w)
               : "memory");
}

/* Its bits, in a register of 32 that nothing is moved to or from before they are there. */
__device__ inline unsigned read_element(const element *from)
{
  unsigned bits;
  asm volatile("ld.volatile.global.u16 %0, [%1];" : "=r"(bits) : "l"(from) : "memory");
  return bits;
}

/* An element of what others have posted, or with `arrives` false of memory. */
__device__ inline float await_element(const element *from, bool arrives, const post &p)
{
  if (!arrives)
    return to_float(*from);
  unsigned bits;
  do
    bits = read_element(from + p.here);
  while (bits == HR_PERSISTENT_ABSENT);
  return to_float((element)bits);
}

__device__ inline void post_element(element *to, float value, const post &p)
{
  const element bits = from_float(value);
  volatile element *const at = to + p.here;
  *at = bits == HR_PERSISTENT_ABSENT ? (element)0x7FFF : bits;
  at[p.other] = HR_PERSISTENT_ABSENT;
}
