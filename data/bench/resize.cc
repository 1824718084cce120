// CPU time of resizing one image, without decoding: random crops (8 to 100 % of the area) to 224 x 224, flipped half of
// the time, normalised. `slots` images are written in turn: 1 stays in the cache, 64 is a batch.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "data/image/resizer.h"

namespace xoe::data {
namespace {

constexpr int kOutput = 224;
constexpr std::size_t kElements = std::size_t{3} * kOutput * kOutput;
constexpr int kCrops = 256;

constexpr int kBlock = 16;  // rows that a decoder hands over at a time

// Noise, which arrives row by row out of the few rows that a decoder has just made; YCC with chroma halved in both
// directions.
class Source {
 public:
  Source(int width, int height, Colour colour) {
    layout_.colour = colour;
    layout_.width = width;
    layout_.height = height;
    if (colour == Colour::kYcc) layout_.across = layout_.down = {1, 2, 2};
    Random random(1);
    for (std::size_t p = 0; p < 3; ++p) {
      stride_[p] = static_cast<std::size_t>(width) + kRowSlack;
      planes_[p].resize(stride_[p] * kBlock);
      for (auto& sample : planes_[p]) sample = static_cast<std::uint8_t>(random.bits());
    }
  }

  // The window's rows, in a decoder's order: RGB row by row, planes as stored in blocks of rows.
  void push(const PixelRect& pixels, RowSink& sink) const {
    std::array<PixelRect, 3> windows;
    for (std::size_t p = 0; p < 3; ++p) {
      const int x = pixels.x / layout_.across[p];
      const int y = pixels.y / layout_.down[p];
      windows[p] = {x, y, (pixels.right() + layout_.across[p] - 1) / layout_.across[p] - x,
                    (pixels.bottom() + layout_.down[p] - 1) / layout_.down[p] - y};
    }
    sink.start(layout_, windows);
    const int together = layout_.colour == Colour::kYcc ? kBlock : 1;  // rows of each plane
    for (int block = 0; block * together < layout_.height; ++block)
      for (std::size_t p = 0; p < 3; ++p) {
        const int rows = together / layout_.down[p];
        const int end = std::min((block + 1) * rows, windows[p].bottom());
        for (int y = std::max(block * rows, windows[p].y); y < end; ++y)
          sink.row(static_cast<int>(p), y,
                   planes_[p].data() + stride_[p] * static_cast<std::size_t>(y % rows) + windows[p].x);
      }
  }

 private:
  PlaneLayout layout_;
  std::array<std::size_t, 3> stride_ = {};
  std::array<std::vector<std::uint8_t>, 3> planes_;
};

struct Kind {
  Colour colour = Colour::kRgb;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNchw;
  int width = 500;
  int height = 375;
  int slots = 1;
};

void resize(benchmark::State& state, Kind kind) {
  const Source source(kind.width, kind.height, kind.colour);
  Random random(7);
  std::vector<Crop> crops;
  crops.reserve(kCrops);
  for (int i = 0; i < kCrops; ++i) crops.push_back(crop_then_resize(random_crop(kind.width, kind.height, random)));
  const std::size_t bytes = kElements * dtype_size(kind.dtype);
  AlignedArray<std::uint8_t> batch;
  batch.resize(bytes * static_cast<std::size_t>(kind.slots));
  Resizer resizer;
  Target target;
  target.dtype = kind.dtype;
  target.layout = kind.layout;
  target.width = target.height = kOutput;
  std::size_t i = 0;
  for (auto _ : state) {
    const Crop& crop = crops[i % kCrops];
    target.to = batch.data() + bytes * (i % static_cast<std::size_t>(kind.slots));
    target.flip = i % 2 == 1;
    resizer.prepare(crop, target);
    source.push(needed_pixels(crop), resizer);
    if (!resizer.complete()) state.SkipWithError("rows are missing");
    benchmark::ClobberMemory();
    ++i;
  }
  state.SetItemsProcessed(state.iterations());
}

void add(const std::string& name, Kind kind) {
  for (const int slots : {1, 64}) {
    kind.slots = slots;
    benchmark::RegisterBenchmark((name + "/slots:" + std::to_string(slots)).c_str(), resize, kind)
        ->Unit(benchmark::kMicrosecond);
  }
}

void add_all() {
  add("exact/float32/nchw", {});
  add("exact/float32/nhwc", {.layout = Layout::kNhwc});
  add("exact/float16/nchw", {.dtype = DType::kFloat16});
  add("exact/bfloat16/nchw", {.dtype = DType::kBfloat16});
  add("exact/uint8/nchw", {.dtype = DType::kUint8});
  add("exact/uint8/nhwc", {.dtype = DType::kUint8, .layout = Layout::kNhwc});
  add("fast/float32/nchw", {.colour = Colour::kYcc});
  add("fast/uint8/nhwc", {.colour = Colour::kYcc, .dtype = DType::kUint8, .layout = Layout::kNhwc});
  add("exact/float32/nchw/2000x1500", {.width = 2000, .height = 1500});
  add("fast/float32/nchw/2000x1500", {.colour = Colour::kYcc, .width = 2000, .height = 1500});
}

}  // namespace
}  // namespace xoe::data

int main(int argc, char** argv) {
  xoe::data::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
