// The own JPEG decoder against libjpeg-turbo, to the bit.
#include "data/jpeg/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <hwy/highway.h>

#include "data/tests/jpeg_kinds.h"

namespace xoe::data {
namespace {

constexpr bool kSanitized = XOE_SANITIZED != 0;

std::string text(const PixelRect& r) { return fmt::format("{} x {} at {}, {}", r.width, r.height, r.x, r.y); }

// Pixels of libjpeg-turbo's whole image against rows pushed.
::testing::AssertionResult same_pixels(const Image& whole, const KeepingSink& sink) {
  if (!sink.complete()) return ::testing::AssertionFailure() << "rows are missing";
  for (std::size_t p = 0; p < static_cast<std::size_t>(sink.layout.planes()); ++p) {
    const PixelRect& window = sink.window[p];
    for (int y = 0; y < window.height; ++y)
      for (int x = 0; x < window.width; ++x) {
        const int got = sink.rows[p][static_cast<std::size_t>(y)][static_cast<std::size_t>(x)];
        const int wanted = whole.row(window.y + y)[3 * static_cast<std::size_t>(window.x + x) + p];
        if (got != wanted)
          return ::testing::AssertionFailure() << "plane " << p << " x " << window.x + x << " y " << window.y + y
                                               << ": " << got << ", not " << wanted << "; window " << text(window);
      }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_planes(const JpegPlanes& whole, const KeepingSink& sink) {
  if (!sink.complete()) return ::testing::AssertionFailure() << "rows are missing";
  for (std::size_t p = 0; p < 3; ++p) {
    const PixelRect& window = sink.window[p];
    for (int y = 0; y < window.height; ++y)
      if (std::memcmp(sink.rows[p][static_cast<std::size_t>(y)].data(), whole.row(p, window.y + y) + window.x,
                      static_cast<std::size_t>(window.width)) != 0)
        return ::testing::AssertionFailure() << "plane " << p << " y " << window.y + y << "; window " << text(window);
  }
  return ::testing::AssertionSuccess();
}

class Comparison {
 public:
  // The whole image and `windows` random ones, as pixels and as planes.
  void check(const std::string& jpeg, int windows, bool own) {
    ASSERT_TRUE(turbo_.decode(jpeg, whole_));
    const auto header = reader_.open(jpeg);
    ASSERT_TRUE(header);
    ASSERT_EQ(header->width, whole_.width());
    ASSERT_EQ(header->height, whole_.height());
    const bool planes = !header->grey && header->down > 0;
    if (planes) {
      ASSERT_TRUE(turbo_.decode_planes(jpeg, planes_));
    }
    PixelRect window{0, 0, header->width, header->height};
    const bool narrow = planes && header->across == 2 && header->width <= 4;
    for (int i = 0; i <= windows; ++i) {
      KeepingSink sink;
      ASSERT_TRUE(reader_.decode(window, Colour::kRgb, sink));
      ASSERT_EQ(sink.layout.colour, header->grey ? Colour::kGrey : Colour::kRgb);
      ASSERT_EQ(sink.window[0], window);
      ASSERT_TRUE(same_pixels(whole_, sink));
      ASSERT_EQ(reader_.fell_back(), !own || narrow);
      ++compared;
      if (planes) {
        KeepingSink stored;
        ASSERT_TRUE(reader_.decode(window, Colour::kYcc, stored));
        ASSERT_EQ(stored.layout.colour, Colour::kYcc);
        ASSERT_EQ(stored.layout.across[1], header->across);
        ASSERT_EQ(stored.layout.down[2], header->down);
        ASSERT_TRUE(same_planes(planes_, stored));
        ASSERT_EQ(reader_.fell_back(), !own);
        ++compared;
      }
      window = random_window(header->width, header->height, random_);
    }
  }

  int compared = 0;

 private:
  JpegDecoder turbo_;
  JpegReader reader_;
  Image whole_;
  JpegPlanes planes_;
  Random random_{7};
};

std::string name(const JpegKind& kind, int width, int height) {
  return fmt::format("{} x {}, quality {}, {} x {}, restart {}{}{}", width, height, kind.quality, kind.across,
                     kind.down, kind.restart, kind.grey ? ", grey" : "", kind.optimised ? ", optimised" : "");
}

TEST(JpegReader, EqualsTurboInAllKindsAndSizes) {
  Comparison comparison;
  const std::vector<std::pair<int, int>> sizes = {{1, 1},   {2, 3},   {3, 2},   {4, 9},   {5, 5},    {6, 17},  {7, 8},
                                                  {8, 16},  {9, 15},  {15, 33}, {16, 16}, {17, 1},   {1, 40},  {31, 47},
                                                  {33, 64}, {64, 65}, {75, 50}, {97, 89}, {130, 41}, {161, 99}};
  std::uint64_t seed = 0;
  for (const auto& [width, height] : sizes)
    for (const auto& [across, down] : {std::pair{2, 2}, {2, 1}, {1, 2}, {1, 1}, {0, 0}})
      for (const int quality : {50, 75, 90, 97, 100})
        for (const int restart : {0, 1, 3, 50}) {
          ++seed;
          if (kSanitized && seed % 4 != 0) continue;
          JpegKind kind{.quality = quality, .restart = restart};
          kind.grey = across == 0;
          // Some programs write factors of 2 into grey images, too.
          kind.across = kind.grey ? 1 + static_cast<int>(seed % 2) : across;
          kind.down = kind.grey ? kind.across : down;
          kind.optimised = seed % 3 == 0;
          const Image image = wavy_image(width, height, seed % 5 == 0 ? 255 : static_cast<int>(seed % 60), seed);
          comparison.check(write_jpeg(image, kind), 2, true);
          if (::testing::Test::HasFailure()) FAIL() << name(kind, width, height);
        }
  EXPECT_GT(comparison.compared, kSanitized ? 1500 : 6000);
}

TEST(JpegReader, EqualsTurboOnLargeImages) {
  Comparison comparison;
  for (const auto& [width, height] : {std::pair{500, 375}, {375, 500}, {1000, 750}, {4099, 37}})
    for (const int quality : {60, 90, 98}) {
      if (kSanitized && quality != 90) continue;
      for (const int grain : {3, 40}) {
        const Image image = wavy_image(width, height, grain, static_cast<std::uint64_t>(quality + grain));
        comparison.check(write_jpeg(image, {.quality = quality}), 6, true);
        ASSERT_FALSE(::testing::Test::HasFailure()) << width << " " << quality << " " << grain;
      }
    }
}

// Each instruction set that this machine has, and none.
TEST(JpegReader, EqualsTurboWithEveryInstructionSet) {
  const std::int64_t here = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_EMU128}) {
    if (target != HWY_EMU128 && (here & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    Comparison comparison;
    for (const auto& [across, down] : {std::pair{2, 2}, {2, 1}, {1, 2}, {1, 1}})
      for (const int quality : {30, 90, 100}) {
        const JpegKind kind{.quality = quality, .across = across, .down = down};
        comparison.check(write_jpeg(wavy_image(167, 71, 255, 5), kind), 4, true);
      }
    EXPECT_FALSE(::testing::Test::HasFailure()) << target;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(JpegReader, UnusualKindsGoThroughTurbo) {
  Comparison comparison;
  const Image image = wavy_image(77, 53, 20, 1);
  comparison.check(write_jpeg(image, {.progressive = true}), 5, false);
  comparison.check(write_jpeg(image, {.grey = true, .progressive = true}), 5, false);
  comparison.check(write_jpeg(image, {.across = 1, .down = 1, .stored_as_rgb = true}), 5, false);
  comparison.check(write_jpeg(image, {.separate_scans = true}), 5, false);
  comparison.check(write_jpeg(image, {.across = 4, .down = 1}), 5, false);
  comparison.check(write_jpeg(image, {.across = 4, .down = 2}), 5, false);
  EXPECT_GT(comparison.compared, 40);
}

// Files that libjpeg-turbo accepts with a harmless warning, or with none.
TEST(JpegReader, ToleratesWhatTurboTolerates) {
  Comparison comparison;
  const std::string jpeg = write_jpeg(wavy_image(60, 60, 20, 1), {.restart = 2});
  const auto with = [&](std::size_t at, std::string_view bytes) {
    return jpeg.substr(0, at) + std::string(bytes) + jpeg.substr(at);
  };
  const std::size_t restart = jpeg.find("\xff\xd0");
  ASSERT_NE(restart, std::string::npos);
  comparison.check(with(restart, std::string_view("\x12\x34")), 3, true);   // bytes before a marker
  comparison.check(with(restart, std::string_view("\xff\xff")), 3, false);  // fill bytes
  comparison.check(with(jpeg.size() - 2, std::string_view("\x12\x34")), 3, true);
  comparison.check(with(jpeg.size(), std::string_view("rubbish behind the end")), 3, true);
  comparison.check(with(2, std::string_view("\xff\xfe\0\x07hello", 9)), 3, true);  // a comment
  comparison.check(with(2, std::string_view("\xff\xff\xff\xfe\0\x02", 6)), 3, false);
}

class Verdicts {
 public:
  // Whole image and a part: what libjpeg-turbo takes is taken with the same pixels; what it refuses is refused, unless
  // a part does not show it.
  void check(const std::string& jpeg) {
    const bool accepted = turbo_.decode(jpeg, whole_, kFew).has_value();
    const auto header = reader_.open(jpeg, kFew);
    ASSERT_TRUE(header || !accepted);
    if (!header) return;
    KeepingSink sink;
    ASSERT_EQ(reader_.decode({0, 0, header->width, header->height}, Colour::kRgb, sink).has_value(), accepted);
    if (accepted) {
      ASSERT_TRUE(same_pixels(whole_, sink));
    }
    own += reader_.fell_back() ? 0 : 1;
    KeepingSink part;
    const bool decoded =
        reader_.decode(random_window(header->width, header->height, random_), Colour::kRgb, part).has_value();
    ASSERT_TRUE(decoded || !accepted);
    if (accepted) {
      ASSERT_TRUE(same_pixels(whole_, part));
    }
    ++(accepted ? taken : refused);
  }

  int taken = 0;
  int refused = 0;
  int own = 0;

 private:
  static constexpr std::int64_t kFew = 1 << 20;
  JpegDecoder turbo_;
  JpegReader reader_;
  Image whole_;
  Random random_{11};
};

TEST(JpegReader, EveryTruncationHasTurbosVerdict) {
  Verdicts verdicts;
  for (const JpegKind& kind : {JpegKind{.quality = 60}, JpegKind{.restart = 1}, JpegKind{.grey = true}}) {
    const std::string jpeg = write_jpeg(wavy_image(40, 33, 10, 2), kind);
    for (std::size_t size = 0; size < jpeg.size(); size += kSanitized ? 3 : 1) {
      verdicts.check(jpeg.substr(0, size));
      ASSERT_FALSE(::testing::Test::HasFailure()) << size << " of " << jpeg.size();
    }
  }
  EXPECT_EQ(verdicts.taken, 0);
}

TEST(JpegReader, FlippedBytesHaveTurbosVerdict) {
  Verdicts verdicts;
  Random random(5);
  for (const JpegKind& kind :
       {JpegKind{.quality = 60}, JpegKind{.quality = 95, .restart = 2}, JpegKind{.down = 1}, JpegKind{.grey = true},
        JpegKind{.across = 1, .optimised = true}, JpegKind{.across = 1, .down = 1}}) {
    const std::string jpeg = write_jpeg(wavy_image(90, 70, 30, 2), kind);
    for (int round = 0; round < (kSanitized ? 150 : 1000); ++round) {
      std::string damaged = jpeg;
      for (int i = random.integer(1, 3); i > 0; --i)
        damaged[static_cast<std::size_t>(random.integer(0, static_cast<int>(jpeg.size()) - 1))] =
            static_cast<char>(random.integer(0, 255));
      verdicts.check(damaged);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
    }
  }
  EXPECT_GT(verdicts.taken, 20);
  EXPECT_GT(verdicts.refused, 20);
  EXPECT_GT(verdicts.own, 20);
}

TEST(JpegReader, ErrorsSayWhatIsWrong) {
  JpegReader reader;
  const std::string jpeg = write_jpeg(wavy_image(64, 48, 5, 1), {});
  EXPECT_EQ(reader.open(jpeg, 64 * 48 - 1).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(reader.open("no JPEG at all").error().code(), Code::kDataLoss);
  EXPECT_EQ(reader.open("").error().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace xoe::data
