#include "engine/fork_mark.h"

#include <sys/mman.h>

namespace xoe::engine {
namespace {

constexpr unsigned long kPage = 4096;
volatile char never_forked = 1;  // where the kernel offers no such page

}  // namespace

ForkMark::ForkMark() noexcept : mark_(&never_forked) {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPage);
    return;
  }
  mark_ = static_cast<volatile char*>(page);
  *mark_ = 1;
}

ForkMark::~ForkMark() {
  if (mark_ != &never_forked) ::munmap(const_cast<char*>(mark_), kPage);
}

}  // namespace xoe::engine
