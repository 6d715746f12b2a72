# NVTX, by which profilers learn of ranges: one header with all in it, of the CUDA toolkit. The library is complete without it
# (-DMUSTER_NVTX_INCLUDE_DIR= builds it so where the header is there).
find_path(MUSTER_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h PATHS /usr/local/cuda/include /usr/include DOC "Folder of nvtx3/nvToolsExt.h")
if(NOT MUSTER_NVTX_INCLUDE_DIR)
  message(STATUS "NVTX: nvtx3/nvToolsExt.h was not found (it comes with the CUDA toolkit): profilers will see no ranges")
endif()

# Gives the header to one file of `target`, and to no other.
function(muster_nvtx_source target file)
  if(MUSTER_NVTX_INCLUDE_DIR)
    set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES
      COMPILE_DEFINITIONS MST_NVTX_FOUND COMPILE_OPTIONS "-isystem;${MUSTER_NVTX_INCLUDE_DIR};-Wno-frame-larger-than")
  endif()
endfunction()
