# SPDX-License-Identifier: Apache-2.0
# What is given to systems that lack the small libraries, made of the same objects: a portable command, and a
# libheadroom-advice that has them in itself, for the Python package. `wheel_parts` builds all that scripts/wheel.sh packs.
headroom_find_archives(headroom_archives archive_)
set(for_tests EXCLUDE_FROM_ALL)
if(BUILD_TESTING)
  set(for_tests "")
endif()

add_library(wheel_advice SHARED ${for_tests} ${advice_objects} cmake/no_stdin.c)
set_target_properties(wheel_advice PROPERTIES OUTPUT_NAME headroom-advice SOVERSION ${soversion} LINKER_LANGUAGE C
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/wheel BUILD_WITH_INSTALL_RPATH ON
                      INSTALL_RPATH "$ORIGIN")
target_link_libraries(wheel_advice PRIVATE headroom headroom_base headroom_archives)
target_link_options(wheel_advice PRIVATE -Wl,--wrap=stdin -Wl,--exclude-libs,ALL -Wl,-z,defs)
headroom_harden(wheel_advice)

if(TARGET headroom_command)
  add_executable(portable_command ${for_tests} $<TARGET_OBJECTS:headroom_objects> $<TARGET_OBJECTS:headroom_command>)
  set_target_properties(portable_command PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(portable_command PRIVATE headroom_archives)
  headroom_harden(portable_command)
endif()
add_custom_target(wheel_parts DEPENDS headroom wheel_advice portable_command)
