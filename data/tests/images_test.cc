// open_images(): the laws of sharding, order, resuming and bad records, over rendered files.
#include "xoe/data/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <tuple>

#include "data/tests/rendered_images.h"
#include "data/tests/run_data.h"

namespace xoe::data::test {
namespace {

TEST(Images, AreTheSameForAnyThreadsAndPrefetch) {
  const auto expected = drain(small());
  EXPECT_EQ(expected.size(), 2U * (kImages / 4));
  for (const int threads : {1, 2, 4, 9})
    for (const int prefetch : {0, 1, 5}) {
      auto options = small();
      options.threads = threads;
      options.prefetch = prefetch;
      EXPECT_EQ(drain(options), expected) << threads << " " << prefetch;
    }
}

TEST(Images, AreNormalisedAndLabelled) {
  auto options = small();
  options.shuffle_buffer = 0;
  options.training = false;
  options.epochs = 1;
  options.pattern = "train-*";
  const auto iterator = open_images(options).value();
  EXPECT_EQ(iterator->classes(), 5);
  EXPECT_EQ(iterator->records_per_epoch(), kImages);
  std::int64_t expected = 0;
  for (const Made& made : drain(*iterator)) {
    for (const std::int64_t label : made.labels) EXPECT_EQ(label, expected++ % 5);
    for (const float pixel : made.pixels) {
      EXPECT_GT(pixel, -2.2F);
      EXPECT_LT(pixel, 2.7F);
    }
  }
  EXPECT_EQ(expected, kImages);
}

TEST(Images, EpochsAndSeedsDiffer) {
  const auto all = drain(small());
  const std::size_t half = all.size() / 2;
  EXPECT_EQ(all[half].epoch, 1);
  EXPECT_EQ(all[half].index, 0);
  EXPECT_NE(all[0].pixels, all[half].pixels);
  auto options = small();
  options.seed = 4;
  EXPECT_NE(drain(options)[0].pixels, all[0].pixels);
}

TEST(Images, EvaluationDeliversEveryRecordOnceOnAnyNumberOfRanks) {
  auto options = small();
  options.training = false;
  const auto expected = images_of(drain(options), 0);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kValidation));
  for (const int size : {2, 3, 7, 20})  // more ranks than files, and than records
    for (const int batch : {1, 4}) {
      std::vector<Made> all;
      for (options.rank = 0, options.size = size, options.batch = batch; options.rank < size; ++options.rank) {
        options.threads = options.rank % 3;
        const auto iterator = open_images(options).value();
        const auto mine = drain(*iterator);
        EXPECT_EQ(mine.size(), 2U * static_cast<std::size_t>(iterator->batches_per_epoch()));
        EXPECT_EQ(iterator->batches_per_epoch(), ((kValidation + size - 1) / size + batch - 1) / batch);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(images_of(all, 0), expected) << size << " " << batch;
      EXPECT_EQ(images_of(all, 1), expected) << size << " " << batch;
    }
}

TEST(Images, TrainingStepsAreTheSameForAnyNumberOfRanks) {
  const auto steps = [](int size) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Pixels>> made;
    auto options = small();
    options.size = size;
    options.batch = 12 / size;
    for (; options.rank < size; ++options.rank)
      for (const Made& batch : drain(options))
        for (Pixels& image : images_of({batch}, batch.epoch))
          made[{batch.epoch, batch.index}].push_back(std::move(image));
    for (auto& [step, images] : made) std::sort(images.begin(), images.end());
    return made;
  };
  const auto one = steps(1);
  EXPECT_EQ(one.size(), 2U * (kImages / 12));
  EXPECT_EQ(one, steps(2));
  EXPECT_EQ(one, steps(3));
}

TEST(Images, ResumeToTheBitFromEveryPosition) {
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad}) {
    auto options = small();
    options.size = 2;
    options.rank = 1;
    options.remainder = remainder;
    const auto expected = drain(options);
    for (std::size_t at = 0; at <= expected.size(); ++at) {
      options.threads = 2;
      const auto first = open_images(options).value();
      EXPECT_EQ(drain(*first, at).size(), at);
      const std::string text = first->save().to_text();
      EXPECT_LT(text.size(), 1024U);
      options.threads = at % 3 == 0 ? 0 : 3;
      const auto second = open_images(options).value();
      ASSERT_TRUE(second->restore(State::from_text(text).value()));
      const std::vector<Made> rest(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end());
      EXPECT_EQ(drain(*second), rest) << at;
      ASSERT_TRUE(first->restore(State::from_text(text).value()));
      EXPECT_EQ(drain(*first), rest) << at;
    }
  }
}

// In place, as one that was opened for that part.
TEST(Images, ReshardGoesOnWithAnotherPart) {
  auto options = small();
  options.size = 3;
  options.rank = 2;
  options.batch = 2;
  options.remainder = Remainder::kKeep;
  const auto images = open_images(options).value();
  for (const std::size_t at : {0U, 3U, 5U}) {
    ASSERT_TRUE(images->reshard(2, 3, 3, 0));
    EXPECT_EQ(drain(*images, at).size(), at);
    const State state = images->save();
    for (const std::int64_t joint : {0, 5}) {
      options.size = 2;
      options.rank = 1;
      options.joint_batch = joint;
      const auto other = open_images(options).value();
      ASSERT_TRUE(other->restore(state));
      ASSERT_TRUE(images->reshard(1, 2, 2, joint));
      EXPECT_EQ(images->batches_per_epoch(), other->batches_per_epoch());
      ASSERT_TRUE(images->restore(state));
      EXPECT_EQ(drain(*images), drain(*other)) << at << " " << joint;
    }
  }
  EXPECT_EQ(images->reshard(2, 2, 2, 0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(images->reshard(0, 6, 6, 5).error().code(), Code::kInvalidArgument);  // one would have none
  EXPECT_TRUE(images->next().has_value());                                        // it stays as it was
}

std::int64_t decoded(const ImageIterator& images) { return images.report().steps[1].count; }

// Images that were given back or made ahead are not decoded again if they still belong to this rank, and are the same
// to the bit.
TEST(Images, ReshardMakesNoImageTwice) {
  for (const int threads : {0, 2}) {
    auto options = small();
    options.threads = threads;
    options.remainder = Remainder::kKeep;
    const auto images = open_images(options).value();
    EXPECT_EQ(drain(*images, 1).size(), 1U);
    const State state = images->save();
    const ImageBatch next = *images->next().value();
    const int ahead = threads == 0 ? 0 : options.prefetch * options.batch;
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (decoded(*images) < 2 * options.batch + ahead && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    images->keep(next);
    ASSERT_TRUE(images->reshard(0, 2, 2, 0));
    ASSERT_TRUE(images->restore(state));
    options.size = 2;
    options.threads = 0;  // it makes nothing before the restore
    const auto other = open_images(options).value();
    ASSERT_TRUE(other->restore(state));
    EXPECT_EQ(drain(*images), drain(*other)) << threads;
    // Each second one of those was for this rank.
    EXPECT_EQ(decoded(*images), decoded(*other) - (options.batch + ahead) / 2) << threads;
  }
}

TEST(Images, NothingIsMadeBetweenReshardAndRestore) {
  auto options = small();
  options.threads = 2;
  const auto images = open_images(options).value();
  const State state = images->save();
  ASSERT_TRUE(images->reshard(1, 2, 2, 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(decoded(*images), 0);
  options.size = 2;
  options.rank = 1;
  EXPECT_EQ(drain(*images), drain(options)) << "without a restore, from the beginning";
}

TEST(Images, ResumeRefusesOtherData) {
  const State state = open_images(small()).value()->save();
  const auto refused = [&state](const ImagePipelineOptions& options) {
    const Status restored = open_images(options).value()->restore(state);
    return !restored && restored.error().code() == Code::kInvalidArgument;
  };
  auto options = small();
  options.seed = 9;
  EXPECT_TRUE(refused(options));
  options = small();
  options.pattern = "validation-*";
  EXPECT_TRUE(refused(options));
  options = small();
  options.shuffle_buffer = 7;
  EXPECT_TRUE(refused(options)) << "positions are of another order";
  options = small();
  options.shard_by_file = true;
  EXPECT_TRUE(refused(options));
  options = small();
  options.shuffle_buffer = kImages;
  EXPECT_FALSE(refused(options)) << "as good as any larger one";
  options = small();
  options.size = 3;  // the rest is sharded again
  options.batch = 5;
  EXPECT_FALSE(refused(options));
}

// Saved with some ranks and batches, restored with others, as often as it happens: over an epoch each record comes
// once.
// Other files with as many records, which the order alone does not tell.
TEST(Images, ResumeRefusesFilesThatChanged) {
  for (const std::string format : {"tfrecord", "tar", "folder"}) {
    const Scratch scratch;
    auto words = make_arguments(scratch.file("set"));
    words.insert(words.end(), {"--format", format});
    ASSERT_EQ(run(words).code, 0);
    auto images = open_images(small(scratch.file("set"))).value();
    ASSERT_TRUE(images->next().value());
    const State state = images->save();
    const std::string moved = scratch.file("moved");
    std::filesystem::rename(scratch.file("set"), moved);
    ASSERT_TRUE(open_images(small(moved)).value()->restore(state)) << "the same files under another path";
    if (format == "folder") {
      const std::string folder = std::filesystem::directory_iterator(moved + "/train")->path();
      std::filesystem::rename(std::filesystem::directory_iterator(folder)->path(), folder + "/other.jpg");
    } else {
      const std::string ending = format == "tar" ? ".tar" : "";
      const std::string first = moved + "/train-00000-of-00002" + ending;
      const std::string second = moved + "/train-00001-of-00002" + ending;
      std::filesystem::rename(first, scratch.file("first"));
      std::filesystem::rename(second, first);
      std::filesystem::rename(scratch.file("first"), second);
    }
    const auto other = open_images(small(moved)).value();
    const Status refused = other->restore(state);
    ASSERT_FALSE(refused) << format;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.error().message().find(moved), std::string::npos) << refused.error().message();
    EXPECT_TRUE(other->start_epoch(1));
    EXPECT_TRUE(other->next().value());
    // Positions of earlier versions do not tell.
    const std::string text = state.to_text();
    EXPECT_TRUE(other->restore(State::from_text(text.substr(0, text.find(" images.files="))).value())) << format;
  }
}

TEST(Images, OfASplitAreReadInEitherWay) {
  for (const bool training : {true, false}) {
    auto options = small();
    options.training = training;
    options.split = Split::kTrain;
    EXPECT_EQ(open_images(options).value()->records_per_epoch(), kImages);
    options.split = Split::kValidation;
    EXPECT_EQ(open_images(options).value()->records_per_epoch(), kValidation);
    EXPECT_TRUE(has_split(options));
  }
}

TEST(Images, ChangesOfSizeLoseAndRepeatNothing) {
  for (const bool by_file : {false, true}) {
    auto options = small();
    options.training = false;  // whole images, to tell them apart by their pixels
    options.pattern = "train-*";
    options.epochs = 1;
    options.shard_by_file = by_file;
    const auto expected = images_of(drain(options), 0);
    std::vector<Made> all;
    std::optional<State> state;
    for (const auto& [size, batch, steps] : {std::tuple(3, 2, 2), {2, 5, 1}, {4, 1, 3}, {1, 4, 1}, {2, 3, 100}}) {
      State after;
      for (options.rank = 0, options.size = size, options.batch = batch; options.rank < size; ++options.rank) {
        options.threads = options.rank;
        const auto iterator = open_images(options).value();
        if (state) {
          ASSERT_TRUE(iterator->restore(*state));
        }
        const auto mine = drain(*iterator, static_cast<std::size_t>(steps));
        all.insert(all.end(), mine.begin(), mine.end());
        after = iterator->save();
      }
      state = after;
    }
    EXPECT_EQ(images_of(all, 0), expected) << by_file;
  }
}

// Sharded by file, a rank reads from as few files as its share allows.
TEST(Images, ShardingByFileKeepsRanksApart) {
  auto options = small();
  options.shard_by_file = true;
  options.epochs = 1;
  options.size = 3;
  options.batch = 5;
  const auto expected = images_of(drain(*open_images(options).value()), 0);
  EXPECT_EQ(expected.size(), kImages / 3U);
  // One file of three gone: only the rank that reads it notices.
  int failed = 0;
  for (options.rank = 0; options.rank < options.size; ++options.rank) {
    const Damaged damaged({1, 2, 3, 4, 5});
    options.directory = damaged.directory();
    const auto iterator = open_images(options).value();
    auto batch = iterator->next();
    while (batch && *batch) batch = iterator->next();
    failed += batch ? 0 : 1;
  }
  EXPECT_EQ(failed, 1);
}

TEST(Images, AutoThreadsDeliverTheSame) {
  const auto expected = drain(small());
  auto options = small();
  options.threads = kAutoThreads;
  options.memory_budget = 1 << 20;
  const auto iterator = open_images(options).value();
  EXPECT_EQ(drain(*iterator), expected);
  EXPECT_LE(iterator->memory_bytes(), options.memory_budget);
  const PipelineReport report = iterator->report();
  EXPECT_EQ(report.elements, static_cast<std::int64_t>(expected.size()) * 4);
  EXPECT_GT(report.steps[0].bytes, 0);
  EXPECT_GT(report.steps[1].seconds, 0);
  ASSERT_FALSE(report.stages.empty());
  EXPECT_EQ(report.stages.back().name, "map_and_batch");
  EXPECT_EQ(report.stages.back().elements, static_cast<std::int64_t>(expected.size()));
  EXPECT_NE(to_table(report).find("shard_batches"), std::string::npos);
}

TEST(Images, AutoThreadsShareTheCpusOfTheHost) {
  auto options = small();
  options.threads = kAutoThreads;
  const int all = open_images(options).value()->report().cpus;
  for (const int processes : {2, 10000}) {
    options.processes = processes;
    const auto iterator = open_images(options).value();
    drain(*iterator);
    const PipelineReport report = iterator->report();
    EXPECT_EQ(report.cpus, std::max(all / processes, 1));
    EXPECT_EQ(report.making.most_threads, report.cpus);
  }
}

TEST(Images, BatchesOutliveTheIterator) {
  auto options = small();
  options.threads = 2;
  auto iterator = open_images(options).value();
  const ImageBatch first = **iterator->next();
  const Made before = made_of(first);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(iterator->next());
  EXPECT_EQ(made_of(first), before) << "memory in use is not reused";
  iterator.reset();
  EXPECT_EQ(made_of(first), before);
}

TEST(Images, CanBeDroppedAtAnyMoment) {
  auto options = small();
  options.threads = 3;
  for (std::size_t at = 0; at < 12; ++at) {
    const auto iterator = open_images(options).value();
    drain(*iterator, at % 4);
    EXPECT_GE(iterator->waited_seconds(), 0);
  }
}

// A rectangle is what the image transformer makes of the same records.
TEST(Images, MayBeRectangles) {
  for (const bool training : {false, true}) {
    auto options = small();
    options.image_size = ImageSize(12, 20);
    options.training = training;
    options.epochs = 1;
    const auto iterator = open_images(options).value();
    const auto batch = iterator->next().value().value();
    EXPECT_EQ(batch.height, 12);
    EXPECT_EQ(batch.width, 20);
    EXPECT_EQ(iterator->report().batch_bytes, 3 * 12 * 20 * 4 * 4);
    options.threads = 3;
    EXPECT_EQ(made_of(open_images(options).value()->next().value().value()), made_of(batch));
    options.layout = Layout::kNhwc;
    const auto by_pixel = open_images(options).value()->next().value().value();
    for (int y = 0; y < 12; ++y)
      for (int x = 0; x < 20; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_EQ(by_pixel.floats()[(y * 20 + x) * 3 + c], batch.floats()[(c * 12 + y) * 20 + x]);
  }
}

TEST(ImageSize, IsReadAndWritten) {
  EXPECT_EQ(parse_image_size("224"), ImageSize(224));
  EXPECT_EQ(parse_image_size("192x256"), ImageSize(192, 256));
  EXPECT_EQ(parse_image_size("192,256"), ImageSize(192, 256));
  for (const char* wrong : {"", "x", "1x", "x1", "1x2x3", "1.5", " 1", "99999999999"})
    EXPECT_FALSE(parse_image_size(wrong)) << wrong;
  EXPECT_EQ(to_text(224), "224");
  EXPECT_EQ(to_text(ImageSize(192, 256)), "192x256");
}

}  // namespace
}  // namespace xoe::data::test
