#include "data/load/assumed_labels.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "data/failure_in.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kMostRecords = 64;

// What one record adds; no record where it cannot be read, an error where a label refutes the assumption.
Result<LabelsSeen> look_at(const ImageSource& source, std::int64_t record) {
  std::string buffer;
  if (source.multi_label()) {
    const auto image = source.read(record, buffer);  // checks the labels
    if (!image && !may_skip(image.error())) return failure(image.error());
    LabelsSeen seen;
    for (std::size_t i = 0; image && i < image->targets.size(); ++i) {
      if (image->targets[i] == 0) continue;
      seen.highest = source.label_offset() + static_cast<std::int64_t>(i);
      if (seen.records++ == 0) seen.lowest = seen.highest;
    }
    seen.records = std::min<std::int64_t>(seen.records, 1);
    return seen;
  }
  const auto label = source.label(record, buffer);
  if (!label) return LabelsSeen();
  const auto number = class_of(source, *label, 0);
  if (!number && !may_skip(number.error())) return failure_in(source.name(record), number.error());
  if (!number) return LabelsSeen();
  return LabelsSeen{
      .records = 1, .lowest = *label, .highest = *label, .confirmed = source.label_confirmed(record, buffer)};
}

}  // namespace

std::string describe_assumed_offset(const ImageSource& source, const std::string& directory, const LabelsSeen& seen) {
  if (!source.label_offset_assumed() || seen.records == 0 || seen.confirmed) return {};
  const std::int64_t first = source.label_offset();
  if (source.classes() > 0 && seen.highest == first + source.classes() - 1) return {};
  std::string scope = fmt::format("{} of {} records were", seen.records, source.records());
  if (seen.records == source.records()) scope = fmt::format("all {} records were", seen.records);
  if (source.records() == 1) scope = "the only record was";
  return fmt::format(
      "{}: labels are taken to count from {}, as in ImageNet's files, so label {} is class 0: {} looked at, with "
      "labels {} to {}. Labels that count from 0 look the same where class 0 is absent; say label_offset {} or 0 "
      "(--label-offset)",
      directory, first, first, scope, seen.lowest, seen.highest, first);
}

Result<std::string> check_assumed_offset(const ImageSource& source, const std::string& directory, int threads) {
  if (!source.label_offset_assumed()) return std::string();
  const std::int64_t records = source.records();
  const auto count = static_cast<std::size_t>(std::min(records, kMostRecords));
  std::vector<std::optional<Result<LabelsSeen>>> samples(count);
  for_each_in_threads(count, threads, [&](std::size_t i) {
    const auto last = std::max<std::int64_t>(static_cast<std::int64_t>(count) - 1, 1);
    samples[i] = look_at(source, static_cast<std::int64_t>(i) * (records - 1) / last);
  });
  LabelsSeen all;
  for (const auto& one : samples) {
    if (!*one) return failure(one->error());
    const LabelsSeen& seen = **one;
    if (seen.records == 0) continue;
    all.lowest = all.records == 0 ? seen.lowest : std::min(all.lowest, seen.lowest);
    all.highest = all.records == 0 ? seen.highest : std::max(all.highest, seen.highest);
    all.confirmed = all.confirmed || seen.confirmed;
    ++all.records;
  }
  return describe_assumed_offset(source, directory, all);
}

}  // namespace xoe::data
