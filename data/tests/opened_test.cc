// Ranks compare what they opened; here they are threads.
#include "xoe/data/opened.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "data/tests/record_files.h"
#include "data/tests/run_data.h"
#include "xoe/data/images.h"

namespace xoe::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

OpenedData opened(std::vector<OpenedFile> files, std::int64_t batches = 7) {
  OpenedData data{.where = "data", .records = 0, .batches = batches, .files = files.size()};
  for (const OpenedFile& file : files) data.records += file.records;
  data.file = [files = std::move(files)](std::size_t number) { return files.at(number); };
  return data;
}

std::vector<OpenedFile> shards(int count) {
  std::vector<OpenedFile> files;
  for (int i = 0; i < count; ++i)
    files.push_back({.name = fmt::format("train-{:05}-of-{:05}", i, count), .bytes = 1000, .records = 10});
  return files;
}

struct Compared {
  std::vector<Status> status;  // by rank
  int gathers = 0;
};

Compared compare(const std::vector<Result<OpenedData>>& ranks) {
  const auto size = static_cast<std::ptrdiff_t>(ranks.size());
  std::vector<std::string> texts(ranks.size());
  std::barrier all(size);
  std::atomic<int> gathers = 0;
  Compared compared{.status = std::vector<Status>(ranks.size())};
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        const GatherTexts gather = [&](std::string text) -> Result<std::vector<std::string>> {
          if (rank == 0) ++gathers;
          texts[rank] = std::move(text);
          all.arrive_and_wait();
          std::vector<std::string> copy = texts;
          all.arrive_and_wait();
          return copy;
        };
        compared.status[rank] = compare_opened(ranks[rank], static_cast<int>(rank), gather);
      });
  }
  compared.gathers = gathers;
  return compared;
}

// All ranks get one message.
std::string message_of(const Compared& compared, Code code = Code::kInvalidArgument) {
  std::string message;
  for (const Status& status : compared.status) {
    EXPECT_FALSE(status);
    if (status) return {};
    EXPECT_EQ(status.error().code(), code);
    if (message.empty()) message = status.error().message();
    EXPECT_EQ(status.error().message(), message);
  }
  return message;
}

TEST(CompareOpened, EqualDataTakeOneStep) {
  const auto all = compare({opened(shards(6)), opened(shards(6)), opened(shards(6))});
  for (const Status& status : all.status) EXPECT_TRUE(status);
  EXPECT_EQ(all.gathers, 1);
  EXPECT_TRUE(compare({opened(shards(6))}).status[0]);
  EXPECT_TRUE(compare({opened({}), opened({})}).status[0]);
}

TEST(CompareOpened, AnAbsentFileIsNamed) {
  for (std::size_t absent = 0; absent < 6; ++absent) {
    auto fewer = shards(6);
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(absent));
    const auto name = shards(6)[absent].name;
    const std::string message = message_of(compare({opened(shards(6)), opened(shards(6)), opened(fewer)}));
    EXPECT_THAT(message, AllOf(HasSubstr("rank 2 on host "), HasSubstr("opened 5 files, 50 records; rank 0 on host "),
                               HasSubstr(" 6 files, 60 records"), HasSubstr(name + " is absent on rank 2")));
    EXPECT_THAT(message_of(compare({opened(fewer), opened(shards(6))})), HasSubstr(name + " is absent on rank 0"));
  }
  EXPECT_THAT(message_of(compare({opened(shards(6)), opened({})})),
              HasSubstr("train-00000-of-00006 is absent on rank 1"));
}

TEST(CompareOpened, FilesOfOneNameAreComparedBySizeAndRecords) {
  auto other = shards(6);
  other[4].records = 9;
  other[4].bytes = 123456;
  const std::string message = message_of(compare({opened(shards(6)), opened(other), opened(other)}));
  EXPECT_THAT(message, HasSubstr("train-00004-of-00006 has 123,456 bytes and 9 records on rank 1, 1,000 bytes and 10 "
                                 "records on rank 0"));
  EXPECT_THAT(message, HasSubstr("; 1 more rank differs, too"));
}

TEST(CompareOpened, OtherOrdersOptionsAndLabelsAreTold) {
  auto swapped = shards(6);
  std::swap(swapped[1], swapped[2]);
  EXPECT_THAT(message_of(compare({opened(shards(6)), opened(swapped)})),
              HasSubstr("rank 1 has train-00002-of-00006 where rank 0 has train-00001-of-00006"));
  EXPECT_THAT(message_of(compare({opened(shards(6), 25), opened(shards(6), 16)})),
              HasSubstr("makes 16 batches an epoch of these files, rank 0 on host"));
  OpenedData labels = opened(shards(6));
  labels.labels = 1;
  EXPECT_THAT(message_of(compare({opened(shards(6)), labels})), HasSubstr("other classes or labels"));
  OpenedData order = opened(shards(6));
  order.order = 1;
  EXPECT_THAT(message_of(compare({opened(shards(6)), order})), HasSubstr("another order"));
}

TEST(CompareOpened, TheFaultOfOneRankIsThatOfAll) {
  const Result<OpenedData> broken = failure(Code::kDataLoss, "data/train-00004-of-00006: absent");
  const std::string message = message_of(compare({opened(shards(6)), broken, opened(shards(6))}), Code::kDataLoss);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 1 on host "), HasSubstr(": data/train-00004-of-00006: absent")));
  EXPECT_EQ(message_of(compare({broken}), Code::kDataLoss), "data/train-00004-of-00006: absent");
}

TEST(CompareOpened, ManyFilesTakeFewSteps) {
  auto other = shards(100000);
  other.erase(other.begin() + 77777);
  const auto compared = compare({opened(shards(100000)), opened(other)});
  EXPECT_THAT(message_of(compared), HasSubstr("train-77777-of-100000 is absent on rank 1"));
  EXPECT_LE(compared.gathers, 20);
}

// Of every format: the same in another folder, with other times; different where a file is cut or a record less.
TEST(CompareOpened, PipelinesOfAllFormats) {
  for (const char* format : {"tfrecord", "tar", "folder", "nih"}) {
    const Scratch scratch;
    for (const char* host : {"one", "two"}) {
      auto words = make_arguments(scratch.file(host) + "/set");
      words.insert(words.end(), {"--format", format});
      std::filesystem::create_directory(scratch.file(host));
      ASSERT_EQ(run(words).code, 0);
    }
    const auto open = [&](const std::string& host, int rank) {
      auto images = open_images({.directory = scratch.file(host) + "/set", .batch = 4, .rank = rank, .size = 2});
      EXPECT_TRUE(images) << images.error().message();
      return (*images)->opened();
    };
    EXPECT_TRUE(compare({open("one", 0), open("two", 1)}).status[0]) << format;
    std::string cut;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.file("two")))
      if (entry.is_regular_file() && entry.path().filename().string().find("val") == std::string::npos &&
          entry.path().extension() != ".txt" && entry.path().extension() != ".csv" &&
          entry.path().string().find("/validation") == std::string::npos)
        cut = std::max(cut, entry.path().string());
    if (std::string(format) == "nih") cut = scratch.file("two/set/images_001/images/00000002_000.png");
    if (std::string(format) == "tfrecord") {
      write_records(cut, {100, 100});
    } else if (std::string(format) == "tar") {
      std::filesystem::resize_file(cut, std::filesystem::file_size(cut) + 512);  // zeros
    } else {
      put_file(cut, "smaller");
    }
    const std::string message = message_of(compare({open("one", 0), open("two", 1)}));
    EXPECT_THAT(message, HasSubstr("First difference: ")) << format;
    EXPECT_THAT(message, HasSubstr(std::filesystem::path(cut).filename().string() + " has ")) << format;
    EXPECT_THAT(message, Not(HasSubstr("/one/set/train"))) << format;
  }
}

}  // namespace
}  // namespace xoe::data
