# SPDX-License-Identifier: Apache-2.0
# Makes memory errors that are left harder to exploit in builds for users. tests/structure/hardening.sh reads the result.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(hardening_flags -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND hardening_flags -fcf-protection) # CET
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND hardening_flags -mbranch-protection=standard)
endif()
set(headroom_hardening "")
foreach(flag ${hardening_flags})
  string(MAKE_C_IDENTIFIER "compiler_has${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    list(APPEND headroom_hardening ${flag})
  endif()
endforeach()
list(APPEND headroom_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3) # a C library before 2.34 takes 3 for 2

# Other builds may have no optimisation, which _FORTIFY_SOURCE needs; the sanitizers check more.
set(for_users "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")
if(HEADROOM_SANITIZE OR HEADROOM_FUZZ)
  set(for_users 0)
endif()

# Of files for one instruction set: checked stacks cost the AVX-512 decode kernel 2% to 3% (AMD EPYC, one thread, 64 and
# 2048 tokens, least of 24 interleaved runs, 2026-11-23) and other kernels nothing measurable.
set(headroom_kernel_hardening "$<${for_users}:-fno-stack-protector>")

function(headroom_harden target)
  target_compile_options(${target} PRIVATE "$<${for_users}:${headroom_hardening}>")
  get_target_property(type ${target} TYPE)
  if(NOT type MATCHES "OBJECT|STATIC")
    target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  endif()
endfunction()
