# SPDX-License-Identifier: Apache-2.0
# Toolchain: this machine's compiler against Debian 11's C library and archives, which scripts/sysroot.sh fetches, so that
# the portable command runs on systems that old.
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-debian11 ABSOLUTE)
set(CMAKE_C_FLAGS_INIT -B${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu/) # or a native gcc finds its own C library first
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu/pkgconfig)
