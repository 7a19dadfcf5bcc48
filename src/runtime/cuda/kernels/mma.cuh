/* Instructions of compute capability 8.0: copies that do not pass through registers, loads of 8 × 8 matrices, and the
 * product of a 16 × 16 by a 16 × 8 matrix of 16-bit numbers, or of a 16 × 8 by an 8 × 8 matrix of tf32: in both formats 32
 * bytes of a row. Fragments are as the PTX manual lays them out: thread t of a warp has rows t / 4 and t / 4 + 8, columns
 * 2 (t % 4) and the next, of each 16 × 8 matrix of sums; of factors, columns in steps of 4 bytes where sums have them in
 * steps of two numbers. */

#if defined(HR_DTYPE_tf32)
#define MMA_TYPE "tf32"
#define MMA_SHAPE "m16n8k8"
#elif defined(HR_DTYPE_fp16)
#define MMA_TYPE "f16"
#define MMA_SHAPE "m16n8k16"
#else
#define MMA_TYPE "bf16"
#define MMA_SHAPE "m16n8k16"
#endif

__device__ inline unsigned shared_address(const void *data) { return (unsigned)__cvta_generic_to_shared(data); }

/* 16 bytes from global to shared memory; zeros if not `there` (then `from` is not read). */
__device__ inline void copy_async(unsigned to, const void *from, bool there)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

/* The same, if it is `wanted`; otherwise nothing is written. */
__device__ inline void copy_async_if(bool wanted, unsigned to, const void *from, bool there)
{
  asm volatile("{\n"
               ".reg .pred wanted;\n"
               "setp.ne.s32 wanted, %3, 0;\n"
               "@wanted cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
               "}" ::"r"(to),
               "l"(from), "r"(there ? 16 : 0), "r"((int)wanted)
               : "memory");
}

/* 4 bytes. */
__device__ inline void copy_async_word(unsigned to, const void *from, bool there)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}

__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Until at most `LEFT` of the groups that this thread committed are on their way. */
template <int LEFT> __device__ inline void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

/* Four 8 × 8 matrices; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ inline void load_matrices(unsigned (&to)[4], unsigned row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

__device__ inline void load_transposed(unsigned (&to)[4], unsigned row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/* sums += a · b */
__device__ inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
  asm volatile("mma.sync.aligned." MMA_SHAPE ".row.col.f32." MMA_TYPE "." MMA_TYPE ".f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* fp32 rounded to tf32, to nearest, rather than cut as the matrix units would. */
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

/* Two numbers in one word, `low` in the low half. */
__device__ inline unsigned pack_two(float low, float high)
{
  unsigned both;
#if defined(HR_DTYPE_fp16)
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

/* 2^x; denormal results are 0. Relative error 2^-22 (PTX manual, ex2.approx). */
__device__ inline float power_of_two(float x)
{
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
