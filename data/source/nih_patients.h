// Who is in which list of a data set in the layout of NIH ChestX-ray14.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

// The names of train_val_list.txt and test_list.txt; empty where a list is not there.
struct NihLists {
  std::unordered_set<std::string> train_val;
  std::unordered_set<std::string> test;
};

class NihPatients {
 public:
  NihPatients() = default;
  // Reads the column "Patient ID" of a table; without it nothing is known of patients. Stops where the table is broken.
  NihPatients(std::string_view table, const NihLists& lists);

  bool known() const noexcept { return known_; }
  // Whether images of this patient are in both lists, so that training would see who is tested.
  bool in_both(const std::string& patient) const { return both_.contains(patient); }
  // "patient 13 is in train_val_list.txt (00000013_000.png) and in test_list.txt (00000013_004.png)", in the table's
  // order.
  std::vector<std::string> problems() const;

 private:
  struct Example {
    std::string train_val;
    std::string test;
  };

  bool known_ = false;
  std::unordered_map<std::string, Example> both_;
  std::vector<std::string> order_;
};

// Whether a patient of train_val_list.txt belongs to the share that is held out for validation: a pure function of the
// patient, so the same for every run and every rank, and all of a patient's images go together.
bool held_out(std::string_view patient, double share) noexcept;

}  // namespace xoe::data
