# Where includes begin: "core/base/text.h" is where it says, and <xoe/tensor.h> is in the house that it belongs to.
set(xoe_public_headers core/include data/include frameworks/c/include)
list(TRANSFORM xoe_public_headers PREPEND ${PROJECT_SOURCE_DIR}/)
set(xoe_include_folders ${PROJECT_SOURCE_DIR} ${xoe_public_headers})

# xoe_library(name SOURCES ... LINK ...): a static library xoe_<name> with the alias xoe::<name>.
function(xoe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(xoe_${name} STATIC ${ARG_SOURCES})
  add_library(xoe::${name} ALIAS xoe_${name})
  set_target_properties(xoe_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(xoe_${name} PUBLIC "$<BUILD_INTERFACE:${xoe_include_folders}>"
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(xoe_${name} PUBLIC cxx_std_20)
  target_link_libraries(xoe_${name} PRIVATE $<BUILD_INTERFACE:xoe_flags>)
  if(ARG_LINK)
    target_link_libraries(xoe_${name} ${ARG_LINK})
  endif()
endfunction()

# Programs and tests under the address sanitizer compile a third faster without optimisation; the libraries do the work.
function(xoe_compile_quickly name)
  if(XOE_SANITIZE MATCHES "address")
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  endif()
endfunction()

# Code that no rank waits for, such as the launcher and command lines: a third cheaper to compile.
function(xoe_optimise_little)
  foreach(name ${ARGV})
    if(XOE_SANITIZE MATCHES "address")
      xoe_compile_quickly(${name})
    else()
      target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
    endif()
  endforeach()
endfunction()

# xoe_units_of(name files) sets how many files of a target are compiled as one unit with XOE_UNITY; 0: all. Targets that see libtorch,
# whose headers take g++ 12 sixteen seconds, have few units.
function(xoe_units_of name files)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# xoe_program(name SOURCES ... LINK ...): an executable in bin/.
function(xoe_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE xoe_flags ${ARG_LINK})
  target_include_directories(${name} PRIVATE ${xoe_include_folders})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  xoe_compile_quickly(${name})
endfunction()

# Tells a target's sources, as XOE_SANITIZED, whether they run under a sanitizer: slower by an order.
function(xoe_tell_sanitizer name)
  if(XOE_SANITIZE)
    target_compile_definitions(${name} PRIVATE XOE_SANITIZED=1)
  else()
    target_compile_definitions(${name} PRIVATE XOE_SANITIZED=0)
  endif()
endfunction()

# Under the thread sanitizer: Gloo is not instrumented, and what it does inside itself is not reported.
function(xoe_loads_gloo name)
  add_dependencies(${name} xoe_net_gloo)
  if(XOE_SANITIZE MATCHES "thread")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/core/tests/net/tsan_gloo.supp")
  endif()
endfunction()

# xoe_test_program(name LINK ...): a program of GoogleTest for several tests, each declared by xoe_test(... PROGRAM name): one
# program for the tests of a folder compiles and links in a fraction of the time of one for each.
function(xoe_test_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/core/testing/main.cc)
  target_link_libraries(${name} PRIVATE xoe_flags ${ARG_LINK} GTest::gmock)
  target_include_directories(${name} PRIVATE ${xoe_include_folders})
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)  # compiles a quarter faster than -O3, and runs once
  xoe_compile_quickly(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  xoe_tell_sanitizer(${name})
endfunction()

# xoe_test(name SOURCES ... [PROGRAM program | LINK ...] [LABELS ...] [TIMEOUT s] [COST s] [FULL filter]): the tests of some files, run as one
# ctest; in a program of their own unless one of xoe_test_program is named. COST: about how long it takes, so that a first run
# starts long tests first; later ones know. TIMEOUT: for what hangs, far beyond what it takes on two processors with a load of 20. FULL: tests of these that run apart, as <name>_full in the tier full.
function(xoe_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROGRAM;COST;FULL" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1800)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  set(files "")
  if(ARG_PROGRAM)
    list(JOIN ARG_SOURCES ":" files)
    set(files "XOE_TEST_FILES=${files}")
  else()
    set(ARG_PROGRAM ${name})
    xoe_test_program(${name} LINK ${ARG_LINK})
  endif()
  target_sources(${ARG_PROGRAM} PRIVATE ${ARG_SOURCES})
  set(folders "XOE_BIN_DIR=${PROJECT_BINARY_DIR}/bin;XOE_TEST_DIR=${PROJECT_BINARY_DIR}/tests;XOE_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  set(without "")
  if(ARG_FULL)
    set(without "XOE_TEST_WITHOUT=${ARG_FULL}")
    add_test(NAME ${name}_full COMMAND ${ARG_PROGRAM} "--gtest_filter=${ARG_FULL}")
    set_tests_properties(${name}_full PROPERTIES LABELS full TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${folders}")
  endif()
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST}
    ENVIRONMENT "${folders};${files};${without}")
endfunction()
