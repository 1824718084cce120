// The CPU time of a stage's threads, for all stages of the process that choose their number of threads.
#pragma once

#include <span>
#include <thread>

namespace xoe::data::detail {

// Thread safety: one thread at a time.
class CpuAccount {
 public:
  CpuAccount() = default;
  ~CpuAccount() { close(); }
  CpuAccount(const CpuAccount&) = delete;
  CpuAccount& operator=(const CpuAccount&) = delete;

  // From when they run until before they are joined.
  void open(std::span<std::jthread> threads);
  void close();
};

}  // namespace xoe::data::detail
