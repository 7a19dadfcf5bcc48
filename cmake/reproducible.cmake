# SPDX-License-Identifier: Apache-2.0
# Builds for users in two folders are equal byte for byte, also with debug information: scripts/release.sh compares them.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
add_compile_options("$<${for_users}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>"
                    "$<${for_users}:-ffile-prefix-map=${PROJECT_BINARY_DIR}=build>")
