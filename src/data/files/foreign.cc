#include "data/files/foreign.h"

#include <algorithm>
#include <array>

#include "data/files/missing.h"
#include "data/records/byte_source.h"

namespace xoe::data {
namespace {

struct Kind {
  std::string_view begin;
  std::string_view name;
};

using namespace std::string_view_literals;

// As the length of a first record, each would be of many gigabytes.
constexpr std::array kKinds = {
    Kind{"\xFF\xD8\xFF"sv, "a JPEG image"},
    Kind{"\x89PNG\r\n\x1A\n"sv, "a PNG image"},
    Kind{"GIF87a"sv, "a GIF image"},
    Kind{"GIF89a"sv, "a GIF image"},
    Kind{"RIFF"sv, "a RIFF file, such as a WebP image"},
    Kind{"II*\0\x08\0\0\0"sv, "a TIFF image"},
    Kind{"MM\0*\0\0\0\x08"sv, "a TIFF image"},
    Kind{"PK\x03\x04"sv, "a ZIP archive"},
    Kind{"BZh91AY&"sv, "a bzip2 file"},
    Kind{"\xFD\x37zXZ\0"sv, "an xz file"},
    Kind{"\x28\xB5\x2F\xFD"sv, "a zstd file"},
    Kind{"PAR1"sv, "a Parquet file"},
    Kind{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file"},
};

}  // namespace

std::string_view foreign_kind(const std::string& path) {
  constexpr std::size_t kLongest = 8;
  if (!size_of_file(path)) return {};
  const auto file = OpenFile::open(path);
  std::array<char, kLongest> bytes = {};
  if (!file || file->bytes < bytes.size() || !file->read_at(0, bytes.data(), bytes.size())) return {};
  const std::string_view begin(bytes.data(), bytes.size());
  const auto kind = std::ranges::find_if(kKinds, [begin](const Kind& one) { return begin.starts_with(one.begin); });
  return kind == kKinds.end() ? std::string_view() : kind->name;
}

}  // namespace xoe::data
