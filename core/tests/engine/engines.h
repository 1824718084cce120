// Engines for tests: ranks as threads, each with an engine of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/tests/comm/thread_group.h"
#include "xoe/engine.h"

namespace xoe::testing {

inline EngineOptions quiet_options() {
  EngineOptions options;
  options.cache_capacity = 256;
  options.tune = false;
  options.warn = [](std::string_view) {};
  return options;
}

// One engine for each communicator, made at the same time.
inline std::vector<std::unique_ptr<Engine>> make_engines(std::vector<Communicator> group,
                                                         const EngineOptions& options) {
  std::vector<std::unique_ptr<Engine>> engines(group.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < group.size(); ++r)
      threads.emplace_back([&, r] { engines[r] = Engine::create(std::move(group[r]), options).value(); });
  }
  return engines;
}

// Runs body(engine) once per rank, at the same time, and waits for all.
inline void run_engines(int size, const std::function<void(Engine&)>& body,
                        const EngineOptions& options = quiet_options(), const std::vector<int>& hosts = {}) {
  auto engines = make_engines(make_group(size, std::chrono::minutes(10), hosts), options);
  std::vector<std::jthread> threads;
  for (auto& engine : engines) threads.emplace_back([&] { body(*engine); });
}

template <class T>
TensorArg in_place(std::vector<T>& values, const std::vector<std::int64_t>& shape) {
  return {values.data(), values.data(), dtype_of<T>(), shape};
}

}  // namespace xoe::testing
