# nvcc, where it is found: it compiles the .cu files into liblacuna_cuda. The C++ compiler compiles them into the tests'
# stand-in everywhere (tests/stand_in).
set(LACUNA_CUDA auto CACHE STRING "Build for CUDA: auto (if nvcc is found), on or off")
set_property(CACHE LACUNA_CUDA PROPERTY STRINGS auto on off)
# Code for the A100, and PTX from which the driver makes code for any newer GPU at its first start. Each further one takes
# the time of all kernels again; the preset `package`, for many machines, has them.
set(LACUNA_CUDA_ARCHITECTURES "80" CACHE STRING "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES")

set(cuda_problem "")
if(LACUNA_CUDA STREQUAL "off")
  set(cuda_problem "LACUNA_CUDA is off")
elseif(LACUNA_SANITIZE OR LACUNA_FUZZ)
  set(cuda_problem "sanitizers know the CPU only")
else()
  find_program(LACUNA_NVCC nvcc PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(LACUNA_NVCC)
  if(LACUNA_NVCC)
    set(CMAKE_CUDA_COMPILER ${LACUNA_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${LACUNA_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit QUIET)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
      set(cuda_problem "${LACUNA_NVCC} is ${CMAKE_CUDA_COMPILER_VERSION}, and C++20 needs 12.4 or newer")
    elseif(NOT TARGET CUDA::cudart_static)
      set(cuda_problem "CUDA's runtime was not found beside ${LACUNA_NVCC}. NVIDIA's package: cuda-cudart-dev")
    endif()
  else()
    set(cuda_problem "nvcc was not found. NVIDIA's package: cuda-nvcc and cuda-cudart-dev, 12.4 or newer")
  endif()
endif()
if(cuda_problem STREQUAL "")
  set(cuda_found ON)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${LACUNA_CUDA_ARCHITECTURES}: ${CMAKE_CUDA_COMPILER}")
elseif(LACUNA_CUDA STREQUAL "on")
  message(FATAL_ERROR "LACUNA_CUDA is on: ${cuda_problem}")
else()
  set(cuda_found OFF)
  message(STATUS "Without CUDA: ${cuda_problem}")
endif()

# What registers the kernels for cuda (X_cuda.cpp) is the same in liblacuna_cuda and in the stand-in.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS core/*.cu ops/*.cu autograd/*.cu optim/*.cu)
file(GLOB_RECURSE cuda_registrations CONFIGURE_DEPENDS core/*_cuda.cpp ops/*_cuda.cpp autograd/*_cuda.cpp
     optim/*_cuda.cpp
     ops/cuda/*.cpp)
list(FILTER cuda_registrations EXCLUDE REGEX "/ops/cuda/(libraries|stand_in)/")  # of one backend each
if(cuda_found OR LACUNA_TESTS)
  add_library(lacuna_cuda_registrations OBJECT ${cuda_registrations})
  target_link_libraries(lacuna_cuda_registrations PRIVATE lacuna lacuna_flags)
  target_compile_options(lacuna_cuda_registrations PRIVATE ${outside_kernels})
  target_precompile_headers(lacuna_cuda_registrations PRIVATE ${precompiled_headers})
  set_target_properties(lacuna_cuda_registrations PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
if(cuda_found)
  add_library(lacuna_cuda_kernels OBJECT ${cuda_sources})
  # Registers that spill are a warning: a kernel needs fewer of them.
  target_compile_options(lacuna_cuda_kernels PRIVATE --expt-relaxed-constexpr -Xcompiler=-Wall -Xfatbin=-compress-all
                                                     -Xptxas=--warn-on-spills)
  target_include_directories(lacuna_cuda_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  set_target_properties(lacuna_cuda_kernels PROPERTIES CUDA_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
  file(GLOB cuda_backend CONFIGURE_DEPENDS core/cuda/*.cpp ops/cuda/libraries/*.cpp)
  add_library(lacuna_cuda MODULE ${cuda_backend} $<TARGET_OBJECTS:lacuna_cuda_registrations>
                                 $<TARGET_OBJECTS:lacuna_cuda_kernels>)
  target_link_libraries(lacuna_cuda PRIVATE lacuna lacuna_flags CUDA::cudart_static)
  target_compile_definitions(lacuna_cuda PRIVATE LACUNA_CUDA_LIBRARY_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
  set_target_properties(lacuna_cuda PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH $ORIGIN)
endif()
