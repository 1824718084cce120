// Sets are removed while other threads use them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "core/base/env.h"
#include "core/bootstrap/status_page.h"
#include "core/engine/execute/gpu/gpu_plugin.h"
#include "core/engine/process_sets/join_gate.h"
#include "core/engine/process_sets/process_set_registry.h"
#include "core/engine/process_sets/services.h"
#include "core/engine/telemetry/telemetry.h"
#include "core/tests/engine/engines.h"

namespace xoe::engine {
namespace {

// A submission that is under way enters before the rank counts as joined.
TEST(JoinGate, WaitsForThoseInside) {
  JoinGate gate;
  ASSERT_TRUE(gate.enter());
  std::atomic<bool> closed = false;
  std::jthread joining([&] { closed = gate.close(); });
  while (gate.enter()) gate.leave();  // until it is closed
  gate.leave();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(closed);
  gate.leave();
  joining.join();
  EXPECT_TRUE(closed);
  EXPECT_FALSE(gate.close()) << "it is closed already";
  gate.open();
  EXPECT_TRUE(gate.enter());
  gate.leave();
}

// Owns sets whose end concerns no others.
class NoOtherSets final : public ProcessSetOwner {
 public:
  void try_check_failures() override {}
  void failing(const ProcessSet&, const Error&) override {}
  void all_joined(const ProcessSet&) override {}
  Status run_internal(Submission&) override { return {}; }
};

class ProcessSetRegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    registry_.add_world(make_set(kWorldSet, std::move(testing::make_group(1)[0]), {0}));
    id_ = registry_
              .add({0},
                   [this](ProcessSetId id, Communicator comm, const std::vector<int>& ranks) {
                     return Result<std::unique_ptr<ProcessSet>>(make_set(id, std::move(comm), ranks));
                   })
              .value();
  }

  std::unique_ptr<ProcessSet> make_set(ProcessSetId id, Communicator comm, std::vector<int> ranks) {
    return ProcessSet::create(id, std::move(comm), std::move(ranks), options_, GpuPlugin::of_process(Env(), 0),
                              {.telemetry = *telemetry_,
                               .tuner = nullptr,
                               .progress_lock = progress_lock_,
                               .pending = pending_,
                               .owner = owner_})
        .value();
  }

  const EngineOptions options_ = testing::quiet_options();
  const std::unique_ptr<Telemetry> telemetry_ =
      Telemetry::create(options_, testing::make_group(1)[0], bootstrap::StatusWriter::of_process(Env())).value();
  ProgressLock progress_lock_;
  std::atomic<int> pending_ = 0;
  NoOtherSets owner_;
  ProcessSetRegistry registry_;
  ProcessSetId id_ = -1;
};

// The thread that uses the set may wait for its turn to make progress, which the one that removes it keeps.
TEST_F(ProcessSetRegistryTest, RemovingWaitsForNoThread) {
  std::optional<ProcessSetRegistry::Use> use;
  use.emplace(registry_, id_);
  ProcessSet* const set = use->get();
  ASSERT_NE(set, nullptr);
  auto removed = std::async(std::launch::async, [&] { return registry_.remove(id_); });
  const bool at_once = removed.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(at_once);
  if (at_once) {
    EXPECT_TRUE(set->failed());  // and is still there
    EXPECT_EQ(ProcessSetRegistry::Use(registry_, id_).get(), nullptr);
  }
  use.reset();
  EXPECT_TRUE(removed.get());
}

TEST_F(ProcessSetRegistryTest, ARemovedSetThatIsUsedIsHandedOverAtTheEnd) {
  const ProcessSetRegistry::Use use(registry_, id_);
  ASSERT_TRUE(registry_.remove(id_));
  const auto sets = registry_.take_all();
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[1].get(), use.get());
}

}  // namespace
}  // namespace xoe::engine
