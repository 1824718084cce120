xoe_library(train_command_line SOURCES ${CMAKE_CURRENT_LIST_DIR}/train_command_line.cc LINK PUBLIC xoe::train_base
  PRIVATE xoe::answer_once xoe::pixel_options)
xoe_program(xoe-train SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_train.cc LINK xoe::train_command_line xoe::bootstrap)
xoe_program(xoe-trainer SOURCES ${CMAKE_CURRENT_LIST_DIR}/xoe_trainer.cc
  ${CMAKE_CURRENT_LIST_DIR}/run_folder_question.cc LINK xoe::train_command_line xoe::train xoe::bootstrap)
xoe_optimise_little(xoe_train_command_line xoe-train xoe-trainer)
add_dependencies(xoe-train xoe-trainer)
