// Reads the ranges of this process that the mock profiler (core/tests/drivers/mock_nvtx.cc) has heard.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/testing/places.h"
#include "core/testing/scratch.h"

namespace xoe::testing {

// Attaches the mock, for engines that begin while this object lives.
class HeardRanges {
 public:
  HeardRanges() {
    const std::string library = built_file("libmock_nvtx.so");
    ::setenv("NVTX_INJECTION64_PATH", library.c_str(), 1);
    ::setenv("XOE_MOCK_NVTX", path().c_str(), 1);
  }
  HeardRanges(const HeardRanges&) = delete;
  ~HeardRanges() {
    ::unsetenv("NVTX_INJECTION64_PATH");
    ::unsetenv("XOE_MOCK_NVTX");
  }

  std::string path() const { return scratch_.file("heard"); }

  struct Heard {
    std::map<std::string, int> begun;        // by message: "reduce layer1"
    std::map<std::string, long> bytes = {};  // of the newest one
    std::set<std::string> of_category(int category) const {
      return categories.count(category) == 0 ? std::set<std::string>() : categories.at(category);
    }
    std::map<int, std::set<std::string>> categories = {};
    std::size_t open = 0;  // ranges that have not ended
    int domains = 0;
  };
  // Fails the test if a range ended twice, or before it began.
  Heard read() const { return read(path()); }
  static Heard read(const std::string& path) {
    Heard heard;
    std::set<std::string> open;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string what, id, message;
      words >> what >> id;
      if (what == "domain") ++heard.domains;
      if (what == "end") {
        EXPECT_EQ(open.erase(id), 1u) << line;
      }
      if (what != "start") continue;
      int category = 0;
      long bytes = 0;
      words >> category >> bytes;
      std::getline(words >> std::ws, message);
      EXPECT_TRUE(open.insert(id).second) << line;
      ++heard.begun[message];
      heard.bytes[message] = bytes;
      heard.categories[category].insert(message);
    }
    heard.open = open.size();
    return heard;
  }

 private:
  const Scratch scratch_;
};

}  // namespace xoe::testing
