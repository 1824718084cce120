// tf.Example: any bytes; what is found lies within them, and all ways of reading agree.
#include "core/testing/fuzz/memory_file.h"
#include "data/records/example.h"
#include "target.h"

#include <vector>

namespace {

using xoe::require;

void check(const xoe::data::FeatureView& view, std::string_view example) {
  const auto inside = [example](std::string_view part) {
    return part.empty() ||
           (part.data() >= example.data() && part.data() + part.size() <= example.data() + example.size());
  };
  std::vector<std::string_view> bytes;
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
  view.append_to(bytes);
  view.append_to(integers);
  view.append_to(floats);
  require(inside(view.name()));
  for (const auto part : bytes) require(inside(part));
  const std::size_t count = bytes.size() + integers.size() + floats.size();
  require(view.size() == count);
  require(view.only_bytes().has_value() == (count == 1 && bytes.size() == 1));
  require(view.only_integer().has_value() == (count == 1 && integers.size() == 1));
  require(view.only_float().has_value() == (count == 1 && floats.size() == 1));
  if (const auto integer = view.only_integer()) require(*integer == integers.front());
}

}  // namespace

XOE_FUZZ_TARGET(example_fuzz) {
  const std::string_view example(reinterpret_cast<const char*>(bytes), size);
  const auto view = xoe::data::ExampleView::parse(example);
  const auto image = xoe::data::parse_image_example(example);
  if (!view) return 0;
  for (const xoe::data::FeatureView& feature : view->features()) check(feature, example);
  if (image) require(image->encoded == view->find("image/encoded")->only_bytes());
  return 0;
}
