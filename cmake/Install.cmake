# Headers, library, command and the CMake package `Lacuna`.

include(CMakePackageConfigHelpers)

install(TARGETS lacuna EXPORT LacunaTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lacuna_cuda)  # liblacuna opens it
  install(TARGETS lacuna_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET lacuna_command)
  install(TARGETS lacuna_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET lacuna_mpi)
  install(TARGETS lacuna_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})  # looked for beside the other
  install(PROGRAMS tools/lacuna-restarts DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# Headers are used as <lacuna/lacuna.h> or <lacuna/core/tensor.h>.
set(staged_headers ${CMAKE_CURRENT_BINARY_DIR}/staged_headers)
install(CODE "set(source \"${CMAKE_CURRENT_SOURCE_DIR}\")\nset(staging \"${staged_headers}\")")
install(SCRIPT cmake/StageHeaders.cmake)
install(DIRECTORY ${staged_headers}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lacuna)
install(EXPORT LacunaTargets NAMESPACE Lacuna:: DESTINATION ${package_dir})
configure_package_config_file(cmake/LacunaConfig.cmake.in LacunaConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(LacunaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/LacunaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/LacunaConfigVersion.cmake
        DESTINATION ${package_dir})
