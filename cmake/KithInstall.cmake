# find_package(kith) gives kith::kith.
include(CMakePackageConfigHelpers)
install(TARGETS kith EXPORT kithTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kithTargets NAMESPACE kith:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kith)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kithConfig.cmake.in
  ${PROJECT_BINARY_DIR}/kithConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kith)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kithConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kithConfig.cmake ${PROJECT_BINARY_DIR}/kithConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kith)
