#include "data/files/missing.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMostNamed = 5;
constexpr std::uint64_t kMostShards = 1 << 20;  // a larger number in a name counts no shards

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder, not a file";
  if (S_ISFIFO(mode)) return "a pipe, not a file";
  if (S_ISSOCK(mode)) return "a socket, not a file";
  return "a device, not a file";
}

// "dir/train-00002-of-00006.tar"
struct ShardName {
  std::string_view before;  // "dir/train-"
  std::string_view digits;  // "00002"
  std::string_view after;   // "-of-00006.tar"
  std::uint64_t number = 0;
  std::uint64_t shards = 0;
};

std::uint64_t number_at(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kMostShards + 1;
}

std::optional<ShardName> parse_shard(std::string_view path) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t slash = path.rfind('/');
  const std::size_t of = path.rfind(kOf);
  if (of == std::string_view::npos || of == 0 || (slash != std::string_view::npos && of < slash)) return std::nullopt;
  const std::size_t first = path.find_last_not_of(kDigits, of - 1) + 1;  // also where all are digits
  const std::size_t total = of + kOf.size();
  const std::size_t end = std::min(path.find_first_not_of(kDigits, total), path.size());
  if (first == of || end == total) return std::nullopt;
  ShardName name{.before = path.substr(0, first), .digits = path.substr(first, of - first), .after = path.substr(of)};
  name.number = number_at(name.digits);
  name.shards = number_at(path.substr(total, end - total));
  if (name.number > kMostShards || name.shards > kMostShards || name.number > name.shards) return std::nullopt;
  return name;
}

}  // namespace

std::string why_no_file(const std::string& path, int reason) {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return errno_text(reason);
  const std::string_view to(target.data(), static_cast<std::size_t>(length));
  if (reason == ENOENT) return fmt::format("a link to {}, which does not exist", to);
  return fmt::format("a link to {}: {}", to, errno_text(reason));
}

void MissingData::add(std::string_view path, std::string_view why) {
  std::string message = fmt::format("{}: {}", path, why);
  const std::lock_guard lock(mutex_);
  ++count_;
  if (left_out_ != nullptr && allowed_) left_out_->add(message);
  first_.push_back(std::move(message));
  std::sort(first_.begin(), first_.end());  // threads may find them in any order
  if (first_.size() > kMostNamed) first_.pop_back();
}

std::int64_t MissingData::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Status MissingData::check(std::string_view where) const {
  const std::lock_guard lock(mutex_);
  if (count_ == 0 || allowed_) return {};
  std::string named;
  for (const std::string& one : first_) named += (named.empty() ? "" : "; ") + one;
  if (const std::int64_t more = count_ - std::ssize(first_); more > 0) named += fmt::format("; and {} more", more);
  return failure(Code::kDataLoss, "{}: {} missing: {}; {}", where,
                 count_ == 1 ? "a part of the data is" : fmt::format("{} parts of the data are", count_), named,
                 kMayGoOn);
}

Result<std::uint64_t> size_of_file(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return failure(Code::kDataLoss, why_no_file(path, errno));
  if (!S_ISREG(facts.st_mode)) return failure(Code::kDataLoss, std::string(kind_of(facts.st_mode)));
  if (facts.st_size == 0) return failure(Code::kDataLoss, "empty");
  return static_cast<std::uint64_t>(facts.st_size);
}

std::vector<std::uint64_t> sizes_of_files(const std::vector<std::string>& paths, int threads, MissingData& missing) {
  constexpr std::size_t kPathsPerTurn = 1024;  // of a thread
  std::vector<std::uint64_t> sizes(paths.size());
  const std::size_t turns = (paths.size() + kPathsPerTurn - 1) / kPathsPerTurn;
  for_each_in_threads(turns, threads, [&](std::size_t turn) {
    const std::size_t end = std::min((turn + 1) * kPathsPerTurn, paths.size());
    for (std::size_t i = turn * kPathsPerTurn; i < end; ++i) {
      const auto size = size_of_file(paths[i]);
      if (!size) missing.add(paths[i], size.error().message());
      sizes[i] = size.value_or(0);
    }
  });
  return sizes;
}

std::vector<std::uint64_t> keep_files(std::vector<std::string>& paths, int threads, MissingData& missing) {
  std::vector<std::uint64_t> sizes = sizes_of_files(paths, threads, missing);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (sizes[i] == 0) continue;
    if (kept != i) paths[kept] = std::move(paths[i]);
    sizes[kept++] = sizes[i];
  }
  paths.resize(kept);
  sizes.resize(kept);
  return sizes;
}

void find_absent_shards(const std::vector<std::string>& paths,
                        const std::function<bool(const std::string& path)>& wanted, MissingData& missing) {
  struct Group {
    std::size_t width = 0;
    std::uint64_t shards = 0;
    std::set<std::uint64_t> there;
  };
  std::map<std::pair<std::string_view, std::string_view>, Group> groups;
  for (const std::string& path : paths) {
    const auto name = parse_shard(path);
    if (!name) continue;
    Group& group = groups[{name->before, name->after}];
    group.width = name->digits.size();
    group.shards = name->shards;
    group.there.insert(name->number);
  }
  for (const auto& [name, group] : groups) {
    // Some tools count from 1.
    const std::uint64_t first = group.there.contains(group.shards) && !group.there.contains(0) ? 1 : 0;
    for (std::uint64_t number = first; number < first + group.shards; ++number) {
      if (group.there.contains(number)) continue;
      const std::string path = fmt::format("{}{:0{}}{}", name.first, number, group.width, name.second);
      struct stat ignored = {};
      if (wanted(path) && ::lstat(path.c_str(), &ignored) != 0)
        missing.add(path,
                    fmt::format("absent; {} of {} are there", counted(std::ssize(group.there), "file"), group.shards));
    }
  }
}

std::string describe_two_divisions(const std::vector<std::string>& paths) {
  std::map<std::pair<std::string_view, std::string_view>, std::map<std::string_view, std::int64_t>> divisions;
  for (const std::string& path : paths)
    if (const auto name = parse_shard(path)) {
      const std::size_t ending = std::min(name->after.find_first_not_of("-of0123456789"), name->after.size());
      ++divisions[{name->before, name->after.substr(ending)}][name->after];
    }
  for (const auto& [name, counts] : divisions) {
    if (counts.size() < 2) continue;
    const std::string_view stem = name.first.substr(name.first.rfind('/') + 1);
    const auto text = [&](const auto& one) { return fmt::format("{}*{}", stem, one.first); };
    const auto first = *counts.begin();
    const auto second = *std::next(counts.begin());
    return fmt::format("{} {} {}, and {} {}", counted(first.second, "file"), first.second == 1 ? "is" : "are",
                       text(first), second.second, text(second));
  }
  return {};
}

}  // namespace xoe::data
