#include "core/backend/nccl/provider.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/backend/nccl/net.h"
#include "core/backend/nccl/staging.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::nccl {
namespace {

// NCCL's documentation of NCCL_MULTI_RANK_GPU_ENABLE: since 2.30.
constexpr int kManyRanks = nccl_version(2, 30, 0);

Result<std::vector<RankGpu>> exchange_facts(const net::Exchange& exchange, const RankGpu& mine) {
  XOE_ASSIGN(const auto all, exchange(mine.encode()));
  std::vector<RankGpu> facts;
  for (const std::string& text : all) {
    XOE_ASSIGN(RankGpu one, RankGpu::decode(text));
    facts.push_back(std::move(one));
  }
  return facts;
}

// Each member sends "ok" or its error; member 0 adds the communicator's id.
Result<NcclUniqueId> exchange_readiness(const net::Exchange& exchange, const Status& mine, const NcclUniqueId& id,
                                        const std::vector<std::string>& names, std::size_t self) {
  std::string text =
      mine ? "ok" : fmt::format("no\t{}\t{}", static_cast<int>(mine.error().code()), mine.error().message());
  if (mine && self == 0) {
    text += '\t';
    for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  XOE_ASSIGN(const auto all, exchange(text));
  if (!mine) return failure(mine.error());
  for (std::size_t m = 0; m < all.size(); ++m) {
    const auto fields = split_text(all[m], '\t');
    if (fields[0] == "ok") continue;
    const auto code = fields.size() == 3 ? parse_integer(fields[1]) : std::nullopt;
    return failure(code ? static_cast<Code>(*code) : Code::kInternal, "{}: {}", names[m],
                   fields.size() == 3 ? fields[2] : all[m]);
  }
  const auto first = split_text(all.front(), '\t');
  NcclUniqueId common{};
  if (first.size() != 2 || first[1].size() != 2 * sizeof common.bytes)
    return failure(Code::kInternal, "nccl: {} sent no communicator id", names.front());
  for (std::size_t i = 0; i < sizeof common.bytes; ++i)
    common.bytes[i] = static_cast<char>(std::stoi(first[1].substr(2 * i, 2), nullptr, 16));
  return common;
}

class NcclProvider final : public net::Provider {
 public:
  NcclProvider(std::shared_ptr<const Libraries> libraries, ProviderOptions options, Device device)
      : libraries_(std::move(libraries)), options_(std::move(options)), device_(std::move(device)) {}

  std::string_view name() const noexcept override { return "nccl"; }
  bool moves_host_memory() const noexcept override { return false; }

  std::string describe() const override {
    int cuda = 0;
    (void)libraries_->cuda.runtime_get_version(&cuda);
    const std::string nccl = libraries_->nccl_version == 0 ? fmt::format("no NCCL ({})", libraries_->nccl_missing)
                                                           : "NCCL " + nccl_version_text(libraries_->nccl_version);
    return fmt::format("{}, CUDA {}.{}, {}", nccl, cuda / 1000, cuda % 1000 / 10, device_.text());
  }

  Result<RankGpu> rank_gpu() override {
    const bool has_nccl = libraries_->nccl_version != 0;
    return RankGpu{.pid = ::getpid(),
                   .host = host_name("?"),
                   .boot = read_line("/proc/sys/kernel/random/boot_id").value_or(""),
                   .uuid = device_.uuid,
                   .bus = device_.bus,
                   .nccl = has_nccl ? nccl_version_text(libraries_->nccl_version) : "",
                   .nccl_missing = libraries_->nccl_missing,
                   .nccl_shares_gpus = options_.many_ranks && libraries_->nccl_version >= kManyRanks};
  }

  Result<std::unique_ptr<net::GpuStaging>> make_staging(std::size_t slots, std::size_t slot_bytes,
                                                        const std::function<void()>& ring) override {
    return Staging::make(libraries_, slots, slot_bytes, ring);
  }

  Result<std::shared_ptr<const void>> admit(std::span<const void* const> addresses, void* stream) override {
    const CudaApi& cuda = libraries_->cuda;
    const DeviceScope scope(*libraries_, device_.index);
    XOE_TRY(check_not_capturing(cuda, static_cast<CudaStream>(stream)));
    for (std::size_t i = 0; i < addresses.size(); ++i)
      XOE_TRY(check_memory_of(cuda, device_, addresses[i], fmt::format("buffer {}", i)));
    return record_event(libraries_, device_.index, static_cast<CudaStream>(stream));
  }

  Status order(void* stream, std::span<const std::shared_ptr<const void>> events) override {
    const CudaApi& cuda = libraries_->cuda;
    const DeviceScope scope(*libraries_, device_.index);
    XOE_TRY(check_not_capturing(cuda, static_cast<CudaStream>(stream)));
    for (const auto& event : events)
      XOE_CUDA(cuda, stream_wait_event, static_cast<CudaStream>(stream),
               static_cast<CudaEvent>(const_cast<void*>(event.get())), 0);
    return {};
  }

  // Otherwise each call would reset the device to GPU 0, and create a context there; and calls such as cudaMalloc()
  // would spoil a graph that another thread captures.
  void take_thread() noexcept override {
    (void)libraries_->cuda.set_device(device_.index);
    CudaCaptureMode mode = CudaCaptureMode::kRelaxed;
    (void)libraries_->cuda.thread_exchange_capture_mode(&mode);
  }

  Result<std::unique_ptr<net::Net>> connect(const net::Members& members, const net::Exchange& exchange,
                                            Clock::time_point deadline) override {
    const DeviceScope scope(*libraries_, device_.index);
    const auto self = static_cast<std::size_t>(members.self);
    XOE_ASSIGN(RankGpu mine, rank_gpu());
    mine.requested = "nccl";
    mine.rank = members.ranks[self];
    XOE_ASSIGN(const auto facts, exchange_facts(exchange, mine));
    if (const auto choice = choose_gpu_transport(facts); !choice)
      return failure(choice.error().code(), "nccl: {}", choice.error().message());
    std::vector<std::string> names;
    for (const RankGpu& member : facts) names.push_back(member.name());
    NcclUniqueId id{};
    auto stream = prepare(facts, self, id);
    const Status ready = stream ? Status() : Status(failure(stream.error()));
    XOE_ASSIGN(id, exchange_readiness(exchange, ready, id, names, self));
    const Membership membership{
        .id = id, .size = static_cast<int>(facts.size()), .self = members.self, .device = device_.index};
    auto comm = Comm::join(libraries_, membership, deadline, members.check);
    if (!comm)
      return failure(comm.error().code(), "nccl: connecting {} ranks: {}", facts.size(), comm.error().message());
    return std::make_unique<NcclNet>(NetParts{.libraries = libraries_,
                                              .device = device_,
                                              .members = members,
                                              .names = names,
                                              .stream = std::move(*stream),
                                              .comm = std::move(*comm),
                                              .registers = can_register()});
  }

  Result<net::Exchange> bootstrap() override {
    return failure(Code::kUnsupported, "nccl starts no processes: let `xoe run` or mpirun start them");
  }

 private:
  // The steps that may fail on this rank alone.
  Result<std::unique_ptr<GpuStream>> prepare(const std::vector<RankGpu>& facts, std::size_t self, NcclUniqueId& id) {
    XOE_TRY(check_exclusive(facts, self));
    XOE_ASSIGN(auto stream, GpuStream::make(libraries_, device_.index, staging_bytes(facts.size())));
    if (self != 0) return stream;
    if (const NcclResult result = libraries_->nccl.get_unique_id(&id); result != NcclResult::kSuccess)
      return failure(Code::kUnavailable, "nccl: cannot create a communicator id: {}",
                     libraries_->nccl.get_error_string(result));
    return stream;
  }

  // Another rank of the job that is not a member counts as another process, too: it has the GPU as well.
  Status check_exclusive(const std::vector<RankGpu>& facts, std::size_t self) const {
    if (options_.shares_gpu || !options_.sees_processes || !libraries_->nvml) return {};
    for (const int pid : compute_processes(*libraries_->nvml, device_)) {
      const auto is_rank = [&](const RankGpu& f) { return f.pid == pid && f.host == facts[self].host; };
      if (std::ranges::any_of(facts, is_rank)) continue;
      return failure(
          Code::kResourceExhausted,
          "nccl: {} is used by another process, pid {}; end it, choose another GPU with CUDA_VISIBLE_DEVICES, "
          "or share it with XOE_NCCL_SHARE_GPU=1",
          device_.text(), pid);
    }
    return {};
  }

  bool can_register() const {
    return options_.registers_buffers && libraries_->features.registration &&
           libraries_->cuda.mem_get_address_range != nullptr && libraries_->cuda.pointer_get_attribute != nullptr;
  }

  const std::shared_ptr<const Libraries> libraries_;
  const ProviderOptions options_;
  const Device device_;
};

}  // namespace

Result<ProviderOptions> read_provider_options(const Env& env, int local_rank) {
  XOE_ASSIGN(const auto shares, env.integer("XOE_NCCL_SHARE_GPU", 0, 1));
  XOE_ASSIGN(const auto registers, env.integer("XOE_NCCL_REGISTER", 0, 1));
  return ProviderOptions{
      .local_rank = local_rank,
      .visible = env.text("CUDA_VISIBLE_DEVICES").value_or(""),
      .shares_gpu = shares.value_or(0) == 1,
      .sees_processes = sees_all_processes(),
      .registers_buffers = registers.value_or(0) == 1,
      .many_ranks = parse_integer(env.text("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0")).value_or(0) != 0};
}

Result<std::unique_ptr<net::Provider>> make_provider(Libraries libraries, ProviderOptions options) {
  XOE_ASSIGN(Device device,
             choose_device(libraries.cuda, options.local_rank, options.visible, options.ranks_share_gpus));
  libraries.context = retain_context(libraries.cuda, device.index);
  return std::make_unique<NcclProvider>(std::make_shared<const Libraries>(std::move(libraries)), std::move(options),
                                        std::move(device));
}

}  // namespace xoe::nccl
