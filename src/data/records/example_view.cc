#include <algorithm>

#include "data/records/feature_parser.h"

namespace xoe::data {
namespace {

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

// Of a name that comes twice the last one counts.
template <class View>
void replace_or_add(std::vector<View>& views, const View* same, View view) {
  if (same != nullptr)
    views[static_cast<std::size_t>(same - views.data())] = std::move(view);
  else
    views.push_back(std::move(view));
}

}  // namespace

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
