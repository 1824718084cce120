# xoe starts for every job: linked so that it needs no shared library, from the sources of its few rooms with fmt's own
# sources compiled in. Sanitizers need the dynamic loader.
if(XOE_SANITIZE)
  xoe_program(xoe SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe.cc ${CMAKE_CURRENT_LIST_DIR}/run.cc
    ${CMAKE_CURRENT_LIST_DIR}/run_hosts.cc LINK xoe::launch)
else()
  set(sources ${CMAKE_CURRENT_LIST_DIR}/xoe.cc ${CMAKE_CURRENT_LIST_DIR}/run.cc ${CMAKE_CURRENT_LIST_DIR}/run_hosts.cc)
  foreach(room base bootstrap launch)
    get_target_property(room_sources xoe_${room} SOURCES)
    list(TRANSFORM room_sources PREPEND ${PROJECT_SOURCE_DIR}/src/${room}/)
    list(APPEND sources ${room_sources})
  endforeach()
  add_executable(xoe ${sources})
  target_include_directories(xoe PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(xoe PRIVATE xoe_flags fmt::fmt-header-only tl::expected sodium Threads::Threads)
  target_link_options(xoe PRIVATE -static -no-pie)
  set_target_properties(xoe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()
target_compile_definitions(xoe PRIVATE XOE_VERSION="${PROJECT_VERSION}")
