// CPU time to decode a JPEG: Xoe's reader against libjpeg-turbo, whole images and random crops (area 8 to 100 %). One
// item is one image; "KB" is an image's mean size.
//   xoe_bench_jpeg --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "data/cli/synth/render.h"
#include "data/image/crop.h"
#include "data/jpeg/reader.h"
#include "data/stages/random.h"

namespace xoe::data {
namespace {

struct Set {
  int width = 500;
  int height = 375;
  int quality = 90;
  int grain = 5;  // levels of brightness, from pixel to pixel
  int images = 40;
};
// 61, 113 and 934 KB.
const std::map<std::string, Set> kSets = {
    {"A", {}}, {"B", {.quality = 95, .grain = 19}}, {"C", {2000, 1500, 90, 2, 6}}};

struct Picture {
  std::string jpeg;
  PixelRect whole;
  PixelRect crop;
};

const std::vector<Picture>& pictures(const std::string& name) {
  static std::map<std::string, std::vector<Picture>> made;
  std::vector<Picture>& result = made[name];
  const Set& set = kSets.at(name);
  Random random(3);
  Image image;
  while (static_cast<int>(result.size()) < set.images) {
    synth::render(random.integer(0, 9), set.width, set.height, result.size(), image);
    for (int y = 0; y < set.height; ++y)
      for (int x = 0; x < set.width; ++x) {
        const int grain = random.integer(-set.grain, set.grain);
        for (int c = 0; c < 3; ++c) {
          std::uint8_t& value = image.row(y)[3 * x + c];
          value = static_cast<std::uint8_t>(std::clamp(value + grain, 0, 255));
        }
      }
    const Region crop = random_crop(set.width, set.height, random);
    result.push_back({encode_jpeg(image, {.quality = set.quality}).value(),
                      {0, 0, set.width, set.height},
                      {static_cast<int>(crop.x), static_cast<int>(crop.y), static_cast<int>(crop.width),
                       static_cast<int>(crop.height)}});
  }
  return result;
}

class CountingSink : public RowSink {
 public:
  void start(const PlaneLayout&, const std::array<PixelRect, 3>&) override {}
  void row(int, int, const std::uint8_t* samples) override { sum += samples[0]; }

  unsigned sum = 0;
};

// libjpeg-turbo with its default settings. The images are sound, so its way with errors, to end the program, is right.
class Turbo {
 public:
  Turbo() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  Turbo(const Turbo&) = delete;
  Turbo& operator=(const Turbo&) = delete;
  ~Turbo() { jpeg_destroy_decompress(&info_); }

  // A crop as tf.data has it: exact but for the chroma at the left and right edges.
  void decode(const std::string& jpeg, const PixelRect& window) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    auto x = static_cast<JDIMENSION>(window.x);
    auto width = static_cast<JDIMENSION>(window.width);
    if (width < info_.output_width) jpeg_crop_scanline(&info_, &x, &width);
    if (window.y > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(window.y));
    row_.resize(std::size_t{3} * info_.output_width);
    JSAMPROW row = row_.data();
    while (info_.output_scanline < static_cast<JDIMENSION>(window.bottom())) jpeg_read_scanlines(&info_, &row, 1);
    jpeg_abort_decompress(&info_);
    benchmark::DoNotOptimize(row_.data());
  }

 private:
  jpeg_error_mgr errors_ = {};
  jpeg_decompress_struct info_ = {};
  std::vector<unsigned char> row_;
};

template <class Decode>
void run(benchmark::State& state, const std::string& set, Decode decode) {
  const std::vector<Picture>& all = pictures(set);
  double bytes = 0;
  for (const Picture& picture : all) bytes += static_cast<double>(picture.jpeg.size());
  std::size_t next = 0;
  for (auto _ : state) decode(all[next++ % all.size()]);
  state.SetItemsProcessed(state.iterations());
  state.counters["KB"] = bytes / 1000 / static_cast<double>(all.size());
}

void own(benchmark::State& state, const std::string& set, Colour colour, PixelRect Picture::*window) {
  JpegReader reader;
  CountingSink sink;
  run(state, set, [&](const Picture& picture) {
    if (!reader.open(picture.jpeg) || !reader.decode(picture.*window, colour, sink)) state.SkipWithError("broken");
  });
  benchmark::DoNotOptimize(sink.sum);
}

void turbo(benchmark::State& state, const std::string& set, PixelRect Picture::*window) {
  Turbo decoder;
  run(state, set, [&](const Picture& picture) { decoder.decode(picture.jpeg, picture.*window); });
}

void add_all() {
  const auto add = [](const std::string& name, auto function) {
    benchmark::RegisterBenchmark(name.c_str(), function)->Unit(benchmark::kMillisecond);
  };
  for (const auto& [set, unused] : kSets) {
    const std::string name = set;
    for (const auto& [part, window] : {std::pair{"whole", &Picture::whole}, {"crop", &Picture::crop}}) {
      const auto w = window;
      add(name + "/xoe/rgb/" + part, [=](benchmark::State& state) { own(state, name, Colour::kRgb, w); });
      add(name + "/xoe/planes/" + part, [=](benchmark::State& state) { own(state, name, Colour::kYcc, w); });
      add(name + "/turbo/rgb/" + part, [=](benchmark::State& state) { turbo(state, name, w); });
    }
  }
}

}  // namespace
}  // namespace xoe::data

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  xoe::data::add_all();
  benchmark::RunSpecifiedBenchmarks();
}
