# Kernels for instruction sets that not every processor has: the file alone is compiled for its set, and what the processor
# can do is asked at run time, so that one build holds all of them. They are optimised in every build, because without
# it they take minutes where tests give them seconds. Elsewhere than on x86-64 these files are empty.
set(avx2 -mavx2 -mfma -mf16c)
set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
function(headroom_kernel file)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(ARGN "")
  endif()
  set_source_files_properties(src/runtime/cpu/${file} PROPERTIES COMPILE_OPTIONS "-O3;${ARGN}")
endfunction()

headroom_kernel(flash_portable.c)
headroom_kernel(flash_avx2.c ${avx2})
headroom_kernel(flash_avx512.c ${avx512})
headroom_kernel(flash_avx512_bf16.c ${avx512} -mavx512bf16)
headroom_kernel(flash_amx.c ${avx512} -mavx512bf16)
