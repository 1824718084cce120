// Texts that events refer to by number.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace xoe::trace {

// Any thread may call intern(), and text() with the id from an event: the block exists before the event does.
class TimelineNames {
 public:
  static constexpr std::size_t kLimit = 1 << 16;  // later names share the last id
  static constexpr std::size_t kLongest = 1024;   // bytes; cut beyond
  static constexpr std::string_view kOverflow = "(more names)";

  // Ids count from 1.
  std::uint32_t intern(std::string_view name);
  // Escaped for JSON.
  const std::string& text(std::uint32_t id) const { return (*blocks_[id / kBlock])[id % kBlock]; }

 private:
  static constexpr std::size_t kBlock = 256;
  using Block = std::array<std::string, kBlock>;

  std::mutex mutex_;
  std::uint32_t last_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> ids_;
  std::array<std::unique_ptr<Block>, kLimit / kBlock> blocks_;
};

}  // namespace xoe::trace
