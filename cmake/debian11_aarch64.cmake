# SPDX-License-Identifier: Apache-2.0
# Toolchain: cross build for aarch64 against Debian 11's C library and archives, for the Python package.
set(arm64_sysroot sysroot-debian11-aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/aarch64.cmake)
set(headers ${CMAKE_SYSROOT}/usr/include) # or the compiler finds those of its own C library first
string(APPEND CMAKE_C_FLAGS_INIT " -isystem ${headers}/${CMAKE_LIBRARY_ARCHITECTURE} -isystem ${headers}")
