find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
xoe_program(xoe-timeline
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_timeline.cc
  LINK xoe::trace CLI11::CLI11 nlohmann_json::nlohmann_json)
xoe_optimise_little(xoe-timeline)
