#include "core/reduce/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/copy.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::size_t head = std::min(bytes, (lanes - reinterpret_cast<std::uintptr_t>(to) % lanes) % lanes);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto a = hn::LoadU(tag, from + i);
    const auto b = hn::LoadU(tag, from + i + lanes);
    const auto c = hn::LoadU(tag, from + i + 2 * lanes);
    const auto d = hn::LoadU(tag, from + i + 3 * lanes);
    hn::Stream(a, tag, to + i);
    hn::Stream(b, tag, to + i + lanes);
    hn::Stream(c, tag, to + i + 2 * lanes);
    hn::Stream(d, tag, to + i + 3 * lanes);
  }
  std::memcpy(to + i, from + i, bytes - i);
  hwy::FlushStream();
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {
namespace {

HWY_EXPORT(copy);

// Shorter copies stay in the cache, whatever follows.
constexpr std::size_t kShort = std::size_t{4} << 10;

}  // namespace

void copy_past_cache(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes < kShort)
    std::memcpy(to, from, bytes);
  else
    HWY_DYNAMIC_DISPATCH(copy)(static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
}

}  // namespace xoe::reduce
#endif
