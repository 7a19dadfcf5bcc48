# SPDX-License-Identifier: Apache-2.0
# `cpack` makes a Debian package of what `cmake --install` installs and of lists of what it is made of. dpkg-shlibdeps
# names the libraries that it needs. A portable command is released as a file.
if(HEADROOM_PORTABLE)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headroom)
set(CPACK_PACKAGE_CONTACT "The Headroom authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "how fast a transformer's shape runs on a device, and why")
set(CPACK_PACKAGE_DESCRIPTION "The command predicts, measures and advises; libheadroom-advice does so from C, and
libheadroom runs attention and other kernels. The package has the headers, headroom.pc, headroom-advice.pc and a CMake
package, too.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gnuplot-nox, libdnnl3 | libdnnl2") # found at run time
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}) # both libraries are of the same package
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_contents.cmake)
set(CPACK_HEADROOM_SOURCE_DIR ${PROJECT_SOURCE_DIR}) # for that script
include(CPack)
