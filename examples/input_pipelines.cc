#include "input_pipelines.h"

#include <utility>

#include "xoe/data/example.h"
#include "xoe/data/files.h"

namespace xoe::examples {

Result<std::vector<std::string>> record_files(const WayOptions& options) {
  return data::match_files({options.directory + "/train-*"}, {.allow_missing = options.allow_missing});
}

std::string FileRecord::name() const {
  return *file + ": record " + std::to_string(record.number) + " at byte " + std::to_string(record.offset);
}

Result<data::StagePtr<FileRecord>> read_file(const WayOptions& options, const std::string& file) {
  data::RecordOptions reading;
  reading.max_bad = options.max_bad;
  return data::map<FileRecord, data::Record>(
      data::read_records(file, std::move(reading)),
      [name = std::make_shared<const std::string>(file)](const data::Record& record) -> Result<FileRecord> {
        return FileRecord{record, name};
      });
}

Error error_in(const std::string& name, const Error& error) { return {error.code(), name + ": " + error.message()}; }

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
