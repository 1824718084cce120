find_package(nlohmann_json REQUIRED)
xoe_program(xoe-timeline
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_timeline.cc
  LINK xoe::pages xoe::trace xoe::command_line nlohmann_json::nlohmann_json)
xoe_optimise_little(xoe-timeline)
