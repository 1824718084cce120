#include "core/bootstrap/await_ranks.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::duration kSlice = std::chrono::milliseconds(500);
// For a key that is there, or never will be.
constexpr Clock::duration kAtOnce = std::chrono::milliseconds(100);

// More names are of no help, and each takes its time.
constexpr std::size_t kMostNamed = 8;

std::string line_of(std::string_view ended, int rank) {
  for (const std::string& line : split_text(ended, '\n'))
    if (line.starts_with(fmt::format("{} ", rank))) return line;
  return {};
}

tl::unexpected<Error> missing(Store& store, const AwaitedRanks& awaited, std::chrono::nanoseconds timeout) {
  std::vector<int> missing;
  for (std::size_t i = 0; i < awaited.keys.size() && missing.size() < kMostNamed; ++i)
    if (!store.get(awaited.keys[i], kAtOnce)) missing.push_back(awaited.ranks[i]);
  return failure(Code::kTimeout, "rank{} {} did not appear within {}: did {} start, and call init()?",
                 missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), human_seconds(timeout),
                 missing.size() == 1 ? "it" : "they");
}

}  // namespace

std::string ended_line(Store& store, int rank) {
  const auto ended = store.get(kEndedRanksKey, kAtOnce);
  return ended ? line_of(*ended, rank) : std::string();
}

Result<std::vector<std::string>> await_ranks(Store& store, const AwaitedRanks& awaited,
                                             std::chrono::nanoseconds timeout) {
  const auto began = Clock::now();
  while (true) {
    const auto left = std::max(timeout - (Clock::now() - began), std::chrono::nanoseconds(1));
    auto all = store.get_all(awaited.keys, std::min<std::chrono::nanoseconds>(left, kSlice));
    if (all || all.error().code() != Code::kTimeout) return all;
    const std::string ended = store.get(kEndedRanksKey, kAtOnce).value_or("");
    for (std::size_t i = 0; i < awaited.keys.size() && !ended.empty(); ++i)
      if (const std::string line = line_of(ended, awaited.ranks[i]);
          !line.empty() && !store.get(awaited.keys[i], kAtOnce))
        return failure(Code::kPeerLost, "rank {}, before it joined the others with init()", line);
    if (Clock::now() - began >= timeout) return missing(store, awaited, timeout);
  }
}

}  // namespace xoe::bootstrap
