// The memory that a rank shares: one sparse memfd that every local rank maps whole, and a block allocator in it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::shm {

// A shared mapping of a whole memfd. Address space only: pages exist once they are touched.
class Mapping {
 public:
  static Result<std::shared_ptr<Mapping>> map(int fd, std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool contains(const void* data, std::size_t bytes) const noexcept;

 private:
  Mapping(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_;
  std::size_t bytes_;
};

// This rank's arena. Blocks are page-aligned and zero when handed out. Thread-safe.
class Arena {
 public:
  // Of this system: 4 KiB, on some ARM64 systems 16 or 64.
  static std::size_t page_bytes() noexcept;

  // Reserves `bytes` of address space; `reserved` at the front are outside the allocator.
  static Result<std::shared_ptr<Arena>> create(std::size_t bytes, std::size_t reserved);
  // The default for a process: the machine's memory, at most 64 GiB.
  static std::size_t default_bytes();

  int fd() const noexcept { return fd_.get(); }
  const std::shared_ptr<Mapping>& mapping() const noexcept { return mapping_; }

  // Offset of a free block; `resource_exhausted` says how much is there.
  Result<std::size_t> allocate(std::size_t bytes);
  // Gives the block's pages back to the system. In a forked child it does nothing: they are the parent's.
  void release(std::size_t offset, std::size_t bytes) noexcept;
  // Makes pages of a block this process's own, with what they hold: what peers write from now on does not show here,
  // and what this process writes does not show there. No write of this process is lost. The block is not allocated
  // again. False: there is no memory for that.
  bool take_back(const void* data, std::size_t bytes) noexcept;
  // Whether these bytes are in the arena, and not taken back.
  bool shares(const void* data, std::size_t bytes) const noexcept;

 private:
  Arena(Fd fd, std::shared_ptr<Mapping> mapping, std::size_t reserved);

  const pid_t owner_;
  Fd fd_;
  std::shared_ptr<Mapping> mapping_;
  bool overlaps_taken(std::size_t offset, std::size_t bytes) const noexcept;

  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;                 // offset -> bytes, never two neighbours that touch
  std::vector<std::pair<std::size_t, std::size_t>> taken_;  // offset, bytes
  std::atomic<bool> any_taken_ = false;
};

}  // namespace xoe::shm
