# SPDX-License-Identifier: Apache-2.0
# The commit that results are stored with, so that measurements of two commits of one version can be told apart. A debug
# build has none: each commit would link all tests again.
set(HEADROOM_COMMIT "auto" CACHE STRING "commit to store with results: auto (of a git checkout), a text, or empty")
set(commit "${HEADROOM_COMMIT}")
if(commit STREQUAL "auto")
  set(commit "")
  find_package(Git QUIET)
  if(GIT_FOUND AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND EXISTS "${PROJECT_SOURCE_DIR}/.git")
    execute_process(COMMAND "${GIT_EXECUTABLE}" rev-parse --short=10 HEAD WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND "${GIT_EXECUTABLE}" rev-parse --path-format=absolute --git-path logs/HEAD
                    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE
                    ERROR_QUIET)
    if(EXISTS "${log}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
    endif()
  endif()
endif()
if(NOT commit MATCHES "^[0-9A-Za-z._-]*$")
  message(FATAL_ERROR "HEADROOM_COMMIT: expected letters, digits, '.', '_' and '-', found \"${commit}\"")
endif()
set_source_files_properties(src/base/version.c PROPERTIES COMPILE_DEFINITIONS "HR_COMMIT=\"${commit}\"")
