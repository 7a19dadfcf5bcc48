# The libraries Headroom stands on. `headroom_libraries` is what the library links, `popt_library` what the command does.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(popt REQUIRED IMPORTED_TARGET popt)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.4)
find_package(dnnl REQUIRED CONFIG) # oneDNN; 2 on Debian 12, 3 on newer systems

add_library(headroom_libraries INTERFACE)
target_link_libraries(headroom_libraries INTERFACE PkgConfig::jansson PkgConfig::hwloc DNNL::dnnl Threads::Threads m)
set(popt_library PkgConfig::popt)
