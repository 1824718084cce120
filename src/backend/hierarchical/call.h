// One collective on its way through the steps, and how ranks tell that they are at the same one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "backend/backend.h"
#include "backend/shm/describe.h"

namespace xoe::hierarchical {

struct Call {
  const Collective& collective;
  std::uint64_t number;
  std::chrono::steady_clock::time_point deadline;

  // "allreduce #17 (conv1.weight)"
  std::string title() const {
    const auto name = collective.options.name;
    return fmt::format("{} #{}{}", collective_name(collective.kind), number,
                       name.empty() ? "" : fmt::format(" ({})", name));
  }
  std::chrono::nanoseconds time_left() const {
    return std::max(deadline - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(1));
  }
};

// What the ranks of a net tell each other before they begin: plain bytes of one size, whatever they are about to do.
struct Greeting {
  static constexpr std::size_t kInline = 320;

  std::uint64_t number = 0;
  std::int32_t rank = 0;  // in the group
  shm::Description description = {};
  std::byte data[kInline] = {};

  Greeting() = default;
  Greeting(const Call& call, int own) : number(call.number), rank(own) { shm::describe(description, call.collective); }

  bool agrees(const Greeting& other) const noexcept {
    return number == other.number && shm::signature(description) == shm::signature(other.description);
  }
  std::string text() const { return fmt::format("{} as #{}", shm::to_text(description), number); }
};

}  // namespace xoe::hierarchical
