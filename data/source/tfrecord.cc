#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>

#include "core/base/text.h"
#include "data/failure_in.h"
#include "data/files/foreign.h"
#include "data/files/listing.h"
#include "data/records/compression.h"
#include "data/records/example.h"
#include "data/records/record_index.h"
#include "data/source/formats.h"
#include "data/source/other_files.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kLabelSample = 100;  // records that lists_labels() reads

class TfRecordImages final : public ImageSource {
 public:
  // warnings: of describe_other_files().
  TfRecordImages(std::shared_ptr<const RecordIndex> index, ImagePipelineOptions options, std::vector<std::string> names,
                 std::vector<std::string> warnings)
      : index_(std::move(index)),
        options_(std::move(options)),
        names_(std::move(names)),
        warnings_(std::move(warnings)) {}

  std::int64_t records() const noexcept override { return index_->records(); }
  std::size_t groups() const noexcept override { return index_->files(); }
  std::int64_t first(std::size_t group) const noexcept override { return index_->first(group); }
  bool random_access() const noexcept override { return !index_->compressed(); }
  std::string name(std::int64_t record) const override { return index_->name(record); }
  ImageOrigin origin(std::int64_t record) const override {
    return {index_->file_of(record), index_->number_of(record), index_->name(record)};
  }
  int classes() const noexcept override { return options_.classes; }
  std::vector<std::string> class_names() const override { return names_; }
  bool multi_label() const noexcept override { return options_.multi_label; }
  int label_offset() const noexcept override { return label_offset_of(options_, 1); }
  bool label_offset_assumed() const noexcept override { return options_.label_offset == kAutoLabelOffset; }
  bool label_confirmed(std::int64_t record, std::string& buffer) const override {
    const auto example = names_.empty() ? Result<std::string_view>(std::string_view()) : index_->read(record, buffer);
    const auto image = example ? read_label(*example) : Result<ImageRecord>(failure(example.error()));
    if (!image) return false;
    const auto number = class_of(*this, image->label, options_.classes);
    return number && find_text(*example) == names_[static_cast<std::size_t>(*number)];
  }
  std::int64_t lost() const noexcept override { return index_->lost(); }
  std::vector<std::string> warnings() const override { return warnings_; }
  std::size_t files() const noexcept override { return index_->files(); }
  OpenedFile file(std::size_t number) const override {
    return {.name = name_below(options_.directory, index_->path(number)),
            .bytes = index_->bytes(number),
            .records = index_->first(number + 1) - index_->first(number)};
  }

  bool labels_at_hand() const noexcept override { return false; }
  Result<ImageRecord> read(std::int64_t record, std::string& buffer) const override {
    XOE_ASSIGN(const std::string_view example, index_->read(record, buffer));
    auto image = options_.multi_label ? read_targets(example, buffer) : read_label(example);
    if (!image) return failure_in(name(record), image.error());
    return image;
  }

 private:
  // The name of the class in the record; empty: none.
  static std::string_view find_text(std::string_view example) {
    std::string_view text;
    (void)for_each_feature(example, [&text](const FeatureView& feature) {
      if (feature.name() == "image/class/text") text = feature.only_bytes().value_or(std::string_view());
    });
    return text;
  }
  ImageKeys keys() const { return {options_.image_key, options_.label_key}; }
  Result<ImageRecord> read_label(std::string_view example) const {
    XOE_ASSIGN(const auto image, parse_image_labels(example, keys()));
    if (image.labels.size() != 1)
      return failure(Code::kDataLoss, "no single {}, but {} values; set multi_label where images have several",
                     options_.label_key, image.labels.size());
    return ImageRecord{.bytes = image.encoded, .label = image.label, .targets = {}};
  }
  // The targets follow the record in its buffer.
  Result<ImageRecord> read_targets(std::string_view example, std::string& buffer) const {
    XOE_ASSIGN(const auto image, parse_image_labels(example, keys()));
    std::vector<std::int64_t> labels;
    image.labels.append_to(labels);
    std::vector<float> targets(static_cast<std::size_t>(options_.classes));
    for (const std::int64_t label : labels) {
      XOE_ASSIGN(const std::int64_t number, class_of(*this, label, options_.classes));
      targets[static_cast<std::size_t>(number)] = 1;
    }
    const std::size_t start = static_cast<std::size_t>(image.encoded.data() - buffer.data());
    const std::size_t bytes = image.encoded.size();
    const std::size_t at = (buffer.size() + alignof(float) - 1) / alignof(float) * alignof(float);
    buffer.resize(at + targets.size() * sizeof(float));
    std::memcpy(buffer.data() + at, targets.data(), targets.size() * sizeof(float));
    return ImageRecord{.bytes = std::string_view(buffer).substr(start, bytes),
                       .targets = {reinterpret_cast<const float*>(buffer.data() + at), targets.size()}};
  }

  std::shared_ptr<const RecordIndex> index_;
  ImagePipelineOptions options_;
  std::vector<std::string> names_;
  std::vector<std::string> warnings_;
};

// labels.txt in the directory, or beside the file.
std::string labels_path(const ImagePipelineOptions& options) {
  const std::filesystem::path path(options.directory);
  return ((is_directory(options.directory) ? path : path.parent_path()) / "labels.txt").string();
}

// None where there is no such file.
Result<std::vector<std::string>> names_of(const ImagePipelineOptions& options) {
  const std::string path = labels_path(options);
  auto names = read_names(path);
  if (!names && (options.allow_missing || !is_there(path))) return std::vector<std::string>();
  return names;
}

Result<int> count_classes_of(const ImagePipelineOptions& options, const std::vector<std::string>& names) {
  int classes = options.classes;
  if (classes == 0) classes = static_cast<int>(std::min<std::size_t>(names.size(), kMaxMultiLabelClasses + 1));
  if (classes < 0 || classes > kMaxMultiLabelClasses)
    return failure(Code::kInvalidArgument, "{} classes; at most {} are possible", classes, kMaxMultiLabelClasses);
  if (classes == 0 && options.multi_label)
    return failure(Code::kInvalidArgument, "{}: images with several labels need the number of classes, or {}",
                   options.directory, labels_path(options));
  return classes;
}

// The names of ImageNet's files, those of TensorFlow Datasets, those of Kaggle (.tfrec) and those of TensorFlow's
// models (.record). The pattern for .tfrec takes .tfrecord as well.
constexpr std::array kTrainingFiles = {"train-*", "*train*.tfrec*", "*train*.record*"};
constexpr std::array kValidationFiles = {"validation-*",  "val-*",         "*val*.tfrec*",
                                         "*test*.tfrec*", "*val*.record*", "*test*.record*"};

bool is_split_name(const std::string& name) {
  return name.starts_with("train-") || name.starts_with("validation-") || name.starts_with("val-");
}

// What the first of the patterns that matches anything does.
Result<std::vector<std::string>> match_split(const std::string& directory, bool training) {
  const auto patterns =
      training ? std::span<const char* const>(kTrainingFiles) : std::span<const char* const>(kValidationFiles);
  auto found = match_files(directory, patterns[0]);
  for (std::size_t i = 1; !found && i < patterns.size(); ++i)
    if (auto others = match_files(directory, patterns[i])) found = std::move(others);
  return found;
}

// The validation split without files that the names give to training, as they do "trainval.tfrecord". May be empty.
std::vector<std::string> held_out_files(const std::string& directory) {
  const auto training = match_split(directory, true).value_or(std::vector<std::string>());
  for (const char* pattern : kValidationFiles)
    if (auto found = match_files(directory, pattern))
      if (auto held_out = without(std::move(*found), training); !held_out.empty()) return held_out;
  return {};
}

// The files that any of the patterns matches. May be none.
std::vector<std::string> match_all(const std::string& directory, std::initializer_list<const char*> patterns) {
  std::vector<std::string> all;
  for (const char* pattern : patterns)
    if (auto some = match_files(directory, pattern)) std::ranges::move(*some, std::back_inserter(all));
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Result<std::vector<std::string>> find_files(const ImagePipelineOptions& options) {
  if (!is_directory(options.directory)) return std::vector<std::string>{options.directory};
  if (!options.pattern.empty()) return match_files(options.directory, options.pattern);
  if (auto held_out = held_out_files(options.directory); !options.training && !held_out.empty()) return held_out;
  auto found = match_split(options.directory, options.training);
  if (found || !options.training || match_split(options.directory, false)) return found;
  // No name tells a split.
  if (auto all = match_all(options.directory, {"*.tfrec*", "*.record*"}); !all.empty()) return all;
  return found;
}

constexpr int kMostExamined = 1000;  // files whose names say nothing, as "part-r-00000"

// True where a file begins as files of records do, compressed or not.
bool begins_with_record(const std::string& path) {
  auto opened = OpenFile::open(path);
  return opened && opened->bytes > 0 && holds_records(std::make_shared<const OpenFile>(std::move(*opened)));
}

// The files of a directory that are of records by their names, or by their first bytes.
std::vector<std::string> files_of_records(const std::string& directory) {
  std::vector<std::string> found;
  int examined = 0;
  for (std::string& path : match_files(directory, "*").value_or(std::vector<std::string>())) {
    const std::string name = std::filesystem::path(path).filename();
    if (is_split_name(name) || is_record_name(name) || (examined++ < kMostExamined && begins_with_record(path)))
      found.push_back(std::move(path));
  }
  return found;
}

// Any single file may be one of records.
bool is_tfrecord(const std::string&, bool is_directory, const Listing& contents) {
  return !is_directory || std::any_of(contents.files.begin(), contents.files.end(), [](const std::string& name) {
    return is_split_name(name) || is_record_name(name);
  });
}

bool has_tfrecord_split(const ImagePipelineOptions& options) {
  return options.training ? find_files(options).has_value() : !held_out_files(options.directory).empty();
}

// By name, damage that costs records.
void name_lost(const RecordIndex& index, BadRecords& bad) {
  for (std::size_t file = 0; file < index.files(); ++file)
    for (const LostRange& range : index.lost_in(file)) {
      const std::string_view kind = range.offset == 0 ? foreign_kind(index.path(file)) : std::string_view();
      bad.add(fmt::format("{}: the lengths of records are damaged from byte {} to {}{}{}", index.path(file),
                          range.offset, range.bytes > 0 ? std::to_string(range.offset + range.bytes) : "the end",
                          kind.empty() ? "" : "; the first ones are those of ", kind));
    }
}

Result<std::shared_ptr<const RecordIndex>> open_index(const std::vector<std::string>& paths,
                                                      const ImagePipelineOptions& options) {
  auto index =
      RecordIndex::open(paths, {.threads = options.threads, .on_error = options.on_error, .max_lost = options.max_bad});
  if (index || index.error().code() != Code::kDataLoss) return index;
  return failure(Code::kDataLoss, "{}; {}", index.error().message(), kMayLeaveOut);
}

Result<SourcePtr> open_tfrecord(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad) {
  ImagePipelineOptions known = options;
  XOE_ASSIGN(auto names, names_of(options));
  XOE_ASSIGN(known.classes, count_classes_of(options, names));
  if (names.size() != static_cast<std::size_t>(known.classes)) names.clear();
  XOE_ASSIGN(auto paths, find_files(options));
  keep_shards(options, paths, missing);
  XOE_TRY(missing.check(options.directory));
  if (paths.empty()) return failure(Code::kUnavailable, "{}: none of its files is there", options.directory);
  XOE_ASSIGN(auto index, open_index(paths, options));
  if (bad != nullptr) name_lost(*index, *bad);
  for (std::size_t file = 0; file < index->files(); ++file)
    if (index->empty(file)) missing.add(index->path(file), "no record in it");
  XOE_TRY(missing.check(options.directory));
  if (index->records() == 0 && index->lost() == 0)
    return failure(Code::kDataLoss, "{}: no record in it", options.directory);
  auto warnings = describe_other_files(options, paths, {.candidates = files_of_records, .split = find_files});
  return std::make_unique<TfRecordImages>(std::move(index), std::move(known), std::move(names), std::move(warnings));
}

}  // namespace

constinit const SourceLayout kTfRecordFormat = {SourceFormat::kTfRecord, "tfrecord", is_tfrecord, has_tfrecord_split,
                                                open_tfrecord};

Result<bool> lists_labels(const ImagePipelineOptions& options) {
  XOE_ASSIGN(auto paths, find_files(options));
  paths.resize(1);
  XOE_ASSIGN(const auto index, RecordIndex::open(paths, {.on_error = OnError::kSkip, .max_lost = INT64_MAX}));
  std::string buffer;
  for (std::int64_t record = 0; record < std::min(kLabelSample, index->records()); ++record) {
    const auto example = index->read(record, buffer);
    const auto image = example ? parse_image_labels(*example, {options.image_key, options.label_key})
                               : Result<ImageExample>(failure(example.error()));
    if (image && image->labels.size() != 1) return true;
  }
  return false;
}

}  // namespace xoe::data
