// Which GPU is a rank's, and who else has it.
#include <numeric>

#include <gmock/gmock.h>

#include "core/tests/nccl/members.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string problem(const Result<nccl::Device>& device) { return device ? "" : device.error().message(); }

TEST(NcclDevice, IsTheOneOfTheLocalRank) {
  const MockMachine machine(4);
  const auto device = nccl::choose_device(mock_cuda_api(), 2, "");
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_EQ(device->index, 2);
  EXPECT_EQ(device->text(), "GPU 2 (Mock GPU, GPU-00000000-1111-2222-3333-444444444442, 0000:03:00.0)");
}

TEST(NcclDevice, IsTheOnlyOneThatIsShown) {
  const MockMachine machine(1);
  const auto device = nccl::choose_device(mock_cuda_api(), 5, "5");
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_EQ(device->index, 0);
}

TEST(NcclDevice, MoreRanksThanGpus) {
  const MockMachine machine(2);
  EXPECT_EQ(problem(nccl::choose_device(mock_cuda_api(), 2, "4,7")),
            "local rank 2 has no GPU: CUDA shows 2 to this process (CUDA_VISIBLE_DEVICES=4,7); start 2 ranks on this "
            "host");
  EXPECT_EQ(nccl::choose_device(mock_cuda_api(), 2, "4,7", /*shared=*/true)->index, 0);
  EXPECT_EQ(nccl::choose_device(mock_cuda_api(), 5, "4,7", /*shared=*/true)->index, 1);
}

TEST(NcclDevice, NoGpu) {
  const MockMachine machine(0);
  const auto device = nccl::choose_device(mock_cuda_api(), 0, "");
  EXPECT_EQ(problem(device), "no GPU: CUDA shows none to this process");
  EXPECT_EQ(device.error().code(), Code::kUnavailable);
}

TEST(NcclDevice, NoDriver) {
  const MockMachine machine(1);
  CudaApi cuda = mock_cuda_api();
  cuda.get_device_count = [](int*) { return CudaError::kInsufficientDriver; };
  EXPECT_THAT(problem(nccl::choose_device(cuda, 0, "")), HasSubstr("driver is missing, or older"));
}

// What every member's connect() says.
std::vector<std::string> connect_all(MockMachine& machine, const std::vector<nccl::ProviderOptions>& options) {
  const auto size = static_cast<int>(options.size());
  ExchangeTable table(size);
  std::vector<std::string> problems(options.size());
  std::vector<std::jthread> threads;
  for (int m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const auto index = static_cast<std::size_t>(m);
      const auto provider = open_nccl(machine, options[index]);
      const auto made = provider->connect(members_of(size, m), table.exchange(m), in(seconds(30)));
      if (!made) problems[index] = made.error().to_string();
    });
  threads.clear();
  expect_clean(machine);
  return problems;
}

TEST(NcclDevice, TwoRanksOnOne) {
  MockMachine machine(2);
  for (const std::string& said : connect_all(machine, {{.local_rank = 0}, {.local_rank = 1}, {.local_rank = 1}}))
    EXPECT_THAT(said, AllOf(HasSubstr("invalid_argument: nccl: rank 11 ("), HasSubstr("and rank 12 ("),
                            HasSubstr("have the same GPU, " + MockMachine::uuid(1))));
}

TEST(NcclDevice, HeldByAnotherProcess) {
  MockMachine machine(2);
  machine.processes[1] = {::getpid(), 4410};
  const auto said = connect_all(machine, {{.local_rank = 0}, {.local_rank = 1}});
  EXPECT_THAT(said[1], AllOf(HasSubstr("resource_exhausted: nccl: GPU 1 ("),
                             HasSubstr("is used by another process, pid 4410; ")));
  EXPECT_THAT(said[0], AllOf(HasSubstr("rank 11 ("), HasSubstr("pid 4410")));
}

TEST(NcclDevice, HeldByManyProcesses) {
  MockMachine machine(1);
  machine.processes[0].assign(100, ::getpid());
  machine.processes[0].back() = 4410;
  EXPECT_THAT(connect_all(machine, {{}})[0], HasSubstr("pid 4410"));
}

TEST(NcclDevice, HeldByRanksAlone) {
  MockMachine machine(2);
  machine.processes[0] = machine.processes[1] = {::getpid()};
  for (const std::string& said : connect_all(machine, {{.local_rank = 0}, {.local_rank = 1}})) EXPECT_EQ(said, "");
}

TEST(NcclDevice, HeldByAnotherProcessOnPurpose) {
  MockMachine machine(1);
  machine.processes[0] = {4410};
  EXPECT_EQ(connect_all(machine, {{.shares_gpu = true}})[0], "");
  EXPECT_EQ(connect_all(machine, {{.sees_processes = false}})[0], "");  // the ids are another name space's
}

TEST(NcclVersions, MustBeTheSame) {
  MockMachine machine(2);
  ExchangeTable table(2);
  std::vector<std::jthread> threads;
  for (int m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      nccl::Libraries libraries = libraries_of(machine);
      if (m == 1) libraries.nccl_version = nccl_version(2, 18, 5);
      const auto provider = nccl::make_provider(libraries, {.local_rank = m}).value();
      const auto made = provider->connect(members_of(2, m), table.exchange(m), in(seconds(30)));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code(), Code::kUnsupported);
      EXPECT_THAT(made.error().message(), AllOf(HasSubstr("has NCCL 2.30.7, rank 11"), HasSubstr("has 2.18.5")));
    });
  threads.clear();
  expect_clean(machine);
}

TEST(NcclProvider, TellsWhatItIs) {
  const MockMachine machine(1);
  const auto provider = open_nccl(machine, {});
  EXPECT_EQ(provider->name(), "nccl");
  EXPECT_FALSE(provider->moves_host_memory());
  EXPECT_THAT(provider->describe(), HasSubstr("NCCL 2.30.7, CUDA 13.2, GPU 0 (Mock GPU"));
  EXPECT_EQ(provider->bootstrap().error().code(), Code::kUnsupported);
}

TEST(NcclOptions, ComeFromTheEnvironment) {
  using Values = std::map<std::string, std::string, std::less<>>;
  const Env env(
      Values{{"XOE_NCCL_REGISTER", "1"}, {"CUDA_VISIBLE_DEVICES", "2,3"}, {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}});
  const auto options = nccl::read_provider_options(env, 1);
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->registers_buffers);
  EXPECT_FALSE(options->shares_gpu);
  EXPECT_TRUE(options->many_ranks);
  EXPECT_EQ(options->visible, "2,3");
  EXPECT_EQ(options->local_rank, 1);
  const auto wrong = nccl::read_provider_options(Env(Values{{"XOE_NCCL_SHARE_GPU", "yes"}}), 0);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("XOE_NCCL_SHARE_GPU"));
}

}  // namespace
}  // namespace xoe::testing
