#include "core/base/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace xoe {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

long page_faults_of_a_block(std::size_t bytes) {
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  void* const block = std::malloc(bytes);
  std::memset(block, 1, bytes);
  std::free(block);
  ::getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(FreedMemory, IsLeftAloneWhereTheUserHasChosen) {
  EXPECT_EQ(keep_freed_memory(Env(Values{{"XOE_KEEP_FREED_MEMORY", "0"}})), false);
  EXPECT_EQ(keep_freed_memory(Env(Values{{"MALLOC_TRIM_THRESHOLD_", "100000"}})), false);
  EXPECT_EQ(keep_freed_memory(Env(Values{{"MALLOC_MMAP_THRESHOLD_", "100000"}})), false);
  EXPECT_EQ(
      keep_freed_memory(Env(Values{{"GLIBC_TUNABLES", "glibc.malloc.tcache_count=1:glibc.malloc.trim_threshold=9"}})),
      false);
  const auto wrong = keep_freed_memory(Env(Values{{"XOE_KEEP_FREED_MEMORY", "yes"}}));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Code::kInvalidArgument);
  EXPECT_NE(wrong.error().message().find("XOE_KEEP_FREED_MEMORY"), std::string::npos);
}

TEST(FreedMemory, IsUsedAgainWithoutPageFaults) {
  if (XOE_SANITIZED != 0) GTEST_SKIP() << "sanitizers bring their own malloc";
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  EXPECT_EQ(keep_freed_memory(Env(Values{{"GLIBC_TUNABLES", "glibc.malloc.tcache_count=1"}})), true);
  page_faults_of_a_block(kBytes);
  EXPECT_LT(page_faults_of_a_block(kBytes), 100);  // of 4096 pages
}

}  // namespace
}  // namespace xoe
