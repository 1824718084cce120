// The header of safetensors files, and the pickle of state dicts: any bytes, read as both.
#include "core/testing/fuzz/memory_file.h"
#include "target.h"
#include "train/trainer/safetensors.h"
#include "train/trainer/state_dict.h"

namespace {

std::size_t element_bytes(std::string_view dtype) {
  if (dtype.ends_with("64")) return 8;
  if (dtype.ends_with("32")) return 4;
  return dtype.ends_with("16") ? 2 : 1;
}

}  // namespace

XOE_FUZZ_TARGET(weights_fuzz) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto header = xoe::train::parse_safetensors_header(text)) {
    std::size_t end = header->bytes;
    for (const auto& tensor : header->tensors) end += tensor.bytes;
    xoe::require(end == size);
    xoe::require(xoe::train::safetensors_header(header->tensors, {}).has_value());
  }
  auto tensors = xoe::train::parse_state_dict(text);
  if (auto legacy = xoe::train::parse_legacy_state_dict(text)) {
    for (const auto& tensor : legacy->tensors)
      xoe::require(legacy->storages.at(tensor.record).size() / element_bytes(tensor.dtype) >=
                   static_cast<std::size_t>(tensor.storage_elements));
    tensors = std::move(legacy->tensors);
  }
  if (tensors) {
    for (const auto& tensor : *tensors) {
      std::int64_t last = tensor.offset;
      bool empty = false;
      xoe::require(tensor.shape.size() == tensor.strides.size() && tensor.offset >= 0);
      for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        last += (tensor.shape[i] - 1) * tensor.strides[i];
        empty = empty || tensor.shape[i] == 0;
      }
      xoe::require(empty || last < tensor.storage_elements);
    }
  }
  return 0;
}
