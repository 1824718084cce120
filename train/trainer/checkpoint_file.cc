#include "train/trainer/checkpoint_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "XOECKPT1";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".ckpt";
constexpr std::string_view kUnfinished = ".step-";  // as OutputFile names what it writes

struct Header {
  std::array<char, 8> magic = {};
  std::uint64_t payload_bytes = 0;
  std::uint32_t payload_crc = 0;  // CRC-32 of zlib
  std::uint32_t section_count = 0;
};
static_assert(sizeof(Header) == 24);

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

tl::unexpected<Error> damaged(std::string_view name, std::string_view how) {
  return failure(
      Code::kDataLoss,
      "{} {}; remove it to resume from the checkpoint before it, or leave out --resume to start from scratch", name,
      how);
}

}  // namespace

std::string pack_sections(const Sections& sections) {
  ByteWriter writer;
  writer.raw(std::string(sizeof(Header), '\0'));
  for (const auto& [name, content] : sections) {
    writer.text<std::uint64_t>(name);
    writer.text<std::uint64_t>(content);
  }
  std::string bytes = std::move(writer).take();
  const std::string_view payload = std::string_view(bytes).substr(sizeof(Header));
  Header header;
  std::memcpy(header.magic.data(), kMagic.data(), kMagic.size());
  header.payload_bytes = payload.size();
  header.payload_crc = crc_of(payload);
  header.section_count = static_cast<std::uint32_t>(sections.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Result<Sections> unpack_sections(std::string_view bytes, std::string_view name) {
  Header header;
  if (!bytes.starts_with(kMagic.substr(0, std::min(bytes.size(), kMagic.size())))) {
    return damaged(name, "is not a checkpoint of Xoe");
  }
  if (bytes.size() < sizeof(header)) return damaged(name, "is cut short within its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::string_view rest = bytes.substr(sizeof(header));
  if (rest.size() != header.payload_bytes) {
    return damaged(
        name, fmt::format("is {}: it has {} bytes of {}", rest.size() < header.payload_bytes ? "cut short" : "too long",
                          rest.size(), header.payload_bytes));
  }
  if (crc_of(rest) != header.payload_crc) return damaged(name, "is corrupt: its checksum does not match");
  Sections sections;
  ByteReader reader(rest);
  for (std::uint32_t i = 0; i < header.section_count; ++i) {
    const std::string_view key = reader.text<std::uint64_t>();
    const std::string_view content = reader.text<std::uint64_t>();
    if (!reader.ok()) return damaged(name, "is corrupt: a section runs past its end");
    sections.emplace(key, content);
  }
  return sections;
}

Status write_sections(const std::string& path, const Sections& sections) {
  return write_file(path, pack_sections(sections));
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/{}{:08}{}", folder, kPrefix, step, kSuffix);
}

Result<std::vector<StoredCheckpoint>> list_checkpoints(const std::string& folder) {
  std::vector<StoredCheckpoint> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto digits = std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (const auto step = parse_integer(digits); step && *step >= 0) found.push_back({*step, entries->path()});
  }
  if (error)
    return failure(Code::kUnavailable, "cannot look for checkpoints in {}: {}", folder, errno_text(error.value()));
  std::ranges::sort(found, {}, &StoredCheckpoint::step);
  return found;
}

Status prune_checkpoints(const std::string& folder, int keep) {
  Status all;
  XOE_ASSIGN(const auto stored, list_checkpoints(folder));
  const std::size_t surplus = stored.size() - std::min(stored.size(), static_cast<std::size_t>(keep));
  for (std::size_t i = 0; i < surplus; ++i) {
    std::error_code error;
    fs::remove(stored[i].path, error);
    if (error && all)
      all = failure(Code::kUnavailable, "cannot remove the old checkpoint {}: {}", stored[i].path, error.message());
  }
  std::error_code ends_the_look;
  fs::directory_iterator entries(folder, ends_the_look);
  for (; !ends_the_look && entries != fs::directory_iterator(); entries.increment(ends_the_look)) {
    const std::string name = entries->path().filename();
    if (name.starts_with(kUnfinished)) remove_unfinished(entries->path());
  }
  return all;
}

}  // namespace xoe::train
