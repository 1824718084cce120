#include "data/cli/convert/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/output_file.h"
#include "data/files/tar.h"
#include "xoe/data/example.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {
namespace {

// The ImageNet layout counts classes from 1.
constexpr std::int64_t kFirstLabel = 1;

std::string make_example(const ShardLayout& layout, const ConvertedImage& image) {
  const ImageFacts& facts = image.encoded.facts;
  std::vector<std::int64_t> labels;
  if (image.targets.empty()) labels.push_back(image.label);
  for (std::size_t i = 0; i < image.targets.size(); ++i)
    if (image.targets[i] != 0) labels.push_back(static_cast<std::int64_t>(i));
  std::vector<std::string> names;
  for (const std::int64_t label : labels)
    if (!layout.class_names.empty()) names.push_back(layout.class_name(label));
  for (std::int64_t& label : labels) label += kFirstLabel;
  const std::vector<std::string_view> texts(names.begin(), names.end());
  FeaturesBuilder features;
  features.add_integer("image/height", facts.height)
      .add_integer("image/width", facts.width)
      .add_integer("image/channels", facts.channels)
      .add_bytes("image/colorspace", facts.channels <= 2 ? "Gray"
                                     : facts.cmyk        ? "CMYK"
                                                         : "RGB")
      .add_integers("image/class/label", labels);
  if (!texts.empty() || !image.targets.empty()) features.add_bytes("image/class/text", texts);
  features.add_bytes("image/format", image.encoded.encoding().name)
      .add_bytes("image/filename", image.name)
      .add_bytes("image/encoded", image.encoded.bytes);
  return features.to_example();
}

class RecordShard final : public ShardWriter {
 public:
  RecordShard(const ShardLayout& layout, RecordWriter writer) : layout_(layout), writer_(std::move(writer)) {}

  Status write(const ConvertedImage& image) override { return writer_.write(make_example(layout_, image)); }
  Status finish() override { return writer_.finish(); }
  std::uint64_t bytes() const override { return writer_.bytes(); }

 private:
  const ShardLayout& layout_;
  RecordWriter writer_;
};

class TarShard final : public ShardWriter {
 public:
  explicit TarShard(TarWriter writer) : writer_(std::move(writer)) {}

  // The members of a sample share their names up to the first dot.
  Status write(const ConvertedImage& image) override {
    const std::string_view key = image.name.substr(0, image.name.find('.'));
    const std::string label = std::to_string(image.label);
    XOE_TRY(writer_.write(fmt::format("{}{}", key, image.encoded.encoding().extensions[0]), image.encoded.bytes));
    bytes_ += image.encoded.bytes.size() + label.size();
    return writer_.write(fmt::format("{}.cls", key), label);
  }
  Status finish() override { return writer_.finish(); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  TarWriter writer_;
  std::uint64_t bytes_ = 0;
};

// One folder per class. Each file appears whole or not at all, and finish() flushes all of them at once, because a
// flush for each file would take most of the time.
class FolderShard final : public ShardWriter {
 public:
  explicit FolderShard(const ShardLayout& layout) : layout_(layout), root_(layout.path(0)) {}

  Status write(const ConvertedImage& image) override {
    XOE_ASSIGN(const std::string folder, folder_of(image.label));
    XOE_ASSIGN(OutputFile file, OutputFile::create(fmt::format("{}/{}", folder, image.name)));
    XOE_TRY(file.write(image.encoded.bytes));
    XOE_TRY(file.finish_unflushed());
    bytes_ += image.encoded.bytes.size();
    return {};
  }
  Status finish() override {
    const Fd root(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.valid() && ::syncfs(root.get()) == 0) return {};
    return failure(Code::kUnavailable, "{}: cannot flush: {}", root_, errno_text(errno));
  }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  Result<std::string> folder_of(std::int64_t label) {
    std::string path = fmt::format("{}/{}", root_, layout_.class_name(label));
    if (!made_.insert(label).second) return path;
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return failure(Code::kUnavailable, "{}: cannot make the folder: {}", path, error.message());
    return path;
  }

  const ShardLayout& layout_;
  std::string root_;
  std::set<std::int64_t> made_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::string_view convert_to_name(ConvertTo to) noexcept {
  switch (to) {
    case ConvertTo::kTfRecord: return "tfrecord";
    case ConvertTo::kTar: return "tar";
    case ConvertTo::kFolder: return "folder";
  }
  return "?";
}

std::string ShardLayout::path(int shard) const {
  if (to == ConvertTo::kFolder) return fmt::format("{}/{}", directory, split);
  return fmt::format("{}/{}-{:05}-of-{:05}{}", directory, split, shard, shards, to == ConvertTo::kTar ? ".tar" : "");
}

std::string ShardLayout::class_name(std::int64_t label) const {
  const auto at = static_cast<std::size_t>(label);
  return at < class_names.size() ? class_names[at] : fmt::format("{:05}", label);
}

Result<std::unique_ptr<ShardWriter>> create_shard(const ShardLayout& layout, int shard) {
  if (layout.to == ConvertTo::kFolder) return std::make_unique<FolderShard>(layout);
  if (layout.to == ConvertTo::kTar) {
    XOE_ASSIGN(TarWriter writer, TarWriter::create(layout.path(shard)));
    return std::make_unique<TarShard>(std::move(writer));
  }
  XOE_ASSIGN(RecordWriter writer, RecordWriter::create(layout.path(shard), layout.compression));
  return std::make_unique<RecordShard>(layout, std::move(writer));
}

}  // namespace xoe::data
