find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
xoe_program(xoe-data
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_data.cc ${CMAKE_CURRENT_LIST_DIR}/data_bench.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_compare.cc ${CMAKE_CURRENT_LIST_DIR}/data_compare_svg.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_convert.cc ${CMAKE_CURRENT_LIST_DIR}/data_index.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_inspect.cc ${CMAKE_CURRENT_LIST_DIR}/data_make.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_stats.cc ${CMAKE_CURRENT_LIST_DIR}/data_verify.cc
    ${CMAKE_CURRENT_LIST_DIR}/inspect_json.cc ${CMAKE_CURRENT_LIST_DIR}/inspect_records.cc
    ${CMAKE_CURRENT_LIST_DIR}/progress_line.cc ${CMAKE_CURRENT_LIST_DIR}/record_files.cc
    ${CMAKE_CURRENT_LIST_DIR}/verb.cc
  LINK xoe::data example_pipelines CLI11::CLI11 nlohmann_json::nlohmann_json)
