// IDX files, the format of MNIST: arrays of bytes with up to four dimensions; docs/formats/idx.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/byte_source.h"

namespace xoe::data {

// MNIST's files, "train-images-idx3-ubyte" and the like: a "-" or a "." is before "idx", and ".gz" may be at the end.
bool is_idx_name(std::string_view name) noexcept;

// An array of bytes, plain or in a GZIP file; its first dimension counts the items. Thread safety: any number of
// threads may read at a time.
class IdxArray {
 public:
  // Decompresses a GZIP file into memory; items of a plain file are read on demand. `data_loss`: not the header of an
  // array of bytes, or not the size that the header gives. `unsupported`: more than 2 GiB when decompressed.
  static Result<IdxArray> open(const std::string& path);

  const std::string& path() const noexcept { return file_->path; }
  std::uint64_t bytes() const noexcept { return file_->bytes; }
  const std::vector<std::uint32_t>& sizes() const noexcept { return sizes_; }  // of each dimension
  std::int64_t items() const noexcept { return sizes_[0]; }
  std::size_t item_bytes() const noexcept { return item_bytes_; }

  // REQUIRES: 0 <= item < items(). Errors do not name file and item; the caller does.
  Result<std::string_view> read(std::int64_t item, std::string& buffer) const;
  // All items.
  Result<std::string_view> read_all(std::string& buffer) const;

 private:
  IdxArray() = default;
  Result<std::string_view> read_range(std::uint64_t from, std::size_t count, std::string& buffer) const;

  std::shared_ptr<const OpenFile> file_;
  std::vector<std::uint32_t> sizes_;
  std::size_t item_bytes_ = 1;
  std::uint64_t start_ = 0;                     // of the data in the file
  std::shared_ptr<const std::string> content_;  // of a GZIP file, without header
};

}  // namespace xoe::data
