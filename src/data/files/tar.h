// POSIX tar archives: ustar, with the long names of GNU and pax; docs/formats/tar.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/output_file.h"
#include "data/records/byte_source.h"

namespace xoe::data {

inline constexpr std::uint64_t kTarBlock = 512;

// A regular file in an archive.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its data
  std::uint64_t bytes = 0;
};

// Reads an archive from header to header.
class TarReader {
 public:
  explicit TarReader(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {}

  // The offset of the next header.
  std::uint64_t offset() const noexcept { return offset_; }

  // The next regular file; folders, links and other members are skipped. nullopt at the end: only zeros follow, or
  // nothing. `data_loss`: a wrong checksum, a member that exceeds the file, or bytes other than zeros behind a block of
  // zeros; resynchronise() then moves to the next block with a good header, or to the end.
  Result<std::optional<TarMember>> next();
  Status resynchronise();

 private:
  struct Header;
  Result<std::optional<Header>> read_header();
  Status check_end() const;
  Result<std::string> read_extra(const Header& header);
  Status parse_pax(std::string_view records);

  std::shared_ptr<const OpenFile> file_;
  std::uint64_t offset_ = 0;
  std::string long_name_;  // for the next member, from extension headers in front of it
  std::optional<std::uint64_t> long_bytes_;
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
