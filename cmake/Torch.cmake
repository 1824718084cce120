# libtorch from the PyPI wheel in .venv, as imported targets. find_package(Torch) would ask for a CUDA toolkit; nothing of
# CUDA is needed to compile, and libtorch_cpu.so is all that is linked. The CUDA half, where the wheel's libraries
# are complete, is loaded at run time.
set(XOE_TORCH_ROOT "" CACHE PATH "The torch package folder; empty: found in .venv")
if(NOT XOE_TORCH_ROOT)
  file(GLOB found ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(POP_FRONT found torch_root)
else()
  set(torch_root ${XOE_TORCH_ROOT})
endif()
if(NOT torch_root OR NOT EXISTS ${torch_root}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch not found. Run `make setup`, or pass -DXOE_TORCH_ROOT=<site-packages>/torch, "
    "or build without training: -DXOE_WITH_TORCH=OFF")
endif()

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
