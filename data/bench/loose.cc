// Writes the images of record files also as loose files, in a folder for each class, and an index of each record file
// as DALI wants it: for peers that read nothing else.   xoe_bench_loose RECORDS-DIR OUT-DIR
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "data/files/listing.h"
#include "data/records/example.h"
#include "data/records/record_index.h"

namespace xoe::data {
namespace {

namespace fs = std::filesystem;

// OUT/files/0007/000123.jpg: number 123 of the whole set, class 7.
Status write_image(const std::string& out, const ImageExample& image, std::int64_t number) {
  const std::string folder = fmt::format("{}/files/{:04}", out, image.label);
  fs::create_directories(folder);
  const std::string path = fmt::format("{}/{:06}.jpg", folder, number);
  std::ofstream file(path, std::ios::binary);
  file.write(image.encoded.data(), static_cast<std::streamsize>(image.encoded.size()));
  file.close();
  if (!file) return failure(Code::kResourceExhausted, "{}: cannot be written", path);
  return {};
}

Result<std::int64_t> unpack(const std::string& records, const std::string& out) {
  XOE_ASSIGN(const auto paths, match_files(records, "train-*"));
  fs::create_directories(out + "/index");
  std::int64_t number = 0;
  std::string buffer;
  for (const std::string& path : paths) {
    XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
    const auto shared = std::make_shared<const OpenFile>(std::move(opened));
    XOE_ASSIGN(const FileIndex scanned, make_index(shared, {.compression = Compression::kNone}));
    const RecordFile file(shared);
    const auto& places = scanned.records;
    std::ofstream index(out + "/index/" + fs::path(path).filename().string());
    for (std::size_t i = 0; i < places.size(); ++i) {
      index << places[i].offset << ' ' << places[i].end() - places[i].offset << '\n';
      XOE_ASSIGN(const auto bytes, file.read(places[i], static_cast<std::int64_t>(i), buffer));
      XOE_ASSIGN(const auto image, parse_image_example(bytes));
      XOE_TRY(write_image(out, image, number++));
    }
    index.close();
    if (!index) return failure(Code::kResourceExhausted, "{}/index: cannot be written", out);
  }
  return number;
}

}  // namespace
}  // namespace xoe::data

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: xoe_bench_loose RECORDS-DIR OUT-DIR\n", stderr);
    return 2;
  }
  const auto written = xoe::data::unpack(argv[1], argv[2]);
  if (!written) {
    std::fprintf(stderr, "error: %s\n", written.error().message().c_str());
    return 1;
  }
  std::printf("%lld images\n", static_cast<long long>(*written));
  return 0;
}
