#include "engine/runtime/fork_detector.h"

#include <sys/mman.h>

namespace xoe::engine {
namespace {

constexpr unsigned long kPage = 4096;
volatile char never_forked = 1;  // stands in where the kernel cannot zero pages at fork

}  // namespace

ForkDetector::ForkDetector() noexcept : marker_(&never_forked) {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPage);
    return;
  }
  marker_ = static_cast<volatile char*>(page);
  *marker_ = 1;
}

ForkDetector::~ForkDetector() {
  if (marker_ != &never_forked) ::munmap(const_cast<char*>(marker_), kPage);
}

}  // namespace xoe::engine
