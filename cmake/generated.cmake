# SPDX-License-Identifier: Apache-2.0
# Made from the tables of the command (cli/commands.inc, options.inc, synonyms.inc, examples.inc): completions for three shells and the manual
# page, in the build's folder `generated`.
find_program(awk_command awk REQUIRED)

set(generator ${PROJECT_SOURCE_DIR}/cli/generate)
set(generated ${PROJECT_BINARY_DIR}/generated)
set(tables ${PROJECT_SOURCE_DIR}/cli/groups.h ${PROJECT_SOURCE_DIR}/cli/commands.inc
           ${PROJECT_SOURCE_DIR}/cli/options.inc ${PROJECT_SOURCE_DIR}/cli/synonyms.inc
           ${PROJECT_SOURCE_DIR}/cli/examples.inc ${PROJECT_SOURCE_DIR}/include/headroom/status.h)
file(MAKE_DIRECTORY ${generated})

# generate(OUTPUT SCRIPT VARIABLES… DEPENDS FILE…): VARIABLES are NAME=VALUE for awk.
function(headroom_generate output script)
  cmake_parse_arguments(given "" "" "VARIABLES;DEPENDS" ${ARGN})
  list(TRANSFORM given_VARIABLES PREPEND "-v;")
  add_custom_command(
    OUTPUT ${generated}/${output}
    COMMAND ${awk_command} ${given_VARIABLES} -f ${generator}/rows.awk -f ${generator}/${script} ${tables} >
            ${generated}/${output}
    DEPENDS ${generator}/rows.awk ${generator}/${script} ${tables} ${given_DEPENDS}
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY headroom_generated ${generated}/${output})
endfunction()

headroom_generate(headroom.bash bash.awk VARIABLES body=${generator}/completion.bash
                  DEPENDS ${generator}/completion.bash)
headroom_generate(headroom.zsh zsh.awk)
headroom_generate(headroom.fish fish.awk)
set(template ${PROJECT_SOURCE_DIR}/docs/man/headroom.1.in)
headroom_generate(headroom.1 man.awk VARIABLES template=${template} version=${PROJECT_VERSION} DEPENDS ${template})

get_property(outputs GLOBAL PROPERTY headroom_generated)
add_custom_target(headroom_generated ALL DEPENDS ${outputs})
