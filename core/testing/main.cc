// A program that holds the tests of several files. Those of the files in XOE_TEST_FILES run, "a_test.cc:b_test.cc";
// without it, all. XOE_TEST_WITHOUT is a filter of GoogleTest for those that do not.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

namespace {

// The names of the tests that these files define, as a filter of GoogleTest.
std::string tests_of(const std::string& files) {
  std::string filter;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      const auto file = std::filesystem::path(test.file()).filename().string();
      if ((":" + files + ":").find(":" + file + ":") != std::string::npos)
        filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (const char* files = std::getenv("XOE_TEST_FILES")) {
    const std::string filter = tests_of(files);
    if (filter.empty()) {
      std::fprintf(stderr, "no test is defined in %s\n", files);
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  if (const char* without = std::getenv("XOE_TEST_WITHOUT")) testing::GTEST_FLAG(filter) += std::string("-") + without;
  return RUN_ALL_TESTS();
}
