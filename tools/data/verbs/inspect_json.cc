#include "tools/data/verbs/inspect_json.h"

#include <algorithm>

#include "base/error.h"
#include "tools/data/image_facts.h"

namespace xoe::tools {
namespace {

using data::FeatureKind;
using data::FeatureView;

constexpr std::size_t kMaxValues = 100;

Json show_bytes(std::string_view bytes, std::size_t most) {
  const bool printable =
      bytes.size() <= most && std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return printable ? std::string(bytes) : fmt::format("<{} bytes>", bytes.size());
}

template <class T>
std::vector<T> values_of(const FeatureView& feature) {
  std::vector<T> values;
  feature.append_to(values);
  return values;
}

template <class T, class Show>
Json list(const FeatureView& feature, const Show& show) {
  Json out = Json::array();
  const auto values = values_of<T>(feature);
  for (std::size_t i = 0; i < std::min(values.size(), kMaxValues); ++i) out.push_back(show(values[i]));
  if (values.size() > kMaxValues) out.push_back(fmt::format("<{} more>", values.size() - kMaxValues));
  return out;
}

}  // namespace

Json show_short(const FeatureView& feature) {
  if (feature.size() != 1) return fmt::format("<{} values>", feature.size());
  if (const auto value = feature.only_integer()) return *value;
  if (const auto value = feature.only_float()) return *value;
  return show_bytes(feature.only_bytes().value_or(""), 80);
}

Json show_long(const FeatureView& feature) {
  constexpr std::size_t kMaxText = 1000;
  switch (feature.kind()) {
    case FeatureKind::kIntegers: return list<std::int64_t>(feature, [](std::int64_t value) { return Json(value); });
    case FeatureKind::kFloats: return list<float>(feature, [](float value) { return Json(value); });
    case FeatureKind::kBytes:
      return list<std::string_view>(feature, [](std::string_view value) { return show_bytes(value, kMaxText); });
    case FeatureKind::kEmpty: break;
  }
  return Json::array();
}

Json show_image(const data::ImageRecord& record) {
  const auto facts = data::read_image_facts(record);
  if (!facts) return {{"bytes", record.bytes.size()}, {"problem", facts.error().message()}};
  return {{"kind", image_kind_name(facts->kind)}, {"width", facts->width}, {"height", facts->height},
          {"channels", facts->channels},          {"bits", facts->bits},   {"colour", facts->colour()},
          {"bytes", record.bytes.size()}};
}

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace xoe::tools
