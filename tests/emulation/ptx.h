/* SPDX-License-Identifier: Apache-2.0 */
/* PTX instructions as functions: translate.cpp turns `asm("cvt.rn.f16.f32 %0, %1;" …)` into ptx::cvt_rn_f16_f32(…).
 * Dots become underscores, operands keep their order, {…} becomes list(…), and a shape (m16n8k16) is the first
 * argument. An instruction that is missing here is a compiler error with its name. Semantics: PTX manual. */
#pragma once
#include "machine.h"

#include <ctime>

namespace ptx {

using emulation::format;

/* A vector of registers in braces. */
template <class T, unsigned N> struct registers {
  T *at[N];
};

template <class T, class... REST> inline registers<T, 1 + sizeof...(REST)> list(T &first, REST &...rest)
{
  return {{&first, &rest...}};
}

template <unsigned M, unsigned N, unsigned K> struct shape {
};

/* An operand that an instruction writes or reads as type V, whatever type the program gave its variable. */
template <class T, class V> inline void put(T &to, V value)
{
  static_assert(sizeof(T) == sizeof(V), "a register has another size than the instruction's type");
  __builtin_memcpy(&to, &value, sizeof to);
}

template <class V, class T> inline V get(const T &from)
{
  static_assert(sizeof(T) == sizeof(V), "a register has another size than the instruction's type");
  V value;
  __builtin_memcpy(&value, &from, sizeof value);
  return value;
}

/* ---- registers ---- */

template <class T, class U> inline void mov_b32(T &to, U from)
{
  put(to, (unsigned)from);
}
template <class T, class U> inline void mov_u32(T &to, U from)
{
  put(to, (unsigned)from);
}
template <class T, class U> inline void mov_b64(T &to, U from)
{
  put(to, (emulation::word64)from);
}
template <class T, class U> inline void mov_u64(T &to, U from)
{
  put(to, (emulation::word64)from);
}

template <class A, class B> inline void setp_ne_s32(bool &p, A a, B b)
{
  p = (int)a != (int)b;
}
template <class A, class B> inline void setp_eq_s32(bool &p, A a, B b)
{
  p = (int)a == (int)b;
}
template <class A, class B> inline void setp_ne_b32(bool &p, A a, B b)
{
  p = (unsigned)a != (unsigned)b;
}
template <class A, class B> inline void setp_ne_u32(bool &p, A a, B b)
{
  p = (unsigned)a != (unsigned)b;
}
template <class A, class B> inline void setp_eq_u32(bool &p, A a, B b)
{
  p = (unsigned)a == (unsigned)b;
}

/* ---- number formats ---- */

template <class A, class B> inline void cvt_f32_f16(A &to, const B &from)
{
  put(to, emulation::from_half(get<unsigned short>(from)));
}

template <class A, class B> inline void cvt_rn_f16_f32(A &to, const B &from)
{
  put(to, emulation::to_half(get<float>(from)));
}

template <class A, class B> inline void cvt_rn_bf16_f32(A &to, const B &from)
{
  put(to, emulation::to_bfloat(get<float>(from)));
}

template <class A, class B, class C> inline void cvt_rn_f16x2_f32(A &to, const B &high, const C &low)
{
  put(to, emulation::to_half(get<float>(low)) | (unsigned)emulation::to_half(get<float>(high)) << 16);
}

template <class A, class B, class C> inline void cvt_rn_bf16x2_f32(A &to, const B &high, const C &low)
{
  put(to, emulation::to_bfloat(get<float>(low)) | (unsigned)emulation::to_bfloat(get<float>(high)) << 16);
}

template <class A, class B> inline void cvt_rn_f16x2_e4m3x2(A &to, const B &from)
{
  unsigned two = get<unsigned short>(from);
  float low = emulation::from_e4m3((emulation::byte)two), high = emulation::from_e4m3((emulation::byte)(two >> 8));
  cvt_rn_f16x2_f32(to, high, low);
}

template <class A, class B, class C> inline void cvt_rn_satfinite_e4m3x2_f32(A &to, const B &high, const C &low)
{
  put(to, (unsigned short)(emulation::to_e4m3(get<float>(low)) | emulation::to_e4m3(get<float>(high)) << 8));
}

/* Packed pairs; max returns the other operand if one is NaN. */
template <class A, class B, class C> inline void max_f16x2(A &to, const B &a, const C &b)
{
  unsigned x = get<unsigned>(a), y = get<unsigned>(b), two = 0;
  for (int i = 0; i < 32; i += 16)
    two |= (unsigned)emulation::to_half(__builtin_fmaxf(emulation::from_half((unsigned short)(x >> i)),
                                                        emulation::from_half((unsigned short)(y >> i))))
           << i;
  put(to, two);
}

template <class A, class B, class C> inline void sub_f16x2(A &to, const B &a, const C &b)
{
  unsigned x = get<unsigned>(a), y = get<unsigned>(b), two = 0;
  for (int i = 0; i < 32; i += 16)
    two |= (unsigned)emulation::to_half(emulation::from_half((unsigned short)(x >> i)) -
                                        emulation::from_half((unsigned short)(y >> i)))
           << i;
  put(to, two);
}

template <class A, class B, class C> inline void max_bf16x2(A &to, const B &a, const C &b)
{
  unsigned x = get<unsigned>(a), y = get<unsigned>(b), two = 0;
  for (int i = 0; i < 32; i += 16)
    two |= (unsigned)emulation::to_bfloat(__builtin_fmaxf(get<float>(x >> i << 16), get<float>(y >> i << 16))) << i;
  put(to, two);
}

template <class A, class B> inline void cvt_rn_tf32_f32(A &to, const B &from)
{
  put(to, emulation::to_tf32(get<float>(from), false));
}

template <class A, class B> inline void cvt_rna_tf32_f32(A &to, const B &from)
{
  put(to, emulation::to_tf32(get<float>(from), true));
}

template <class A, class B> inline void ex2_approx_ftz_f32(A &to, const B &from)
{
  float result = __builtin_exp2f(get<float>(from));
  put(to, result < 0x1p-126f ? 0.0f : result);
}

/* ---- memory ---- */

template <class T, unsigned N> inline void load_shared(const registers<T, N> &to, unsigned address, const char *what)
{
  const emulation::byte *from = emulation::shared_bytes(address, N * sizeof(T), N * sizeof(T), what);
  for (unsigned i = 0; i < N; i++)
    __builtin_memcpy(to.at[i], from + i * sizeof(T), sizeof(T));
}

template <class T> inline void ld_shared_v4_u32(const registers<T, 4> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v4");
}
template <class T> inline void ld_shared_v2_u32(const registers<T, 2> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v2");
}
template <class T> inline void ld_shared_v4_b32(const registers<T, 4> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v4");
}
template <class T> inline void ld_shared_v2_b32(const registers<T, 2> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v2");
}
template <class T> inline void ld_shared_v4_f32(const registers<T, 4> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v4");
}

template <class T> inline void ld_shared_v2_f32(const registers<T, 2> &to, unsigned from)
{
  load_shared(to, from, "ld.shared.v2");
}

template <class T> inline void st_shared_v4_f32(unsigned to, const registers<T, 4> &from)
{
  emulation::byte *at = emulation::shared_bytes(to, 16, 16, "st.shared.v4");
  for (unsigned i = 0; i < 4; i++)
    __builtin_memcpy(at + 4 * i, from.at[i], 4);
}

template <class T> inline void ld_global_L1__no_allocate_v4_u32(const registers<T, 4> &to, const void *from)
{
  emulation::check_global(from, 4 * sizeof(T), 4 * sizeof(T), "ld.global.v4");
  for (unsigned i = 0; i < 4; i++)
    __builtin_memcpy(to.at[i], (const char *)from + i * sizeof(T), sizeof(T));
}

template <class A, class P> UNORDERED inline void ld_acquire_gpu_global_s32(A &to, P from)
{
  emulation::check_global((const void *)from, 4, 4, "ld.acquire");
  emulation::pause(); /* others may have to write first */
  put(to, *(const int *)from);
}

/* A message between GPUs: others may have to send it first. */
template <class T> UNORDERED inline void ld_volatile_global_v4_u32(const registers<T, 4> &to, const void *from)
{
  emulation::check_global(from, 4 * sizeof(T), 4 * sizeof(T), "ld.volatile.v4");
  emulation::pause();
  for (unsigned i = 0; i < 4; i++)
    __builtin_memcpy(to.at[i], (const char *)from + i * sizeof(T), sizeof(T));
}

template <class A, class P> UNORDERED inline void ld_volatile_global_u32(A &to, P from)
{
  emulation::check_global((const void *)from, 4, 4, "ld.volatile");
  emulation::pause();
  put(to, *(const unsigned *)(const void *)from);
}

template <class A, class P> UNORDERED inline void ld_volatile_global_u16(A &to, P from)
{
  emulation::check_global((const void *)from, 2, 2, "ld.volatile");
  emulation::pause();
  to = *(const unsigned short *)(const void *)from; /* a register may be wider, and has zeros above */
}

template <class A, class P> UNORDERED inline void ld_acquire_sys_global_u32(A &to, P from)
{
  emulation::check_global((const void *)from, 4, 4, "ld.acquire.sys");
  emulation::pause();
  put(to, *(const unsigned *)from);
}

template <class P, class T> UNORDERED inline void st_volatile_global_u32(P to, T from)
{
  emulation::check_global((const void *)to, 4, 4, "st.volatile");
  *(unsigned *)to = (unsigned)from;
}

inline void fence_acq_rel_sys()
{
}

template <class P, class T> UNORDERED inline void st_volatile_global_v4_u32(P to, const registers<T, 4> &from)
{
  emulation::check_global((const void *)to, 4 * sizeof(T), 4 * sizeof(T), "st.volatile.v4");
  for (unsigned i = 0; i < 4; i++)
    __builtin_memcpy((char *)to + i * sizeof(T), from.at[i], sizeof(T));
}

template <class P> UNORDERED inline void red_release_gpu_global_add_s32(P to, int value)
{
  emulation::check_global((const void *)to, 4, 4, "red.add");
  *(int *)to += value;
}

template <class P, class T> UNORDERED inline void red_relaxed_gpu_global_add_v4_f32(P to, const registers<T, 4> &from)
{
  emulation::check_global((const void *)to, 16, 16, "red.add.v4");
  for (unsigned i = 0; i < 4; i++)
    ((float *)to)[i] += *from.at[i];
}

template <class P, class T> inline void st_global_v4_b32(P to, const registers<T, 4> &from)
{
  emulation::check_global((const void *)to, 16, 16, "st.global.v4");
  for (unsigned i = 0; i < 4; i++)
    __builtin_memcpy((emulation::byte *)to + 4 * i, from.at[i], 4);
}

inline void cp_async_cg_shared_global(unsigned to, const void *from, unsigned bytes)
{
  emulation::cp_async(to, from, bytes, bytes);
}
inline void cp_async_cg_shared_global(unsigned to, const void *from, unsigned bytes, unsigned taken)
{
  emulation::cp_async(to, from, bytes, taken);
}
inline void cp_async_ca_shared_global(unsigned to, const void *from, unsigned bytes)
{
  emulation::cp_async(to, from, bytes, bytes);
}
inline void cp_async_ca_shared_global(unsigned to, const void *from, unsigned bytes, unsigned taken)
{
  emulation::cp_async(to, from, bytes, taken);
}
inline void cp_async_commit_group()
{
  emulation::cp_async_commit();
}
inline void cp_async_wait_group(unsigned left)
{
  emulation::cp_async_wait(left);
}
inline void cp_async_wait_all()
{
  emulation::cp_async_wait(~0u);
}

/* ---- clusters ---- */

/* Nanoseconds. */
inline emulation::word64 special_globaltimer()
{
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (emulation::word64)now.tv_sec * 1000000000u + (emulation::word64)now.tv_nsec;
}

inline emulation::word64 special_clock64()
{
  return special_globaltimer();
}

inline unsigned special_cluster_ctarank()
{
  return emulation::cluster_rank();
}
inline void barrier_cluster_arrive_release_aligned()
{
  emulation::cluster_arrive();
}
inline void barrier_cluster_arrive_relaxed_aligned()
{
  emulation::cluster_arrive_relaxed();
}
inline void barrier_cluster_wait_acquire_aligned()
{
  emulation::cluster_wait();
}

template <class A> inline void mapa_shared__cluster_u32(A &to, unsigned address, unsigned rank)
{
  put(to, (address & (emulation::SHARED_WINDOW - 1)) | rank << emulation::SHARED_RANK);
}

template <class V> inline void st_shared__cluster_f32(unsigned to, const V &value)
{
  __builtin_memcpy(emulation::cluster_bytes(to, 4, 4, "st.shared::cluster"), &value, 4);
}

template <unsigned N> inline void store_async(unsigned to, const registers<float, N> &from, unsigned barrier)
{
  float values[N];
  for (unsigned i = 0; i < N; i++)
    values[i] = *from.at[i];
  emulation::store_async(to, values, sizeof values, barrier);
}

inline void st_async_shared__cluster_mbarrier__complete_tx__bytes_v4_f32(unsigned to, const registers<float, 4> &from,
                                                                         unsigned barrier)
{
  store_async(to, from, barrier);
}

inline void st_async_shared__cluster_mbarrier__complete_tx__bytes_v2_f32(unsigned to, const registers<float, 2> &from,
                                                                         unsigned barrier)
{
  store_async(to, from, barrier);
}

/* ---- ldmatrix, stmatrix, mma.sync ---- */

template <class T> inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(const registers<T, 4> &to, unsigned row)
{
  emulation::ldmatrix((unsigned *const *)to.at, 4, row, false);
}

template <class T> inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(const registers<T, 4> &to, unsigned row)
{
  emulation::ldmatrix((unsigned *const *)to.at, 4, row, true);
}

template <class T> inline void ldmatrix_sync_aligned_m8n8_x2_shared_b16(const registers<T, 2> &to, unsigned row)
{
  emulation::ldmatrix((unsigned *const *)to.at, 2, row, false);
}

template <class T> inline void ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16(const registers<T, 2> &to, unsigned row)
{
  emulation::ldmatrix((unsigned *const *)to.at, 2, row, true);
}

template <class T> inline void stmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned row, const registers<T, 4> &from)
{
  unsigned words[4];
  for (int i = 0; i < 4; i++)
    words[i] = *from.at[i];
  emulation::stmatrix(row, words, 4, false);
}

template <class T> inline void stmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned row, const registers<T, 4> &from)
{
  unsigned words[4];
  for (int i = 0; i < 4; i++)
    words[i] = *from.at[i];
  emulation::stmatrix(row, words, 4, true);
}

template <class D, class A, class B, class C>
inline void mma(format type, const registers<D, 4> &d, const registers<A, 4> &a, const registers<B, 2> &b,
                const registers<C, 4> &c)
{
  unsigned left[4], right[2] = {*b.at[0], *b.at[1]};
  float accumulators[4];
  for (int i = 0; i < 4; i++) {
    left[i] = *a.at[i];
    accumulators[i] = *c.at[i];
  }
  emulation::mma(type, d.at, left, right, accumulators);
}

#define MMA(NAME, K, TYPE)                                                                                     \
  template <class D, class A, class B, class C>                                                                \
  inline void mma_sync_aligned_row_col_##NAME(shape<16, 8, K>, const D &d, const A &a, const B &b, const C &c) \
  {                                                                                                            \
    mma(TYPE, d, a, b, c);                                                                                     \
  }
MMA(f32_f16_f16_f32, 16, format::f16)
MMA(f32_bf16_bf16_f32, 16, format::bf16)
MMA(f32_tf32_tf32_f32, 8, format::tf32)
MMA(f32_e4m3_e4m3_f32, 32, format::e4m3)
#undef MMA

/* ---- mbarriers and TMA (sm_90) ---- */

inline int nowhere()
{
  return 0;
}

inline void mbarrier_init_shared__cta_b64(unsigned barrier, unsigned count)
{
  emulation::mbarrier_init(barrier, count);
}

inline void fence_mbarrier_init_release_cluster()
{
  emulation::fence_mbarrier_init();
}

inline void mbarrier_arrive_shared__cta_b64(int, unsigned barrier)
{
  emulation::mbarrier_arrive(barrier, 0);
}

inline void mbarrier_arrive_shared__cluster_b64(int, unsigned barrier)
{
  emulation::mbarrier_arrive_in_block(barrier);
}

inline void mbarrier_arrive_expect_tx_shared__cta_b64(int, unsigned barrier, unsigned bytes)
{
  emulation::mbarrier_arrive(barrier, bytes);
}

inline void mbarrier_try_wait_parity_shared__cta_b64(bool &over, unsigned barrier, unsigned parity)
{
  over = emulation::mbarrier_try_wait(barrier, parity);
}

inline void mbarrier_try_wait_parity_shared__cta_b64(bool &over, unsigned barrier, unsigned parity, unsigned)
{
  over = emulation::mbarrier_try_wait(barrier, parity);
}

inline void bar_sync(unsigned number, unsigned threads)
{
  emulation::barrier(number, threads, true);
}

inline void bar_arrive(unsigned number, unsigned threads)
{
  emulation::barrier(number, threads, false);
}

inline void cp_async_bulk_tensor_4d_shared__cluster_global_tile_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, const registers<int, 4> &first, unsigned barrier)
{
  int at[4] = {*first.at[0], *first.at[1], *first.at[2], *first.at[3]};
  emulation::tma_load(to, map, barrier, at);
}

inline void cp_async_bulk_tensor_4d_shared__cluster_global_tile_mbarrier__complete_tx__bytes_multicast__cluster(
    unsigned to, const void *map, const registers<int, 4> &first, unsigned barrier, unsigned short blocks)
{
  int at[4] = {*first.at[0], *first.at[1], *first.at[2], *first.at[3]};
  emulation::tma_load_multicast(to, map, barrier, at, blocks);
}

inline void cp_async_bulk_tensor_4d_global_shared__cta_tile_bulk_group(const void *map, const registers<int, 4> &first,
                                                                       unsigned from)
{
  int at[4] = {*first.at[0], *first.at[1], *first.at[2], *first.at[3]};
  emulation::tma_store(map, from, at);
}

template <class P>
inline void cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(unsigned to, P from, unsigned bytes,
                                                                              unsigned barrier)
{
  emulation::bulk_load(to, (const void *)from, bytes, barrier);
}

template <class P>
inline void cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes_L2__cache_hint(unsigned to, P from,
                                                                                             unsigned bytes,
                                                                                             unsigned barrier,
                                                                                             unsigned long long)
{
  emulation::bulk_load(to, (const void *)from, bytes, barrier);
}

inline void cp_async_bulk_commit_group()
{
  emulation::tma_commit();
}

inline void cp_async_bulk_wait_group_read(unsigned left)
{
  emulation::tma_wait(left);
}

inline void fence_proxy_async_shared__cta()
{
  emulation::fence_proxy_async();
}

inline void fence_proxy_tensormap__generic_acquire_sys(const void *, int)
{
}

inline void prefetch_tensormap(const void *)
{
}

inline void prefetch_global_L2(const void *)
{
}

template <class P> inline void cp_async_bulk_prefetch_L2_global(P from, int bytes)
{
  emulation::check_global((const void *)from, (unsigned)bytes, 16, "cp.async.bulk.prefetch");
}
inline void griddepcontrol_wait()
{
  emulation::wait_for_kernel_before();
}

inline void griddepcontrol_launch_dependents()
{
}

/* ---- WGMMA ---- */

inline void setmaxnreg_inc_sync_aligned_u32(unsigned count)
{
  emulation::setmaxnreg(count);
}

inline void setmaxnreg_dec_sync_aligned_u32(unsigned count)
{
  emulation::setmaxnreg(count);
}

inline void wgmma_fence_sync_aligned()
{
  emulation::wgmma_fence();
}

inline void wgmma_commit_group_sync_aligned()
{
  emulation::wgmma_commit();
}

inline void wgmma_wait_group_sync_aligned(unsigned left)
{
  emulation::wgmma_wait(left);
}

template <unsigned N, unsigned ACCUMULATORS>
inline void wgmma(format type, const registers<float, ACCUMULATORS> &d, unsigned long long a, unsigned long long b,
                  bool adds, int transposed_a, int transposed_b)
{
  static_assert(ACCUMULATORS == N / 2, "a thread has half as many accumulators as there are columns");
  if (transposed_a)
    emulation::fail("wgmma: the emulation supports A in shared memory only K-major");
  emulation::wgmma(type, N, d.at, nullptr, a, b, adds, transposed_b);
}

template <unsigned N, unsigned ACCUMULATORS, class A>
inline void wgmma(format type, const registers<float, ACCUMULATORS> &d, const registers<A, 4> &a, unsigned long long b,
                  bool adds, int transposed_b)
{
  static_assert(ACCUMULATORS == N / 2, "a thread has half as many accumulators as there are columns");
  emulation::wgmma(type, N, d.at, (unsigned *const *)a.at, 0, b, adds, transposed_b);
}

#define WGMMA(NAME, TYPE)                                                                                      \
  template <unsigned N, class D>                                                                               \
  inline void wgmma_mma_async_sync_aligned_##NAME(shape<64, N, 16>, const D &d, unsigned long long a,          \
                                                  unsigned long long b, bool adds, int, int, int transposed_a, \
                                                  int transposed_b)                                            \
  {                                                                                                            \
    wgmma<N>(TYPE, d, a, b, adds, transposed_a, transposed_b);                                                 \
  }                                                                                                            \
  template <unsigned N, class D, class A>                                                                      \
  inline void wgmma_mma_async_sync_aligned_##NAME(shape<64, N, 16>, const D &d, const registers<A, 4> &a,      \
                                                  unsigned long long b, bool adds, int, int, int transposed_b) \
  {                                                                                                            \
    wgmma<N>(TYPE, d, a, b, adds, transposed_b);                                                               \
  }
WGMMA(f32_f16_f16, format::f16)
WGMMA(f32_bf16_bf16, format::bf16)
#undef WGMMA

/* 8-bit operands are K-major. */
template <unsigned N, class D>
inline void wgmma_mma_async_sync_aligned_f32_e4m3_e4m3(shape<64, N, 32>, const D &d, unsigned long long a,
                                                       unsigned long long b, bool adds, int, int)
{
  wgmma<N>(format::e4m3, d, a, b, adds, 0, 0);
}
template <unsigned N, class D, class A>
inline void wgmma_mma_async_sync_aligned_f32_e4m3_e4m3(shape<64, N, 32>, const D &d, const registers<A, 4> &a,
                                                       unsigned long long b, bool adds, int, int)
{
  wgmma<N>(format::e4m3, d, a, b, adds, 0);
}

} // namespace ptx
