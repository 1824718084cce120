// Ranks as threads of the test process.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/shm/backend.h"
#include "xoe/communicator.h"

namespace xoe::testing {

// `size` communicators of one group, each for use by one thread.
// hosts: by rank; empty: one.
inline std::vector<Communicator> make_group(int size, std::chrono::nanoseconds timeout = std::chrono::seconds(60),
                                            const std::vector<int>& hosts = {}) {
  auto contexts = shm::Context::threads(size, std::size_t{256} << 20).value();
  const WaitPolicy policy{.limits = {.limit = timeout, .spares_computing = false}};
  std::vector<Communicator> group;
  for (auto& context : contexts)
    group.emplace_back(std::make_unique<shm::ShmBackend>(std::move(context), policy, hosts));
  return group;
}

// Runs body(communicator) once per rank, at the same time, and waits for all.
inline void run_ranks(int size, const std::function<void(Communicator&)>& body,
                      std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
  auto group = make_group(size, timeout);
  std::vector<std::jthread> threads;
  for (auto& communicator : group) threads.emplace_back([&] { body(communicator); });
}

}  // namespace xoe::testing
