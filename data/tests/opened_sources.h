// Sources of images that a test opens, and what they hold.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/records/example.h"
#include "data/source/formats.h"
#include "data/tests/record_files.h"

namespace xoe::data {

// "bytes label" of every record.
inline std::vector<std::string> read_all(const ImageSource& source) {
  std::vector<std::string> records;
  std::string buffer;
  for (std::int64_t i = 0; i < source.records(); ++i) {
    const auto image = source.read(i, buffer);
    if (!image) {
      EXPECT_THAT(image.error().message(), testing::HasSubstr(source.name(i)));
      records.push_back(std::string(code_name(image.error().code())));
      continue;
    }
    records.push_back(std::string(image->bytes));
    if (source.multi_label())
      for (const float target : image->targets) records.back() += target > 0 ? " 1" : " 0";
    else
      records.back() += " " + std::to_string(image->label);
  }
  return records;
}

inline std::unique_ptr<ImageSource> opened(const ImagePipelineOptions& options) {
  auto source = open_image_source(options);
  EXPECT_TRUE(source) << source.error().message();
  return std::move(source).value();
}

inline Error error_of(const ImagePipelineOptions& options) {
  const auto source = open_image_source(options);
  EXPECT_FALSE(source);
  return source.error();
}

inline void write_images(const std::string& path, int count, Compression compression = Compression::kNone) {
  auto writer = RecordWriter::create(path, compression).value();
  for (int i = 0; i < count; ++i)
    EXPECT_TRUE(writer.write(make_image_example({.encoded = "jpeg" + std::to_string(i), .label = i + 1})));
  EXPECT_TRUE(writer.finish());
}

}  // namespace xoe::data
