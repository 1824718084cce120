#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "xoe/data/stage.h"

namespace xoe::data {

Result<std::int64_t> State::pop(std::string_view name) {
  if (values_.empty())
    return failure(Code::kInvalidArgument, "saved position: {} is missing; it is of another pipeline", name);
  if (values_.back().first != name)
    return failure(Code::kInvalidArgument, "saved position: {} where {} was expected; it is of another pipeline",
                   values_.back().first, name);
  const std::int64_t value = values_.back().second;
  values_.pop_back();
  return value;
}

std::optional<std::int64_t> State::find(std::string_view name) const {
  const auto entry = std::ranges::find(values_, name, [](const auto& pair) -> std::string_view { return pair.first; });
  return entry == values_.end() ? std::nullopt : std::optional(entry->second);
}

Status State::set(std::string_view name, std::int64_t value) {
  const auto entry = std::ranges::find(values_, name, [](const auto& pair) -> std::string_view { return pair.first; });
  if (entry == values_.end()) return failure(Code::kInvalidArgument, "saved position: {} is missing", name);
  entry->second = value;
  return {};
}

void State::push_group(std::string name, const State& group) {
  values_.insert(values_.end(), group.values_.begin(), group.values_.end());
  push(std::move(name), static_cast<std::int64_t>(group.values_.size()));
}

Result<State> State::pop_group(std::string_view name) {
  XOE_ASSIGN(const std::int64_t count, pop(name));
  if (count < 0 || count > static_cast<std::int64_t>(values_.size()))
    return failure(Code::kInvalidArgument, "saved position: {} counts {} numbers where {} are left", name, count,
                   values_.size());
  State group;
  const auto first = values_.end() - static_cast<std::ptrdiff_t>(count);
  group.values_.assign(first, values_.end());
  values_.erase(first, values_.end());
  return group;
}

std::string State::to_text() const {
  std::string text;
  for (const auto& [name, value] : values_) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Result<State> State::from_text(std::string_view text) {
  State state;
  if (text.empty()) return state;
  for (const std::string& part : split_text(text, ' ')) {
    const auto equals = part.find('=');
    const auto value = equals == std::string::npos ? std::nullopt : parse_integer(part.substr(equals + 1));
    if (equals == 0 || !value) return failure(Code::kInvalidArgument, "saved position: cannot read \"{}\"", part);
    state.push(part.substr(0, equals), *value);
  }
  return state;
}

}  // namespace xoe::data
