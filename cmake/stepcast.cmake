# Warnings, sanitizers, and the two helpers that every room and test uses.
add_library(stepcast_options INTERFACE)
target_compile_features(stepcast_options INTERFACE cxx_std_20)
target_include_directories(stepcast_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(
  stepcast_options
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion
            -Wno-sign-conversion -Wno-restrict -Werror>)
if(STEPCAST_SANITIZE)
  # g++ 12 with sanitizers raises false -Wmaybe-uninitialized inside std::regex and std::function.
  target_compile_options(
    stepcast_options
    INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-sanitize-recover=all
              -fno-omit-frame-pointer -Wno-maybe-uninitialized>)
  target_link_options(stepcast_options INTERFACE -fsanitize=address,undefined)
endif()
if(STEPCAST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "STEPCAST_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++-16")
  endif()
  set(sanitizers -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all)
  target_compile_options(stepcast_options INTERFACE ${sanitizers} -fno-omit-frame-pointer
                                           -Wno-error -Wno-unknown-warning-option) # g++'s builds are the gate
  target_link_options(stepcast_options INTERFACE ${sanitizers})
endif()

# stepcast_room(NAME SOURCES a.cpp b.cpp DEPS base text PRIVATE yaml-cpp)
# One static library per room; a room may use only what DEPS names (ARCHITECTURE: arrows downwards).
function(stepcast_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;PRIVATE" ${ARGN})
  list(TRANSFORM ROOM_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ROOM_DEPS PREPEND stepcast_)
  add_library(stepcast_${name} STATIC ${ROOM_SOURCES})
  add_library(stepcast::${name} ALIAS stepcast_${name})
  target_link_libraries(stepcast_${name} PUBLIC stepcast_options fmt::fmt ${ROOM_DEPS}
                                         PRIVATE ${ROOM_PRIVATE})
endfunction()
