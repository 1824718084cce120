// Many small records with damage at known places: every whole record comes exactly once, every damaged one is counted,
// and memory does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/base/bytes.h"
#include "core/testing/scratch.h"
#include "data/records/record_index.h"
#include "data/tests/record_files.h"
#include "xoe/data/records.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kRecords = XOE_SANITIZED != 0 ? 20'000 : 200'000;
constexpr int kFiles = 8;
constexpr std::int64_t kPerFile = kRecords / kFiles;
constexpr std::int64_t kAllBad = std::int64_t{1} << 40;

// The damage to one file.
struct Damaged {
  std::string path;
  std::vector<std::uint64_t> offsets;  // of the records, and of the end
  std::set<std::int64_t> framing;      // numbers of the records whose header is damaged, or which are cut
  std::set<std::int64_t> data;         // of those whose data or their CRC are damaged
  std::int64_t left = kPerFile;        // records before the cut, and the cut one

  bool bad(std::int64_t number) const { return number >= left || framing.contains(number) || data.contains(number); }
  std::int64_t count() const { return static_cast<std::int64_t>(framing.size() + data.size()); }
};

// A record's first bytes are its number among all.
Damaged write_whole(const std::string& path, std::int64_t first, Random& random) {
  Damaged file{.path = path, .offsets = {0}, .framing = {}, .data = {}};
  auto writer = RecordWriter::create(path).value();
  const std::string filling = some_bytes(400, 1);
  for (std::int64_t i = 0; i < kPerFile; ++i) {
    std::string record;
    append_little(record, static_cast<std::uint64_t>(first + i));
    record += std::string_view(filling).substr(0, static_cast<std::size_t>(random.integer(0, 300)));
    EXPECT_TRUE(writer.write(record));
    file.offsets.push_back(writer.bytes());
  }
  EXPECT_TRUE(writer.finish());
  return file;
}

// About one record in fifty is damaged: a byte of the data or their CRC, of the length, or of the length's CRC. Then
// the file is cut within a record. `gap`: whole records that follow a damaged one at least.
void damage(Damaged& file, std::int64_t gap, Random& random) {
  std::string bytes = read_file(file.path);
  const auto offset = [&file](std::int64_t i) { return file.offsets[static_cast<std::size_t>(i)]; };
  const auto within = [&random](std::uint64_t from, std::uint64_t to) {
    return from + static_cast<std::uint64_t>(random.integer(0, static_cast<int>(to - from) - 1));
  };
  for (std::int64_t i = 0; i < kPerFile - 20; ++i) {
    if (!random.chance(0.02)) continue;
    const bool header = random.chance(0.5);
    const auto at = header ? within(offset(i), offset(i) + 12) : within(offset(i) + 12, offset(i + 1));
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.integer(0, 7)));
    (header ? file.framing : file.data).insert(i);
    i += gap;
  }
  const std::int64_t last = kPerFile - 1 - random.integer(0, 9);
  bytes.resize(within(offset(last) + 1, offset(last + 1)));
  file.framing.insert(last);
  file.left = last + 1;
  put_file(file.path, bytes);
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  return 0;
}

// The parameter: how many whole records follow a damaged one at least.
class Corruption : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    Random random(7);
    for (int i = 0; i < kFiles; ++i) {
      files_.push_back(write_whole(scratch_.file("f" + std::to_string(i)), i * kPerFile, random));
      damage(files_.back(), GetParam(), random);
    }
  }
  // The numbers that must come of one file.
  std::vector<std::int64_t> expected(std::size_t file) const {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < kPerFile; ++i)
      if (!files_[file].bad(i)) numbers.push_back(static_cast<std::int64_t>(file) * kPerFile + i);
    return numbers;
  }
  static std::int64_t number_of(std::string_view data) {
    return static_cast<std::int64_t>(load_little<std::uint64_t>(data.data()));
  }
  // Damaged headers in a row are passed over together, so only where whole records lie between them the count must be
  // exact; else it is one at least for each row.
  void expect_count(std::int64_t count, std::int64_t damaged) const {
    EXPECT_LE(count, damaged);
    EXPECT_GE(count, GetParam() > 0 ? damaged : damaged * 9 / 10);
  }

  Scratch scratch_;
  std::vector<Damaged> files_;
};

TEST_P(Corruption, StreamsDeliverEveryWholeRecordOnce) {
  std::size_t whole = 0;
  const std::int64_t before = resident_kib();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto bad = std::make_shared<BadRecords>();
    auto iterator =
        read_records(files_[i].path, {.on_error = OnError::kSkip, .max_bad = kAllBad, .bad = bad})->iterate(0).value();
    std::vector<std::int64_t> numbers;
    for (auto record = iterator->next().value(); record; record = iterator->next().value())
      numbers.push_back(number_of(record->data));
    EXPECT_EQ(numbers, expected(i));
    expect_count(bad->count(), files_[i].count());
    whole += numbers.size();
  }
  EXPECT_GT(whole, kRecords * 9 / 10);
  EXPECT_LT(whole, kRecords * 99 / 100);
  EXPECT_LT(resident_kib() - before, 64 << 10);
}

TEST_P(Corruption, AnIndexListsWhatIsLostAndReadsTheRest) {
  std::vector<std::string> paths;
  std::int64_t damaged = 0;
  for (const Damaged& file : files_) {
    paths.push_back(file.path);
    damaged += file.count();
  }
  const std::int64_t before = resident_kib();
  const auto index = RecordIndex::open(paths, {.threads = 2, .on_error = OnError::kSkip, .max_lost = kAllBad}).value();
  std::int64_t failed = 0;
  std::string buffer;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t record = index->first(i); record < index->first(i + 1); ++record) {
      const auto data = index->read(record, buffer);
      if (data) numbers.push_back(number_of(*data));
      if (!data) {
        EXPECT_EQ(data.error().code(), Code::kDataLoss);
      }
      failed += data ? 0 : 1;
    }
    EXPECT_EQ(numbers, expected(i));
  }
  EXPECT_GT(failed, 0);
  expect_count(index->lost() + failed, damaged);
  EXPECT_LT(resident_kib() - before, 64 << 10);
}

// A saved position leads to the same remaining records, whatever damage lies before or behind it.
TEST_P(Corruption, PositionsAreExactAmongDamage) {
  const auto stage = read_records(files_[0].path, {.on_error = OnError::kSkip, .max_bad = kAllBad, .bad = nullptr});
  const auto wanted = expected(0);
  auto iterator = stage->iterate(0).value();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i % 997 == 0) {
      auto other = stage->iterate(0).value();
      ASSERT_TRUE(other->restore(iterator->save()));
      EXPECT_EQ(number_of(other->next().value()->data), wanted[i]);
    }
    ASSERT_TRUE(iterator->next().value());
  }
}

INSTANTIATE_TEST_SUITE_P(, Corruption, ::testing::Values(1, 0), [](const auto& chosen) {
  return chosen.param > 0 ? std::string("Apart") : std::string("Anywhere");
});

}  // namespace
}  // namespace xoe::data
