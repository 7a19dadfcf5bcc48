# `cmake --install`: the command with its page and completions; the library with its headers, headroom.pc and the CMake
# package. Everything is found relative to where it lies, so that the prefix may be moved. A portable build installs
# the command alone: its library would drag the static libraries along.
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

# What the page and the completions are called when installed is what their shells look for.
function(install_if_there file destination name)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${file})
    install(FILES ${file} DESTINATION ${destination} RENAME ${name})
  endif()
endfunction()
install_if_there(docs/man/headroom.1 ${CMAKE_INSTALL_MANDIR}/man1 headroom.1)
install_if_there(completions/headroom.bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions headroom)
install_if_there(completions/headroom.zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _headroom)
install_if_there(completions/headroom.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d headroom.fish)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
