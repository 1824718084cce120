# What `cmake --install` and `cpack` install: programs, libxoe.so with the C interface, its plug-ins, static libraries of the C++
# interface, and what find_package(xoe) and pkg-config read.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME xoe)

set(xoe_config ${CMAKE_INSTALL_LIBDIR}/cmake/xoe)
# What find_package(xoe COMPONENTS comm engine elastic data stats torch) offers, and what they stand on.
set(archives fmt base stats trace drivers reduce bootstrap backend net shm hierarchical comm engine elastic data)
list(TRANSFORM archives PREPEND xoe_)
install(TARGETS ${archives} EXPORT xoe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/xoe)
if(XOE_WITH_TORCH)
  install(TARGETS xoe_torch EXPORT xoe-torch ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/xoe)
  install(EXPORT xoe-torch NAMESPACE xoe:: FILE xoe-torch-targets.cmake DESTINATION ${xoe_config})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/Torch.cmake DESTINATION ${xoe_config})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/frameworks/libtorch/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(TARGETS xoe_c EXPORT xoe LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder ${xoe_public_headers})
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()

foreach(plugin gloo mpi-openmpi mpi-mpich nccl)
  if(TARGET xoe_net_${plugin})
    set(component xoe)
    if(plugin MATCHES "^mpi")
      set(component mpi)
    endif()
    install(TARGETS xoe_net_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
  endif()
endforeach()
install(TARGETS xoe xoe-bench xoe-data xoe-doctor xoe-notice xoe-report xoe-sweep xoe-timeline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(XOE_WITH_POOL)
  install(TARGETS xoe-pool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Manual pages and completions are made from what the programs say of themselves, when they are installed.
find_package(Python3 3.9 COMPONENTS Interpreter)
if(Python3_FOUND)
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/shell_files.py
    ${PROJECT_BINARY_DIR}/bin ${PROJECT_BINARY_DIR}/share COMMAND_ERROR_IS_FATAL ANY)" COMPONENT xoe)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT xoe)
endif()

install(EXPORT xoe NAMESPACE xoe:: FILE xoe-targets.cmake DESTINATION ${xoe_config})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/xoe-config.cmake.in ${PROJECT_BINARY_DIR}/xoe-config.cmake
  INSTALL_DESTINATION ${xoe_config} PATH_VARS CMAKE_INSTALL_LIBDIR NO_SET_AND_CHECK_MACRO
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/xoe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/xoe-config.cmake ${PROJECT_BINARY_DIR}/xoe-config-version.cmake DESTINATION ${xoe_config})

# Both find their folders from where they themselves are.
file(RELATIVE_PATH xoe_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
list(TRANSFORM archives PREPEND -l OUTPUT_VARIABLE xoe_archives)
list(JOIN xoe_archives " " xoe_archives)
foreach(module xoe xoe-cxx)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${module}.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The authors of Xoe")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Two packages: what needs an MPI is one of its own.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL xoe mpi)
set(CPACK_DEBIAN_XOE_PACKAGE_NAME xoe)
set(CPACK_DEBIAN_XOE_PACKAGE_SUGGESTS "xoe-mpi, cmake, libcurl4, pkg-config")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME xoe-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "xoe (= ${PROJECT_VERSION})")
include(CPack)
