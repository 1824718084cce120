find_package(CLI11 REQUIRED)
xoe_program(xoe-train
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_train.cc
  LINK xoe::train xoe::bootstrap CLI11::CLI11)
