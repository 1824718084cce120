// Finds out that a program repeats itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace xoe::engine {

// The ids that were decided, in groups. A period is found when the last groups hold, in any order, the same ids as what
// was decided right before them: ranks may get the tensors of a step ready in an order that varies.
class DecisionHistory {
 public:
  static constexpr std::size_t kLongest = std::size_t{1} << 16;

  void add_group(std::span<const std::uint32_t> ids);
  // Something happened that no plan can hold.
  void clear();
  // The groups of the last period.
  std::optional<std::vector<std::vector<std::uint32_t>>> period() const;
  // A plan that came from here was left after so many ids. One that was left at once makes the next one come later, and
  // be a longer one: "a a a b" is left as "a" until it is found as a whole.
  void broke(std::size_t length, std::uint64_t followed);

 private:
  bool repeats(std::size_t start) const;

  std::vector<std::uint32_t> ids_;
  std::vector<std::uint64_t> sums_{0};  // of the hashes of all ids before
  std::vector<std::size_t> starts_;     // of groups
  std::unordered_map<std::uint32_t, std::size_t> last_;
  std::size_t repeated_at_ = 0;  // where the last group's last id was before; == ids_.size(): nowhere
  std::size_t shortest_ = 1;
  std::size_t pause_ = 0;  // ids still to come before a period is looked for
  std::size_t next_pause_ = 0;
};

}  // namespace xoe::engine
