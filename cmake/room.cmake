# A room is one CMake object library. Its include path holds its own folder, the exported internal headers of the rooms to its left, and the
# public headers that belong to it and to them. Any other include does not compile.

# muster_rooms(name folder "public headers" ...), leftmost first. Each folder's CMakeLists.txt calls muster_room_sources and muster_room_headers.
#
# What a room shows to others is a folder of links, build/rooms/<room>: muster/<noun>.h for its public headers, <file>_impl.h for its exported ones.
# The room's own folder, in which the private headers lie, is on no other room's include path.
function(muster_rooms)
  set(exports "")
  set(folders "")
  set(names "")
  set(arguments ${ARGV})
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 0 ${last} 3)
    math(EXPR j "${i} + 1")
    math(EXPR k "${i} + 2")
    set(room ${ARGV${i}})
    set(folder ${PROJECT_SOURCE_DIR}/${ARGV${j}})
    set(export ${PROJECT_BINARY_DIR}/rooms/${room})
    file(REMOVE_RECURSE ${export}) # a header that is exported no more must not be found
    file(MAKE_DIRECTORY ${export}/muster)
    foreach(noun IN LISTS ARGV${k})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/muster/${noun}.h ${export}/muster/${noun}.h SYMBOLIC)
    endforeach()
    list(APPEND exports ${export})
    list(APPEND folders ${folder})
    list(APPEND names ${room})
    add_library(muster_room_${room} OBJECT)
    target_include_directories(muster_room_${room} PRIVATE ${folder} ${exports})
    set_property(GLOBAL PROPERTY muster_room_path_${room} ${folder} ${exports})
    set_property(GLOBAL PROPERTY muster_test_path_${room} ${folders} ${exports})
    set_property(GLOBAL PROPERTY muster_rooms_upto_${room} ${names})
    set(MUSTER_ROOM ${room})
    set(MUSTER_ROOM_EXPORT ${export})
    set(MUSTER_ROOM_FOLDER ${folder})
    add_subdirectory(${folder})
  endforeach()
  set(MUSTER_ROOMS ${names} PARENT_SCOPE)
endfunction()

function(muster_room_sources)
  target_sources(muster_room_${MUSTER_ROOM} PRIVATE ${ARGV})
endfunction()

# muster_room_headers(file_impl.h ...): the internal headers that the rooms to the right may include, by the same path as inside the room. All others
# are private to the room, and are called <file>_private.h.
function(muster_room_headers)
  foreach(header IN LISTS ARGV)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "muster_room_headers: ${CMAKE_CURRENT_SOURCE_DIR} has no ${header}")
    endif()
    file(RELATIVE_PATH path ${MUSTER_ROOM_FOLDER} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    get_filename_component(subfolder ${MUSTER_ROOM_EXPORT}/${path} DIRECTORY)
    file(MAKE_DIRECTORY ${subfolder})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${header} ${MUSTER_ROOM_EXPORT}/${path} SYMBOLIC)
  endforeach()
endfunction()

# The include path of a test or a bench of `room`: what the room sees, and the private headers of the rooms up to it.
function(muster_test_path variable room)
  get_property(path GLOBAL PROPERTY muster_test_path_${room})
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

# Links the rooms up to and including `room` into `target`, with their internal headers: for tests and benches.
function(muster_link_rooms target room)
  get_property(names GLOBAL PROPERTY muster_rooms_upto_${room})
  muster_test_path(path ${room})
  foreach(name IN LISTS names)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:muster_room_${name}>)
  endforeach()
  target_include_directories(${target} PRIVATE ${path})
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()
