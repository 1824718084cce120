# libtorch from a PyPI wheel, as imported targets. find_package(Torch) would ask for a CUDA toolkit; nothing of CUDA is needed
# to compile, and libtorch_cpu.so is all that is linked. The CUDA half, where the wheel's libraries are complete, is loaded at
# run time. Also find_package(xoe COMPONENTS torch) reads this file.
set(XOE_TORCH_ROOT "" CACHE PATH "The torch package folder; empty: found in .venv, or where python3 finds it")
set(torch_root ${XOE_TORCH_ROOT})
if(NOT torch_root)
  file(GLOB found ${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/torch)
  list(POP_FRONT found torch_root)
endif()
if(NOT torch_root)
  execute_process(COMMAND python3 -c "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT torch_root OR NOT EXISTS ${torch_root}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch not found. Run `make setup` in a checkout of Xoe, or pass -DXOE_TORCH_ROOT=<site-packages>/torch, "
    "or build without training: -DXOE_WITH_TORCH=OFF")
endif()

set(xoe_torch_version "")
if(EXISTS ${torch_root}/version.py)  # not in libtorch alone
  file(STRINGS ${torch_root}/version.py xoe_torch_version REGEX "^__version__")
endif()
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" xoe_torch_version "${xoe_torch_version}")

foreach(part c10 torch_cpu)
  add_library(torch_pip::${part} SHARED IMPORTED)
  set_target_properties(torch_pip::${part} PROPERTIES IMPORTED_LOCATION ${torch_root}/lib/lib${part}.so)
endforeach()
add_library(torch_pip::torch INTERFACE IMPORTED)
target_include_directories(torch_pip::torch SYSTEM INTERFACE
  ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_link_libraries(torch_pip::torch INTERFACE torch_pip::torch_cpu torch_pip::c10)
# The wheel's headers bring a newer {fmt} than Debian's library, and come first.
target_compile_definitions(torch_pip::torch INTERFACE FMT_HEADER_ONLY)
