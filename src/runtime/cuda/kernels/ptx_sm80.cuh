/* SPDX-License-Identifier: Apache-2.0 */
/* PTX instructions of compute capability 8.0: cp.async, ldmatrix, mma.sync (m16n8k16 of 16-bit elements, m16n8k8 of
 * tf32: 32 bytes of a row in both), ex2.approx.
 *
 * Fragments (PTX ISA): thread t of a warp has rows t / 4 and t / 4 + 8, columns 2 (t % 4) and the next, of each 16 × 8
 * accumulator; of the operands, columns in steps of 4 bytes. */

#if defined(HR_DTYPE_tf32)
#define MMA_TYPE "tf32"
#define MMA_SHAPE "m16n8k8"
#elif defined(HR_DTYPE_fp16) || defined(HR_QUANTIZED)
#define MMA_TYPE "f16"
#define MMA_SHAPE "m16n8k16"
#else
#define MMA_TYPE "bf16"
#define MMA_SHAPE "m16n8k16"
#endif

__device__ inline unsigned shared_address(const void *data)
{
  return (unsigned)__cvta_generic_to_shared(data);
}

/* Copies 16 bytes from global to shared memory; writes zeros, and does not read `from`, if not `there`. */
__device__ inline void cp_async_16(unsigned to, const void *from, bool there)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

/* The same if `wanted`; otherwise nothing is written. */
__device__ inline void cp_async_16_if(bool wanted, unsigned to, const void *from, bool there)
{
  asm volatile("{\n"
               ".reg .pred wanted;\n"
               "setp.ne.s32 wanted, %3, 0;\n"
               "@wanted cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
               "}" ::"r"(to),
               "l"(from), "r"(there ? 16 : 0), "r"((int)wanted)
               : "memory");
}

/* The same with 4 bytes. */
__device__ inline void cp_async_4(unsigned to, const void *from, bool there)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}

__device__ inline void cp_async_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most LEFT of this thread's committed groups are in flight. */
template <int LEFT> __device__ inline void cp_async_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Waits at a named barrier of `threads` threads. */
__device__ inline void named_barrier_sync(int name, int threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* Loads four 8 × 8 matrices; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ inline void ldmatrix_x4(unsigned (&to)[4], unsigned row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

__device__ inline void ldmatrix_x4_trans(unsigned (&to)[4], unsigned row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/* accumulators += a · b */
__device__ inline void mma_sync(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
  asm volatile("mma.sync.aligned." MMA_SHAPE ".row.col.f32." MMA_TYPE "." MMA_TYPE ".f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Rounds fp32 to the nearest tf32; the Tensor Cores would truncate. */
__device__ inline unsigned round_to_tf32(unsigned bits)
{
  unsigned rounded;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#endif
  return rounded;
}

/* Two 16-bit elements in one word, `low` in the low half. */
__device__ inline unsigned pack_pair(float low, float high)
{
  unsigned both;
#if defined(HR_DTYPE_fp16) || defined(HR_QUANTIZED) || defined(HR_OUT_fp16)
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

/* 2^x; denormal results are 0. Relative error 2^-22 (PTX manual, ex2.approx). */
__device__ inline float exp2_approx(float x)
{
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/* tanh to a relative error of 2^-19; tanhf() has branches, and 64 calls of it take NVRTC seconds. */
__device__ inline float tanh_approx(float x)
{
  float e = exp2_approx(x * 2.8853900817779268f /* 2 log2 e */), square = x * x;
  float inner = x * (1 + square * (-1.0f / 3 + square * (2.0f / 15 - square * (17.0f / 315))));
  return fabsf(x) < 0.125f ? inner : 1 - __fdividef(2, e + 1);
}
