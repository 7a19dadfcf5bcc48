# SPDX-License-Identifier: Apache-2.0
# The libraries Headroom stands on: `headroom_libraries` is what the library links.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

if(HEADROOM_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a) # the archives of what follows; the C library itself stays dynamic
endif()
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.4)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3>=3.26)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc>=2.3)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8)
find_library(libcsv csv REQUIRED) # it has no pkg-config file
find_path(libcsv_include csv.h REQUIRED)

add_library(headroom_libraries INTERFACE)
target_link_libraries(headroom_libraries INTERFACE PkgConfig::jansson PkgConfig::hwloc PkgConfig::sqlite3
                      PkgConfig::utf8proc PkgConfig::xxhash ${libcsv} Threads::Threads ${CMAKE_DL_LIBS} m)
target_include_directories(headroom_libraries SYSTEM INTERFACE ${libcsv_include})

if(HEADROOM_PORTABLE)
  add_library(headroom_no_udev STATIC ${PROJECT_SOURCE_DIR}/cmake/no_udev.c)
  target_link_libraries(headroom_libraries INTERFACE headroom_no_udev)
endif()
