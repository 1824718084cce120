// tf.SequenceExample: any bytes; what is found lies within them, and reads again when it is written again.
#include "core/testing/fuzz/memory_file.h"
#include "target.h"
#include "xoe/data/example.h"

namespace {

using namespace xoe::data;
using xoe::require;

template <class T>
std::vector<T> values(const FeatureView& view) {
  std::vector<T> found;
  view.append_to(found);
  return found;
}

void add_step(SequenceExampleBuilder& builder, std::string_view list, const FeatureView& step) {
  const auto bytes = values<std::string_view>(step);
  const auto floats = values<float>(step);
  const auto integers = values<std::int64_t>(step);
  require(bytes.size() + floats.size() + integers.size() == step.size());
  if (step.kind() == FeatureKind::kFloats)
    builder.add_floats(list, floats);
  else if (step.kind() == FeatureKind::kIntegers)
    builder.add_integers(list, integers);
  else
    builder.add_bytes(list, bytes);
}

}  // namespace

XOE_FUZZ_TARGET(sequence_fuzz) {
  const auto view = SequenceExampleView::parse({reinterpret_cast<const char*>(bytes), size});
  if (!view) return 0;
  SequenceExampleBuilder builder;
  for (const FeatureView& feature : view->context().features())
    builder.context().add_integers(feature.name(), values<std::int64_t>(feature));
  for (const FeatureListView& list : view->lists())
    for (const FeatureView& step : list.steps) add_step(builder, list.name, step);
  const std::string written = builder.to_example();
  const auto again = SequenceExampleView::parse(written).value();
  require(again.context().features().size() == view->context().features().size());
  for (const FeatureListView& list : view->lists()) {
    const FeatureListView* same = again.find(list.name);
    require(list.steps.empty() || (same != nullptr && same->steps.size() == list.steps.size()));
    for (std::size_t i = 0; i < list.steps.size(); ++i) require(same->steps[i].size() == list.steps[i].size());
  }
  return 0;
}
