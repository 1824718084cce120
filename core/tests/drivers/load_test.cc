// What the loaders report where NVIDIA's libraries are, and where they are not.
#include <gmock/gmock.h>

#include "core/drivers/cuda/cuda.h"
#include "core/drivers/nccl/nccl.h"
#include "core/drivers/nvml/nvml.h"
#include "core/testing/places.h"

namespace xoe {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;
using ::testing::HasSubstr;

TEST(NcclLibrary, SaysWhatTheLoaderSaid) {
  const auto loaded = load_nccl(Env(Values{{"XOE_NCCL_LIBRARY", "/nowhere/libnccl.so.2"}}));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), Code::kUnsupported);
  EXPECT_THAT(loaded.error().message(), HasSubstr("XOE_NCCL_LIBRARY=/nowhere/libnccl.so.2 does not load: "));
}

TEST(NcclLibrary, NamesWhatIsMissing) {
  const auto loaded = load_nccl(Env(Values{{"XOE_NCCL_LIBRARY", "libc.so.6"}}));
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("lacks ncclGetVersion, ncclGetUniqueId"));
}

TEST(NcclVersion, AsNumberAndText) {
  EXPECT_EQ(nccl_version(2, 8, 4), 2804);
  EXPECT_EQ(nccl_version(2, 9, 6), 20906);
  EXPECT_EQ(nccl_version(2, 30, 7), 23007);
  EXPECT_EQ(nccl_version_text(2804), "2.8.4");
  EXPECT_EQ(nccl_version_text(20906), "2.9.6");
  EXPECT_EQ(nccl_version_text(23007), "2.30.7");
}

// NVIDIA's own libraries, where scripts/install_nccl.sh put them: they have every function that we name.
TEST(NcclReal, HasAllFunctions) {
  const std::string prefix = XOE_NCCL_PREFIX;
  if (prefix.empty()) GTEST_SKIP() << "NVIDIA's wheels are not below build/peers/nccl: scripts/install_nccl.sh";
  const Env env(Values{{"VIRTUAL_ENV", prefix}});
  const auto loaded = load_nccl(env);
  ASSERT_TRUE(loaded) << loaded.error().message();
  int version = 0;
  ASSERT_EQ(loaded->get_version(&version), NcclResult::kSuccess);
  for_each_nccl_function(*loaded, [](const auto& field, const char* symbol, int) { EXPECT_TRUE(field) << symbol; });
  const auto features = nccl_features(*loaded, version);
  EXPECT_TRUE(features.average && features.pre_mul_sum && features.non_blocking && features.registration);
  EXPECT_THAT(loaded->get_error_string(NcclResult::kRemoteError), HasSubstr("remote process"));
  const auto cuda = load_cuda(env);
  ASSERT_TRUE(cuda) << cuda.error().message();
  for_each_cuda_function(*cuda, [](const auto& field, const char* symbol) { EXPECT_TRUE(field) << symbol; });
  int runtime = 0;
  ASSERT_EQ(cuda->runtime_get_version(&runtime), CudaError::kSuccess);
  EXPECT_GE(runtime, 12000);
}

TEST(Nvml, LoadsTheFunctionsOfTheLibrary) {
  const auto loaded = load_nvml(built_file("libmock_nvml.so"));
  ASSERT_TRUE(loaded) << loaded.error().message();
  for_each_nvml_function(*loaded,
                         [](const auto& function, const char* symbol, bool) { EXPECT_TRUE(function) << symbol; });
  EXPECT_EQ(load_nvml("libxoe-no-such.so").error().code(), Code::kUnavailable);
  const auto other = load_nvml("libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kUnsupported);
  EXPECT_THAT(other.error().message(), HasSubstr("has no function nvmlInit_v2"));
}

}  // namespace
}  // namespace xoe
