# The tests of a module are one program, which is linked once. A link tests/<module>_<test> for each of them runs it alone, as does a target of the
# same name for the build.

# muster_test_program(program module file...): the program, of files tests/<module>/test_<what>.c, each of which has a main of its own.
function(muster_test_program program module)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${program}.h)
  set(prototypes "")
  set(calls "")
  add_executable(${program} ${ARGN})
  muster_test_links(${program} ${module})
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    set(test ${module}_${name})
    file(STRINGS ${file} main REGEX "^int main\\(")
    if(main MATCHES "^int main\\(void\\)")
      string(APPEND prototypes "int ${test}_main(void);\n")
      string(APPEND calls "    if (strcmp(name, \"${test}\") == 0) return ${test}_main();\n")
    elseif(main MATCHES "^int main\\(int [a-z]+, char \\*\\*[a-z]+\\)")
      string(APPEND prototypes "int ${test}_main(int, char **);\n")
      string(APPEND calls "    if (strcmp(name, \"${test}\") == 0) return ${test}_main(count, arguments);\n")
    else()
      message(FATAL_ERROR "${file}: expected a line \"int main(void)\" or \"int main(int count, char **arguments)\"")
    endif()
    set_source_files_properties(${file} PROPERTIES COMPILE_DEFINITIONS main=${test}_main COMPILE_OPTIONS "-include;${header}")
    file(REMOVE ${CMAKE_CURRENT_BINARY_DIR}/${test}) # a program of that name, from an older build
    file(CREATE_LINK ${program} ${CMAKE_CURRENT_BINARY_DIR}/${test} SYMBOLIC)
    add_custom_target(${test})
    add_dependencies(${test} ${program})
  endforeach()
  file(GENERATE OUTPUT ${header} CONTENT "${prototypes}")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${program}.c CONTENT "#include \"${program}.h\"
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
    (void)count;
    const char *slash = strrchr(arguments[0], '/'), *name = slash ? slash + 1 : arguments[0];
${calls}    fprintf(stderr, \"%s: call it by a link with the name of a test, such as ${test}\\n\", name);
    return 2;
}
")
  target_sources(${program} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${program}.c)
  target_include_directories(${program} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# What a program of tests of `module` is linked with.
function(muster_test_links program module)
  muster_link_modules(${program} ${module})
  muster_link_support(${program} ${module})
  target_link_libraries(${program} PRIVATE PkgConfig::CMOCKA)
endfunction()
