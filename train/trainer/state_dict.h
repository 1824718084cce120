// The pickles within a file of torch.save() that holds a dictionary of tensors: Python's state_dict(). Of pickle's
// machine (https://docs.python.org/3/library/pickletools.html) what such files need is understood; nothing is imported
// or called.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::train {

// Elements `offset`, and on by `strides`, of the storage whose bytes are in the zip file's record data/`record`.
struct StoredTensor {
  std::string name = {};
  std::string dtype = {};  // "F32", "I64": as in safetensors
  std::string record = {};
  std::int64_t storage_elements = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};
};

// In the dictionary's order; every element lies within its storage, and no tensor has more elements than its storage.
// `data_loss`: the pickle is damaged, or holds something else.
Result<std::vector<StoredTensor>> parse_state_dict(std::string_view pickle);

// What torch.save() wrote before PyTorch 1.6, and still does without its zip files: pickles one after the other, then
// the bytes of the storages.
struct LegacyStateDict {
  std::vector<StoredTensor> tensors = {};
  std::map<std::string, std::string_view> storages = {};  // by record; parts of the file
};
// Whether the file begins like one.
bool is_legacy_state_dict(std::string_view file);
// As parse_state_dict(); every tensor's storage is whole.
Result<LegacyStateDict> parse_legacy_state_dict(std::string_view file);

}  // namespace xoe::train
