#include "core/backend/nccl/registrations.h"

#include <algorithm>
#include <utility>

namespace xoe::nccl {

Registrations::Registrations(std::shared_ptr<const Libraries> libraries, Comm& comm)
    : libraries_(std::move(libraries)), comm_(comm) {}

Registrations::~Registrations() {
  while (!entries_.empty()) deregister(entries_.size() - 1);
}

void Registrations::ensure_registered(const void* address, Clock::time_point deadline) {
  const CudaApi& cuda = libraries_->cuda;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::uint64_t allocation = 0;
  unsigned long long begin = 0;
  std::size_t bytes = 0;
  ++uses_;
  if (address == nullptr || cuda.pointer_get_attribute(&allocation, kCudaBufferId, at) != 0) return;
  if (const auto known = std::ranges::find(entries_, allocation, &Entry::allocation); known != entries_.end()) {
    known->last_use = uses_;
    return;
  }
  if (cuda.mem_get_address_range(&begin, &bytes, at) != 0) return;
  const std::uint64_t end = begin + bytes;
  for (std::size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].begin < end && begin < entries_[i].end) deregister(i);  // freed meanwhile
  if (entries_.size() == kKept) {
    const auto oldest = std::ranges::min_element(entries_, {}, &Entry::last_use);
    deregister(static_cast<std::size_t>(oldest - entries_.begin()));
  }
  void* handle = nullptr;
  const Status registered = comm_.call(deadline, [&](NcclComm comm) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA tells addresses as numbers
    return libraries_->nccl.comm_register(comm, reinterpret_cast<void*>(begin), bytes, &handle);
  });
  entries_.push_back({allocation, begin, end, registered ? handle : nullptr, uses_});
}

void Registrations::deregister(std::size_t index) {
  const Entry entry = entries_[index];
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  if (entry.handle == nullptr || comm_.stopped()) return;  // the communicator released it
  (void)comm_.call(Clock::now() + std::chrono::seconds(1),
                   [&](NcclComm comm) { return libraries_->nccl.comm_deregister(comm, entry.handle); });
}

}  // namespace xoe::nccl
