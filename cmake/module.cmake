# A module is one CMake object library. Its include path holds its own folder, the exported internal headers of the modules to its left, and the
# public headers that belong to it and to them. Any other include does not compile.

# muster_modules(name folder "public headers" ...), leftmost first. Each folder's CMakeLists.txt calls muster_module_sources and muster_module_headers.
#
# What a module shows to others is a folder of links, build/modules/<module>: muster/<noun>.h for its public headers, <file>_impl.h for its exported ones.
# The module's own folder, in which the private headers lie, is on no other module's include path.
function(muster_modules)
  set(exports "")
  set(folders "")
  set(names "")
  set(arguments ${ARGV})
  math(EXPR last "${ARGC} - 1")
  # Programs call the library from threads with stacks of 64 KiB (tests/api/test_small_stack.c). A frame has room for two paths and a message.
  # Sanitizers make frames larger, and a parent project may use any compiler options.
  set(frames "")
  if(PROJECT_IS_TOP_LEVEL AND NOT MUSTER_SANITIZE)
    set(frames $<IF:$<C_COMPILER_ID:GNU>,-Werror=frame-larger-than=9216,-Wframe-larger-than=9216;-Werror=frame-larger-than>)
  endif()
  foreach(i RANGE 0 ${last} 3)
    math(EXPR j "${i} + 1")
    math(EXPR k "${i} + 2")
    set(module ${ARGV${i}})
    set(folder ${PROJECT_SOURCE_DIR}/${ARGV${j}})
    set(export ${PROJECT_BINARY_DIR}/modules/${module})
    file(REMOVE_RECURSE ${export}) # a header that is exported no more must not be found
    file(MAKE_DIRECTORY ${export}/muster)
    foreach(noun IN LISTS ARGV${k})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/muster/${noun}.h ${export}/muster/${noun}.h SYMBOLIC)
    endforeach()
    list(APPEND exports ${export})
    list(APPEND folders ${folder})
    list(APPEND names ${module})
    add_library(muster_module_${module} OBJECT)
    target_compile_options(muster_module_${module} PRIVATE ${frames})
    target_include_directories(muster_module_${module} PRIVATE ${folder} ${exports})
    set_property(GLOBAL PROPERTY muster_module_path_${module} ${folder} ${exports})
    set_property(GLOBAL PROPERTY muster_test_path_${module} ${folders} ${exports})
    set_property(GLOBAL PROPERTY muster_modules_upto_${module} ${names})
    set(MUSTER_MODULE ${module})
    set(MUSTER_MODULE_EXPORT ${export})
    set(MUSTER_MODULE_FOLDER ${folder})
    add_subdirectory(${folder})
  endforeach()
  set(MUSTER_MODULES ${names} PARENT_SCOPE)
endfunction()

function(muster_module_sources)
  target_sources(muster_module_${MUSTER_MODULE} PRIVATE ${ARGV})
endfunction()

# muster_module_headers(file_impl.h ...): the internal headers that the modules to the right may include, by the same path as inside the module. All others
# are private to the module, and are called <file>_private.h.
function(muster_module_headers)
  foreach(header IN LISTS ARGV)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "muster_module_headers: ${CMAKE_CURRENT_SOURCE_DIR} has no ${header}")
    endif()
    file(RELATIVE_PATH path ${MUSTER_MODULE_FOLDER} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    get_filename_component(subfolder ${MUSTER_MODULE_EXPORT}/${path} DIRECTORY)
    file(MAKE_DIRECTORY ${subfolder})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${header} ${MUSTER_MODULE_EXPORT}/${path} SYMBOLIC)
  endforeach()
endfunction()

# The include path of a test or a bench of `module`: what the module sees, and the private headers of the modules up to it.
function(muster_test_path variable module)
  get_property(path GLOBAL PROPERTY muster_test_path_${module})
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

# Links the modules up to and including `module` into `target`, with their internal headers: for tests and benches.
function(muster_link_modules target module)
  get_property(names GLOBAL PROPERTY muster_modules_upto_${module})
  muster_test_path(path ${module})
  foreach(name IN LISTS names)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:muster_module_${name}>)
  endforeach()
  target_include_directories(${target} PRIVATE ${path})
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()
