find_package(nlohmann_json REQUIRED)
xoe_program(xoe-doctor
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_doctor.cc
  LINK xoe::doctor xoe::command_line nlohmann_json::nlohmann_json)
xoe_optimise_little(xoe-doctor)
