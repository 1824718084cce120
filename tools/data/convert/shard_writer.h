// Where converted images go: one file of many, or one folder of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/data/convert/picture.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

enum class ConvertTo : std::uint8_t { kTfRecord, kTar, kFolder };
std::string_view convert_to_name(ConvertTo to) noexcept;  // "tfrecord"

struct ConvertedImage {
  Picture picture;
  std::string_view name;             // of its file; within a shard, or a class's folder, each its own
  std::int64_t label = 0;            // from 0
  std::span<const float> targets{};  // instead of it, where an image can be of several classes
};

// What all shards of a run share.
struct ShardLayout {
  ConvertTo to = ConvertTo::kTfRecord;
  std::string directory;
  std::string split;  // "train"
  int shards = 1;
  Compression compression = Compression::kNone;
  std::vector<std::string> class_names;  // may be empty: unknown. Of a folder names that folders can have

  // "DIR/train-00003-of-00008", with ".tar"; "DIR/train" of a folder.
  std::string path(int shard) const;
  std::string class_name(std::int64_t label) const;  // or its number
};

class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  ShardWriter() = default;
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // `resource_exhausted`: the disk is full.
  virtual Status write(const ConvertedImage& image) = 0;
  // What was written is there for good. Without it, nothing of a file, or some files of a folder.
  virtual Status finish() = 0;
  virtual std::uint64_t bytes() const = 0;
};

Result<std::unique_ptr<ShardWriter>> create_shard(const ShardLayout& layout, int shard);
Result<std::unique_ptr<ShardWriter>> create_folder_shard(const ShardLayout& layout);  // for create_shard()

}  // namespace xoe::data
