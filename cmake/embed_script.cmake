# SPDX-License-Identifier: Apache-2.0
# Run at build time by headroom_embed(): writes the files as string literals, which compilers read some thirty times as
# fast as lists of bytes. gcc and clang limit no length.
file(GLOB files ${folder}/*.${ending})
list(SORT files)
set(arrays "")
set(rows "")
set(count 0)
foreach(path ${files})
  get_filename_component(name ${path} NAME_WLE)
  file(READ ${path} text)
  file(SIZE ${path} length)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "?" "\\?" text "${text}") # no trigraphs
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  string(APPEND arrays "static const char text_${count}[] =\n\"${text}\";\n")
  string(APPEND arrays "_Static_assert(sizeof text_${count} == ${length} + 1, \"${name}.${ending} is embedded whole\");\n\n")
  string(APPEND rows "  {\"${name}\", text_${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${output} "/* The files *.${ending} of a folder, made by cmake/embed_script.cmake. */
#include \"${module}/embedded.h\"

${arrays}const ${type} hr_embedded_${table}[] = {
${rows}  {0, 0, 0},
};
const size_t hr_embedded_${table}_count = ${count};
")
