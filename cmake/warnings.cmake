# SPDX-License-Identifier: Apache-2.0
# The flags of every target of the project.
add_library(headroom_warnings INTERFACE)
target_compile_options(headroom_warnings INTERFACE -Wall -Wextra -Wshadow -Wvla
  $<$<COMPILE_LANGUAGE:C>:-Wconversion -Wstrict-prototypes -Wmissing-prototypes>)
if(HEADROOM_WERROR)
  target_compile_options(headroom_warnings INTERFACE -Werror)
endif()
if(HEADROOM_SANITIZE)
  add_compile_options(-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(HEADROOM_FUZZ) # clang alone; tests/fuzz/run.sh
  set(fuzz_checks address,undefined,float-cast-overflow)
  add_compile_options(-fsanitize=fuzzer-no-link,${fuzz_checks} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${fuzz_checks})
endif()
