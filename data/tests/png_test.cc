// PNGs of every kind, and broken ones.
#include "data/png/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "data/stages/random.h"

namespace xoe::data {
namespace {

struct Kind {
  PngColour colour = PngColour::kRgb;
  int bits = 8;
  bool interlaced = false;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const bool interlaced : {false, true}) {
    for (const int bits : {1, 2, 4, 8, 16}) all.push_back({PngColour::kGrey, bits, interlaced});
    for (const int bits : {1, 2, 4, 8}) all.push_back({PngColour::kPalette, bits, interlaced});
    for (const int bits : {8, 16})
      for (const auto colour : {PngColour::kGreyAlpha, PngColour::kRgb, PngColour::kRgba})
        all.push_back({colour, bits, interlaced});
  }
  return all;
}

int channels(PngColour colour) {
  switch (colour) {
    case PngColour::kGrey:
    case PngColour::kPalette: return 1;
    case PngColour::kGreyAlpha: return 2;
    case PngColour::kRgb: return 3;
    case PngColour::kRgba: return 4;
  }
  return 0;
}

// Random samples, and what they mean in 8 bits.
struct Example {
  int width = 0;
  int height = 0;
  Kind kind;
  std::string png;
  std::vector<std::uint8_t> rgb;

  const std::uint8_t* pixel(int x, int y) const { return rgb.data() + 3 * (y * width + x); }
};

Example make_example(int width, int height, Kind kind, Random& random) {
  Example example{width, height, kind, {}, {}};
  const int count = channels(kind.colour);
  const int row_bits = width * count * kind.bits;
  const int row_bytes = (row_bits + 7) / 8;
  std::vector<std::uint8_t> samples(static_cast<std::size_t>(row_bytes * height));
  std::vector<std::array<std::uint8_t, 3>> palette(std::size_t{1} << std::min(kind.bits, 8));
  for (auto& colour : palette)
    for (auto& level : colour) level = static_cast<std::uint8_t>(random.bits());
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      std::array<unsigned, 4> values = {};
      for (int c = 0; c < count; ++c) {
        const auto value = values[static_cast<std::size_t>(c)] =
            static_cast<unsigned>(random.integer(0, (1 << kind.bits) - 1));
        const int bit = (x * count + c) * kind.bits;
        auto* at = samples.data() + y * row_bytes + bit / 8;
        if (kind.bits == 16) *at++ = static_cast<std::uint8_t>(value >> 8);
        *at = static_cast<std::uint8_t>(*at | (value & 0xFF) << (kind.bits < 8 ? 8 - kind.bits - bit % 8 : 0));
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const unsigned value = values[count < 3 ? 0 : c];
        const unsigned most = (1U << kind.bits) - 1;
        example.rgb.push_back(kind.colour == PngColour::kPalette
                                  ? palette[value][c]
                                  : static_cast<std::uint8_t>((value * 255 * 2 + most) / (2 * most)));
      }
    }
  PngPicture picture{width, height, kind.colour, kind.bits, kind.interlaced, samples, {}};
  if (kind.colour == PngColour::kPalette) picture.palette = palette;
  example.png = encode_png(picture).value();
  return example;
}

// Keeps what comes, and checks that it is what was announced.
class Recorder : public RowSink {
 public:
  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) override {
    layout_ = layout;
    window_ = window[0];
    for (auto& rows : rows_) rows.clear();
  }
  void row(int plane, int y, const std::uint8_t* samples) override {
    auto& rows = rows_[static_cast<std::size_t>(plane)];
    EXPECT_EQ(y, window_.y + static_cast<int>(rows.size()));
    rows.emplace_back(samples, samples + window_.width);
    unsigned beyond = 0;
    for (std::size_t i = 0; i < kRowSlack; ++i) beyond += samples[static_cast<std::size_t>(window_.width) + i];
    beyond_ = beyond;
  }
  void compare(const Example& example, const PixelRect& window) const {
    const bool grey = example.kind.colour == PngColour::kGrey || example.kind.colour == PngColour::kGreyAlpha;
    EXPECT_EQ(layout_.colour, grey ? Colour::kGrey : Colour::kRgb);
    EXPECT_EQ(layout_.width, example.width);
    EXPECT_EQ(layout_.height, example.height);
    ASSERT_EQ(window_, window);
    for (std::size_t p = 0; p < static_cast<std::size_t>(layout_.planes()); ++p) {
      ASSERT_EQ(rows_[p].size(), static_cast<std::size_t>(window.height));
      for (int y = 0; y < window.height; ++y)
        for (int x = 0; x < window.width; ++x)
          ASSERT_EQ(rows_[p][static_cast<std::size_t>(y)][static_cast<std::size_t>(x)],
                    example.pixel(window.x + x, window.y + y)[p])
              << x << " " << y;
    }
  }

 private:
  PlaneLayout layout_;
  PixelRect window_;
  std::array<std::vector<std::vector<std::uint8_t>>, 3> rows_;
  volatile unsigned beyond_ = 0;
};

TEST(Png, EveryKindAndAnyWindow) {
  Random random(1);
  PngDecoder decoder;
  Recorder recorder;
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {9, 17}, {64, 5}, {101, 33}})
    for (const Kind kind : kinds()) {
      SCOPED_TRACE(::testing::Message() << width << " x " << height << ", colour " << static_cast<int>(kind.colour)
                                        << ", bits " << kind.bits << ", interlaced " << kind.interlaced);
      const Example example = make_example(width, height, kind, random);
      for (int round = 0; round < 3; ++round) {
        PixelRect window{0, 0, width, height};
        if (round > 0) {
          window.width = random.integer(1, width);
          window.height = random.integer(1, height);
          window.x = random.integer(0, width - window.width);
          window.y = random.integer(0, height - window.height);
        }
        const auto header = decoder.open(example.png);
        ASSERT_TRUE(header) << header.error().message();
        EXPECT_EQ(header->width, width);
        EXPECT_EQ(header->height, height);
        EXPECT_EQ(header->bits, kind.bits);
        EXPECT_EQ(header->interlaced, kind.interlaced);
        const Status status = decoder.push(window, recorder);
        ASSERT_TRUE(status) << status.error().message();
        recorder.compare(example, window);
      }
    }
}

TEST(Png, ImagesComeBack) {
  Random random(2);
  Image image;
  image.resize(31, 22);
  for (int y = 0; y < 22; ++y)
    for (int x = 0; x < 3 * 31; ++x) image.row(y)[x] = static_cast<std::uint8_t>(random.bits());
  PngDecoder decoder;
  Image decoded;
  ASSERT_TRUE(decoder.decode(encode_png(image).value(), decoded));
  ASSERT_EQ(decoded.width(), 31);
  ASSERT_EQ(decoded.height(), 22);
  for (int y = 0; y < 22; ++y) EXPECT_TRUE(std::equal(image.row(y), image.row(y) + 93, decoded.row(y)));
  const Example grey = make_example(8, 8, {PngColour::kGrey, 16}, random);
  ASSERT_TRUE(decoder.decode(grey.png, decoded));
  for (int x = 0; x < 8; ++x)
    for (int c = 0; c < 3; ++c) EXPECT_EQ(decoded.row(3)[3 * x + c], grey.pixel(x, 3)[0]);
}

constexpr std::size_t kEndBytes = 12;  // of the chunk IEND

TEST(Png, EveryTruncationOfPixelsFails) {
  Random random(3);
  PngDecoder decoder;
  Image decoded;
  for (const Kind kind : kinds()) {
    const Example example = make_example(13, 9, kind, random);
    for (std::size_t size = 0; size < example.png.size() - kEndBytes; ++size) {
      const Status status = decoder.decode(std::string_view(example.png).substr(0, size), decoded);
      ASSERT_FALSE(status) << size << " of " << example.png.size();
      EXPECT_EQ(status.error().code(), Code::kDataLoss);
      EXPECT_THAT(status.error().message(), ::testing::HasSubstr("broken PNG: "));
    }
    EXPECT_TRUE(decoder.decode(example.png, decoded)) << "a decoder stays good after failures";
  }
}

// What follows the pixels changes none of them: as in Pillow and torchvision it may be cut off or damaged, whichever
// part of the image is wanted.
TEST(Png, TheEndBehindThePixelsDoesNotMatter) {
  Random random(7);
  PngDecoder decoder;
  Recorder recorder;
  const PixelRect top{2, 0, 9, 4};
  const PixelRect whole{0, 0, 13, 9};
  for (const Kind kind : kinds()) {
    const Example example = make_example(13, 9, kind, random);
    std::vector<std::string> ends;
    for (std::size_t left = 0; left <= kEndBytes; ++left)
      ends.push_back(example.png.substr(0, example.png.size() - kEndBytes + left));
    ends.push_back(example.png);
    ends.back().back() = static_cast<char>(ends.back().back() ^ 1);
    ends.push_back(ends.front() + "anything else");
    for (const std::string& png : ends)
      for (const PixelRect& window : {top, whole}) {
        ASSERT_TRUE(decoder.open(png));
        const Status status = decoder.push(window, recorder);
        ASSERT_TRUE(status) << status.error().message() << ", " << png.size() << " of " << example.png.size();
        recorder.compare(example, window);
      }
  }
}

// All rows are read for any part of an image, so that the part gets the answer of the whole.
TEST(Png, DamageIsNoticedInEveryPart) {
  Random random(8);
  PngDecoder decoder;
  Recorder recorder;
  for (const Kind kind : kinds()) {
    const Example example = make_example(13, 9, kind, random);
    std::string damaged = example.png;
    damaged[damaged.size() - kEndBytes - 1] ^= 1;  // the checksum of the pixels
    const std::string cut = example.png.substr(0, example.png.size() - kEndBytes - 6);
    for (const std::string& png : {damaged, cut})
      for (const PixelRect& window : {PixelRect{2, 0, 9, 4}, PixelRect{0, 0, 13, 9}}) {
        ASSERT_TRUE(decoder.open(png));
        EXPECT_FALSE(decoder.push(window, recorder)) << window.height;
      }
  }
}

// Every chunk has a CRC: a flipped bit is an error, or nothing has changed.
TEST(Png, EveryFlippedBitIsNoticedOrHarmless) {
  Random random(4);
  PngDecoder decoder;
  Image decoded;
  Recorder recorder;
  for (const Kind kind : kinds()) {
    const Example example = make_example(7, 5, kind, random);
    for (std::size_t at = 0; at < example.png.size(); ++at) {
      std::string damaged = example.png;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << random.integer(0, 7));
      const auto header = decoder.open(damaged);
      if (header && decoder.push({0, 0, header->width, header->height}, recorder))
        recorder.compare(example, {0, 0, 7, 5});
    }
  }
}

TEST(Png, OtherBytesFail) {
  PngDecoder decoder;
  Image decoded;
  for (const std::string_view bytes : {"", "\x89PNG\r\n\x1a\n", "\xff\xd8\xff\xd9", "no PNG at all"})
    EXPECT_EQ(decoder.decode(bytes, decoded).error().code(), Code::kDataLoss);
}

TEST(Png, PixelsAreBounded) {
  Random random(5);
  PngDecoder decoder;
  const Example example = make_example(64, 48, {}, random);
  EXPECT_EQ(decoder.open(example.png, 64 * 48 - 1).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(decoder.open(example.png, 64 * 48));
}

TEST(Png, CallsOutOfOrderAreRefused) {
  Random random(6);
  PngDecoder decoder;
  Recorder recorder;
  EXPECT_EQ(decoder.push({0, 0, 1, 1}, recorder).error().code(), Code::kInvalidArgument);
  const Example example = make_example(6, 4, {}, random);
  ASSERT_TRUE(decoder.open(example.png));
  EXPECT_TRUE(decoder.push({0, 0, 6, 4}, recorder));
  EXPECT_EQ(decoder.push({0, 0, 6, 4}, recorder).error().code(), Code::kInvalidArgument);
  ASSERT_TRUE(decoder.open(example.png));
  EXPECT_EQ(decoder.push({1, 0, 6, 4}, recorder).error().code(), Code::kInvalidArgument);
}

TEST(Png, WhatCannotBeWrittenIsRefused) {
  const std::vector<std::uint8_t> samples(12);
  EXPECT_EQ(encode_png({.width = 2, .height = 3, .samples = samples}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode_png({.width = 4, .height = 1, .bits = 7, .samples = samples}).error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(encode_png({.width = 0, .height = 1}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode_png({.width = 12, .height = 1, .colour = PngColour::kPalette, .samples = samples}).error().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace xoe::data
