// What the backend supports with which version of NCCL, what it reports without it, and how it is chosen.
#include <gmock/gmock.h>

#include "core/backend/choose_backend.h"
#include "core/backend/nccl/libraries.h"
#include "core/backend/net/plugin.h"
#include "core/tests/drivers/mock_machine.h"
#include "core/tests/nccl/members.h"

namespace xoe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(NcclLibrary, OfAVersionThatIsTooOld) {
  const MockMachine machine(1, nccl_version(2, 4, 8));
  const auto made = nccl::make_libraries(mock_nccl_api(), mock_cuda_api(), std::nullopt);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("NCCL 2.4.8 is too old; version 2.7 or later"));
}

TEST(NcclVersion, DecidesWhatThereIs) {
  const auto features = [](int version) { return libraries_of(MockMachine(1, version)).features; };
  EXPECT_FALSE(features(nccl_version(2, 9, 9)).average);
  EXPECT_TRUE(features(nccl_version(2, 10, 3)).average);
  EXPECT_FALSE(features(nccl_version(2, 10, 3)).pre_mul_sum);
  EXPECT_TRUE(features(nccl_version(2, 11, 4)).pre_mul_sum);
  EXPECT_FALSE(features(nccl_version(2, 13, 4)).non_blocking);
  EXPECT_TRUE(features(nccl_version(2, 14, 3)).non_blocking);
  EXPECT_FALSE(features(nccl_version(2, 18, 5)).registration);
  EXPECT_TRUE(features(nccl_version(2, 19, 3)).registration);
}

TEST(NcclPlugin, SaysWhatIsMissing) {
  const auto opened = net::open_plugin("nccl", {});
  if (opened) {
    EXPECT_THAT((*opened)->describe(), HasSubstr("NCCL "));
    return;
  }
  EXPECT_THAT(opened.error().code(), AnyOf(Code::kUnsupported, Code::kUnavailable));
  EXPECT_THAT(opened.error().message(),
              AnyOf(HasSubstr("no NCCL: "), HasSubstr("no CUDA runtime: "), HasSubstr("no GPU: ")));
}

TEST(NcclChoice, IsFlat) {
  for (const bool several_hosts : {false, true}) {
    const auto forced = choose_backend({.backend = "nccl"}, several_hosts, false);
    ASSERT_TRUE(forced);
    EXPECT_TRUE(forced->flat);
    EXPECT_FALSE(forced->shm);
    EXPECT_EQ(forced->nets, std::vector<std::string>{"nccl"});
  }
  const auto between = choose_backend({.net = "nccl"}, true, false);
  ASSERT_TRUE(between);
  EXPECT_TRUE(between->flat);
  EXPECT_FALSE(choose_backend({.net = "gloo"}, true, false)->flat);
  const auto below = choose_backend({.backend = "hierarchical", .net = "nccl"}, true, false);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(below.error().message(), HasSubstr("set XOE_BACKEND=nccl alone"));
}

}  // namespace
}  // namespace xoe::testing
