// The header of safetensors files: https://github.com/huggingface/safetensors#format. Behind it come the bytes of the
// tensors, little-endian, row by row, in the order of the header and without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::train {

struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32", "I64"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

// With the length in front, filled up to a multiple of 8 bytes. `invalid_argument`: an unknown dtype, a name that comes
// twice or is __metadata__, bytes that do not fit the shape, or a header above the 100 MB that readers take.
Result<std::string> safetensors_header(std::span<const SafeTensor> tensors,
                                       const std::map<std::string, std::string>& metadata);

struct SafeHeader {
  std::vector<SafeTensor> tensors;  // in the order of their bytes
  std::size_t bytes = 0;            // of the header; the first tensor begins there
};

// The header of a whole file. `data_loss` where it is damaged or does not fit the rest: the tensors fill it without
// gaps.
Result<SafeHeader> parse_safetensors_header(std::string_view file);

}  // namespace xoe::train
