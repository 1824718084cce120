#include <type_traits>

#include "data/records/feature_parser.h"

namespace xoe::data {
namespace {

template <class Visit>
void for_each_bytes(protozero::pbf_reader list, const Visit& visit) {
  while (list.next(kItems, Wire::length_delimited)) visit(as_view(list.get_view()));
}

// Lists of numbers come packed or one by one; both must be read.
template <class Visit>
void for_each_float(protozero::pbf_reader list, const Visit& visit) {
  while (list.next(kItems)) {
    if (list.wire_type() == Wire::length_delimited)
      for (const float value : list.get_packed_float()) visit(value);
    else if (list.wire_type() == Wire::fixed32)
      visit(list.get_float());
    else
      list.skip();
  }
}

template <class Visit>
void for_each_integer(protozero::pbf_reader list, const Visit& visit) {
  while (list.next(kItems)) {
    if (list.wire_type() == Wire::length_delimited)
      for (const std::int64_t value : list.get_packed_int64()) visit(value);
    else if (list.wire_type() == Wire::varint)
      visit(list.get_int64());
    else
      list.skip();
  }
}

template <class Visit>
void for_each_value(std::string_view message, FeatureKind kind, const Visit& visit) {
  FeatureParser::for_each_list(message, kind, [&](protozero::pbf_reader list) {
    using Value = typename Visit::Value;
    if constexpr (std::is_same_v<Value, std::string_view>)
      for_each_bytes(list, visit);
    else if constexpr (std::is_same_v<Value, float>)
      for_each_float(list, visit);
    else
      for_each_integer(list, visit);
  });
}

template <class T>
struct Append {
  using Value = T;
  std::vector<T>& values;
  void operator()(T value) const { values.push_back(value); }
};
template <class T>
struct Take {
  using Value = T;
  T& value;
  void operator()(T found) const { value = found; }
};

template <class T>
std::optional<T> only(std::string_view message, bool fits, FeatureKind kind) noexcept {
  if (!fits) return std::nullopt;
  T value{};
  for_each_value(message, kind, Take<T>{value});
  return value;
}

std::size_t count_values(protozero::pbf_reader list, FeatureKind kind) {
  std::size_t count = 0;
  const auto one = [&count](auto) { ++count; };
  if (kind == FeatureKind::kBytes) for_each_bytes(list, one);
  if (kind == FeatureKind::kFloats) for_each_float(list, one);
  if (kind == FeatureKind::kIntegers) for_each_integer(list, one);
  return count;
}

}  // namespace

FeatureView FeatureParser::feature(std::string_view name, protozero::pbf_reader value) {
  FeatureView view;
  view.name_ = name;
  view.value_ = as_view(value.data());
  while (value.next()) {
    if (value.wire_type() != Wire::length_delimited || value.tag() < kBytesList || value.tag() > kInt64List) {
      value.skip();
      continue;
    }
    const auto kind = static_cast<FeatureKind>(value.tag());
    if (kind != view.kind_) view.size_ = 0;
    view.kind_ = kind;
    view.size_ += count_values(value.get_message(), kind);
  }
  return view;
}

std::pair<std::string_view, protozero::pbf_reader> FeatureParser::entry(protozero::pbf_reader entry) {
  std::string_view name;
  protozero::pbf_reader value;
  while (entry.next()) {
    if (entry.wire_type() == Wire::length_delimited && entry.tag() == kKey)
      name = as_view(entry.get_view());
    else if (entry.wire_type() == Wire::length_delimited && entry.tag() == kValue)
      value = entry.get_message();
    else
      entry.skip();
  }
  return {name, value};
}

std::optional<std::string_view> FeatureView::only_bytes() const noexcept {
  return only<std::string_view>(value_, kind_ == FeatureKind::kBytes && size_ == 1, kind_);
}
std::optional<float> FeatureView::only_float() const noexcept {
  return only<float>(value_, kind_ == FeatureKind::kFloats && size_ == 1, kind_);
}
std::optional<std::int64_t> FeatureView::only_integer() const noexcept {
  return only<std::int64_t>(value_, kind_ == FeatureKind::kIntegers && size_ == 1, kind_);
}

void FeatureView::append_to(std::vector<std::string_view>& values) const {
  if (kind_ == FeatureKind::kBytes) for_each_value(value_, kind_, Append<std::string_view>{values});
}
void FeatureView::append_to(std::vector<float>& values) const {
  if (kind_ == FeatureKind::kFloats) for_each_value(value_, kind_, Append<float>{values});
}
void FeatureView::append_to(std::vector<std::int64_t>& values) const {
  if (kind_ == FeatureKind::kIntegers) for_each_value(value_, kind_, Append<std::int64_t>{values});
}

std::string_view feature_kind_name(FeatureKind kind) noexcept {
  switch (kind) {
    case FeatureKind::kEmpty: break;
    case FeatureKind::kBytes: return "bytes";
    case FeatureKind::kFloats: return "float";
    case FeatureKind::kIntegers: return "int64";
  }
  return "empty";
}

}  // namespace xoe::data
