# The rules of every test: how long it may take, how it skips itself, and whether this build leaves it out.
#
#   tests/times.txt      the seconds that each suite takes on two quiet cores
#   tests/left_out.txt   the suites that builds with a sanitizer, or all builds, leave out, and why
set(MUSTER_TEST_LISTS ${PROJECT_SOURCE_DIR}/tests)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MUSTER_TEST_LISTS}/left_out.txt ${MUSTER_TEST_LISTS}/times.txt)

set(MUSTER_TEST_FULL OFF)
if("$ENV{MUSTER_TEST_FULL}")
  set(MUSTER_TEST_FULL ON)
endif()

# The suites that this build leaves out but with MUSTER_TEST_FULL=1, as one regular expression.
set(MUSTER_LEFT_OUT "^$")
if(NOT MUSTER_TEST_FULL)
  set(kinds "long")
  if(MUSTER_SANITIZE)
    set(kinds "(long|full)")
  endif()
  file(STRINGS ${MUSTER_TEST_LISTS}/left_out.txt lines REGEX "^${kinds} ")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[a-z]+ +([^ ]+) .*$" "\\1" pattern "${line}")
    string(REPLACE "." "[.]" pattern "${pattern}")
    string(REPLACE "*" ".*" pattern "${pattern}")
    string(APPEND MUSTER_LEFT_OUT "|^${pattern}$")
  endforeach()
endif()

# A suite may take 30 times its written time, and 10 minutes at least: a machine with a load of 20 makes it slow, and slow is not wrong.
# Suites that take long begin first, so that none of them runs alone at the end.
function(muster_test_timeout variable longest_variable name)
  set(timeout 600)
  set(longest 0)
  string(REPLACE "." "[.]" pattern "${name}")
  file(STRINGS ${MUSTER_TEST_LISTS}/times.txt line REGEX "^${pattern} ")
  string(REGEX MATCHALL " [0-9]+" times "${line}")
  foreach(seconds IN LISTS times)
    math(EXPR scaled "30 * ${seconds}")
    if(seconds GREATER longest)
      math(EXPR longest "${seconds}")
    endif()
    if(scaled GREATER timeout)
      set(timeout ${scaled})
    endif()
  endforeach()
  if(MUSTER_TEST_FULL AND timeout LESS 3600)
    set(timeout 3600)
  endif()
  set(${variable} ${timeout} PARENT_SCOPE)
  set(${longest_variable} ${longest} PARENT_SCOPE)
endfunction()

function(muster_test_rules name)
  muster_test_timeout(timeout longest ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} COST ${longest} SKIP_RETURN_CODE 77)
  if(name MATCHES "${MUSTER_LEFT_OUT}")
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
  endif()
endfunction()
