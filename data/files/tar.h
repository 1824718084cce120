// POSIX tar archives: ustar, with the long names of GNU and pax, plain or in a GZIP file; docs/formats/tar.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/output_file.h"
#include "data/files/archive_bytes.h"

namespace xoe::data {

inline constexpr std::uint64_t kTarBlock = 512;

// A member of an archive, with data if it is a regular file.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its data
  std::uint64_t bytes = 0;
  std::string_view instead = {};  // of a regular file: "a hard link"; static storage
};

// Reads an archive from header to header.
class TarReader {
 public:
  explicit TarReader(std::unique_ptr<ArchiveBytes> bytes) : bytes_(std::move(bytes)) {}

  // The offset of the next header.
  std::uint64_t offset() const noexcept { return offset_; }

  // The next member; folders and volume labels are skipped. nullopt at the end: only zeros follow, or nothing.
  // `data_loss`: a wrong checksum, a member that exceeds the file (of a GZIP file: that the member before did), or
  // bytes other than zeros behind a block of zeros; resynchronise() then moves to the next block with a good header, or
  // to the end.
  Result<std::optional<TarMember>> next();
  Status resynchronise();

  // Data of the member that next() returned last.
  Status read(const TarMember& member, char* to) const;
  // The archive's size; of a GZIP file only once its end was reached.
  std::optional<std::uint64_t> size() const { return bytes_->size(); }

 private:
  struct Header;
  Result<std::optional<Header>> read_header();
  Result<std::optional<Header>> end_of_file() const;
  Status check_end();
  void pass(const Header& header);
  Result<std::string> read_extra(const Header& header);
  Status parse_pax(std::string_view records);
  Status pass_sparse_map();
  TarMember take_member(Header header);

  std::unique_ptr<ArchiveBytes> bytes_;
  std::uint64_t offset_ = 0;
  std::uint64_t data_end_ = 0;   // of the member before
  std::uint64_t good_from_ = 0;  // no header lies before, as check_end() has found
  std::string long_name_;        // for the next member, from extension headers in front of it
  std::optional<std::uint64_t> long_bytes_;
  bool sparse_ = false;  // the next member, in one of pax's ways
};

class TarWriter {
 public:
  static Result<TarWriter> create(std::string path);

  // `invalid_argument`: an empty name, or one with a zero byte.
  Status write(std::string_view name, std::string_view data);
  // Without finish() there is no archive.
  Status finish();

 private:
  explicit TarWriter(OutputFile file) : file_(std::move(file)) {}
  Status write_member(std::string_view name, char type, std::string_view data);

  OutputFile file_;
};

}  // namespace xoe::data
