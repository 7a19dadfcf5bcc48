# SPDX-License-Identifier: Apache-2.0
# headroom_embed(<variable> <table> <folder> <ending>): makes a C file with every file of <folder> with that ending as a
# table of hr_catalog_entry named hr_embedded_<table>, and puts the C file's path into <variable>.
function(headroom_embed variable table folder ending)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.${ending})
  set(output ${PROJECT_BINARY_DIR}/generated/${table}.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D output=${output} -D table=${table} -D folder=${folder} -D ending=${ending}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
