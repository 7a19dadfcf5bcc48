# SPDX-License-Identifier: Apache-2.0
# The libraries Headroom stands on: `headroom_libraries` is what the library links, `headroom_archives` what makes a
# portable command of it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_path(libcsv_include csv.h REQUIRED)
pkg_check_modules(xxhash REQUIRED libxxhash>=0.8) # its header alone: XXH_INLINE_ALL

# Makes the interface target `target` of the libraries that are found; `prefix` begins the names of what is found.
function(headroom_find_libraries target prefix)
  add_library(${target} INTERFACE)
  foreach(module "jansson>=2.13" "sqlite3>=3.26" "libutf8proc>=2.3")
    string(REGEX MATCH "[a-z0-9]+" name ${module})
    pkg_check_modules(${prefix}${name} REQUIRED IMPORTED_TARGET ${module})
    target_link_libraries(${target} INTERFACE PkgConfig::${prefix}${name})
  endforeach()
  find_library(${prefix}csv NAMES csv REQUIRED) # it has no pkg-config file
  target_link_libraries(${target} INTERFACE ${${prefix}csv} Threads::Threads ${CMAKE_DL_LIBS} m)
  target_include_directories(${target} SYSTEM INTERFACE ${libcsv_include} ${xxhash_INCLUDE_DIRS})
  target_compile_definitions(${target} INTERFACE XXH_INLINE_ALL)
endfunction()

# The C library itself stays dynamic, and so does what has no archive, which tests/install/test_portable.sh then reports.
function(headroom_find_archives target prefix)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  headroom_find_libraries(${target} "${prefix}")
endfunction()

if(HEADROOM_PORTABLE)
  headroom_find_archives(headroom_libraries "")
else()
  headroom_find_libraries(headroom_libraries "")
endif()
