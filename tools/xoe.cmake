# xoe starts for every job: linked so that it needs no shared library. Sanitizers need the dynamic loader.
xoe_program(xoe SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe.cc ${CMAKE_CURRENT_LIST_DIR}/run.cc ${CMAKE_CURRENT_LIST_DIR}/run_members.cc ${CMAKE_CURRENT_LIST_DIR}/run_texts.cc
    ${CMAKE_CURRENT_LIST_DIR}/verbs.cc
  LINK xoe::launch xoe::manners)
if(NOT XOE_SANITIZE)
  target_link_options(xoe PRIVATE -static -no-pie)
  set_target_properties(xoe PROPERTIES XOE_STATIC ON)
endif()
