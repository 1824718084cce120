#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "xoe/elastic.h"

namespace xoe::elastic {
namespace {

Tensor bytes_of(std::span<std::byte> bytes) { return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}; }

// The first line in which two texts differ, from each.
std::pair<std::string, std::string> first_difference(std::string_view mine, std::string_view theirs) {
  const auto line_at = [](std::string_view text, std::size_t at) -> std::string {
    if (at >= text.size()) return "nothing more";
    const auto begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(mine, theirs).in1 - mine.begin());
  return {line_at(mine, at), line_at(theirs, at)};
}

// On all ranks if `theirs`, the source's, is not `mine` on one of them.
Status same_everywhere(Communicator& comm, int source, std::string_view mine, std::string_view theirs) {
  std::int32_t first = mine == theirs ? comm.size() : comm.rank();
  const bool differs = first < comm.size();
  XOE_TRY(comm.allreduce(Tensor(&first, 1), ReduceOp::kMin, {.name = "elastic state"}));
  if (first == comm.size()) return {};
  if (!differs)
    return failure(Code::kInvalidArgument, "elastic state: rank {} registers other values than rank {}", first, source);
  const auto [own, other] = first_difference(mine, theirs);
  return failure(Code::kInvalidArgument, "elastic state: this rank registers {}, where rank {} has {}", own, source,
                 other);
}

}  // namespace

void Values::add(std::string name, Tensor tensor) {
  add_fixed(std::move(name), {static_cast<std::byte*>(tensor.data), tensor.count * dtype_size(tensor.dtype)});
}

void Values::add(std::string name, std::string& text) {
  add_growing({std::move(name), [&text] { return std::as_writable_bytes(std::span(text)); },
               [&text](std::size_t bytes) { text.resize(bytes); }});
}

void Values::add_fixed(std::string name, std::span<std::byte> bytes) {
  entries_.push_back({.name = std::move(name), .bytes = [bytes] { return bytes; }});
}

void Values::add_growing(Entry entry) { entries_.push_back(std::move(entry)); }

Status Values::save() {
  for (Entry& entry : entries_) {
    const auto bytes = entry.bytes();
    entry.copy.assign(bytes.begin(), bytes.end());
  }
  return {};
}

Status Values::restore() {
  for (Entry& entry : entries_) {
    if (entry.resize) entry.resize(entry.copy.size());
    std::ranges::copy(entry.copy, entry.bytes().begin());
  }
  return {};
}

std::string Values::describe() const {
  std::string text;
  for (const Entry& entry : entries_)
    text += entry.resize ? fmt::format("'{}' of any size\n", entry.name)
                         : fmt::format("'{}' of {} bytes\n", entry.name, entry.bytes().size());
  return text;
}

Status Values::sync(Communicator& comm, int source) {
  const std::string mine = describe();
  std::string theirs = mine;
  std::int64_t length = std::ssize(theirs);
  XOE_TRY(comm.broadcast(Tensor(&length, 1), source, {.name = "elastic state"}));
  theirs.resize(static_cast<std::size_t>(length));
  XOE_TRY(comm.broadcast(bytes_of(std::as_writable_bytes(std::span(theirs))), source, {.name = "elastic state"}));
  XOE_TRY(same_everywhere(comm, source, mine, theirs));

  std::vector<std::int64_t> sizes;
  for (const Entry& entry : entries_) sizes.push_back(std::ssize(entry.bytes()));
  XOE_TRY(comm.broadcast(Tensor(sizes.data(), sizes.size()), source, {.name = "elastic state"}));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].resize) entries_[i].resize(static_cast<std::size_t>(sizes[i]));
    XOE_TRY(comm.broadcast(bytes_of(entries_[i].bytes()), source, {.name = entries_[i].name}));
  }
  return {};
}

}  // namespace xoe::elastic
