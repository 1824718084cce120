#include <algorithm>

#include "data/failure_in.h"
#include "data/files/idx.h"
#include "data/files/listing.h"
#include "data/records/crc32c.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

constexpr std::uint32_t kMaxImageSide = 1 << 15;

class IdxImages final : public ImageSource {
 public:
  IdxImages(IdxArray images, std::string labels, int label_offset)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        label_offset_(label_offset),
        classes_(count_classes()) {}

  std::int64_t records() const noexcept override { return images_.items(); }
  std::string name(std::int64_t record) const override { return fmt::format("{}: image {}", images_.path(), record); }
  ImageOrigin origin(std::int64_t record) const override { return {images_.path(), record, name(record)}; }
  int classes() const noexcept override { return classes_; }
  int label_offset() const noexcept override { return label_offset_; }
  std::size_t files() const noexcept override { return 2; }
  OpenedFile file(std::size_t number) const override {
    if (number == 0) return {.name = name_below({}, images_.path()), .bytes = images_.bytes(), .records = records()};
    return {.name = "labels", .bytes = labels_.size(), .records = records()};
  }
  std::uint64_t labels_fingerprint() const override { return crc32c(labels_); }

  Result<ImageRecord> read(std::int64_t record, std::string& buffer) const override {
    const auto pixels = images_.read(record, buffer);
    if (!pixels) return failure_in(name(record), pixels.error());
    const auto& sizes = images_.sizes();
    return ImageRecord{.bytes = *pixels,
                       .width = static_cast<int>(sizes[2]),
                       .height = static_cast<int>(sizes[1]),
                       .channels = sizes.size() == 4 ? static_cast<int>(sizes[3]) : 1,
                       .label = label_of(record),
                       .targets = {}};
  }
  Result<std::int64_t> label(std::int64_t record, std::string&) const override { return label_of(record); }

 private:
  std::int64_t label_of(std::int64_t record) const {
    return static_cast<std::uint8_t>(labels_[static_cast<std::size_t>(record)]);
  }
  int count_classes() const {
    int highest = -1;
    for (const char label : labels_) highest = std::max<int>(highest, static_cast<std::uint8_t>(label));
    return static_cast<int>(std::max<std::int64_t>(std::int64_t{highest} + 1 - label_offset_, 0));
  }

  IdxArray images_;
  std::string labels_;
  int label_offset_;
  int classes_;
};

bool have_image_sizes(const std::vector<std::uint32_t>& sizes) {
  if (sizes.size() < 3 || sizes[1] == 0 || sizes[1] > kMaxImageSide || sizes[2] == 0 || sizes[2] > kMaxImageSide)
    return false;
  return sizes.size() == 3 || sizes[3] == 1 || sizes[3] == 3;
}

bool is_images_name(std::string_view name) { return is_idx_name(name) && name.find("idx3") != std::string::npos; }

bool is_idx(const std::string&, bool, const Listing& contents) {
  return std::any_of(contents.files.begin(), contents.files.end(), is_images_name);
}

Result<std::string> find_images_file(const std::string& directory, bool training) {
  XOE_ASSIGN(const Listing listing, list_directory(directory));
  const std::string_view begin = training ? "train-" : "t10k-";
  for (const std::string& name : listing.files)
    if (name.starts_with(begin) && is_images_name(name)) return directory + "/" + name;
  return failure(Code::kUnavailable, "{}: no {}images-idx3-ubyte", directory, begin);
}

// The labels' file has the images' name with these two parts exchanged.
Result<std::string> find_labels_file(const std::string& images) {
  std::string path = images;
  for (const auto& [from, to] : {std::pair{"images", "labels"}, std::pair{"idx3", "idx1"}}) {
    const std::size_t at = path.rfind(from);
    if (at == std::string::npos)
      return failure(Code::kInvalidArgument, "{}: the name of the labels' file cannot be derived from it", images);
    path.replace(at, std::string_view(from).size(), to);
  }
  for (std::string candidate : {path, path + ".gz", path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path})
    if (is_there(candidate)) return candidate;
  return failure(Code::kUnavailable, "{}: no such file", path);
}

bool has_idx_split(const ImagePipelineOptions& options) {
  return !is_directory(options.directory) || find_images_file(options.directory, options.training).has_value();
}

Result<SourcePtr> open_idx(const ImagePipelineOptions& options, MissingData&, BadRecords*) {
  std::string path = options.directory;
  if (is_directory(path)) {
    XOE_ASSIGN(path, find_images_file(options.directory, options.training));
  }
  XOE_ASSIGN(const std::string labels_path, find_labels_file(path));
  XOE_ASSIGN(IdxArray images, IdxArray::open(path));
  XOE_ASSIGN(const IdxArray labels, IdxArray::open(labels_path));
  if (!have_image_sizes(images.sizes()))
    return failure(Code::kDataLoss, "{}: {} dimensions are no images of 1 or 3 channels", path, images.sizes().size());
  if (labels.sizes().size() != 1 || labels.items() != images.items())
    return failure(Code::kDataLoss, "{}: {} labels for {} images", labels_path, labels.items(), images.items());
  std::string buffer;
  XOE_ASSIGN(const std::string_view bytes, labels.read_all(buffer));
  return std::make_unique<IdxImages>(std::move(images), std::string(bytes), label_offset_of(options, 0));
}

}  // namespace

constinit const SourceLayout kIdxFormat = {SourceFormat::kIdx, "idx", is_idx, has_idx_split, open_idx};

}  // namespace xoe::data
