// Which member of a rendezvous this one is, from options and the variables of schedulers.
#include "launch/rendezvous/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/testing/scratch.h"

namespace xoe::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

const Variables kKubeflow{{"PET_NNODES", "3"},          {"PET_NODE_RANK", "2"},
                          {"PET_NPROC_PER_NODE", "4"},  {"PET_MASTER_ADDR", "train-node-0-0.train"},
                          {"PET_MASTER_PORT", "29400"}, {"JOB_COMPLETION_INDEX", "2"}};
const Variables kJax{
    {"JAX_NUM_PROCESSES", "2"}, {"JAX_PROCESS_ID", "1"}, {"JAX_COORDINATOR_ADDRESS", "train-node-0-0.train:6666"}};
const Variables kLeaderWorkerSet{
    {"LWS_LEADER_ADDRESS", "set-0.set.default"}, {"LWS_GROUP_SIZE", "4"}, {"LWS_WORKER_INDEX", "3"}};
const Variables kIndexedJob{{"JOB_COMPLETION_INDEX", "5"}};
const Variables kSlurm{{"SLURM_NODEID", "1"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_NODELIST", "gpu[07-08]"}};

const MemberFacts kPod{
    .hostname = "job-5",
    .etc_hosts = "127.0.0.1\tlocalhost\n# job-5.comment\n10.1.2.3\tjob-5.net.ns.svc.cluster.local\tjob-5\n",
    .cores = 3};

RunOptions options(const std::string& at = "auto") {
  RunOptions made;
  made.rendezvous.at = at;
  return made;
}

Membership found(const RunOptions& given, const Variables& variables, const MemberFacts& facts = kPod) {
  const auto membership = find_membership(given, Env(variables), facts);
  EXPECT_TRUE(membership) << membership.error().message();
  return membership.value_or(Membership());
}

std::string why(const RunOptions& given, const Variables& variables, const MemberFacts& facts = kPod) {
  const auto membership = find_membership(given, Env(variables), facts);
  if (membership) return "found: " + describe(*membership);
  EXPECT_EQ(membership.error().code(), Code::kInvalidArgument);
  return membership.error().message();
}

TEST(Membership, OfEachScheduler) {
  EXPECT_EQ(describe(found(options(), kKubeflow)),
            "member 2 of 3, 4 ranks here; member 0 is at train-node-0-0.train, port 29400 (from Kubeflow Trainer)");
  EXPECT_EQ(describe(found(options(), kJax)),
            "member 1 of 2, 1 rank here; member 0 is at train-node-0-0.train, port 6666 (from JAX)");
  EXPECT_EQ(describe(found(options(), kLeaderWorkerSet)),
            "member 3 of 4, 1 rank here; member 0 is at set-0.set.default, port 29500 (from LeaderWorkerSet)");
  RunOptions six = options();
  six.rendezvous.nodes = 6;
  EXPECT_EQ(
      describe(found(six, kIndexedJob)),
      "member 5 of 6, 1 rank here; member 0 is at job-0.net.ns.svc.cluster.local, port 29500 (from Indexed Job or "
      "JobSet)");
  EXPECT_EQ(describe(found(options(), kSlurm)),
            "member 1 of 2, 1 rank here; member 0 is at gpu07, port 29500 (from Slurm)");
  EXPECT_TRUE(found(options(), kSlurm).slurm);
}

TEST(Membership, OfSeveralTheFirst) {
  Variables all = kSlurm;
  all.insert(kJax.begin(), kJax.end());
  EXPECT_EQ(found(options(), all).source, "JAX");
  all.insert(kKubeflow.begin(), kKubeflow.end());
  EXPECT_EQ(found(options(), all).source, "Kubeflow Trainer");
}

TEST(Membership, OptionsComeFirst) {
  RunOptions given = options("leader.example:1234");
  given.rendezvous.node_rank = 0;
  given.rendezvous.nodes = 2;
  given.size = 7;
  const Membership member = found(given, kKubeflow);
  EXPECT_EQ(member.index, 0);
  EXPECT_EQ(member.count, 2);
  EXPECT_EQ(member.leader, "leader.example");
  EXPECT_EQ(member.port, 1234);
  EXPECT_EQ(member.ranks, 7);
  EXPECT_EQ(found(options(), {{"XOE_NODES", "9"}, {"JOB_COMPLETION_INDEX", "5"}}).count, 9);
  Variables more = kKubeflow;
  more["XOE_NODES"] = "5";
  EXPECT_EQ(found(options(), more).count, 5);
}

TEST(Membership, WithoutASchedulerOptionsSayAll) {
  RunOptions given = options("node1");
  given.rendezvous.node_rank = 1;
  given.rendezvous.nodes = 2;
  EXPECT_EQ(describe(found(given, {})), "member 1 of 2, 1 rank here; member 0 is at node1, port 29500");
  given.rendezvous.node_rank = -1;
  EXPECT_THAT(why(given, {}),
              AllOf(HasSubstr("nothing says which member this is"), HasSubstr("PET_NODE_RANK"),
                    HasSubstr("JAX_PROCESS_ID"), HasSubstr("LWS_WORKER_INDEX"), HasSubstr("JOB_COMPLETION_INDEX"),
                    HasSubstr("SLURM_NODEID"), HasSubstr("--node-rank")));
  given.rendezvous.node_rank = 1;
  given.rendezvous.nodes = 0;
  EXPECT_THAT(why(given, {}), HasSubstr("--nodes N"));
}

TEST(Membership, RanksFollowWhatTheHostHas) {
  Variables variables = kKubeflow;
  const MemberFacts two{.hostname = "a", .gpus = 2, .cores = 8};
  const MemberFacts none{.hostname = "a", .cores = 8};
  variables["PET_NPROC_PER_NODE"] = "auto";
  EXPECT_EQ(found(options(), variables, two).ranks, 2);
  EXPECT_EQ(found(options(), variables, none).ranks, 8);
  variables["PET_NPROC_PER_NODE"] = "gpu";
  EXPECT_EQ(found(options(), variables, two).ranks, 2);
  variables["PET_NPROC_PER_NODE"] = "cpu";
  EXPECT_EQ(found(options(), variables, two).ranks, 8);
  EXPECT_EQ(found(options(), kJax, two).ranks, 2);
  EXPECT_EQ(found(options(), kJax, none).ranks, 1);
  variables["PET_NPROC_PER_NODE"] = "many";
  EXPECT_THAT(why(options(), variables), HasSubstr("PET_NPROC_PER_NODE=many"));
}

TEST(Membership, AddressesHaveSeveralForms) {
  RunOptions given = options("[fd00::1]:4000");
  given.rendezvous.node_rank = 1;
  given.rendezvous.nodes = 2;
  EXPECT_EQ(found(given, {}).leader, "fd00::1");
  EXPECT_EQ(found(given, {}).port, 4000);
  given.rendezvous.at = "fd00::1";
  EXPECT_EQ(found(given, {}).leader, "fd00::1");
  EXPECT_EQ(found(given, {}).port, kRendezvousPort);
  for (const char* wrong :
       {"", ":1", "a:", "a:0", "a:65536", "a:x", "[fd00::1", "[fd00::1]x", "-a", "a b", "a;b", "a/b"}) {
    given.rendezvous.at = wrong;
    EXPECT_THAT(why(given, {}), HasSubstr("no host such as")) << wrong;
  }
  given.rendezvous.at = std::string(300, 'a');
  EXPECT_THAT(why(given, {}), HasSubstr("no host such as"));
}

TEST(Membership, WrongVariablesAreNamed) {
  const auto with = [](Variables variables, const char* name, const char* value) {
    variables[name] = value;
    return why(options(), variables);
  };
  EXPECT_THAT(with(kKubeflow, "PET_NNODES", "2:4"), HasSubstr("PET_NNODES=2:4"));
  EXPECT_THAT(with(kKubeflow, "PET_NNODES", "0"), HasSubstr("PET_NNODES=0"));
  EXPECT_THAT(with(kKubeflow, "PET_NODE_RANK", "3"), HasSubstr("this is member 3, but there are 3 members"));
  EXPECT_THAT(with(kKubeflow, "PET_NODE_RANK", "-1"), HasSubstr("PET_NODE_RANK=-1"));
  EXPECT_THAT(with(kKubeflow, "PET_MASTER_PORT", "99999"), HasSubstr("PET_MASTER_PORT=99999"));
  EXPECT_THAT(with(kJax, "JAX_COORDINATOR_ADDRESS", "a b"), HasSubstr("JAX_COORDINATOR_ADDRESS"));
  EXPECT_THAT(with(kSlurm, "SLURM_JOB_NODELIST", "a[1"), HasSubstr("SLURM_JOB_NODELIST=a[1"));
  EXPECT_THAT(why(options(), kIndexedJob), HasSubstr("--nodes N, or set XOE_NODES"));
  Variables same = kKubeflow;
  same["PET_NNODES"] = "3:3";
  EXPECT_EQ(found(options(), same).count, 3);
}

TEST(Membership, OfAnIndexedJobFollowsFromTheHostName) {
  Variables variables = kIndexedJob;
  variables["XOE_NODES"] = "6";
  EXPECT_THAT(why(options(), variables, {.hostname = "job-5", .etc_hosts = "10.1.2.3 job-5\n"}),
              AllOf(HasSubstr("job-5 has no domain"), HasSubstr("subdomain")));
  EXPECT_THAT(why(options(), variables, {.hostname = "job-55"}), HasSubstr("does not end with -5"));
  EXPECT_EQ(found(options(), variables, {.hostname = "set-workers-0-5.set.ns.svc.cluster.local"}).leader,
            "set-workers-0-0.set.ns.svc.cluster.local");
  EXPECT_EQ(found(options("other"), variables, {.hostname = "x"}).leader, "other");
  variables["XOE_NODES"] = "1";
  variables["JOB_COMPLETION_INDEX"] = "0";
  EXPECT_EQ(found(options(), variables, {.hostname = "alone"}).leader, "");
}

class RendezvousSecret : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    put_file(scratch_.file("secret"), text);
    return scratch_.file("secret");
  }
  std::string refused(const RendezvousOptions& given, const Variables& variables, const Membership& member) {
    const auto secret = rendezvous_secret(given, Env(variables), member);
    return secret ? "accepted: " + *secret : secret.error().message();
  }

  Scratch scratch_;
  Membership pod_{.index = 1, .count = 2, .leader = "job-0.net"};
};

TEST_F(RendezvousSecret, ComesFromAFile) {
  const std::string text = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(rendezvous_secret({.secret_file = file(text + "\n")}, Env(), pod_).value(), text);
  EXPECT_EQ(rendezvous_secret({}, Env(Variables{{"XOE_RENDEZVOUS_SECRET_FILE", file(text)}}), pod_).value(), text);
  EXPECT_THAT(refused({.secret_file = file("short")}, {}, pod_), HasSubstr("has 5 bytes"));
  EXPECT_THAT(refused({.secret_file = file(std::string(257, 'a'))}, {}, pod_), HasSubstr("has 257 bytes"));
  EXPECT_THAT(refused({.secret_file = "/nowhere"}, {}, pod_), HasSubstr("/nowhere: cannot read it"));
}

TEST_F(RendezvousSecret, IsNeededInACluster) {
  EXPECT_THAT(refused({}, {{"HOME", scratch_.path()}}, pod_),
              AllOf(HasSubstr("openssl rand -hex 32"), HasSubstr("XOE_RENDEZVOUS_SECRET_FILE")));
}

TEST_F(RendezvousSecret, IsTheUsersOnOneHostAndUnderSlurm) {
  const Variables home{{"HOME", scratch_.path()}};
  const Membership here{.index = 1, .count = 2, .leader = "127.0.0.1"};
  const auto secret = rendezvous_secret({}, Env(home), here);
  ASSERT_TRUE(secret) << secret.error().message();
  EXPECT_EQ(rendezvous_secret({}, Env(home), here).value(), *secret);
  Variables slurm = home;
  slurm["SLURM_JOB_ID"] = "17";
  const auto of_job = rendezvous_secret({}, Env(slurm), {.count = 2, .leader = "n1", .slurm = true});
  ASSERT_TRUE(of_job) << of_job.error().message();
  EXPECT_NE(*of_job, *secret);
}

}  // namespace
}  // namespace xoe::launch
