find_package(CLI11 REQUIRED)
xoe_program(xoe-train
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_train.cc ${CMAKE_CURRENT_LIST_DIR}/train_command_line.cc
    ${CMAKE_CURRENT_LIST_DIR}/pixel_options.cc
  LINK xoe::train_base xoe::bootstrap CLI11::CLI11)
xoe_program(xoe-trainer
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_trainer.cc ${CMAKE_CURRENT_LIST_DIR}/train_command_line.cc
    ${CMAKE_CURRENT_LIST_DIR}/pixel_options.cc
  LINK xoe::train xoe::bootstrap CLI11::CLI11)
add_dependencies(xoe-train xoe-trainer)
