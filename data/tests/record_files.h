// Record files for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/stages/random.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {

inline constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip, Compression::kZlib};

inline std::string some_bytes(std::size_t count, std::uint64_t key) {
  Random random(key);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.integer(0, 255));
  return bytes;
}

// Writes records of these sizes, and returns their contents.
inline std::vector<std::string> write_records(const std::string& path, const std::vector<std::size_t>& sizes,
                                              Compression compression = Compression::kNone) {
  std::vector<std::string> records;
  auto writer = RecordWriter::create(path, compression).value();
  for (const std::size_t size : sizes) {
    records.push_back(some_bytes(size, records.size()));
    EXPECT_TRUE(writer.write(records.back()));
  }
  EXPECT_TRUE(writer.finish());
  return records;
}

}  // namespace xoe::data
