xoe_program(xoe-report
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_report.cc
  LINK xoe::pages xoe::command_line)
xoe_optimise_little(xoe-report)
