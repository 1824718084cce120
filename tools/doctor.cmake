find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
xoe_program(xoe-doctor
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_doctor.cc
  LINK xoe::doctor CLI11::CLI11 nlohmann_json::nlohmann_json)
target_compile_definitions(xoe-doctor PRIVATE XOE_VERSION="${PROJECT_VERSION}")
xoe_optimise_little(xoe-doctor)
