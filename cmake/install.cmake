# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the command with its manual page, completions and documents; the libraries with their headers,
# headroom.pc, headroom-advice.pc and the CMake package, whose components are `kernels` and `advice`. All paths are
# relative, so that the prefix may be moved. A portable build installs no library, because that would need the static
# libraries that it was linked with.
include(CMakePackageConfigHelpers)

# Before 1.0 a minor version may break the interface, and says so in the library's name.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
if(TARGET headroom_command)
  file(RELATIVE_PATH libraries_from_command ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(headroom_command PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_command}")
  install(TARGETS headroom_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Under the names that man and the shells look for.
set(generated ${PROJECT_BINARY_DIR}/generated)
install(FILES ${generated}/headroom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${generated}/headroom.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME headroom)
install(FILES ${generated}/headroom.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _headroom)
install(FILES ${generated}/headroom.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY licenses DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)

if(HEADROOM_PORTABLE)
  return()
endif()

install(DIRECTORY include/headroom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")

# headroom_install_library(<target> <component> <description> [<pc file that it requires>])
function(headroom_install_library target component description)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion} EXPORT_NAME ${component}
                        INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${target} EXPORT headroom-${component} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT headroom-${component} NAMESPACE headroom:: DESTINATION ${package_folder})
  string(REPLACE "_" "-" name ${target})
  set(requires "${ARGN}")
  configure_file(cmake/library.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

headroom_install_library(headroom kernels "Attention, decode, GEMM and row-wise kernels for CPUs and NVIDIA GPUs")
headroom_install_library(headroom_advice advice
  "How fast a transformer's shape runs on a device, why, and which nearby shape is faster"
  "headroom = ${PROJECT_VERSION}")

configure_file(cmake/config.cmake.in ${PROJECT_BINARY_DIR}/headroom-config.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headroom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headroom-config.cmake ${PROJECT_BINARY_DIR}/headroom-config-version.cmake
        DESTINATION ${package_folder})
