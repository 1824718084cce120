// Runs a function on several ranks that are threads of this process.
#pragma once

#include <ATen/Parallel.h>

#include <chrono>
#include <exception>
#include <type_traits>
#include <vector>

#include "core/tests/comm/thread_group.h"

namespace xoe::torch_test {

// What body(communicator) returned on each rank. The first exception of a rank is thrown here.
template <class Body>
auto on_ranks(int size, Body&& body) {
  using Value = std::invoke_result_t<Body&, Communicator&>;
  std::vector<Value> values(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  testing::run_ranks(size, [&](Communicator& comm) {
    at::set_num_threads(1);
    const auto rank = static_cast<std::size_t>(comm.rank());
    try {
      values[rank] = body(comm);
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return values;
}

}  // namespace xoe::torch_test
