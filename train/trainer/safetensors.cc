#include "train/trainer/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace xoe::train {
namespace {

constexpr std::size_t kLongestHeader = 100'000'000;
constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 9> kSizes = {
      {{"BOOL", 1}, {"U8", 1}, {"I8", 1}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"F32", 4}, {"I64", 8}, {"F64", 8}}};
  for (const auto& [name, size] : kSizes)
    if (name == dtype) return size;
  return std::nullopt;
}

Status check_size(const SafeTensor& tensor) {
  const auto each = element_bytes(tensor.dtype);
  if (!each) return failure(Code::kInvalidArgument, "{}: safetensors has no dtype {}", tensor.name, tensor.dtype);
  std::uint64_t bytes = *each;
  bool fits = true;
  for (const std::int64_t side : tensor.shape)
    fits = fits && side >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes);
  if (fits && bytes == tensor.bytes) return {};
  return failure(Code::kInvalidArgument, "{}: {} bytes do not fit its shape", tensor.name, tensor.bytes);
}

struct Placed {
  std::uint64_t begin;
  SafeTensor tensor;
};

Result<Placed> parse_entry(const std::string& name, const nlohmann::json& entry) {
  try {
    const auto [begin, end] = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
    Placed placed = {.begin = begin,
                     .tensor = {.name = name,
                                .dtype = entry.at("dtype"),
                                .shape = entry.at("shape").get<std::vector<std::int64_t>>(),
                                .bytes = end - begin}};
    if (begin <= end && check_size(placed.tensor)) return placed;
  } catch (const nlohmann::json::exception&) {
    // Said below.
  }
  return failure(Code::kDataLoss, "its header has no valid type, shape and place of {}", name);
}

}  // namespace

Result<std::string> safetensors_header(std::span<const SafeTensor> tensors,
                                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t end = 0;
  for (const SafeTensor& tensor : tensors) {
    XOE_TRY(check_size(tensor));
    if (tensor.name == kMetadata || header.contains(tensor.name))
      return failure(Code::kInvalidArgument, "two tensors are named {}", tensor.name);
    const std::uint64_t begin = end;
    if (__builtin_add_overflow(begin, tensor.bytes, &end))
      return failure(Code::kInvalidArgument, "{}: the file would be too large", tensor.name);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kLongestHeader)
    return failure(Code::kInvalidArgument, "a header of {} bytes; readers of safetensors take at most {}", text.size(),
                   kLongestHeader);
  std::string bytes;
  append_little<std::uint64_t>(bytes, text.size());
  return bytes + text;
}

Result<SafeHeader> parse_safetensors_header(std::string_view file) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  if (file.size() < kLength) return failure(Code::kDataLoss, "it has {} bytes, too few for a header", file.size());
  const auto length = load_little<std::uint64_t>(file.data());
  if (length > kLongestHeader || length > file.size() - kLength)
    return failure(Code::kDataLoss, "it says that its header has {} bytes, but is not that long", length);
  SafeHeader header;
  header.bytes = kLength + length;
  const auto json = nlohmann::json::parse(file.substr(kLength, length), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return failure(Code::kDataLoss, "its header is not a JSON object");
  std::vector<Placed> placed;
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadata) continue;
    XOE_ASSIGN(Placed one, parse_entry(name, entry));
    placed.push_back(std::move(one));
  }
  std::ranges::sort(placed, {}, [](const Placed& one) { return std::pair(one.begin, one.tensor.bytes); });
  std::uint64_t end = 0;
  for (Placed& one : placed) {
    if (one.begin != end)
      return failure(Code::kDataLoss, "{} does not begin where the one before ends", one.tensor.name);
    end += one.tensor.bytes;
    if (end > file.size() - header.bytes) break;
    header.tensors.push_back(std::move(one.tensor));
  }
  if (end != file.size() - header.bytes)
    return failure(Code::kDataLoss, "its header and its {} bytes do not fit each other", file.size());
  return header;
}

}  // namespace xoe::train
