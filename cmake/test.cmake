# The rules of every test: how long it may take, how it skips itself, and whether this build leaves it out.
#
# Suites that compute long take turns: under a sanitizer those of 2 CPU seconds and more, in other builds those of 4 that are not in the quick set and
# are variants (their names have an @) or belong to the folders in MUSTER_TURN_NAMES. The checks of the sources, which any change may break, always run.
# A run has a fifth of the suites that take turns. The number of commits up to this one chooses the fifth, so that runs on five commits in a row run all
# of them, as one run with MUSTER_TEST_FULL=1 does; without git the day chooses it. MUSTER_TEST_TURN=0 to 4 in the environment chooses it instead, and
# MUSTER_TEST_TURN=all runs them all.
#
#   tests/times.txt      the CPU seconds that each suite takes, and the wall seconds of those that wait
#   tests/quick.txt      the suites of the quick set, which script/test runs: they have the label quick
#   tests/left_out.txt   the suites that builds with a sanitizer, or all builds, leave out, and why
#   tests/needs.txt      what suites need besides a compiler and CMake, so that those that lack it skip themselves
set(MUSTER_TEST_LISTS ${PROJECT_SOURCE_DIR}/tests)
foreach(list left_out times quick needs)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MUSTER_TEST_LISTS}/${list}.txt)
endforeach()

# The second words of a list's lines that begin with `kind`, which are patterns of suites, as one regular expression.
function(muster_list_patterns list kind result)
  set(patterns "^$")
  file(STRINGS ${MUSTER_TEST_LISTS}/${list}.txt lines REGEX "^${kind} ")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[a-z0-9_]+ +([^ ]+).*$" "\\1" pattern "${line}")
    string(REPLACE "." "[.]" pattern "${pattern}")
    string(REPLACE "*" ".*" pattern "${pattern}")
    string(APPEND patterns "|^${pattern}$")
  endforeach()
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

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
  if(MUSTER_SANITIZE MATCHES "thread")
    set(kinds "(long|full|thread)")
  endif()
  muster_list_patterns(left_out "${kinds}" MUSTER_LEFT_OUT)
endif()

set(MUSTER_TURNS 5)
set(MUSTER_TURN_SECONDS 4)
set(MUSTER_TURN_NAMES "@|^(adding|bench|collectives|cpp|device|device_code|explore|function|gpu|graph|kernel|mpi|net|nn|ops|package|samples|sim|variable)/")
if(MUSTER_SANITIZE)
  set(MUSTER_TURN_SECONDS 2)
  set(MUSTER_TURN_NAMES ".")
endif()
set(MUSTER_TURN "")
set(MUSTER_TURN_LIST ${PROJECT_BINARY_DIR}/other_turns.txt) # the suites whose turn it is not, for tests/count.py
file(WRITE ${MUSTER_TURN_LIST} "")
if(NOT MUSTER_TEST_FULL)
  set(MUSTER_TURN "$ENV{MUSTER_TEST_TURN}")
  if(MUSTER_TURN STREQUAL "")
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-list --count HEAD OUTPUT_VARIABLE commits OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                    RESULT_VARIABLE failed)
    if(failed)
      string(TIMESTAMP commits "1%j") # the day of the year, behind a digit: a number with zeros in front is octal
    endif()
    math(EXPR MUSTER_TURN "${commits} % ${MUSTER_TURNS}")
  elseif(MUSTER_TURN STREQUAL "all")
    set(MUSTER_TURN "")
  elseif(NOT MUSTER_TURN MATCHES "^[0-4]$")
    message(FATAL_ERROR "the environment's MUSTER_TEST_TURN: expected 0 to 4 or all, received \"${MUSTER_TURN}\"")
  endif()
  if(MUSTER_BUILD_TESTS AND NOT MUSTER_TURN STREQUAL "")
    message(STATUS "Suites that take long: fifth ${MUSTER_TURN} of 0 to 4 runs (MUSTER_TEST_TURN)")
  endif()
endif()

# "CPU" or "CPU/WALL" in the column of this build. A suite without a time has 0.
set(MUSTER_TIMES_COLUMN 1)
if(MUSTER_SANITIZE MATCHES "thread")
  set(MUSTER_TIMES_COLUMN 3)
elseif(MUSTER_SANITIZE)
  set(MUSTER_TIMES_COLUMN 2)
endif()
file(STRINGS ${MUSTER_TEST_LISTS}/times.txt lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  string(REGEX MATCHALL "[^ ]+" columns "${line}")
  list(GET columns 0 name)
  list(GET columns ${MUSTER_TIMES_COLUMN} time)
  if(time MATCHES "^([0-9.]+)(/([0-9]+))?$")
    set(cpu "${CMAKE_MATCH_1}")
    set(wall "${CMAKE_MATCH_3}")
    if(wall STREQUAL "")
      string(REGEX REPLACE "[.].*" "" wall "${cpu}")
    else()
      set(MUSTER_WAITS_${name} ON)
    endif()
    set(MUSTER_CPU_${name} ${cpu})
    set(MUSTER_WALL_${name} ${wall})
  endif()
endforeach()
file(STRINGS ${MUSTER_TEST_LISTS}/quick.txt MUSTER_QUICK REGEX "^[^#]")

# What stands in front of every suite, and ends it when it hangs (tests/timed.c). It is here before anything is built, so that a suite can be built and
# run alone, and no sanitizer is in it.
set(MUSTER_TIMED ${PROJECT_BINARY_DIR}/muster-timed)
if(MUSTER_BUILD_TESTS)
  set(compiler ${CMAKE_C_COMPILER})
  if(CMAKE_CROSSCOMPILING) # it runs here
    set(compiler cc)
  endif()
  foreach(source timed.c support/base_pace.h)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MUSTER_TEST_LISTS}/${source})
    if(${MUSTER_TEST_LISTS}/${source} IS_NEWER_THAN ${MUSTER_TIMED})
      execute_process(COMMAND ${compiler} -D_GNU_SOURCE -std=c11 -O2 -Wall -Wextra -I ${MUSTER_TEST_LISTS}/support ${MUSTER_TEST_LISTS}/timed.c
                        -o ${MUSTER_TIMED} -pthread RESULT_VARIABLE failed)
      if(failed)
        message(FATAL_ERROR "tests/timed.c does not compile")
      endif()
    endif()
  endforeach()
endif()

if(MUSTER_BUILD_TESTS)
  include(${PROJECT_SOURCE_DIR}/cmake/needs.cmake)
endif()

# muster_add_test(NAME name COMMAND program argument...): add_test behind tests/timed.c. It may take 10 times its time and what MUSTER_TEST_PATIENCE says,
# longer on a busy machine; ctest's own limit is for what cannot happen.
function(muster_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;WORKING_DIRECTORY" "COMMAND") # with it, arguments may have semicolons
  list(GET arg_COMMAND 0 program)
  if(TARGET ${program})
    string(REGEX REPLACE "^[^;]+" "$<TARGET_FILE:${program}>" arg_COMMAND "${arg_COMMAND}")
  endif()
  foreach(need IN LISTS MUSTER_LACKS)
    if(arg_NAME MATCHES "${MUSTER_NEEDS_${need}}" OR (need STREQUAL "python" AND program STREQUAL "MUSTER_PYTHON-NOTFOUND"))
      set(arg_COMMAND sh -c "echo '${need}: ${MUSTER_LACKS_${need}}'$<SEMICOLON> exit 77")
    endif()
  endforeach()
  # A program of another processor runs in the emulator of a cross build; scripts run as they are.
  set(emulator "")
  string(REGEX REPLACE "^([^;]+).*" "\\1" program "${arg_COMMAND}")
  if(CMAKE_CROSSCOMPILING AND program MATCHES "^(${PROJECT_BINARY_DIR}|[$]<TARGET_FILE:)")
    set(emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
  endif()
  set(folder "")
  if(arg_WORKING_DIRECTORY)
    set(folder WORKING_DIRECTORY ${arg_WORKING_DIRECTORY})
  endif()
  set(wall 0)
  if(DEFINED MUSTER_WALL_${arg_NAME})
    set(wall ${MUSTER_WALL_${arg_NAME}})
  endif()
  if(MUSTER_TEST_FULL AND wall LESS 300)
    set(wall 300)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${MUSTER_TIMED} ${arg_NAME} ${wall} ${emulator} ${arg_COMMAND} ${folder})
endfunction()

# Suites that compute long in this build begin first, so that none of them runs alone at the end. Those that wait longer than they compute have the label
# waits: they run beside the others (script/test).
function(muster_test_rules name)
  set(own 0)
  if(DEFINED MUSTER_CPU_${name})
    set(own ${MUSTER_CPU_${name}})
  endif()
  set(cost ${own})
  set(labels "")
  if(MUSTER_WAITS_${name})
    set(cost ${MUSTER_WALL_${name}})
    list(APPEND labels waits)
  endif()
  if(name IN_LIST MUSTER_QUICK)
    list(APPEND labels quick)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 36000 COST ${cost} SKIP_RETURN_CODE 77 LABELS "${labels}")
  if(name MATCHES "${MUSTER_LEFT_OUT}")
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
  elseif(NOT MUSTER_TURN STREQUAL "" AND name MATCHES "${MUSTER_TURN_NAMES}" AND own GREATER_EQUAL MUSTER_TURN_SECONDS
         AND NOT name MATCHES "^sim/trace_" # others need what it writes
         AND (MUSTER_SANITIZE OR NOT name IN_LIST MUSTER_QUICK))
    string(MD5 hash "${name}")
    string(SUBSTRING "${hash}" 0 7 hash)
    math(EXPR turn "0x${hash} % ${MUSTER_TURNS}")
    if(NOT turn EQUAL MUSTER_TURN)
      set_tests_properties(${name} PROPERTIES DISABLED TRUE)
      file(APPEND ${MUSTER_TURN_LIST} "${name}\n")
    endif()
  endif()
endfunction()

# Another folder with the same suites, so that a second ctest has files of its own (script/test).
file(WRITE ${PROJECT_BINARY_DIR}/beside/CTestTestfile.cmake "subdirs(\"${PROJECT_BINARY_DIR}\")\n")
