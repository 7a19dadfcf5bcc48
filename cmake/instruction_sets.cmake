# Kernels for instruction sets that not every processor has: the file alone is compiled for its set, and what the processor
# can do is asked at run time, so that one build holds all of them. They are optimised in every build, because without
# it they take minutes where tests give them seconds. Elsewhere than on x86-64 these files are empty.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(avx2_options -mavx2 -mfma -mf16c)
  set(avx512_options ${avx2_options} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  set(avx512_bf16_options ${avx512_options} -mavx512bf16)
endif()
function(headroom_kernel file)
  set_source_files_properties(src/runtime/cpu/${file} PROPERTIES COMPILE_OPTIONS "-O3;${ARGN}")
endfunction()

headroom_kernel(flash_portable.c)
headroom_kernel(flash_avx2.c ${avx2_options})
headroom_kernel(flash_avx512.c ${avx512_options})
headroom_kernel(flash_avx512_bf16.c ${avx512_bf16_options})
headroom_kernel(flash_amx.c ${avx512_bf16_options}) # and tiles in assembly
headroom_kernel(scores_any.c)
headroom_kernel(scores_avx2.c ${avx2_options})
headroom_kernel(scores_avx512.c ${avx512_options} -mprefer-vector-width=512)

# Loops that show what the processor reaches are those of every build, not of its optimisation.
headroom_kernel(loops.c)
headroom_kernel(loops_any.c)
headroom_kernel(loops_avx2.c ${avx2_options})
headroom_kernel(loops_avx512.c ${avx512_options})
