// What is found and what is said where NVIDIA's libraries are, or are not; how the backend is chosen.
#include <filesystem>

#include <gmock/gmock.h>

#include "backend/choose_backend.h"
#include "backend/nccl/libraries.h"
#include "backend/net/plugin.h"
#include "nccl/mock_machine.h"

namespace xoe::testing {
namespace {

using nccl::nccl_version;
using Values = std::map<std::string, std::string, std::less<>>;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(NcclLibrary, SaysWhatTheLoaderSaid) {
  const auto loaded = nccl::load_nccl(Env(Values{{"XOE_NCCL_LIBRARY", "/nowhere/libnccl.so.2"}}));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), Code::kUnsupported);
  EXPECT_THAT(loaded.error().message(), HasSubstr("XOE_NCCL_LIBRARY=/nowhere/libnccl.so.2 does not load: "));
}

TEST(NcclLibrary, NamesWhatIsMissing) {
  const auto loaded = nccl::load_nccl(Env(Values{{"XOE_NCCL_LIBRARY", "libc.so.6"}}));
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("lacks ncclGetVersion, ncclGetUniqueId"));
}

TEST(NcclLibrary, OfAVersionThatIsTooOld) {
  const MockMachine machine(1, nccl_version(2, 4, 8));
  const auto made = nccl::make_libraries(mock_nccl_api(), mock_cuda_api(), std::nullopt);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("NCCL 2.4.8 is too old; version 2.7 or later"));
}

TEST(NcclVersion, AsNumberAndText) {
  EXPECT_EQ(nccl_version(2, 8, 4), 2804);
  EXPECT_EQ(nccl_version(2, 9, 6), 20906);
  EXPECT_EQ(nccl_version(2, 30, 7), 23007);
  EXPECT_EQ(nccl::nccl_version_text(2804), "2.8.4");
  EXPECT_EQ(nccl::nccl_version_text(20906), "2.9.6");
  EXPECT_EQ(nccl::nccl_version_text(23007), "2.30.7");
}

TEST(NcclVersion, DecidesWhatThereIs) {
  const auto features = [](int version) { return MockMachine(1, version).libraries().features; };
  EXPECT_FALSE(features(nccl_version(2, 9, 9)).average);
  EXPECT_TRUE(features(nccl_version(2, 10, 3)).average);
  EXPECT_FALSE(features(nccl_version(2, 10, 3)).pre_mul_sum);
  EXPECT_TRUE(features(nccl_version(2, 11, 4)).pre_mul_sum);
  EXPECT_FALSE(features(nccl_version(2, 13, 4)).non_blocking);
  EXPECT_TRUE(features(nccl_version(2, 14, 3)).non_blocking);
  EXPECT_FALSE(features(nccl_version(2, 18, 5)).registration);
  EXPECT_TRUE(features(nccl_version(2, 19, 3)).registration);
}

// NVIDIA's own libraries, where scripts/install_nccl.sh put them: they have every function that we name.
TEST(NcclReal, HasAllFunctions) {
  const std::string prefix = XOE_NCCL_PREFIX;
  if (prefix.empty()) GTEST_SKIP() << "NVIDIA's wheels are not below build/peers/nccl: scripts/install_nccl.sh";
  const Env env(Values{{"VIRTUAL_ENV", prefix}});
  const auto loaded = nccl::load_nccl(env);
  ASSERT_TRUE(loaded) << loaded.error().message();
  int version = 0;
  ASSERT_EQ(loaded->get_version(&version), nccl::NcclResult::kSuccess);
  nccl::for_each_nccl_function(*loaded,
                               [](const auto& field, const char* symbol, int) { EXPECT_TRUE(field) << symbol; });
  const auto features = nccl::nccl_features(*loaded, version);
  EXPECT_TRUE(features.average && features.pre_mul_sum && features.non_blocking && features.registration);
  EXPECT_THAT(loaded->get_error_string(nccl::NcclResult::kRemoteError), HasSubstr("remote process"));
  const auto cuda = nccl::load_cuda(env);
  ASSERT_TRUE(cuda) << cuda.error().message();
  nccl::for_each_cuda_function(*cuda, [](const auto& field, const char* symbol) { EXPECT_TRUE(field) << symbol; });
  int runtime = 0;
  ASSERT_EQ(cuda->runtime_get_version(&runtime), nccl::CudaError::kSuccess);
  EXPECT_GE(runtime, 12000);
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
