#include "core/base/text.h"

#include <gtest/gtest.h>

namespace xoe {
namespace {

TEST(Text, CountsAsPeopleDo) {
  EXPECT_EQ(counted(0, "thread"), "0 threads");
  EXPECT_EQ(counted(1, "thread"), "1 thread");
  EXPECT_EQ(counted(2, "thread"), "2 threads");
  EXPECT_EQ(counted(1, "class"), "1 class");
  EXPECT_EQ(counted(3, "class"), "3 classes");
  EXPECT_EQ(counted(4, "batch"), "4 batches");
}

}  // namespace
}  // namespace xoe
