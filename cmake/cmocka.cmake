# The tests' framework, PkgConfig::CMOCKA. Each folder of tests includes it: an imported target belongs to one folder.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()
if(NOT CMOCKA_FOUND)
  message(FATAL_ERROR "the tests need pkg-config and cmocka (Debian: pkg-config libcmocka-dev; script/test installs them): "
                      "install them, or leave the tests out by -DMUSTER_BUILD_TESTS=OFF")
endif()
