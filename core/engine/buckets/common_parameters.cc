#include "core/engine/buckets/common_parameters.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

// Set rank 0's list on its way: fields that end with a zero byte, first the size of buckets, then of each parameter its
// name, the number of its type, and its dimensions.
std::string write_list(std::span<const BucketParameter> parameters, std::size_t bucket_bytes) {
  std::string text = fmt::format("{}", bucket_bytes) + '\0';
  for (const BucketParameter& parameter : parameters) {
    text += parameter.name + '\0';
    text += fmt::format("{}", static_cast<int>(parameter.dtype)) + '\0';
    text += fmt::format("{}", fmt::join(parameter.shape, " ")) + '\0';
  }
  return text;
}

std::string_view take(std::string_view& text, char end) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view field = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return field;
}

template <class T>
T number(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

CommonParameters read_list(std::string_view text) {
  CommonParameters list;
  list.bucket_bytes = number<std::size_t>(take(text, '\0'));
  while (!text.empty()) {
    BucketParameter parameter{.name = std::string(take(text, '\0')), .dtype = {}, .shape = {}};
    parameter.dtype = static_cast<DType>(number<int>(take(text, '\0')));
    for (std::string_view shape = take(text, '\0'); !shape.empty();)
      parameter.shape.push_back(number<std::int64_t>(take(shape, ' ')));
    list.parameters.push_back(std::move(parameter));
  }
  return list;
}

// flags[i]: on all ranks.
Status intersect(std::vector<std::uint8_t>& flags, const std::string& name, ProcessSetId set, const RunRequest& run) {
  const std::int64_t count = std::ssize(flags);
  const TensorArg tensor{.in = flags.data(), .out = flags.data(), .dtype = DType::kUint8, .shape = {&count, 1}};
  XOE_ASSIGN([[maybe_unused]] const auto done, run({.name = name,
                                                    .queue_same_name = true,
                                                    .op = {.reduce = ReduceOp::kMin, .needs_all_ranks = true},
                                                    .tensors = {&tensor, 1},
                                                    .process_set = set}));
  return {};
}

}  // namespace

Result<CommonParameters> agree_on_parameters(std::span<const BucketParameter> own, std::size_t bucket_bytes,
                                             const std::string& name, ProcessSetId set, const RunRequest& run) {
  const std::string mine = write_list(own, bucket_bytes);
  const std::int64_t bytes = std::ssize(mine);
  const TensorArg list{.in = mine.data(), .dtype = DType::kUint8, .shape = {&bytes, 1}};
  XOE_ASSIGN(const EngineHandle sent, run({.name = name + " order",
                                           .queue_same_name = true,
                                           .op = {.kind = OpKind::kBroadcastBytes, .needs_all_ranks = true},
                                           .tensors = {&list, 1},
                                           .process_set = set}));
  const Output& theirs = sent.outputs()[0];
  CommonParameters common =
      read_list({static_cast<const char*>(theirs.data), static_cast<std::size_t>(theirs.shape[0])});
  std::map<std::string_view, const BucketParameter*> by_name;
  for (const BucketParameter& parameter : own) by_name.emplace(parameter.name, &parameter);
  std::vector<std::uint8_t> here;
  for (const BucketParameter& wanted : common.parameters) {
    const auto found = by_name.find(wanted.name);
    here.push_back(found != by_name.end() && found->second->dtype == wanted.dtype &&
                   found->second->shape == wanted.shape);
  }
  if (!here.empty()) XOE_TRY(intersect(here, name + " parameters", set, run));
  std::size_t index = 0;
  std::erase_if(common.parameters, [&](const BucketParameter&) { return here[index++] == 0; });
  return common;
}

Result<bool> all_agree(bool yes, const std::string& name, ProcessSetId set, const RunRequest& run) {
  std::vector<std::uint8_t> flag{static_cast<std::uint8_t>(yes ? 1 : 0)};
  XOE_TRY(intersect(flag, name, set, run));
  return flag[0] != 0;
}

}  // namespace xoe::engine
