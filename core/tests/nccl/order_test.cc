// Which calls a collective makes, on which streams and in which order; what is refused; buffers that NCCL is told of.
#include <gmock/gmock.h>

#include "core/backend/nccl/registrations.h"
#include "core/tests/nccl/members.h"

namespace xoe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_since(MockMachine& machine, int device, std::size_t begin) {
  std::vector<std::string> names;
  const auto calls = machine.calls_of(device);
  for (std::size_t i = begin; i < calls.size(); ++i) names.push_back(calls[i].name);
  return names;
}

TEST(NcclOrder, OfStreamsAndEvents) {
  MockMachine machine(1);
  run_members(machine, 1, [&](net::Net& net, int) {
    const OnGpu<float> data(100);
    const Stream producer;
    const std::size_t before = machine.calls_of(0).size();
    Collective c = gpu_allreduce(data.data(), data.size());
    c.stream = producer.get();
    ASSERT_TRUE(net.run(c, in(seconds(30))));
    const auto calls = machine.calls_of(0);
    ASSERT_THAT(names_since(machine, 0, before),
                ElementsAre("event_record", "stream_wait_event", "ncclAllReduce", "event_record", "stream_wait_event"));
    const MockCall *const ready = &calls[before], *const waits = ready + 1, *const launch = ready + 2,
                          *const done = ready + 3, *const last = ready + 4;
    EXPECT_EQ(ready->stream, producer.get());
    EXPECT_EQ(waits->object, ready->object);
    EXPECT_NE(waits->stream, producer.get());
    EXPECT_EQ(launch->stream, waits->stream);
    EXPECT_EQ(done->stream, waits->stream);
    EXPECT_NE(done->object, ready->object);
    EXPECT_EQ(last->stream, producer.get());
    EXPECT_EQ(last->object, done->object);
  });
  EXPECT_EQ(machine.count(0, "ncclCommFinalize"), 1u);
  EXPECT_EQ(machine.count(0, "ncclCommDestroy"), 1u);
  EXPECT_EQ(machine.count(0, "ncclCommAbort"), 0u);
  expect_clean(machine);
}

struct Moves {
  std::vector<std::size_t> counts;
  std::vector<std::string> gather, scatter;
};

void expect_moves(const Moves& moves) {
  MockMachine machine(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    const auto own = moves.counts[static_cast<std::size_t>(member)], all = moves.counts[0] + moves.counts[1];
    const OnGpu<float> part(own), whole(all);
    Collective c{.kind = CollectiveKind::kAllgather,
                 .dtype = DType::kFloat32,
                 .in = part.data(),
                 .out = whole.data(),
                 .in_count = own,
                 .out_count = all,
                 .send_counts = moves.counts,
                 .device = true};
    const auto nccl_calls = [&](std::size_t begin) {
      auto names = names_since(machine, member, begin);
      std::erase_if(names, [](const std::string& name) { return !name.starts_with("nccl"); });
      return names;
    };
    std::size_t before = machine.calls_of(member).size();
    ASSERT_TRUE(net.run(c, in(seconds(30))));
    EXPECT_EQ(nccl_calls(before), moves.gather);
    c.kind = CollectiveKind::kReduceScatter;
    std::swap(c.in_count, c.out_count);
    c.in = whole.data();
    c.out = part.data();
    before = machine.calls_of(member).size();
    ASSERT_TRUE(net.run(c, in(seconds(30))));
    EXPECT_EQ(nccl_calls(before), moves.scatter);
  });
  expect_clean(machine);
}

TEST(NcclCalls, EvenCountsAreOneCall) { expect_moves({{5, 5}, {"ncclAllGather"}, {"ncclReduceScatter"}}); }
TEST(NcclCalls, UnevenCountsAreAGroup) {
  expect_moves({{5, 3}, {"ncclBroadcast", "ncclBroadcast"}, {"ncclReduce", "ncclReduce"}});
}
TEST(NcclCalls, NothingIsNotSent) {
  expect_moves({{5, 0}, {"ncclBroadcast"}, {"ncclReduce"}});
  expect_moves({{0, 0}, {}, {}});
}

TEST(NcclCalls, AListIsAGroup) {
  MockMachine machine(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    const OnGpu<float> first(10, 1.0f), second(20, 2.0f);
    const std::vector<Segment> segments{
        {first.data(), first.data(), 10}, {nullptr, nullptr, 5}, {second.data(), second.data(), 20}};
    Collective c = gpu_allreduce(nullptr, 35);
    c.segments = segments;
    const std::size_t before = machine.calls_of(member).size();
    ASSERT_TRUE(net.run(c, in(seconds(30))));
    auto names = names_since(machine, member, before);
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("nccl"); });
    EXPECT_EQ(names, std::vector<std::string>(3, "ncclAllReduce"));
    EXPECT_EQ(first[9], 2.0f);
    EXPECT_EQ(second[19], 4.0f);
  });
  expect_clean(machine);
}

TEST(NcclCalls, AveragesAreNcclsOwn) {
  MockMachine machine(1);
  run_members(machine, 1, [&](net::Net& net, int) {
    const OnGpu<float> data(10, 3.0f);
    ASSERT_TRUE(net.run(gpu_allreduce(data.data(), data.size(), ReduceOp::kAverage), in(seconds(30))));
  });
  EXPECT_EQ(machine.count(0, "ncclRedOpCreatePreMulSum"), 0u);
  expect_clean(machine);
}

TEST(NcclCalls, LeaveTheThreadsDevice) {
  MockMachine machine(2);
  run_members(machine, 2, [](net::Net& net, int member) {
    const CudaApi cuda = mock_cuda_api();
    (void)cuda.set_device(1 - member);
    ASSERT_TRUE(net.run({}, in(seconds(30))));
    EXPECT_EQ(mock_device(), 1 - member);
  });
  expect_clean(machine);
}

TEST(NcclArguments, MemoryThatIsNoneOfThisGpu) {
  MockMachine machine(2);
  run_members(machine, 2, [&](net::Net& net, int member) {
    std::vector<float> host(10);
    const Status called_wrong = net.run(gpu_allreduce(host.data(), host.size()), in(seconds(30)));
    ASSERT_FALSE(called_wrong);
    EXPECT_EQ(called_wrong.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(called_wrong.error().message(), HasSubstr("is host memory"));
    (void)mock_cuda_api().set_device(1 - member);
    const OnGpu<float> elsewhere(10);
    const Status wrong_gpu = net.run(gpu_allreduce(elsewhere.data(), elsewhere.size()), in(seconds(30)));
    ASSERT_FALSE(wrong_gpu);
    EXPECT_THAT(wrong_gpu.error().message(), HasSubstr("is on GPU " + std::to_string(1 - member)));
    // Nothing was launched: the net lives.
    ASSERT_TRUE(net.run({}, in(seconds(30))));
  });
  expect_clean(machine);
}

std::string refusal(net::Net& net, const Collective& c) {
  const Status status = net.supports(c);
  if (status) return "";
  EXPECT_EQ(status.error().code(), Code::kUnsupported);
  return status.error().message();
}

Collective reduction(DType dtype, ReduceOp op, double prescale = 1) {
  return {.kind = CollectiveKind::kAllreduce, .dtype = dtype, .op = op, .device = true, .prescale = prescale};
}

void with_net(int version, const std::function<void(net::Net&)>& body) {
  MockMachine machine(1, version);
  run_members(machine, 1, [&](net::Net& net, int) { body(net); });
  expect_clean(machine);
}

TEST(NcclSupports, WhatNcclHas) {
  with_net(nccl_version(2, 30, 7), [](net::Net& net) {
    Collective host = reduction(DType::kFloat32, ReduceOp::kSum);
    host.device = false;
    EXPECT_THAT(refusal(net, host), HasSubstr("host memory; pass GPU memory"));
    Collective much{.kind = CollectiveKind::kBroadcast, .in_count = 1 << 20, .out_count = 1 << 20};
    EXPECT_THAT(refusal(net, much), HasSubstr("1048576 bytes of host memory"));
    much.device = true;
    EXPECT_EQ(refusal(net, much), "");
    EXPECT_THAT(refusal(net, reduction(DType::kInt16, ReduceOp::kSum)),
                HasSubstr("does not reduce int16; convert it to int32"));
    EXPECT_THAT(refusal(net, reduction(DType::kInt32, ReduceOp::kAverage)), HasSubstr("use sum and divide"));
    EXPECT_THAT(refusal(net, reduction(DType::kBool, ReduceOp::kAverage)), HasSubstr("bool"));
    EXPECT_EQ(refusal(net, reduction(DType::kBool, ReduceOp::kSum)), "");
    EXPECT_EQ(refusal(net, reduction(DType::kBfloat16, ReduceOp::kAverage)), "");
    EXPECT_EQ(refusal(net, reduction(DType::kFloat32, ReduceOp::kAverage, 0.5)), "");
    EXPECT_THAT(refusal(net, reduction(DType::kFloat32, ReduceOp::kMax, 0.5)), HasSubstr("not max of float32"));
    EXPECT_THAT(refusal(net, reduction(DType::kInt32, ReduceOp::kSum, 0.5)), HasSubstr("not sum of int32"));
    const Segment segment;
    Collective list = reduction(DType::kFloat32, ReduceOp::kSum);
    list.segments = {&segment, 1};
    EXPECT_EQ(refusal(net, list), "");
    list.device = false;
    EXPECT_THAT(refusal(net, list), HasSubstr("allreduce does not accept a list of arrays of host memory"));
  });
}

TEST(NcclSupports, WhatOldVersionsLack) {
  with_net(nccl_version(2, 8, 3), [](net::Net& net) {
    EXPECT_THAT(refusal(net, reduction(DType::kBfloat16, ReduceOp::kSum)),
                HasSubstr("NCCL 2.8.3 does not reduce bfloat16"));
    EXPECT_THAT(refusal(net, reduction(DType::kFloat32, ReduceOp::kAverage)), HasSubstr("divide by 1"));
    EXPECT_EQ(refusal(net, reduction(DType::kFloat32, ReduceOp::kSum)), "");
  });
  with_net(nccl_version(2, 10, 3), [](net::Net& net) {
    EXPECT_EQ(refusal(net, reduction(DType::kBfloat16, ReduceOp::kAverage)), "");
    EXPECT_THAT(refusal(net, reduction(DType::kFloat32, ReduceOp::kSum, 2)), HasSubstr("install 2.11 or later"));
  });
}

// --- buffers that NCCL is told of ---

const nccl::ProviderOptions kRegisters{.registers_buffers = true};

void run_on(net::Net& net, float* data, std::size_t count) {
  const Status status = net.run(gpu_allreduce(data, count), in(seconds(30)));
  ASSERT_TRUE(status) << status.error().message();
}

TEST(NcclRegistrations, OnceForEachAllocation) {
  MockMachine machine(1);
  run_members(
      machine, 1,
      [&](net::Net& net, int) {
        auto first = std::make_unique<OnGpu<float>>(1000);
        run_on(net, first->data(), 1000);
        run_on(net, first->data() + 100, 50);
        EXPECT_EQ(machine.count(0, "ncclCommRegister"), 1u);
        const OnGpu<float> second(10);
        run_on(net, second.data(), 10);
        EXPECT_EQ(machine.count(0, "ncclCommRegister"), 2u);
        EXPECT_EQ(machine.count(0, "ncclCommDeregister"), 0u);
      },
      kRegisters);
  EXPECT_EQ(machine.count(0, "ncclCommDeregister"), 2u);
  expect_clean(machine);
}

// Memory at an old address that is a new allocation.
TEST(NcclRegistrations, ANewAllocationIsToldAnew) {
  MockMachine machine(1);
  run_members(
      machine, 1,
      [&](net::Net& net, int) {
        const OnGpu<float> data(1000);
        run_on(net, data.data(), 1000);
        {
          const std::lock_guard lock(machine.mutex);
          machine.find(data.data())->second.number = ++machine.allocated;
        }
        run_on(net, data.data(), 1000);
        EXPECT_EQ(machine.count(0, "ncclCommRegister"), 2u);
        EXPECT_EQ(machine.count(0, "ncclCommDeregister"), 1u);
      },
      kRegisters);
  expect_clean(machine);
}

TEST(NcclRegistrations, TheOldestMakesRoom) {
  MockMachine machine(1);
  run_members(
      machine, 1,
      [&](net::Net& net, int) {
        std::vector<std::unique_ptr<OnGpu<float>>> buffers;
        for (std::size_t i = 0; i <= nccl::Registrations::kKept; ++i) {
          buffers.push_back(std::make_unique<OnGpu<float>>(10));
          if (i == nccl::Registrations::kKept) run_on(net, buffers[0]->data(), 10);  // now the newest
          run_on(net, buffers[i]->data(), 10);
        }
        const auto calls = machine.calls_of(0);
        const auto gone = std::ranges::find(calls, "ncclCommDeregister", &MockCall::name);
        ASSERT_NE(gone, calls.end());
        EXPECT_EQ(gone->object, buffers[1]->data());
        EXPECT_EQ(machine.count(0, "ncclCommDeregister"), 1u);
      },
      kRegisters);
  expect_clean(machine);
}

TEST(NcclRegistrations, AreNotNeeded) {
  MockMachine machine(1);
  machine.faults[0].registering = NcclResult::kInternalError;
  run_members(
      machine, 1,
      [&](net::Net& net, int) {
        const OnGpu<float> data(10, 1.0f);
        run_on(net, data.data(), 10);
        run_on(net, data.data(), 10);
        EXPECT_EQ(machine.count(0, "ncclCommRegister"), 1u);
      },
      kRegisters);
  EXPECT_EQ(machine.count(0, "ncclCommDeregister"), 0u);
  expect_clean(machine);
}

TEST(NcclRegistrations, WhereTheVersionHasThemAndTheUserWantsThem) {
  MockMachine old(1, nccl_version(2, 18, 5));
  run_members(
      old, 1,
      [&](net::Net& net, int) {
        const OnGpu<float> data(10);
        run_on(net, data.data(), 10);
      },
      kRegisters);
  EXPECT_EQ(old.count(0, "ncclCommRegister"), 0u);
  expect_clean(old);
}

}  // namespace
}  // namespace xoe::testing
