#include "core/base/nearest_word.h"

#include <gtest/gtest.h>

#include <array>

namespace xoe {
namespace {

constexpr std::array<std::string_view, 6> kWords = {"--epochs", "--optimizer", "--output-dir", "-np", "run", "train"};

TEST(NearestWord, OfFewWrongLetters) {
  EXPECT_EQ(nearest_word("--epoch", kWords), "--epochs");
  EXPECT_EQ(nearest_word("--epcohs", kWords), "--epochs");
  EXPECT_EQ(nearest_word("--optimiser", kWords), "--optimizer");
  EXPECT_EQ(nearest_word("rnu", kWords), "run");
  EXPECT_EQ(nearest_word("trian", kWords), "train");
}

TEST(NearestWord, OfABeginning) {
  EXPECT_EQ(nearest_word("--out", kWords), "--output-dir");
  EXPECT_EQ(nearest_word("--o", kWords), "");
}

TEST(NearestWord, NotOfAnotherWord) {
  for (const std::string_view word : {"ls", "python", "--verbose", "--x", "", "-", "a"})
    EXPECT_EQ(nearest_word(word, kWords), "") << word;
  EXPECT_EQ(nearest_word("run", {}), "");
}

TEST(NearestWord, AsASentence) {
  EXPECT_EQ(did_you_mean("rum", kWords), "; did you mean run?");
  EXPECT_EQ(did_you_mean("python", kWords, "; see --help"), "; see --help");
}

}  // namespace
}  // namespace xoe
