# SPDX-License-Identifier: Apache-2.0
# The two libraries, from the objects of one: cmake/modules.txt says which modules are in which.
file(STRINGS cmake/modules.txt module_rows REGEX "^[a-z]")
foreach(row ${module_rows})
  string(REGEX MATCH "^([a-z/]+) +([a-z]+)$" row "${row}")
  list(APPEND modules_of_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/modules.txt cmake/private_symbols.txt)

# headroom_regex(<variable> <module>…): what the path of an object of these modules contains.
function(headroom_regex variable)
  list(JOIN ARGN "|" modules)
  set(${variable} "headroom_objects[.]dir/([.]/)?src/(${modules})/" PARENT_SCOPE)
endfunction()
headroom_regex(of_both ${modules_of_both})
headroom_regex(of_kernels ${modules_of_both} ${modules_of_kernels})
headroom_regex(of_advice ${modules_of_advice}) # first, as it has the longer rows
set(cuda_text "generated/cuda_")

set(all $<TARGET_OBJECTS:headroom_objects>)
set(kernel_objects "$<FILTER:$<FILTER:${all},INCLUDE,${of_kernels}|${cuda_text}>,EXCLUDE,${of_advice}>")
set(advice_objects "$<FILTER:${all},INCLUDE,${of_advice}|/generated/>")
set(advice_objects "$<FILTER:${advice_objects},EXCLUDE,${cuda_text}>")

add_library(headroom SHARED ${kernel_objects})
target_link_libraries(headroom PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)

# The copies: only what is used of them, and none is exported.
add_library(headroom_base STATIC "$<FILTER:${all},INCLUDE,${of_both}>")
add_library(headroom_advice SHARED ${advice_objects})
set_target_properties(headroom_advice PROPERTIES OUTPUT_NAME headroom-advice)
target_link_libraries(headroom_advice PUBLIC headroom PRIVATE headroom_base headroom_libraries)
target_link_options(headroom_advice PRIVATE -Wl,--exclude-libs,libheadroom_base.a)
set_target_properties(headroom headroom_base headroom_advice PROPERTIES LINKER_LANGUAGE C)

# Functions of libheadroom that are libheadroom-advice's alone (HR_PRIVATE) have a version that changes with each release.
file(STRINGS cmake/private_symbols.txt private_symbols REGEX "^[a-z]")
list(JOIN private_symbols "; " private_symbols)
set(private_version ${PROJECT_BINARY_DIR}/generated/private_symbols.map)
file(CONFIGURE OUTPUT ${private_version} CONTENT "HEADROOM_PRIVATE_@PROJECT_VERSION@ { global: @private_symbols@; };\n" @ONLY)
target_link_options(headroom PRIVATE -Wl,--version-script=${private_version})
set_target_properties(headroom PROPERTIES LINK_DEPENDS ${private_version})

foreach(library headroom headroom_advice)
  if(NOT HEADROOM_SANITIZE AND NOT HEADROOM_FUZZ) # clang leaves the sanitizers' functions to the program
    target_link_options(${library} PRIVATE -Wl,-z,defs)
  endif()
  headroom_harden(${library})
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
