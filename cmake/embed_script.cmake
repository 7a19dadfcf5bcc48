# SPDX-License-Identifier: Apache-2.0
# Run at build time by headroom_embed(): writes the files as byte arrays, which have no length limit as literals do.
file(GLOB files ${folder}/*.${ending})
list(SORT files)
set(arrays "")
set(rows "")
set(count 0)
foreach(path ${files})
  get_filename_component(name ${path} NAME_WLE)
  file(READ ${path} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "static const char text_${count}[] = {${bytes}0};\n")
  string(APPEND rows "  {\"${name}\", text_${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${output} "/* The files *.${ending} of a folder, made by cmake/embed_script.cmake. */
#include \"catalog/embedded.h\"

${arrays}
const hr_catalog_entry hr_embedded_${table}[] = {
${rows}  {0, 0, 0},
};
const size_t hr_embedded_${table}_count = ${count};
")
