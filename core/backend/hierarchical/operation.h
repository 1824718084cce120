// One collective on its way between hosts, and the header by which ranks check that they run the same one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "core/backend/collective.h"
#include "core/backend/fingerprint.h"

namespace xoe::hierarchical {

struct Operation {
  const Collective& collective;
  std::uint64_t number;
  std::chrono::steady_clock::time_point deadline;

  std::string title() const { return title_of(collective, number); }
  std::chrono::nanoseconds time_left() const {
    return std::max(deadline - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(1));
  }
  // Another collective as a part of this operation.
  Operation with(const Collective& other) const { return {other, number, deadline}; }
};

// The ranks of a net exchange it before an operation: plain bytes of one size, whatever they are about to do, without
// padding.
struct OperationHeader {
  static constexpr std::size_t kInline = 320;

  std::uint64_t number = 0;
  std::int32_t rank = 0;  // in the group
  std::byte unused[52] = {};
  Fingerprint fingerprint = {};
  std::byte data[kInline] = {};

  OperationHeader() = default;
  OperationHeader(const Operation& op, int own) : number(op.number), rank(own) { fill(fingerprint, op.collective); }

  bool agrees(const OperationHeader& other) const noexcept {
    return number == other.number && digest(fingerprint) == digest(other.fingerprint);
  }
  std::string text() const { return fmt::format("{} as #{}", to_string(fingerprint), number); }
};
static_assert(std::has_unique_object_representations_v<OperationHeader>);

}  // namespace xoe::hierarchical
