// The limit of any pipeline around libjpeg-turbo: whole images from memory to RGB, and nothing else.
//   xoe_bench_turbo_limit RECORDS-DIR THREADS SECONDS [WARMUP]
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/process_use.h"
#include "data/files/listing.h"
#include "data/records/example.h"
#include "data/records/record_index.h"

namespace {

using Clock = std::chrono::steady_clock;

xoe::Result<std::vector<std::string>> read_images(const std::string& directory) {
  XOE_ASSIGN(const auto paths, xoe::data::match_files(directory, "train-*"));
  XOE_ASSIGN(const auto index, xoe::data::RecordIndex::open(paths, {}));
  std::vector<std::string> images;
  std::string buffer;
  for (std::int64_t record = 0; record < index->records(); ++record) {
    XOE_ASSIGN(const auto bytes, index->read(record, buffer));
    XOE_ASSIGN(const auto image, xoe::data::parse_image_example(bytes));
    images.emplace_back(image.encoded);
  }
  return images;
}

// Its default settings: the accurate integer transform, smooth upsampling. The images are our own, so libjpeg's way
// with errors, which is to end the program, is right here.
class Decoder {
 public:
  Decoder() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info_); }

  void decode(const std::string& image) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(image.data()), image.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    const std::size_t stride = std::size_t{3} * info_.output_width;
    pixels_.resize(stride * info_.output_height);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels_.data() + stride * info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
  }

 private:
  jpeg_error_mgr errors_ = {};
  jpeg_decompress_struct info_ = {};
  std::vector<unsigned char> pixels_;
};

// Decodes one image after the other, for so many seconds, on so many threads. Returns how many.
std::int64_t decode_for(const std::vector<std::string>& images, int threads, double seconds) {
  std::atomic<std::int64_t> done = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const auto work = [&images, &done, end] {
    Decoder decoder;
    while (Clock::now() < end) decoder.decode(images[static_cast<std::size_t>(done++) % images.size()]);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0;
  if (argc > 5 || threads < 1 || !(seconds > 0)) {
    std::fputs("usage: xoe_bench_turbo_limit RECORDS-DIR THREADS SECONDS [WARMUP]\n", stderr);
    return 2;
  }
  const auto images = read_images(argv[1]);
  if (!images) {
    std::fprintf(stderr, "error: %s\n", images.error().message().c_str());
    return 1;
  }
  if (argc > 4) decode_for(*images, threads, std::atof(argv[4]));
  const double cpu = xoe::process_cpu_seconds();
  const auto start = Clock::now();
  const std::int64_t done = decode_for(*images, threads, seconds);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print(
      "{{\"name\": \"libjpeg-turbo\", \"threads\": {}, \"images_per_s\": {}, \"cpu_ms_per_image\": {}, \"images\": {}, "
      "\"seconds\": {}}}\n",
      threads, static_cast<double>(done) / took, 1e3 * (xoe::process_cpu_seconds() - cpu) / static_cast<double>(done),
      done, took);
  return 0;
}
