find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
xoe_program(xoe-data
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_data.cc ${CMAKE_CURRENT_LIST_DIR}/data_inspect.cc
  LINK xoe::data CLI11::CLI11 nlohmann_json::nlohmann_json)
