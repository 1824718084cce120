// Posts to a server whose name is looked up for longer than anybody waits: the resolver of this program hangs.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "core/drivers/curl/curl.h"
#include "train/trainer/job_status.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Resolve = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

constexpr auto kSilence = 40s;  // more than the end of a run may take, also on a busy machine
std::atomic<int> lookups{0};

}  // namespace

// In place of the C library's, for libcurl as well.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* name, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  if (name != nullptr && std::string_view(name) == "silent.example") {
    ++lookups;
    std::this_thread::sleep_for(kSilence);
    return EAI_AGAIN;
  }
  return reinterpret_cast<Resolve>(::dlsym(RTLD_NEXT, "getaddrinfo"))(name, service, hints, found);
}

namespace xoe::train {
namespace {

const StatusServer kSilent{.url = "https://silent.example:1/status"};

class SilentNameServer : public testing::Test {
 protected:
  void SetUp() override {
    if (!load_curl()) GTEST_SKIP() << "libcurl is not installed";
  }
};

TEST_F(SilentNameServer, IsLeftWhenTheTimeOfAPostIsOver) {
  const auto curl = load_curl();
  HttpsPoster poster(*curl);
  const auto before = lookups.load();
  const auto began = Clock::now();
  EXPECT_FALSE(poster.post({.url = kSilent.url, .limit = 300ms}, {}));
  EXPECT_LT(Clock::now() - began, 20s);
  EXPECT_GT(lookups, before);  // else this libcurl asks another resolver
}

TEST_F(SilentNameServer, IsLeftWhenAPostIsToldToStop) {
  const auto curl = load_curl();
  HttpsPoster poster(*curl);
  std::stop_source source;
  const std::jthread stops([&source] {
    std::this_thread::sleep_for(300ms);
    source.request_stop();
  });
  const auto began = Clock::now();
  EXPECT_FALSE(poster.post({.url = kSilent.url, .limit = 30s}, source.get_token()));
  EXPECT_LT(Clock::now() - began, 20s);
}

TEST_F(SilentNameServer, DelaysTheEndOfARunByTenSecondsAtMost) {
  auto status = JobStatus::open(kSilent);
  ASSERT_TRUE(status);
  const auto before = lookups.load();
  (*status)->update({.step = 1, .total = 10});
  while (lookups == before) std::this_thread::sleep_for(1ms);
  (*status)->update({.step = 10, .total = 10});
  const auto began = Clock::now();
  EXPECT_THAT((*status)->finish(), testing::HasSubstr("the last status of the TrainJob was not posted to "
                                                      "https://silent.example:1/status"));
  status->reset();
  EXPECT_LT(Clock::now() - began, kSilence - 5s);
}

}  // namespace
}  // namespace xoe::train
