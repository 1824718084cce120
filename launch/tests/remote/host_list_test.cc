// Hosts as users and Slurm write them.
#include "launch/remote/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace xoe::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Host host(std::string name, int slots, int max_slots = 0) {
  return {.name = std::move(name), .slots = slots, .max_slots = max_slots};
}

TEST(HostList, NamesSlotsUsersAndAddresses) {
  EXPECT_THAT(parse_hosts("a:4,b,me@c:2,[fe80::1]:3,::1,me@[fe80::2]:5").value(),
              ElementsAre(host("a", 4), host("b", 1), host("me@c", 2), host("fe80::1", 3), host("::1", 1),
                          host("me@fe80::2", 5)));
  EXPECT_THAT(parse_hosts("a:1,b:1,a:2").value(), ElementsAre(host("a", 3), host("b", 1)));
  for (const char* wrong : {"a:",
                            "a:0",
                            "a:x",
                            ":4",
                            "a,,b",
                            "-oProxyCommand=x",
                            "me@-oProxyCommand=x",
                            "a b",
                            "a;b",
                            "$(x)",
                            "",
                            "@a",
                            "a:99999",
                            "[::1",
                            "a:-1",
                            ".",
                            "..",
                            "me@..",
                            "../x",
                            "a:0:1",
                            "a:-1:1",
                            "dead:beef:1",
                            "fe80::1::2",
                            "[a]:2:2"})
    EXPECT_FALSE(parse_hosts(wrong)) << wrong;
  const std::string message = parse_hosts("a\x1b[31m\n\xe2\x80\xae").error().message();
  EXPECT_EQ(message.find_first_of("\x1b\n"), std::string::npos) << message;
}

TEST(HostList, FilesOfOpenMpiHorovodAndMpich) {
  const auto hosts =
      parse_hostfile("# cluster\n\nnodeA slots=4 max-slots=8\nnodeB\tslots=2 # old\r\nnodeC:3\nnodeD\n", "f");
  EXPECT_THAT(hosts.value(), ElementsAre(host("nodeA", 4, 8), host("nodeB", 2), host("nodeC", 3), host("nodeD", 1)));
  const auto wrong = parse_hostfile("a slots=1\nb slot=2\n", "hosts.txt");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("hosts.txt line 2: \"slot=2\""));
  EXPECT_THAT(parse_hostfile("#\n", "f").error().message(), HasSubstr("no host"));
  EXPECT_FALSE(parse_hostfile("a slots=4 max-slots=2", "f"));
  EXPECT_THAT(read_hostfile("/no/such").error().message(),
              HasSubstr("--hostfile /no/such: cannot read it: No such file"));
  EXPECT_THAT(read_hostfile("/tmp").error().message(), HasSubstr("--hostfile /tmp: cannot read it: Is a directory"));
}

TEST(HostList, KnowsItself) {
  for (const char* name : {"localhost", "127.0.0.1", "::1", "box", "box.lab.org"})
    EXPECT_TRUE(names_this_host(name, name[0] == 'b' ? "box.lab.org" : "other")) << name;
  EXPECT_TRUE(names_this_host("box.lab.org", "box"));
  for (const char* name : {"box.else.org", "boxer", "10.0.0.1", "me@localhost"})
    EXPECT_FALSE(names_this_host(name, "box.lab.org")) << name;
}

TEST(SlurmList, ShortForms) {
  EXPECT_THAT(
      expand_hostlist("n[1-3,07],login,r[0-1]c[08-10]x").value(),
      ElementsAre("n1", "n2", "n3", "n07", "login", "r0c08x", "r0c09x", "r0c10x", "r1c08x", "r1c09x", "r1c10x"));
  EXPECT_THAT(expand_counts("2(x3),1").value(), ElementsAre(2, 2, 2, 1));
  for (const char* wrong : {"", "n[", "n]", "n[1-", "n[3-1]", "n[a]", "n[]", "a,,b", "n[[1]]", "n[0-999999999]", ",a",
                            "../x,b", "a/b", "a\nb", "-x", "a b", "..", "a\xe2\x80\xae"})
    EXPECT_FALSE(expand_hostlist(wrong)) << wrong;
  for (const char* wrong : {"", "x", "2(x", "2(x0)", "1(x99999999)", "-1"}) EXPECT_FALSE(expand_counts(wrong)) << wrong;
}

TEST(HostList, AFileNamesTheLineThatIsWrong) {
  EXPECT_THAT(parse_hostfile("a\n-x\n", "hosts").error().message(), HasSubstr("hosts line 2"));
}

}  // namespace
}  // namespace xoe::remote
