# Flags for our own code only: an interface target that nothing exported carries on.
add_library(lacuna_flags INTERFACE)
target_compile_options(lacuna_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  # Loops become vector code without the liberties of -ffast-math: NaN and infinity keep their meaning.
  -fno-math-errno -fno-trapping-math
  # Vectors of doubles are twice as wide as the machine's. How they are passed depends on the instruction set, which is
  # one for all of our code; no exported function takes any.
  -Wno-psabi)
# GCC's own AVX-512 intrinsics and inlined copies set this warning off (GCC bugs 105593 and 105616).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lacuna_flags INTERFACE -Wno-maybe-uninitialized)
else()
  # Loops are tuned for GCC's vectoriser; clang need not follow.
  target_compile_options(lacuna_flags INTERFACE -Wno-unknown-pragmas -Wno-pass-failed)
endif()
# A target may have an instruction set of its own.
set(arch $<IF:$<BOOL:$<TARGET_PROPERTY:ARCH>>,$<TARGET_PROPERTY:ARCH>,${LACUNA_ARCH}>)
target_compile_options(lacuna_flags INTERFACE $<$<BOOL:${arch}>:-march=${arch}>)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
# Command and tests have no kernels: optimizing them further takes a third of their compile time.
set(outside_kernels $<$<CONFIG:Release>:-O1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND outside_kernels -Wno-array-bounds -Wno-stringop-overflow)  # at -O1 GCC 12 warns of its own std::string
endif()
if(LACUNA_SANITIZE)
  target_compile_options(lacuna_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer)
  target_link_options(lacuna_flags INTERFACE -fsanitize=address,undefined)
endif()
if(LACUNA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LACUNA_FUZZ needs clang. On Debian: apt-get install clang libclang-rt-dev libomp-dev")
  endif()
  # All code counts which of its branches a run takes; the targets alone link the driver.
  target_compile_options(lacuna_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
