# The Python package `lacuna`: python/lacuna/*.py and the extension `_core` beside them. The build tree holds it below
# python/; the wheel (pyproject.toml) holds the command and the library too.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind: ${Python_EXECUTABLE} -m pip install nanobind")
endif()
find_package(nanobind CONFIG REQUIRED)
file(STRINGS pyproject.toml cuda_package REGEX "lacuna-cuda==${PROJECT_VERSION}\"")
if(NOT cuda_package)
  message(FATAL_ERROR "pyproject.toml: expected the extra cuda to need lacuna-cuda==${PROJECT_VERSION}")
endif()

set(python_package ${CMAKE_BINARY_DIR}/python/lacuna)
file(GLOB extension_sources CONFIGURE_DEPENDS python/*.cpp)
nanobind_add_module(lacuna_python STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS ${extension_sources})
# Inline variables of the library's headers are the library's: hidden ones would be a second set. Only the types of
# nanobind are hidden then, which GCC warns of.
set_target_properties(lacuna_python PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
target_compile_options(lacuna_python PRIVATE -Wno-attributes)
set_target_properties(lacuna_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${python_package}
                                               INSTALL_RPATH $ORIGIN/lib)
target_link_libraries(lacuna_python PRIVATE lacuna_apps lacuna_flags)
target_compile_options(lacuna_python PRIVATE ${outside_kernels})
target_compile_definitions(lacuna_python PRIVATE LACUNA_VERSION="${PROJECT_VERSION}")
add_dependencies(lacuna_python lacuna_command)

file(GLOB modules CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/python/lacuna python/lacuna/*)
file(MAKE_DIRECTORY ${python_package}/bin)
foreach(module ${modules})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/python/lacuna/${module} ${python_package}/${module} SYMBOLIC)
endforeach()
file(CREATE_LINK ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/lacuna ${python_package}/bin/lacuna SYMBOLIC)

# The types of the extension, for editors and type checkers.
add_custom_command(TARGET lacuna_python POST_BUILD COMMAND ${CMAKE_COMMAND} -E env
                   --modify PYTHONPATH=path_list_prepend:${CMAKE_BINARY_DIR}/python  # pip's nanobind is there too
                   ${Python_EXECUTABLE} -m nanobind.stubgen -q -r -m lacuna._core -O ${python_package}
                   -p ${CMAKE_CURRENT_SOURCE_DIR}/python/stubs.txt)
install(DIRECTORY ${python_package}/_core DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)

# A component of its own, which a plain install leaves out: a wheel has no headers, and no links.
install(TARGETS lacuna_python LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS lacuna_command RUNTIME DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS lacuna lacuna_apps LIBRARY DESTINATION lib COMPONENT python EXCLUDE_FROM_ALL NAMELINK_SKIP)
if(LACUNA_LEVELS)
  install(TARGETS lacuna_avx512 LIBRARY DESTINATION lib/${avx512_folder} COMPONENT python EXCLUDE_FROM_ALL
          NAMELINK_SKIP)
endif()
if(SKBUILD)
  set_target_properties(${libraries} lacuna_apps PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
endif()

if(LACUNA_TESTS)
  enable_testing()
  add_test(NAME python COMMAND ${Python_EXECUTABLE} -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/python/tests)
  set_tests_properties(python PROPERTIES LABELS slow ENVIRONMENT PYTHONPATH=${CMAKE_BINARY_DIR}/python)
endif()
