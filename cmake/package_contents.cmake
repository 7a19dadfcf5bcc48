# SPDX-License-Identifier: Apache-2.0
# Run by cpack when the files of the package are in place: adds Debian's file `copyright` and the SPDX document.
set(documents ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/headroom)
set(command ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}/bin/headroom)
set(packages ${CPACK_TOPLEVEL_DIRECTORY}/packages)

function(headroom_write_contents file form)
  execute_process(COMMAND ${CPACK_HEADROOM_SOURCE_DIR}/scripts/release_contents.py ${form}
                          --version ${CPACK_PACKAGE_VERSION} --packages ${packages} ${ARGN}
                  OUTPUT_FILE ${documents}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND dpkg-query -W -f "\${Package}\\t\${source:Package}\\t\${source:Version}\\n"
                OUTPUT_FILE ${packages} COMMAND_ERROR_IS_FATAL ANY)
headroom_write_contents(copyright copyright)
headroom_write_contents(headroom.spdx.json spdx --command ${command} --dynamic)
