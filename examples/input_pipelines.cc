#include "input_pipelines.h"

#include <algorithm>
#include <filesystem>

#include "xoe/data/example.h"

namespace xoe::examples {

Result<std::vector<std::string>> record_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with("train-")) files.push_back(entry.path().string());
  if (error) return failure(Code::kUnavailable, directory + ": " + error.message());
  if (files.empty()) return failure(Code::kUnavailable, directory + ": no train-* file");
  std::sort(files.begin(), files.end());
  return files;
}

Result<Encoded> parse(std::string_view record) {
  auto example = data::ExampleView::parse(record);
  if (!example) return failure(example.error());
  const data::FeatureView* image = example->find("image/encoded");
  const data::FeatureView* label = example->find("image/class/label");
  const auto jpeg = image != nullptr ? image->only_bytes() : std::nullopt;
  const auto number = label != nullptr ? label->only_integer() : std::nullopt;
  if (!jpeg || !number) return failure(Code::kDataLoss, "a record without image/encoded or image/class/label");
  return Encoded{*jpeg, *number};
}

}  // namespace xoe::examples
