# `cpack --config build/CPackConfig.cmake -B build`: a Debian package of what `cmake --install` puts under /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_CONTACT "The Muster developers <muster@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "A library for C, C++ and Python: a function is called once, and all CPUs and GPUs of the machine answer it,
each for its rows; under MPI those of several machines. Shims for the MPIs beside which it was built are inside; muster-mpi-shim compiles
one for another MPI, and muster-info says what is found on a machine.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
# Opened at run time, where they are; a shim links its MPI, which the package must not ask for: most machines have one of them, or none.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenblas0-pthread, libdnnl2 | libdnnl3 | libdnnl3.6, libhwloc15")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin | mpich, libopenmpi-dev | libmpich-dev, pocl-opencl-icd")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_depends.cmake)
set(CPACK_MUSTER_LIBRARY ${PROJECT_BINARY_DIR}/libmuster.so)
set(CPACK_SOURCE_GENERATOR "")
include(CPack)
