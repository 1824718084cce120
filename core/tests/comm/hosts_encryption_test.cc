// Groups over several hosts that encrypt what leaves them.
#include <gmock/gmock.h>

#include "core/tests/comm/conformance.h"
#include "core/tests/comm/process_group.h"

namespace xoe::testing {
namespace {

using ::testing::HasSubstr;

TEST(HostsThatEncrypt, Conformance) {
  const std::vector<int> hosts{0, 0, 1};
  ProcessGroup(hosts,
               [&](Communicator& communicator) {
                 return check_conformance(communicator, thin_grid(static_cast<int>(hosts.size()), /*shared=*/false));
               },
               {{"XOE_ENCRYPT", "1"}})
      .expect_success();
}

TEST(HostsThatEncrypt, RanksOfWhichSomeDoNotAreTold) {
  const std::vector<int> hosts{0, 1};
  ::testing::internal::CaptureStderr();
  {
    ProcessGroup ranks(hosts, [](Communicator&) { return "joined"; }, {}, {{"XOE_ENCRYPT", "1"}});
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 1);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("rank 0 has XOE_ENCRYPT=0, rank 1 (host host1) has 1; set the same for all ranks"));
}

TEST(HostsThatEncrypt, ABackendThatCannotIsRefused) {
  const std::vector<int> hosts{0, 1};
  ::testing::internal::CaptureStderr();
  {
    ProcessGroup ranks(hosts, [](Communicator&) { return "joined"; }, {{"XOE_ENCRYPT", "1"}, {"XOE_NET", "mpi"}});
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 1);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("XOE_ENCRYPT=1: mpi does not encrypt"));
}

}  // namespace
}  // namespace xoe::testing
