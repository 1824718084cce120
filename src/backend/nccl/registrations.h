// Allocations of the user that NCCL was told of, so that it moves them without copies of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/nccl/comm.h"

namespace xoe::nccl {

// Whole allocations, told apart by CUDA's number for each: memory that was freed and allocated anew is another one. The
// ones that were used last are kept. What cannot be registered travels without.
class Registrations {
 public:
  static constexpr std::size_t kKept = 16;

  Registrations(std::shared_ptr<const Libraries> libraries, Comm& comm);
  ~Registrations();

  // Before a collective that uses this memory, while none is under way.
  void use(const void* address, Clock::time_point deadline);

 private:
  struct Entry {
    std::uint64_t allocation;
    std::uint64_t begin, end;
    void* handle;  // nullptr: NCCL did not take it
    std::uint64_t turn;
  };

  void forget(std::size_t index);

  const std::shared_ptr<const Libraries> libraries_;
  Comm& comm_;
  std::vector<Entry> entries_;
  std::uint64_t turn_ = 0;
};

}  // namespace xoe::nccl
