# SPDX-License-Identifier: Apache-2.0
# The parts of HTML reports that never change, embedded as the table hr_embedded_page: style, Chart.js, the page's own
# script, and the content security policy that allows these three by their hashes and nothing else.
set(page_folder ${PROJECT_BINARY_DIR}/generated/page)
find_file(HEADROOM_CHART_JS chart.min.js
          PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist REQUIRED NO_CMAKE_FIND_ROOT_PATH
          DOC "Chart.js 3, of Debian's package libjs-chart.js")

function(headroom_page_part variable name path)
  configure_file(${path} ${page_folder}/${name}.part COPYONLY)
  file(READ ${path} text)
  if(text MATCHES "</(script|style)")
    message(FATAL_ERROR "${path}: ends the element that it is embedded in")
  endif()
  file(SHA256 ${path} hash)
  string(TOUPPER ${hash} hash)
  execute_process(COMMAND printf %s ${hash} COMMAND basenc --base16 -d COMMAND basenc --base64 -w0
                  OUTPUT_VARIABLE encoded COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "'sha256-${encoded}'" PARENT_SCOPE)
endfunction()

headroom_page_part(style style ${PROJECT_SOURCE_DIR}/src/report/page.css)
headroom_page_part(chart chart ${HEADROOM_CHART_JS})
headroom_page_part(page page ${PROJECT_SOURCE_DIR}/src/report/page.js)
file(CONFIGURE OUTPUT ${page_folder}/policy.part @ONLY CONTENT
     "default-src 'none'; script-src @chart@ @page@; style-src @style@; base-uri 'none'; form-action 'none'")
headroom_embed(page_c page ${page_folder} part)
