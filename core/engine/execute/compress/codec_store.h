// The codecs of a process set's operations, from one step to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine/execute/compress/codec.h"

namespace xoe::engine {

struct CodecScratch;  // codecs.h

// The codecs of an operation's tensors.
struct Codecs {
  std::uint64_t signature = 0;  // of the operation that they were made for
  std::vector<std::unique_ptr<Codec>> of_tensor;
};

// Keeps codecs by the name of their operation, and forgets those of names that are not used any more. Ranks must forget
// at the same time, since codecs share state between them: so it depends on nothing but the calls, which are the same
// on all ranks.
//
// While the state of all names is above the limit, names go of which it is true that they
//   - were used repeatedly and then not for four times their longest interval, counted in operations with codecs, nor
//     for four times as many operations as there are names;
//   - else were used only once, least recently used first.
// So names in use keep their state whatever the limit is. One that was forgotten after its first use is known when it
// comes back, and stays.
class CodecStore {
 public:
  CodecStore();

  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }

  // The codecs of a name, empty for a new one, of which `bytes` of state will be kept. Valid until the next call.
  Codecs& use(std::string_view name, std::size_t bytes);

  std::size_t names() const noexcept { return entries_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::shared_ptr<CodecScratch>& scratch() const noexcept { return scratch_; }

 private:
  struct Entry {
    std::string name;
    Codecs codecs;
    std::size_t bytes = 0;
    std::uint64_t used = 0;
    std::uint64_t interval = 0;     // the longest between two uses; 0: used once
    std::uint64_t lasts_until = 0;  // of a name that was used repeatedly
  };
  using Entries = std::list<Entry>;
  using End = std::pair<std::uint64_t, std::uint64_t>;  // the operation after which a name may go; the one that used it

  static End end_of(const Entry& entry) noexcept { return {entry.lasts_until, entry.used}; }
  void trim(const Entry& in_use);
  void forget(Entries::iterator place);

  std::size_t limit_ = ~std::size_t{0};
  std::size_t bytes_ = 0;
  std::uint64_t now_ = 0;  // operations so far
  Entries once_;           // least recently used first
  Entries often_;
  std::map<End, Entries::iterator> ends_;                            // of those in often_
  std::unordered_map<std::string_view, Entries::iterator> entries_;  // keys lie in the entries
  std::unordered_map<std::uint64_t, std::uint64_t> forgotten_;       // when they were used last, by the name's hash
  std::deque<std::uint64_t> forgotten_order_;
  std::shared_ptr<CodecScratch> scratch_;
};

}  // namespace xoe::engine
