#include <algorithm>
#include <type_traits>

#include "data/records/feature_parser.h"

namespace xoe::data {
namespace {

template <class Visit>
void for_each_bytes(protozero::pbf_reader list, const Visit& visit) {
  while (list.next(kItems, Wire::length_delimited)) visit(as_view(list.get_view()));
}

// Lists of numbers may be packed or not; parsers must accept both.
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

template <class Views>
auto find_named(const Views& views, std::string_view name, auto named) noexcept {
  const auto found = std::find_if(views.begin(), views.end(), [&](const auto& view) { return named(view) == name; });
  return found == views.end() ? nullptr : &*found;
}

// Calls visit(entry) for the entries of every map that is field `field` of the message.
template <class Visit>
void for_each_entry(protozero::pbf_reader message, protozero::pbf_tag_type field, const Visit& visit) {
  while (message.next(field, Wire::length_delimited)) {
    protozero::pbf_reader map = message.get_message();
    while (map.next(kFeatures, Wire::length_delimited)) visit(map.get_message());
  }
}

FeatureListView read_list(protozero::pbf_reader reader) {
  auto [name, steps] = FeatureParser::entry(reader);
  FeatureListView list{name, {}};
  while (steps.next(kItems, Wire::length_delimited))
    list.steps.push_back(FeatureParser::feature({}, steps.get_message()));
  return list;
}

// The last entry of a name counts.
template <class View>
void replace_or_add(std::vector<View>& views, const View* same, View view) {
  if (same != nullptr)
    views[static_cast<std::size_t>(same - views.data())] = std::move(view);
  else
    views.push_back(std::move(view));
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

Status for_each_feature(std::string_view example, const std::function<void(const FeatureView&)>& visit) {
  return parsed("tf.Example", [&]() -> Status {
    for_each_entry(protozero::pbf_reader(example.data(), example.size()), kFeatures,
                   [&](protozero::pbf_reader entry) { visit(FeatureParser::map_entry(entry)); });
    return {};
  });
}

Status ExampleView::keep(const FeatureView& feature) {
  replace_or_add(features_, find(feature.name()), feature);
  if (features_.size() > kMaxFeatures) return failure(Code::kDataLoss, "more than {} features", kMaxFeatures);
  return {};
}

Result<ExampleView> ExampleView::parse(std::string_view example) {
  ExampleView view;
  Status kept;
  XOE_TRY(for_each_feature(example, [&](const FeatureView& feature) {
    if (kept) kept = view.keep(feature);
  }));
  XOE_TRY(kept);
  return view;
}

const FeatureView* ExampleView::find(std::string_view name) const noexcept {
  return find_named(features_, name, [](const FeatureView& feature) { return feature.name(); });
}

Result<SequenceExampleView> SequenceExampleView::parse(std::string_view example) {
  SequenceExampleView view;
  const protozero::pbf_reader message(example.data(), example.size());
  Status kept;
  XOE_TRY(parsed("tf.SequenceExample", [&]() -> Status {
    for_each_entry(message, kFeatures, [&](protozero::pbf_reader entry) {
      if (kept) kept = view.context_.keep(FeatureParser::map_entry(entry));
    });
    for_each_entry(message, kFeatureLists, [&](protozero::pbf_reader entry) {
      FeatureListView list = read_list(entry);
      if (!kept) return;
      const FeatureListView* same = view.find(list.name);
      replace_or_add(view.lists_, same, std::move(list));
      if (view.lists_.size() > kMaxFeatures)
        kept = failure(Code::kDataLoss, "more than {} lists of features", kMaxFeatures);
    });
    return {};
  }));
  XOE_TRY(kept);
  return view;
}

const FeatureListView* SequenceExampleView::find(std::string_view name) const noexcept {
  return find_named(lists_, name, [](const FeatureListView& list) { return list.name; });
}

}  // namespace xoe::data
