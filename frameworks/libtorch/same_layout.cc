#include "frameworks/libtorch/same_layout.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::torch {
namespace {

// One line each: name, tab, description.
std::string to_text(const std::vector<Described>& things) {
  std::string text;
  for (const Described& thing : things) text += thing.name + '\t' + thing.description + '\n';
  return text;
}

std::vector<Described> from_text(std::string_view text) {
  std::vector<Described> things;
  for (const std::string& line : split_text(text, '\n')) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) things.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return things;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::string side(const std::vector<Described>& things, std::size_t index, int rank) {
  if (index >= things.size()) return fmt::format("rank {} has only {}", rank, things.size());
  return fmt::format("{} is {} on rank {}", things[index].name, things[index].description, rank);
}

// A description of the first difference between rank 0 and another rank; empty: none.
std::string first_difference(std::span<const std::vector<Described>> ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::size_t longest = std::max(ranks[0].size(), ranks[rank].size());
    for (std::size_t i = 0; i < longest; ++i) {
      const std::string ours = side(ranks[0], i, 0);
      const std::string theirs = side(ranks[rank], i, static_cast<int>(rank));
      const bool same = i < ranks[0].size() && i < ranks[rank].size() && ranks[0][i].name == ranks[rank][i].name &&
                        ranks[0][i].description == ranks[rank][i].description;
      if (!same) return fmt::format("{}, and {}", ours, theirs);
    }
  }
  return {};
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

Status check_same(const std::vector<Described>& mine, Communicator& comm, std::string_view what) {
  const std::string text = to_text(mine);
  const std::int64_t hash = static_cast<std::int64_t>(fnv1a(text));
  std::vector<std::int64_t> hashes(static_cast<std::size_t>(comm.size()));
  XOE_TRY(comm.allgather(ConstTensor(&hash, 1), Tensor(hashes.data(), hashes.size()), {.name = what}));
  if (std::ranges::all_of(hashes, [&](std::int64_t other) { return other == hashes[0]; })) return {};

  XOE_ASSIGN(const Gathered all,
             comm.allgather(ConstTensor(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
                            OpOptions{.name = what}));
  std::vector<std::vector<Described>> ranks;
  const char* next = reinterpret_cast<const char*>(all.data.data());
  for (const std::size_t count : all.counts) {
    ranks.push_back(from_text({next, count}));
    next += count;
  }
  return failure(Code::kInvalidArgument, "{}: ranks differ: {}", what, first_difference(ranks));
}

}  // namespace xoe::torch
