#include "input_pipelines.h"

#include "xoe/data/example.h"
#include "xoe/data/files.h"

namespace xoe::examples {

Result<std::vector<std::string>> record_files(const std::string& directory) {
  return data::match_files({directory + "/train-*"});
}

Result<Encoded> parse(std::string_view record, int label_offset) {
  auto example = data::ExampleView::parse(record);
  if (!example) return failure(example.error());
  const data::FeatureView* image = example->find("image/encoded");
  const data::FeatureView* label = example->find("image/class/label");
  const auto jpeg = image != nullptr ? image->only_bytes() : std::nullopt;
  const auto number = label != nullptr ? label->only_integer() : std::nullopt;
  if (!jpeg || !number) return failure(Code::kDataLoss, "a record without image/encoded or image/class/label");
  if (*number < label_offset)
    return failure(Code::kInvalidArgument, "a label " + std::to_string(*number) + " where labels count from " +
                                               std::to_string(label_offset) + " (label_offset, --label-offset)");
  return Encoded{*jpeg, *number - label_offset};
}

}  // namespace xoe::examples
