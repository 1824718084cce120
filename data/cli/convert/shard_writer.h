// Writes converted images into a file of many, or a folder of files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/cli/convert/reencode.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

enum class ConvertTo : std::uint8_t { kTfRecord, kTar, kFolder };
std::string_view convert_to_name(ConvertTo to) noexcept;  // "tfrecord"

struct ConvertedImage {
  EncodedImage encoded;
  std::string_view name;             // of its file; unique within a shard, or within a class's folder
  std::int64_t label = 0;            // from 0
  std::span<const float> targets{};  // in place of the label, where an image can be of several classes
};

// Properties that all shards of a run share.
struct ShardLayout {
  ConvertTo to = ConvertTo::kTfRecord;
  std::string directory;
  std::string split;  // "train"
  int shards = 1;
  Compression compression = Compression::kNone;
  std::vector<std::string> class_names;  // empty: unknown. With kFolder, names that folders can have

  // "DIR/train-00003-of-00008", with ".tar" for kTar; "DIR/train" for kFolder.
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
  // Makes the images permanent. Without finish() a file does not appear, and a folder may have some of its files.
  virtual Status finish() = 0;
  virtual std::uint64_t bytes() const = 0;
};

Result<std::unique_ptr<ShardWriter>> create_shard(const ShardLayout& layout, int shard);

}  // namespace xoe::data
