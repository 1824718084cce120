// Attaching a profiler's library, as NVIDIA's headers of NVTX 3 do.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/drivers/nvtx/nvtx.h"
#include "core/testing/places.h"
#include "core/testing/scratch.h"

namespace xoe {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;
using ::testing::HasSubstr;

Env profiler_at(const std::string& path) { return Env(Values{{"NVTX_INJECTION64_PATH", path}}); }

std::string reason_at(const std::string& path) {
  const auto attached = attach_profiler(profiler_at(path));
  EXPECT_FALSE(attached) << path;
  if (attached) return {};
  EXPECT_EQ(attached.error().code(), Code::kUnavailable);
  return attached.error().message();
}

TEST(Nvtx, SaysWhyThereIsNoProfiler) {
  EXPECT_EQ(reason_at(""), "no profiler is attached");
  EXPECT_EQ(reason_at("./."), "no profiler is attached");  // as NVIDIA's headers understand it
  EXPECT_THAT(reason_at("/nowhere/libinjection.so"), HasSubstr("/nowhere/libinjection.so"));
  EXPECT_THAT(reason_at("libc.so.6"), HasSubstr("NVTX_INJECTION64_PATH=libc.so.6: it is no profiler's library"));
  ::setenv("XOE_MOCK_NVTX_MODE", "refuse", 1);
  EXPECT_THAT(reason_at(built_file("libmock_nvtx.so")), HasSubstr("refuses"));
  ::unsetenv("XOE_MOCK_NVTX_MODE");
}

TEST(Nvtx, WithoutAProfilerNothingHappens) {
  const NvtxApi api;
  EXPECT_EQ(api.create_domain("xoe"), nullptr);
  EXPECT_EQ(api.start_range(nullptr, {.message = "a"}), 0u);
  api.name_category(nullptr, 1, "a");
  api.end_range(nullptr, 0);
}

// In a process of its own: a profiler stays attached.
TEST(NvtxDeathTest, EmptySlotsDoNothing) {
  const auto attach = [] {
    ::setenv("XOE_MOCK_NVTX_MODE", "empty", 1);
    const auto api = attach_profiler(profiler_at(built_file("libmock_nvtx.so")));
    std::_Exit(api && api->create_domain("xoe") == nullptr && api->start_range(nullptr, {}) == 0 ? 0 : 1);
  };
  EXPECT_EXIT(attach(), ::testing::ExitedWithCode(0), "");
}

TEST(NvtxAttached, HearsOfRanges) {
  const Scratch scratch;
  ::setenv("XOE_MOCK_NVTX", scratch.file("heard").c_str(), 1);
  const auto api = attach_profiler(profiler_at(built_file("libmock_nvtx.so")));
  ASSERT_TRUE(api) << api.error().message();
  const NvtxDomain domain = api->create_domain("some");
  api->name_category(domain, 7, "kind");
  const NvtxRange range = api->start_range(domain, {.category = 7, .payload = -5, .message = "a name"});
  ASSERT_TRUE(attach_profiler(profiler_at(built_file("libmock_nvtx.so")))) << "again changes nothing";
  api->end_range(domain, range);
  std::stringstream heard;
  heard << std::ifstream(scratch.file("heard")).rdbuf();
  EXPECT_EQ(heard.str(), "domain some\ncategory 7 kind\nstart 1 7 -5 a name\nend 1\n");
}

}  // namespace
}  // namespace xoe
