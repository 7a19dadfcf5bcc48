# SPDX-License-Identifier: Apache-2.0
# headroom_embed(<variable> <table> <folder> <ending> [<module> <type>]): makes a C file with every file of <folder> with
# that ending as a table named hr_embedded_<table>, and puts the C file's path into <variable>. Its rows are of <type>,
# which <module>/embedded.h has: hr_catalog_entry of the catalog unless they are given.
function(headroom_embed variable table folder ending)
  set(row catalog hr_catalog_entry)
  if(ARGC GREATER 4)
    set(row ${ARGN})
  endif()
  list(GET row 0 module)
  list(GET row 1 type)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.${ending})
  string(MD5 names "${files}") # changes the command when a file is removed or renamed, which makes no dependency newer
  set(output ${PROJECT_BINARY_DIR}/generated/${table}.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D output=${output} -D table=${table} -D folder=${folder} -D ending=${ending}
            -D names=${names}
            -D module=${module} -D type=${type}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
