#include "core/engine/tuning/tuner_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TunerFile : public ::testing::Test {
 protected:
  TunerFile() {
    std::string place = std::filesystem::temp_directory_path() / "xoe-tuning-XXXXXX";
    folder_ = ::mkdtemp(place.data());
    path_ = folder_ / "tuned.json";
  }
  ~TunerFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

const std::vector<Tuned> kTuned = {{{1e8, 161}, {std::size_t{8} << 20, std::size_t{1} << 20, 2}},
                                   {{4e5, 400}, {std::size_t{1} << 18, 4096, 1}}};

TEST_F(TunerFile, SavesAndLoads) {
  ASSERT_TRUE(save_tuned(path_, {4, 1}, kTuned));
  std::string warning;
  const auto loaded = load_tuned(path_, {4, 1}, warning);
  EXPECT_EQ(warning, "");
  ASSERT_EQ(loaded.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded[i].knobs, kTuned[i].knobs);
    EXPECT_EQ(loaded[i].workload.bytes, kTuned[i].workload.bytes);
    EXPECT_EQ(loaded[i].workload.tensors, kTuned[i].workload.tensors);
  }
}

TEST_F(TunerFile, IsNotMisapplied) {
  ASSERT_TRUE(save_tuned(path_, {4, 1}, kTuned));
  ASSERT_TRUE(save_tuned(path_, {8, 2}, {kTuned[0]}));
  std::string warning;
  EXPECT_THAT(load_tuned(path_, {4, 2}, warning), IsEmpty());
  EXPECT_THAT(load_tuned(path_, {2, 1}, warning), IsEmpty());
  EXPECT_EQ(load_tuned(path_, {4, 1}, warning).size(), 2U);
  EXPECT_EQ(load_tuned(path_, {8, 2}, warning).size(), 1U);
  ASSERT_TRUE(save_tuned(path_, {4, 1}, {kTuned[1]}));
  EXPECT_EQ(load_tuned(path_, {4, 1}, warning).size(), 1U);
  EXPECT_EQ(load_tuned(path_, {8, 2}, warning).size(), 1U);
  EXPECT_EQ(warning, "");
}

TEST_F(TunerFile, NoFileIsNoFault) {
  std::string warning;
  EXPECT_THAT(load_tuned(path_, {1, 1}, warning), IsEmpty());
  EXPECT_EQ(warning, "");
}

TEST_F(TunerFile, LeavesNothingBesideIt) {
  ASSERT_TRUE(save_tuned(path_, {4, 1}, kTuned));
  ASSERT_TRUE(save_tuned(path_, {4, 1}, kTuned));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1U);
}

TEST_F(TunerFile, SaysWhenItCannotBeWritten) {
  const auto saved = save_tuned(folder_ / "absent" / "tuned.json", {4, 1}, kTuned);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code(), Code::kUnavailable);
  EXPECT_THAT(saved.error().message(), HasSubstr("absent/tuned.json"));
}

std::string with_entry(const std::string& entry) {
  return R"({"format":"xoe tuning","version":1,"entries":[)" + entry + "]}";
}

TEST_F(TunerFile, HostileFilesGiveAWarningAndNothingElse) {
  const std::string good =
      R"({"ranks":4,"hosts":1,"bytes_per_step":1000,"tensors_per_step":10,"fusion_threshold":65536,"pack_limit":4096,"in_flight":2})";
  std::string warning;
  write(with_entry(good));
  ASSERT_EQ(load_tuned(path_, {4, 1}, warning).size(), 1U) << warning;

  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string entry = good;
    entry.replace(entry.find(from), from.size(), to);
    return with_entry(entry);
  };
  const std::vector<std::string> hostile = {
      "",
      "{",
      "null",
      "[]",
      "\xff\xfe\x00",
      R"({"format":"xoe tuning"})",
      R"({"format":"xoe tuning","version":2,"entries":[]})",
      R"({"format":"xoe tuning","version":1,"entries":{}})",
      R"({"format":["xoe tuning"],"version":"1","entries":[]})",
      with_entry("7"),
      with_entry("null"),
      with_entry("{}"),
      with_entry(good + ",[]"),
      changed("\"ranks\":4", "\"ranks\":\"4\""),
      changed("\"ranks\":4", "\"ranks\":4.0"),
      changed("\"ranks\":4", "\"ranks\":-4"),
      changed("\"ranks\":4", "\"ranks\":4294967300"),
      changed("\"hosts\":1", "\"hosts\":5"),
      changed("65536", "65537"),
      changed("65536", "-65536"),
      changed("65536", "18446744073709551615"),
      changed("65536", "1e400"),
      changed("4096", "131072"),
      changed("\"in_flight\":2", "\"in_flight\":3"),
      changed("\"in_flight\":2", "\"in_flight\":0"),
      changed("\"in_flight\":2", "\"in_flight\":4294967298"),
      changed("1000", "0"),
      changed("1000", "99999999999999999999999"),
      std::string(1 << 20, '['),
      std::string(60000, '['),
      with_entry(good) + std::string(100000, ' '),
  };
  for (const std::string& text : hostile) {
    write(text);
    warning.clear();
    EXPECT_THAT(load_tuned(path_, {4, 1}, warning), IsEmpty()) << text.substr(0, 200);
    EXPECT_THAT(warning, HasSubstr("is ignored: ")) << text.substr(0, 200);
    EXPECT_THAT(warning, ::testing::Not(HasSubstr("\n")));
  }
  ASSERT_TRUE(save_tuned(path_, {4, 1}, kTuned));  // replaces it
  warning.clear();
  EXPECT_EQ(load_tuned(path_, {4, 1}, warning).size(), 2U);
}

TEST_F(TunerFile, AFolderOrAPipeInItsPlace) {
  std::string warning;
  EXPECT_THAT(load_tuned(folder_, {4, 1}, warning), IsEmpty());
  EXPECT_THAT(warning, HasSubstr("cannot read the tuning file"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  warning.clear();
  EXPECT_THAT(load_tuned(path_, {4, 1}, warning), IsEmpty());
  EXPECT_THAT(warning, HasSubstr("is ignored"));
}

// A file that cannot be read now may hold what other jobs have learnt.
TEST_F(TunerFile, IsNotReplacedWhereItCannotBeRead) {
  ASSERT_EQ(::mknod(path_.c_str(), S_IFSOCK | 0600, 0), 0);
  const auto saved = save_tuned(path_, {4, 1}, kTuned);
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message(), HasSubstr("cannot be read"));
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

TEST_F(TunerFile, StaysSmall) {
  for (int ranks = 1; ranks <= 200; ++ranks) ASSERT_TRUE(save_tuned(path_, {ranks, 1}, kTuned));
  EXPECT_LT(text().size(), 64U << 10);
  std::string warning;
  EXPECT_EQ(load_tuned(path_, {200, 1}, warning).size(), 2U);
  EXPECT_THAT(load_tuned(path_, {1, 1}, warning), IsEmpty());
  EXPECT_EQ(warning, "");
}

}  // namespace
}  // namespace xoe::engine
