# Warnings, sanitizers, and the functions that every library and test uses. A "room" is one folder of src with its library.
add_library(stepcast_options INTERFACE)
target_compile_features(stepcast_options INTERFACE cxx_std_20)
target_compile_options(
  stepcast_options
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion
            -Wno-sign-conversion -Wno-restrict>)
# Warnings are errors with the compiler that CI has. A newer one warns about more, which must not stop whoever builds the program.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(STEPCAST_WERROR_DEFAULT ON)
else()
  set(STEPCAST_WERROR_DEFAULT OFF)
endif()
option(STEPCAST_WERROR "Warnings are errors" ${STEPCAST_WERROR_DEFAULT})
if(STEPCAST_WERROR)
  target_compile_options(stepcast_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# g++ 13 takes each reference that a function returns for one to its temporary arguments.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(stepcast_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
endif()
if(STEPCAST_SANITIZE)
  # g++ 12 with sanitizers raises false -Wmaybe-uninitialized inside std::regex and std::function. The checks of null and of
  # alignment at every access are a quarter of all compile time and half of the code, and find next to nothing more: the address
  # sanitizer reports a null access where it happens, and these processors read at any address.
  target_compile_options(
    stepcast_options
    INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-sanitize=null,alignment
              -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized>)
  target_link_options(stepcast_options INTERFACE -fsanitize=address,undefined)
endif()
if(STEPCAST_SANITIZE)
  # A hundred test programs with sanitizers are linked, and mold and lld take a fraction of GNU ld's time. Neither is
  # required.
  include(CheckLinkerFlag)
  foreach(linker mold lld)
    check_linker_flag(CXX -fuse-ld=${linker} STEPCAST_LINKS_BY_${linker})
    if(STEPCAST_LINKS_BY_${linker})
      target_link_options(stepcast_options INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
if(STEPCAST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "STEPCAST_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++-16")
  endif()
  set(sanitizers -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all)
  # Warnings are errors only in builds by g++.
  target_compile_options(stepcast_options INTERFACE ${sanitizers} -fno-omit-frame-pointer
                                           -Wno-error -Wno-unknown-warning-option)
  target_link_options(stepcast_options INTERFACE ${sanitizers})
endif()

# Rooms that read or write text for people. They are two thirds of the code to compile and little of what a forecast computes, so
# they are optimised less: at -O1, and not at all beside sanitizers.
set(STEPCAST_TEXT_ROOMS calibrate cli config interop planner report runs serve store validate)
set(STEPCAST_TEXT_OPTIONS $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)

# Objects are position-independent, for the Python module's sake, and g++ then takes every function as one that another library
# may replace: it would inline none into another. None is replaced here.
set(STEPCAST_FORECAST_OPTIONS $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fno-semantic-interposition>)

# What most files include, compiled once for each set of options: a room takes it by stepcast_precompiled(TARGET ROOM).
if(STEPCAST_PRECOMPILED)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled/empty.cpp "// Only the precompiled header beside it is of use.\n")
  foreach(name stepcast_precompiled stepcast_precompiled_text)
    add_library(${name} STATIC ${PROJECT_BINARY_DIR}/precompiled/empty.cpp)
    target_link_libraries(${name} PRIVATE stepcast_options fmt::fmt)
    # By its name: a path of the checkout in the generated header would keep every other checkout from the compiler cache.
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/scripts/cmake)
    target_precompile_headers(${name} PRIVATE [["precompiled.h"]])
  endforeach()
  target_compile_options(stepcast_precompiled PRIVATE ${STEPCAST_FORECAST_OPTIONS})
  target_compile_options(stepcast_precompiled_text PRIVATE ${STEPCAST_TEXT_OPTIONS})
endif()
function(stepcast_precompiled target room)
  set(suffix "")
  if(room IN_LIST STEPCAST_TEXT_ROOMS)
    target_compile_options(${target} PRIVATE ${STEPCAST_TEXT_OPTIONS})
    set(suffix _text)
  else()
    target_compile_options(${target} PRIVATE ${STEPCAST_FORECAST_OPTIONS})
  endif()
  if(STEPCAST_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM stepcast_precompiled${suffix})
  endif()
  target_compile_options(${target} PRIVATE $<$<BOOL:${STEPCAST_SYNTAX_ONLY}>:-fsyntax-only>)
endfunction()

# stepcast_batches(OUT NAME a.cpp sub/b.cpp ...) sets OUT to the files to compile instead of these files of the current
# folder. With STEPCAST_BATCHES there is one file for every STEPCAST_BATCH_SIZE files of a folder, which includes them. Files
# of different folders are never combined, so names in anonymous namespaces must be unique within a folder. Paths are
# relative, so that the batches of two checkouts are equal and share a compiler cache. -Wshadow would warn about names of
# other files in the batch, and -Wsubobject-linkage would take a batch for a header; both are enabled only if every file is
# compiled separately.
function(stepcast_batches out name)
  set(result "")
  set(folders "")
  foreach(source IN LISTS ARGN)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" key)
    list(APPEND folders ${key})
    list(APPEND files_${key} ${path})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(number 0)
  foreach(key IN LISTS folders)
    list(LENGTH files_${key} count)
    if(NOT STEPCAST_BATCHES OR count EQUAL 1 OR files_${key} MATCHES "${STEPCAST_UNBATCHED}")
      list(APPEND result ${files_${key}})
      continue()
    endif()
    set(at 0)
    while(at LESS count)
      list(SUBLIST files_${key} ${at} ${STEPCAST_BATCH_SIZE} batch)
      math(EXPR at "${at} + ${STEPCAST_BATCH_SIZE}")
      math(EXPR number "${number} + 1")
      set(text "// Generated by scripts/cmake/stepcast.cmake.\n")
      foreach(path IN LISTS batch)
        file(RELATIVE_PATH path ${CMAKE_CURRENT_BINARY_DIR} ${path})
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
                                  "$<$<CXX_COMPILER_ID:GNU>:-Wno-shadow;-Wno-subobject-linkage>")
      list(APPEND result ${file})
    endwhile()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# stepcast_public_headers(NAME) makes the public headers of a room, include/stepcast/NAME, available to it and to targets
# that link it. Each room has a folder in the build tree with a link to them, so that a room sees only the headers of rooms
# below it: an upward include does not compile (tests/compile_fail/include_upwards.cpp).
function(stepcast_public_headers name)
  set(headers ${PROJECT_SOURCE_DIR}/include/stepcast/${name})
  if(IS_DIRECTORY ${headers})
    set(root ${PROJECT_BINARY_DIR}/include/${name})
    file(MAKE_DIRECTORY ${root}/stepcast)
    file(CREATE_LINK ${headers} ${root}/stepcast/${name} SYMBOLIC)
    get_target_property(kind stepcast_${name} TYPE)
    if(kind STREQUAL "INTERFACE_LIBRARY")
      target_include_directories(stepcast_${name} INTERFACE ${root})
    else()
      target_include_directories(stepcast_${name} PUBLIC ${root})
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY STEPCAST_ROOMS ${name})
endfunction()

# stepcast_room(NAME SOURCES a.cpp b.cpp DEPS base text PRIVATE yaml-cpp) makes one static library per room. A room may use
# only the rooms that DEPS names (see ARCHITECTURE: dependencies point downwards).
function(stepcast_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;PRIVATE" ${ARGN})
  list(TRANSFORM ROOM_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ROOM_DEPS PREPEND stepcast_)
  stepcast_batches(compiled ${name} ${ROOM_SOURCES})
  add_library(stepcast_${name} STATIC ${compiled})
  stepcast_precompiled(stepcast_${name} ${name})
  add_library(stepcast::${name} ALIAS stepcast_${name})
  target_link_libraries(stepcast_${name} PUBLIC stepcast_options fmt::fmt ${ROOM_DEPS}
                                         PRIVATE ${ROOM_PRIVATE})
  stepcast_public_headers(${name})
endfunction()

# stepcast_module(ROOM NAME SOURCES a.cpp PRIVATE libraries) makes a module of a room's code that uses libraries which take the
# loader long: NAME.so in lib/stepcast beside the folder of the program, opened at first use (stepcast/base/late_module.h). It
# calls no function of the program, which passes what the module needs.
function(stepcast_module room name)
  cmake_parse_arguments(MODULE "" "" "SOURCES;PRIVATE" ${ARGN})
  set(target stepcast_module_${name})
  add_library(${target} MODULE ${MODULE_SOURCES})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} DEFINE_SYMBOL "" LIBRARY_OUTPUT_DIRECTORY
                                                                                     ${PROJECT_BINARY_DIR}/lib/stepcast)
  target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:stepcast_${room},INCLUDE_DIRECTORIES>)
  target_link_libraries(${target} PRIVATE stepcast_options fmt::fmt ${MODULE_PRIVATE})
  if(NOT STEPCAST_SANITIZE AND NOT STEPCAST_FUZZ) # their runtime is in the program
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  add_dependencies(stepcast_${room} ${target})
  install(TARGETS ${target} LIBRARY DESTINATION lib/stepcast)
  install(TARGETS ${target} LIBRARY DESTINATION stepcast/lib/stepcast COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
