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
  # PyPI's packages unpack to nvidia/cu13 among those of the interpreter.
  find_package(Python3 COMPONENTS Interpreter QUIET)
  set(python_packages ${Python3_SITELIB})
  find_program(LACUNA_NVCC nvcc PATHS ENV CUDA_PATH /usr/local/cuda ${python_packages}/nvidia/cu13 PATH_SUFFIXES bin)
  mark_as_advanced(LACUNA_NVCC)
  if(LACUNA_NVCC)
    set(CMAKE_CUDA_COMPILER ${LACUNA_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${LACUNA_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    # What belongs to this nvcc, in CUDA's own layout or in that of the wheels, which FindCUDAToolkit does not know.
    set(toolkit ${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT})
    set(toolkit_include ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    find_library(LACUNA_CUDART cudart_static HINTS ${toolkit}/lib64 ${toolkit}/lib NO_DEFAULT_PATH)
    find_path(LACUNA_CUBLASLT cublasLt.h HINTS ${toolkit_include} NO_DEFAULT_PATH)
    mark_as_advanced(LACUNA_CUDART LACUNA_CUBLASLT)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
      set(cuda_problem "${LACUNA_NVCC} is ${CMAKE_CUDA_COMPILER_VERSION}, and C++20 needs 12.4 or newer")
    elseif(NOT LACUNA_CUDART)
      set(cuda_problem
          "CUDA's runtime was not found beside ${LACUNA_NVCC}. NVIDIA's package: cuda-cudart-dev-13-0; PyPI's: nvidia-cuda-runtime")
    elseif(NOT LACUNA_CUBLASLT)
      set(cuda_problem
          "cublasLt.h was not found beside ${LACUNA_NVCC}. NVIDIA's package: libcublas-dev-13-0; PyPI's: nvidia-cublas")
    endif()
  else()
    set(cuda_problem
        "nvcc was not found. NVIDIA's packages: cuda-nvcc-13-0, cuda-cudart-dev-13-0; PyPI's: nvidia-cuda-nvcc, nvidia-cuda-crt, nvidia-nvvm, nvidia-cuda-cccl, nvidia-cuda-runtime")
  endif()
endif()
if(cuda_problem STREQUAL "")
  set(cuda_found ON)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${LACUNA_CUDA_ARCHITECTURES}: ${CMAKE_CUDA_COMPILER}")
  # cuDNN is opened at run time: its headers and those of its frontend are enough.
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${python_packages}/include)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${toolkit_include} ${python_packages}/nvidia/cudnn/include)
  find_path(NVRTC_INCLUDE_DIR nvrtc.h HINTS ${toolkit_include} ${python_packages}/nvidia/cu13/include)
  mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR NVRTC_INCLUDE_DIR)
  set(cudnn_found OFF)
  if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
    message(STATUS "Without cuDNN (kernels of our own instead): cudnn_frontend.h was not found. PyPI's package: nvidia-cudnn-frontend")
  elseif(NOT CUDNN_INCLUDE_DIR)
    message(STATUS "Without cuDNN (kernels of our own instead): cudnn.h was not found. NVIDIA's package: libcudnn9-dev-cuda-13; PyPI's: nvidia-cudnn-cu13")
  elseif(NOT NVRTC_INCLUDE_DIR)
    message(STATUS "Without cuDNN (kernels of our own instead): nvrtc.h was not found. NVIDIA's package: cuda-nvrtc-dev-13-0; PyPI's: nvidia-cuda-nvrtc")
  else()
    set(cudnn_found ON)
    message(STATUS "cuDNN: ${CUDNN_INCLUDE_DIR}, frontend ${CUDNN_FRONTEND_INCLUDE_DIR}")
  endif()
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
  add_library(lacuna_cudart INTERFACE)
  target_include_directories(lacuna_cudart SYSTEM INTERFACE ${toolkit_include})
  target_link_libraries(lacuna_cudart INTERFACE ${LACUNA_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
  # The adapters of NVIDIA's libraries, which a test shares. Where they are looked for: the loader's folders,
  # LACUNA_CUDA_LIBRARIES, and those beside the headers.
  file(GLOB cuda_libraries CONFIGURE_DEPENDS ops/cuda/libraries/*.cpp)
  cmake_path(GET LACUNA_CUDART PARENT_PATH library_folders)
  if(cudnn_found)
    list(FILTER cuda_libraries EXCLUDE REGEX "without_cudnn")
    foreach(include ${CUDNN_INCLUDE_DIR} ${NVRTC_INCLUDE_DIR})
      cmake_path(GET include PARENT_PATH folder)
      list(APPEND library_folders ${folder}/lib)
    endforeach()
  else()
    list(FILTER cuda_libraries EXCLUDE REGEX "/cudnn[^/]*$")
  endif()
  list(REMOVE_DUPLICATES library_folders)
  list(JOIN library_folders ":" library_folders)
  add_library(lacuna_cuda_libraries OBJECT core/cuda/library.cpp ${cuda_libraries})
  target_link_libraries(lacuna_cuda_libraries PRIVATE lacuna lacuna_flags lacuna_cudart)
  target_compile_definitions(lacuna_cuda_libraries PRIVATE LACUNA_CUDA_LIBRARY_FOLDERS="${library_folders}"
                                                           CUDNN_FRONTEND_SKIP_JSON_LIB)
  if(cudnn_found)
    target_include_directories(lacuna_cuda_libraries SYSTEM PRIVATE ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR}
                                                                    ${NVRTC_INCLUDE_DIR})
    # Functions with cuDNN's names are for the frontend alone, not for cuDNN itself.
    set_source_files_properties(ops/cuda/libraries/cudnn_functions.cpp PROPERTIES COMPILE_OPTIONS -fvisibility=hidden)
    # Without any optimization the frontend's unused functions ask for more of cuDNN; with all it takes twice as long.
    set_source_files_properties(ops/cuda/libraries/cudnn_plans.cpp PROPERTIES COMPILE_OPTIONS -O1)
  endif()
  set_target_properties(lacuna_cuda_libraries PROPERTIES POSITION_INDEPENDENT_CODE ON)
  file(GLOB cuda_backend CONFIGURE_DEPENDS core/cuda/*.cpp)
  list(FILTER cuda_backend EXCLUDE REGEX "/library\\.cpp$")
  add_library(lacuna_cuda MODULE ${cuda_backend} $<TARGET_OBJECTS:lacuna_cuda_libraries>
                                 $<TARGET_OBJECTS:lacuna_cuda_registrations> $<TARGET_OBJECTS:lacuna_cuda_kernels>)
  target_link_libraries(lacuna_cuda PRIVATE lacuna lacuna_flags lacuna_cudart)
  set_target_properties(lacuna_cuda PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH $ORIGIN)
endif()
