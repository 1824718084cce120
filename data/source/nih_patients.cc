#include "data/source/nih_patients.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "data/files/csv.h"

namespace xoe::data {

NihPatients::NihPatients(std::string_view table, const NihLists& lists) {
  CsvReader reader(table);
  std::vector<std::string> row;
  if (const auto head = reader.next(row); !head || !*head) return;
  const auto image = static_cast<std::size_t>(std::find(row.begin(), row.end(), "Image Index") - row.begin());
  const auto patient = static_cast<std::size_t>(std::find(row.begin(), row.end(), "Patient ID") - row.begin());
  if (image == row.size() || patient == row.size()) return;
  known_ = true;
  std::unordered_map<std::string, Example> seen;
  while (reader.next(row).value_or(false)) {
    if (row.size() <= std::max(image, patient)) continue;
    Example& example = seen[row[patient]];
    const bool before = !example.train_val.empty() && !example.test.empty();
    if (example.train_val.empty() && lists.train_val.contains(row[image])) example.train_val = row[image];
    if (example.test.empty() && lists.test.contains(row[image])) example.test = row[image];
    if (before || example.train_val.empty() || example.test.empty()) continue;
    both_.emplace(row[patient], example);
    order_.push_back(row[patient]);
  }
}

std::vector<std::string> NihPatients::problems() const {
  std::vector<std::string> problems;
  for (const std::string& patient : order_) {
    const Example& example = both_.at(patient);
    problems.push_back(fmt::format("patient {} is in train_val_list.txt ({}) and in test_list.txt ({})",
                                   patient.substr(0, 40), example.train_val, example.test));
  }
  return problems;
}

bool held_out(std::string_view patient, double share) noexcept {
  constexpr std::uint64_t kSalt = 0x6e696863;  // apart from other hashes
  return static_cast<double>(hash_text(patient, kSalt) >> 11) * 0x1p-53 < share;
}

}  // namespace xoe::data
