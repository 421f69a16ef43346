# Headers of the standard library and of fmt that most files include, compiled once per target.
set(precompiled_headers <fmt/format.h> <fmt/ranges.h> <algorithm> <cmath> <filesystem> <functional> <map> <memory>
                        <optional> <set> <span> <string> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache needs it to hash the precompiled header
endif()
