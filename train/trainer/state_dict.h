// The pickle within a file of torch.save() that holds a dictionary of tensors: Python's state_dict(). Of pickle's
// machine (https://docs.python.org/3/library/pickletools.html) what such files need is understood; nothing is imported
// or called.
#pragma once

#include <cstdint>
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

}  // namespace xoe::train
