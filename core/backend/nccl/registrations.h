// The user's allocations that are registered with NCCL, which then moves them without copies of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/nccl/comm.h"

namespace xoe::nccl {

// Registers whole allocations, identified by CUDA's id of each: memory that was freed and allocated again is another
// allocation. Keeps the most recently used ones. Memory that cannot be registered is used without.
class Registrations {
 public:
  static constexpr std::size_t kKept = 16;

  Registrations(std::shared_ptr<const Libraries> libraries, Comm& comm);
  ~Registrations();

  // To be called before a collective that uses this memory, while none is in progress.
  void ensure_registered(const void* address, Clock::time_point deadline);

 private:
  struct Entry {
    std::uint64_t allocation;
    std::uint64_t begin, end;
    void* handle;  // nullptr: NCCL did not accept it
    std::uint64_t last_use;
  };

  void deregister(std::size_t index);

  const std::shared_ptr<const Libraries> libraries_;
  Comm& comm_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace xoe::nccl
