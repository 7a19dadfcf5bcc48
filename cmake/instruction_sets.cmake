# SPDX-License-Identifier: Apache-2.0
# A source whose name ends in an instruction set is compiled for that set alone; what the processor can do is asked at run
# time, so that one build holds all of them. Such files, and their plain versions, are optimised in every build, because
# without it they take minutes where tests give them seconds. Their debug information is lines: where variables are
# doubles gcc's time, and optimised code keeps few of them. Sets of other processor families are left out.
set(headroom_levels portable) # of HEADROOM_CPU_MASK
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND headroom_levels avx2 avx512 avx512_bf16 avx512_fp16 amx_bf16)
  set(avx2_options -mavx2 -mfma -mf16c)
  set(avx512_options ${avx2_options} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  set(avx512_bf16_options ${avx512_options} -mavx512bf16)
  set(amx_options ${avx512_bf16_options}) # and tiles in assembly
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND headroom_levels neon)
  set(neon_options -DSIMD_NEON) # which every such processor has: the portable version is there to be compared with
endif()

# Sets the options of the files in the list `sources`, and takes those out of it that this processor's family has not.
function(headroom_instruction_sets sources)
  set(kept "")
  foreach(file ${${sources}})
    if(file MATCHES "_(portable|neon|avx2|avx512|avx512_bf16|amx)\\.c$")
      set(set ${CMAKE_MATCH_1})
      if(NOT set STREQUAL portable AND NOT DEFINED ${set}_options)
        continue()
      endif()
      set(optimisation -O3)
      if(file MATCHES "rowwise_portable\\.c$") # 160 KB less, at the rate of memory; for processors before AVX2
        set(optimisation -Os)
      endif()
      if(HEADROOM_SANITIZE OR HEADROOM_FUZZ) # see HR_INLINE in simd.h
        set(optimisation -O1 -DHR_SANITIZED)
      endif()
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
                                  "${optimisation};$<$<CONFIG:Debug>:-g1>;${${set}_options};${headroom_kernel_hardening}")
    elseif(file MATCHES "src/runtime/cpu/ceilings/loops\\.c$") # what the processor reaches is not a matter of the build
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -O3)
    elseif(file MATCHES "src/shape/number\\.c$") # conversions of every element that a test fills or compares
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -O3)
    endif()
    list(APPEND kept ${file})
  endforeach()
  set(${sources} ${kept} PARENT_SCOPE)
endfunction()
