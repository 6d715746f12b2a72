# The library's kernel sources and contract.cu, compiled as C++ for the host through the shim: for the simulated GPUs and for the discrete
# test device. The sources see each other by file name alone, as under NVRTC; muster/*.h by the folder that holds muster/. Who links the
# objects provides mst_shim_address (shim/mst_shim.h).
get_property(MUSTER_SIMULATED_INCLUDE GLOBAL PROPERTY muster_text_folders)
list(FILTER MUSTER_SIMULATED_INCLUDE EXCLUDE REGEX "/lib/device/code/nvrtc$")
list(REMOVE_DUPLICATES MUSTER_SIMULATED_INCLUDE)
list(PREPEND MUSTER_SIMULATED_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/shim ${CMAKE_CURRENT_LIST_DIR})
list(APPEND MUSTER_SIMULATED_INCLUDE ${PROJECT_SOURCE_DIR}/include)
get_property(kernels GLOBAL PROPERTY muster_kernel_texts)
get_property(others GLOBAL PROPERTY muster_other_texts)
list(APPEND kernels ${CMAKE_CURRENT_LIST_DIR}/contract.cu)
set(main ${PROJECT_BINARY_DIR}/muster_simulated_kernels.cc)
set(includes "")
foreach(kernel IN LISTS kernels)
  string(APPEND includes "#include \"${kernel}\"\n")
endforeach()
file(GENERATE OUTPUT ${main} CONTENT "${includes}")
set(shim ${CMAKE_CURRENT_LIST_DIR}/shim)
add_library(muster_simulated_kernels OBJECT ${main} ${shim}/mst_shim.cc)
set_source_files_properties(${main} PROPERTIES OBJECT_DEPENDS
  "${kernels};${others};${shim}/mst_shim.hh;${shim}/mst_shim.h;${CMAKE_CURRENT_LIST_DIR}/contract_parameters.h")
target_compile_definitions(muster_simulated_kernels PRIVATE MST_SIMULATED)
# With little optimisation: more takes longer to compile than the tests gain, and minutes under a sanitizer.
target_compile_options(muster_simulated_kernels PRIVATE -fno-exceptions -fno-rtti -O1)
target_include_directories(muster_simulated_kernels PRIVATE ${MUSTER_SIMULATED_INCLUDE})
# Kernels have plain names, and a program may hold them twice: in itself, and in the simulated machine's library.
set_target_properties(muster_simulated_kernels PROPERTIES CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
