# Headers, library, command and the CMake package `Lacuna`.

include(CMakePackageConfigHelpers)

install(TARGETS lacuna EXPORT LacunaTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lacuna_command)
  install(TARGETS lacuna_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# Kernels' own headers stay here: what is in line there follows this machine's vectors, another program's are its own.
set(kernel_headers vector tile rowwise panel_kernel conv_panels affine_encoding affine_kernels columns fitting hadamard lanes
                   layout planes hadamard_codes)
list(JOIN kernel_headers "|" kernel_headers)
foreach(layer ${layers})
  install(DIRECTORY ${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lacuna FILES_MATCHING PATTERN "*.h"
          REGEX "/(${kernel_headers})\\.h$" EXCLUDE)
endforeach()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lacuna)
install(EXPORT LacunaTargets NAMESPACE Lacuna:: DESTINATION ${package_dir})
configure_package_config_file(cmake/LacunaConfig.cmake.in LacunaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(LacunaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/LacunaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/LacunaConfigVersion.cmake
        DESTINATION ${package_dir})
