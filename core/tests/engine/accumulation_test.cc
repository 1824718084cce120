// What a program makes and removes, or uses once, again and again leaves nothing behind. XOE_SOAK=N turns each wheel N
// times.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/messages/messages.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"

namespace xoe::testing {
namespace {

int turns_or(int otherwise) {
  const char* const soak = std::getenv("XOE_SOAK");
  const auto turns = soak == nullptr ? std::nullopt : parse_integer(soak);
  return turns ? static_cast<int>(*turns) : otherwise;
}

// Of this process, in bytes. Shared memory counts where it has been touched.
std::size_t resident_memory() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Status sum_ones(Engine& engine, const std::string& name, ProcessSetId set = kWorldSet) {
  std::vector<float> x(4, 1);
  const std::vector<std::int64_t> shape{4};
  const TensorArg tensor = in_place(x, shape);
  XOE_TRY(engine.run({.name = name, .tensors = {&tensor, 1}, .process_set = set}));
  return x[3] == 2 ? Status() : failure(Error(Code::kInternal, fmt::format("{}: {}", name, x[3])));
}

// Runs turn(i) for all i; "" if all went well and the second half needed no more memory than the first one.
template <class Turn>
std::string without_growth(int turns, std::size_t slack, Turn&& turn) {
  std::size_t half = 0;
  for (int i = 0; i < turns; ++i) {
    if (i == turns / 2) half = resident_memory();
    if (const Status done = turn(i); !done) return fmt::format("turn {}: {}", i, done.error().to_string());
  }
  const std::size_t end = resident_memory();
  if (XOE_SANITIZED == 0 && end > half + slack)
    return fmt::format("{} after half of the turns, {} at the end", human_bytes(half), human_bytes(end));
  return {};
}

constexpr std::size_t kSlack = std::size_t{4} << 20;

TEST(Accumulation, OfNamesThatAreUsedOnce) {
  const int names = turns_or(20'000);
  ProcessGroup(2, [&](Communicator& communicator) -> std::string {
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    return without_growth(names, kSlack, [&](int i) { return sum_ones(*engine, fmt::format("name {}", i)); });
  }).expect_success();
}

TEST(Accumulation, OfNamesThatAreUsedOnceBetweenHosts) {
  const int names = turns_or(4'000);
  ProcessGroup(std::vector{0, 1}, [&](Communicator& communicator) -> std::string {
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    return without_growth(names, kSlack, [&](int i) { return sum_ones(*engine, fmt::format("name {}", i)); });
  }).expect_success();
}

Status make_use_and_remove_set(Engine& engine, int turn) {
  const std::vector<int> ranks = {turn % 2, 1 - turn % 2};
  XOE_ASSIGN(const ProcessSetId set, engine.add_process_set(ranks));
  if (turn % 4 != 0) XOE_TRY(sum_ones(engine, "in the set", set));
  return engine.remove_process_set(set);
}

// 16 bytes of each set stay: ids are not used again.
std::string make_use_and_remove_sets(Communicator& communicator, int sets) {
  auto engine = Engine::create(std::move(communicator), quiet_options()).value();
  return without_growth(sets, kSlack + static_cast<std::size_t>(sets) * 32,
                        [&](int i) { return make_use_and_remove_set(*engine, i); });
}

TEST(Accumulation, OfSetsThatAreRemoved) {
  const int sets = turns_or(1'000);
  ProcessGroup(2, [&](Communicator& communicator) {
    return make_use_and_remove_sets(communicator, sets);
  }).expect_success();
}

// The store at which hosts exchange addresses has room for a limited number of keys.
TEST(Accumulation, OfSetsBetweenHostsThatAreRemoved) {
  const int sets = turns_or(100);
  bootstrap::StoreLimits limits;
  limits.keys = 64;
  ProcessGroup(
      std::vector{0, 1}, [&](Communicator& communicator) { return make_use_and_remove_sets(communicator, sets); }, {},
      {}, limits)
      .expect_success();
}

// Each init() of a program leaves nothing at the store where its ranks meet.
TEST(Accumulation, OfWorldsThatAreLeft) {
  const int worlds = turns_or(40);
  bootstrap::StoreLimits limits;
  limits.keys = 24;
  ProcessGroup(
      std::vector{0, 1},
      [&](Communicator& communicator) -> std::string {
        for (int i = 0; i < worlds; ++i) {
          std::int32_t value = i;
          if (const Status summed = communicator.allreduce(Tensor(&value, 1)); !summed)
            return summed.error().to_string();
          auto next = init();
          if (!next) return fmt::format("world {}: {}", i, next.error().to_string());
          communicator = std::move(*next);
        }
        return {};
      },
      {}, {}, limits)
      .expect_success();
}

TEST(Accumulation, OfMessagesThatAreClosed) {
  const int turns = turns_or(400);  // the ranks' memory has room for the boxes of some hundred
  ProcessGroup(2,
               [&](Communicator& communicator) -> std::string {
                 auto engine = Engine::create(std::move(communicator), quiet_options()).value();
                 const int rank = engine->topology().rank;
                 return without_growth(turns, kSlack, [&](int i) -> Status {
                   engine::MessagesOptions options;
                   options.name = fmt::format("messages {}", i);
                   options.progress_thread = false;
                   XOE_ASSIGN(const auto messages, engine::Messages::open(*engine, options));
                   int value = i;
                   XOE_ASSIGN(const auto message, rank == 0 ? messages->send(1, 7, &value, sizeof value)
                                                            : messages->receive(0, 7, &value, sizeof value));
                   XOE_ASSIGN(const bool done, messages->wait(message, std::chrono::seconds(60)));
                   return done && value == i ? Status() : failure(Error(Code::kInternal, "another message"));
                 });
               },
               {{"XOE_ARENA_BYTES", std::to_string(128 << 20)}})
      .expect_success();
}

}  // namespace
}  // namespace xoe::testing
