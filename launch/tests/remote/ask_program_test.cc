#include "launch/remote/ask_program.h"

#include <gmock/gmock.h>

namespace xoe::remote {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(AskProgram, HasWhatItPrintsAndItsStatus) {
  const auto answer =
      ask_program({"/bin/sh", "-c", "echo yes; echo no >&2; exit 3"}, Inherited::current(), seconds(600));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->out, "yes\n");
  EXPECT_EQ(answer->err, "no\n");
  EXPECT_EQ(answer->status, 3 << 8);
  EXPECT_TRUE(answer->in_time);
}

TEST(AskProgram, EndsOneThatTakesTooLong) {
  const auto answer =
      ask_program({"/bin/sh", "-c", "echo yes; exec sleep 1000"}, Inherited::current(), std::chrono::milliseconds(300));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_FALSE(answer->in_time);
}

TEST(AskProgram, EndsOneThatPrintsWithoutEnd) {
  const auto answer = ask_program({"/bin/sh", "-c", "exec yes"}, Inherited::current(), seconds(600));
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message(), HasSubstr("prints too much"));
}

}  // namespace
}  // namespace xoe::remote
