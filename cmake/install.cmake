# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the command with its manual page, completions and documents; the library with its headers,
# headroom.pc and the CMake package. All paths are relative, so that the prefix may be moved. A portable build installs
# no library, because that would need the static libraries that it was linked with.
include(CMakePackageConfigHelpers)

# Before 1.0 a minor version may break the interface, and says so in the library's name.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(headroom PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion})

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

install(TARGETS headroom EXPORT headroom-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/headroom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)
install(EXPORT headroom-targets NAMESPACE headroom:: DESTINATION ${package_folder})
file(WRITE ${PROJECT_BINARY_DIR}/headroom-config.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/headroom-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headroom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headroom-config.cmake ${PROJECT_BINARY_DIR}/headroom-config-version.cmake
        DESTINATION ${package_folder})

file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/headroom.pc.in ${PROJECT_BINARY_DIR}/headroom.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/headroom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
