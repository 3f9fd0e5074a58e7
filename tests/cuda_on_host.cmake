# cuda_on_host(TARGET a.cu...) compiles files that launch CUDA kernels as C++ that runs them on the host
# (support/cuda_emulator.h). It needs the toolkit's headers and runtime library but no GPU.
function(cuda_on_host target)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(rewritten ${CMAKE_CURRENT_BINARY_DIR}/cuda_on_host/${name}.cpp)
    add_custom_command(
      OUTPUT ${rewritten}
      COMMAND
        sed -zE
        "s/([A-Za-z_]+(<[^<>;()]*>)?)[[:space:]]*<<<([^;{}]*[^>])>>>\\(/cuda_emulator::launch({\\3}, \\1, /g"
        ${source} > ${rewritten}
      DEPENDS ${source}
      VERBATIM)
    get_filename_component(folder ${source} DIRECTORY)
    target_sources(${target} PRIVATE ${rewritten})
    target_include_directories(${target} PRIVATE ${folder})
    # The files are written for nvcc, which decides on warnings.
    set_source_files_properties(
      ${rewritten} PROPERTIES COMPILE_OPTIONS
                              "-w;-include;${PROJECT_SOURCE_DIR}/tests/support/cuda_emulator.h")
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  # A header of their own comes first, so that the tests' precompiled one is read as text.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/calibration ${PROJECT_SOURCE_DIR}/scripts/cmake)
  target_link_libraries(${target} PRIVATE CUDA::cudart Threads::Threads)
endfunction()
