#include "core/backend/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::shm {
namespace {

std::size_t round_to_pages(std::size_t bytes) {
  const std::size_t page = Arena::page_bytes();
  return (bytes + page - 1) / page * page;
}

}  // namespace

Result<std::shared_ptr<Mapping>> Mapping::map(int fd, std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED)
    return failure(Code::kResourceExhausted,
                   "cannot map {} of shared memory: {}. Lower XOE_ARENA_BYTES or raise the address space limit "
                   "(ulimit -v)",
                   human_bytes(bytes), errno_text(errno));
  // Both are hints: a core dump should not carry the peers' gradients, and huge pages help where shmem allows
  // them.
  ::madvise(base, bytes, MADV_DONTDUMP);
  ::madvise(base, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<Mapping>(new Mapping(static_cast<std::byte*>(base), bytes));
}

Mapping::~Mapping() { ::munmap(base_, bytes_); }

bool Mapping::contains(const void* data, std::size_t bytes) const noexcept {
  const auto* begin = static_cast<const std::byte*>(data);
  return begin >= base_ && bytes <= bytes_ && static_cast<std::size_t>(begin - base_) <= bytes_ - bytes;
}

std::size_t Arena::page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Arena::Arena(Fd fd, std::shared_ptr<Mapping> mapping, std::size_t reserved)
    : owner_(::getpid()), fd_(std::move(fd)), mapping_(std::move(mapping)) {
  free_.emplace(round_to_pages(reserved), mapping_->bytes() - round_to_pages(reserved));
}

Result<std::shared_ptr<Arena>> Arena::create(std::size_t bytes, std::size_t reserved) {
  bytes = round_to_pages(bytes);
  if (bytes <= round_to_pages(reserved))
    return failure(Code::kInvalidArgument, "a shared arena of {} is too small: the control block alone takes {}",
                   human_bytes(bytes), human_bytes(reserved));
  Fd fd(::memfd_create("xoe-arena", MFD_CLOEXEC));
  if (!fd.valid())
    return failure(Code::kResourceExhausted, "cannot create shared memory (memfd_create): {}", errno_text(errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return failure(Code::kResourceExhausted, "cannot reserve {} of shared memory: {}. Set XOE_ARENA_BYTES lower",
                   human_bytes(bytes), errno_text(errno));
  XOE_ASSIGN(auto mapping, Mapping::map(fd.get(), bytes));
  return std::shared_ptr<Arena>(new Arena(std::move(fd), std::move(mapping), reserved));
}

std::size_t Arena::default_bytes() {
  constexpr std::size_t kMost = std::size_t{64} << 30;
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes();
  std::size_t bytes = std::min(memory, kMost);
  // Growing a file past RLIMIT_FSIZE raises SIGXFSZ, also for a memfd.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<std::size_t>(limit.rlim_cur));
  return bytes / page_bytes() * page_bytes();
}

Result<std::size_t> Arena::allocate(std::size_t bytes) {
  // Checked before rounding, which would wrap for sizes near SIZE_MAX.
  const std::size_t capacity = mapping_->bytes();
  const std::lock_guard lock(mutex_);
  if (bytes <= capacity) {
    const std::size_t wanted = round_to_pages(std::max<std::size_t>(bytes, 1));
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->second < wanted) continue;
      const auto [offset, size] = *block;
      free_.erase(block);
      if (size > wanted) free_.emplace(offset + wanted, size - wanted);
      return offset;
    }
  }
  std::size_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return failure(Code::kResourceExhausted,
                 "cannot allocate {} of shared memory: the largest free block of this rank's {} arena has {}. Free "
                 "buffers or raise XOE_ARENA_BYTES",
                 human_bytes(bytes), human_bytes(capacity), human_bytes(largest));
}

bool Arena::take_back(const void* data, std::size_t bytes) noexcept {
  const auto start = static_cast<std::size_t>(static_cast<const std::byte*>(data) - mapping_->base());
  const std::size_t page = page_bytes();
  const std::size_t offset = start / page * page, size = round_to_pages(start + bytes) - offset;
  std::byte* const first = mapping_->base() + offset;
  if (::mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_.get(),
             static_cast<off_t>(offset)) == MAP_FAILED)
    return false;
  ::madvise(first, size, MADV_DONTDUMP);
  // A page is the peers' too until it is first written.
  for (std::size_t at = 0; at < size; at += page)
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(first + at)).fetch_or(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  taken_.emplace_back(offset, size);
  any_taken_.store(true, std::memory_order_release);
  return true;
}

bool Arena::shares(const void* data, std::size_t bytes) const noexcept {
  if (!mapping_->contains(data, bytes)) return false;
  if (!any_taken_.load(std::memory_order_acquire)) [[likely]]
    return true;
  const std::lock_guard lock(mutex_);
  return !overlaps_taken(static_cast<std::size_t>(static_cast<const std::byte*>(data) - mapping_->base()), bytes);
}

bool Arena::overlaps_taken(std::size_t offset, std::size_t bytes) const noexcept {
  return std::ranges::any_of(
      taken_, [&](const auto& taken) { return offset < taken.first + taken.second && taken.first < offset + bytes; });
}

void Arena::release(std::size_t offset, std::size_t bytes) noexcept {
  if (::getpid() != owner_) return;
  std::size_t size = round_to_pages(std::max<std::size_t>(bytes, 1));
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(size));
  const std::lock_guard lock(mutex_);
  if (overlaps_taken(offset, size)) {
    // A peer may still write here: only the address space is kept.
    [[maybe_unused]] void* const kept = ::mmap(mapping_->base() + offset, size, PROT_NONE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return;
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

}  // namespace xoe::shm
