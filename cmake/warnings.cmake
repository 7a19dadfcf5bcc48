# SPDX-License-Identifier: Apache-2.0
# The flags of every target of the project.
add_library(headroom_warnings INTERFACE)
target_compile_options(headroom_warnings INTERFACE -Wall -Wextra -Wshadow -Wvla
  $<$<COMPILE_LANGUAGE:C>:-Wconversion -Wstrict-prototypes -Wmissing-prototypes>)
if(CMAKE_C_COMPILER_ID MATCHES Clang) # gcc takes designated elements as complete, whatever they leave to 0
  target_compile_options(headroom_warnings INTERFACE -Wno-missing-field-initializers)
endif()
if(HEADROOM_WERROR)
  target_compile_options(headroom_warnings INTERFACE -Werror)
endif()
if(HEADROOM_SANITIZE)
  add_compile_options(-fsanitize=${HEADROOM_SANITIZERS} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(HEADROOM_SANITIZERS MATCHES undefined)
    add_compile_options(-fsanitize=float-cast-overflow)
  endif()
  add_link_options(-fsanitize=${HEADROOM_SANITIZERS})
endif()
if(HEADROOM_FUZZ) # clang alone; tests/fuzz/run.sh
  set(fuzz_checks address,undefined,float-cast-overflow)
  add_compile_options(-fsanitize=fuzzer-no-link,${fuzz_checks} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${fuzz_checks})
endif()
