# Texts of device code as arrays of a module's library: mst_<module>_code, see lib/device/code_impl.h.
#
#   muster_module_texts(file... [AT_OPEN name.cu...] [OF_SEVERAL name.cu...])
#                                           in the module's CMakeLists.txt; a text is known by its file's name, or by NAME where it is written NAME=FILE.
#                                           AT_OPEN, OF_SEVERAL: the kernel sources that devices compile when they open (mst_code_time in code_impl.h);
#                                           they compile the others at their first use
#
# As a script (at build time): cmake -DMODULE=.. -DOUTPUT=.. -DTEXTS=name=file,... -DAT_OPEN=name,... -DOF_SEVERAL=name,... -P embed.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_policy(SET CMP0057 NEW) # IN_LIST
  string(REPLACE "," ";" texts "${TEXTS}")
  string(REPLACE "," ";" AT_OPEN "${AT_OPEN}")
  string(REPLACE "," ";" OF_SEVERAL "${OF_SEVERAL}")
  set(arrays "")
  set(headers "")
  set(families "")
  set(count 0)
  foreach(pair IN LISTS texts)
    string(REGEX MATCH "^([^=]*)=(.*)$" pair "${pair}")
    set(name ${CMAKE_MATCH_1})
    set(file ${CMAKE_MATCH_2})
    # As bytes: C11 promises string literals of 4095 characters only.
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    if(bytes MATCHES "0x[89a-f]")
      message(FATAL_ERROR "${file}: device code is plain ASCII")
    endif()
    string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
    string(APPEND arrays "/* ${name} */\nstatic const char text_${count}[] = {\n${bytes}0};\n")
    if(name MATCHES "\\.cu$")
      file(STRINGS ${file} hidden REGEX ".MST_KERNEL\\(")
      if(hidden)
        message(FATAL_ERROR "${file}: expected MST_KERNEL at the beginning of a line, where it is found, received: ${hidden}")
      endif()
      file(STRINGS ${file} lines REGEX "^MST_KERNEL\\(")
      set(kernels "")
      foreach(line IN LISTS lines)
        string(REGEX MATCH "^MST_KERNEL\\(([a-z0-9_]+)," line "${line}")
        string(APPEND kernels "\"${CMAKE_MATCH_1}\", ")
      endforeach()
      set(time MST_CODE_AT_FIRST_USE)
      if(name IN_LIST AT_OPEN)
        set(time MST_CODE_AT_OPEN)
      elseif(name IN_LIST OF_SEVERAL)
        set(time MST_CODE_OF_SEVERAL)
      endif()
      list(REMOVE_ITEM AT_OPEN ${name})
      list(REMOVE_ITEM OF_SEVERAL ${name})
      list(LENGTH lines kernel_count)
      string(APPEND arrays "static const char *const kernels_${count}[] = {${kernels}NULL};\n")
      string(APPEND families "    {{\"${name}\", text_${count}}, kernels_${count}, ${kernel_count}, ${time}},\n")
    else()
      string(APPEND headers "    {\"${name}\", text_${count}},\n")
    endif()
    math(EXPR count "${count} + 1")
  endforeach()
  if(AT_OPEN OR OF_SEVERAL)
    message(FATAL_ERROR "muster_module_texts: expected kernel sources of ${MODULE} behind AT_OPEN and OF_SEVERAL, received ${AT_OPEN} ${OF_SEVERAL}")
  endif()
  file(WRITE ${OUTPUT}.new "/* Made by cmake/embed.cmake. */
#include \"code_impl.h\"

${arrays}
static const mst_code_source headers[] = {\n${headers}    {NULL, NULL}};
static const mst_code_family families[] = {\n${families}    {{NULL, NULL}, NULL, 0, 0}};
const mst_code_sources mst_${MODULE}_code = {
    \"${MODULE}\", headers, sizeof headers / sizeof *headers - 1, families, sizeof families / sizeof *families - 1};
")
  file(RENAME ${OUTPUT}.new ${OUTPUT})
  return()
endif()

set(MUSTER_EMBED ${CMAKE_CURRENT_LIST_FILE})

function(muster_module_texts)
  cmake_parse_arguments(PARSE_ARGV 0 TEXTS "" "" "AT_OPEN;OF_SEVERAL")
  string(REPLACE ";" "," at_open "${TEXTS_AT_OPEN}")
  string(REPLACE ";" "," of_several "${TEXTS_OF_SEVERAL}")
  set(pairs "")
  set(files "")
  foreach(text IN LISTS TEXTS_UNPARSED_ARGUMENTS)
    if(NOT text MATCHES "=")
      get_filename_component(name ${text} NAME)
      set(text ${name}=${text})
    endif()
    string(REGEX MATCH "^([^=]*)=(.*)$" text "${text}")
    get_filename_component(file ${CMAKE_MATCH_2} ABSOLUTE)
    list(APPEND pairs ${CMAKE_MATCH_1}=${file})
    list(APPEND files ${file})
    get_filename_component(folder ${file} DIRECTORY)
    set_property(GLOBAL APPEND PROPERTY muster_text_folders ${folder})
    if(file MATCHES "\\.cu$")
      set_property(GLOBAL APPEND PROPERTY muster_kernel_texts ${file})
    else()
      set_property(GLOBAL APPEND PROPERTY muster_other_texts ${file})
    endif()
  endforeach()
  string(REPLACE ";" "," pairs "${pairs}")
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${MUSTER_MODULE}_code.c)
  add_custom_command(OUTPUT ${output} COMMAND ${CMAKE_COMMAND} -DMODULE=${MUSTER_MODULE} -DOUTPUT=${output} -DTEXTS=${pairs} -DAT_OPEN=${at_open}
    -DOF_SEVERAL=${of_several} -P ${MUSTER_EMBED}
    DEPENDS ${files} ${MUSTER_EMBED} VERBATIM COMMENT "Embedding the device code of ${MUSTER_MODULE}")
  # The module's target belongs to another folder, where CMake knows nothing of this command.
  add_custom_target(muster_texts_${MUSTER_MODULE} DEPENDS ${output})
  add_dependencies(muster_module_${MUSTER_MODULE} muster_texts_${MUSTER_MODULE})
  set_source_files_properties(${output} TARGET_DIRECTORY muster_module_${MUSTER_MODULE} PROPERTIES GENERATED TRUE)
  muster_module_sources(${output})
endfunction()
