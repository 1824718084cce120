#include "data/load/class_runs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "data/stages/random.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

constexpr int kSamples = 6;           // each of
constexpr int kRecords = 16;          // from the whole, and as many from within the reach of the buffer
constexpr double kMixedEnough = 0.7;  // the share of the classes of the whole that such a part has

// A number for the class or the classes of a record; nullopt: it cannot be read.
std::optional<std::uint64_t> class_of(const ImageSource& source, std::int64_t record, std::string& buffer) {
  const auto read = source.read(record, buffer);
  if (!read) return std::nullopt;
  auto number = static_cast<std::uint64_t>(read->label);
  for (const float target : read->targets) number = mix(number, target != 0 ? 1 : 0);
  return number;
}

// Positions of which each sample is drawn: from all records, then from the reach of a buffer that begins anywhere.
std::vector<std::int64_t> draw_records(std::int64_t records, std::int64_t reach) {
  std::vector<std::int64_t> drawn;
  Random random(static_cast<std::uint64_t>(records));
  const auto below = [&random](std::int64_t end) {
    return static_cast<std::int64_t>(random.bits() % static_cast<std::uint64_t>(end));
  };
  for (int sample = 0; sample < kSamples; ++sample)
    for (int i = 0; i < kRecords; ++i) drawn.push_back(below(records));
  for (int sample = 0; sample < kSamples; ++sample) {
    const std::int64_t first = below(records - reach + 1);
    for (int i = 0; i < kRecords; ++i) drawn.push_back(first + below(reach));
  }
  return drawn;
}

// Different classes in the samples from all records, and in those from the reach.
std::array<int, 2> count_distinct(const std::vector<std::optional<std::uint64_t>>& classes) {
  std::array<int, 2> distinct = {};
  for (std::size_t first = 0; first < classes.size(); first += kRecords) {
    std::set<std::uint64_t> seen;
    for (std::size_t i = first; i < first + kRecords; ++i)
      if (classes[i]) seen.insert(*classes[i]);
    distinct[first < classes.size() / 2 ? 0 : 1] += static_cast<int>(seen.size());
  }
  return distinct;
}

std::string what_to_do(const ImageSource& source, const ImagePipelineOptions& options) {
  const std::string convert = "rewrite the data once with xoe data convert, which shuffles them";
  if (!source.random_access())
    return convert + ", or set a larger shuffle_buffer (with one of all records each read decompresses about a MiB)";
  if (options.shard_by_file) return convert + ", set a larger shuffle_buffer, or leave out shard_by_file";
  return "set shuffle_buffer to auto, which draws from all records and takes no memory";
}

}  // namespace

std::string describe_runs(const ImageSource& source, const ImagePipelineOptions& options) {
  const std::int64_t records = source.records();
  const std::int64_t reach = options.shuffle_buffer;
  if (!options.training || options.rank != 0 || reach <= 1 || reach >= records) return {};
  const std::vector<std::int64_t> drawn = draw_records(records, reach);
  std::vector<std::optional<std::uint64_t>> classes(drawn.size());
  for_each_in_threads(drawn.size(), options.threads, [&](std::size_t i) {
    std::string buffer;
    classes[i] = class_of(source, drawn[i], buffer);
  });
  const auto [whole, near] = count_distinct(classes);
  if (near >= kMixedEnough * whole) return {};
  return fmt::format(
      "{}: records of one class lie together, and the shuffle buffer of {} records does not mix them: {} records "
      "within "
      "its reach have {:.1f} different classes, as many of the whole have {:.1f}; {}",
      options.directory, reach, kRecords, static_cast<double>(near) / kSamples, static_cast<double>(whole) / kSamples,
      what_to_do(source, options));
}

}  // namespace xoe::data
