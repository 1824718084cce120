// Mail through a command. A program of its own: the thread sanitizer loses track of a thread that started a process.
#include "pool/hooks/mail.h"

#include <gmock/gmock.h>

#include <csignal>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::pool::testing {
namespace {

using ::testing::HasSubstr;

TEST(Mail, GoesThroughACommand) {
  std::signal(SIGPIPE, SIG_IGN);  // as the program does: the command may not read all of it
  const Notice notice{.event = {.kind = "idle-warned", .why = "no process used its GPUs for 15 min"},
                      .lease = {.id = 7, .user = "ann"}};
  const Scratch scratch;
  const std::string box = scratch.file("box");
  ASSERT_TRUE(send_mail("cat > " + box, "lab.example", notice));
  std::ifstream file(box);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("To: ann@lab.example\nSubject: [GPU pool] lease 7: idle-warned\n"));
  EXPECT_THAT(text, HasSubstr("\n\nlease 7 is idle, and will be ended: no process used its GPUs for 15 min\n"));
  EXPECT_THAT(send_mail("echo no such mailbox >&2; exit 67", "", notice).error().message(),
              HasSubstr("exited with code 67: no such mailbox"));
  EXPECT_FALSE(send_mail("exec 0<&-; exit 1", "", notice));
}

}  // namespace
}  // namespace xoe::pool::testing
