#include "core/backend/gpu_transport.h"

#include <algorithm>
#include <vector>

#include "core/backend/choose_backend.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe {
namespace {

constexpr char kSeparator = '\x1f';  // in no name
constexpr std::size_t kFields = 13;

// What keeps NCCL from joining the ranks.
Status check_nccl(std::span<const RankGpu> ranks) {
  const auto encrypts = std::ranges::find(ranks, true, &RankGpu::encrypts);
  const auto elsewhere = std::ranges::find_if(ranks, [&](const RankGpu& rank) { return rank.host != ranks[0].host; });
  if (encrypts != ranks.end() && elsewhere != ranks.end())
    return failure(Code::kUnsupported, "{} has XOE_ENCRYPT=1, and NCCL does not encrypt what it sends to other hosts",
                   encrypts->name());
  for (const RankGpu& rank : ranks)
    if (rank.nccl.empty()) return failure(Code::kUnsupported, "{} has no NCCL: {}", rank.name(), rank.nccl_missing);
  for (const RankGpu& rank : ranks)
    if (rank.nccl != ranks[0].nccl)
      return failure(Code::kUnsupported, "{} has NCCL {}, {} has {}; install the same for all ranks", ranks[0].name(),
                     ranks[0].nccl, rank.name(), rank.nccl);
  if (std::ranges::all_of(ranks, &RankGpu::nccl_shares_gpus)) return {};
  for (std::size_t b = 0; b < ranks.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (same_gpu(ranks[a], ranks[b]))
        return failure(Code::kInvalidArgument, "{} and {} have the same GPU, {}, which NCCL refuses", ranks[a].name(),
                       ranks[b].name(),
                       ranks[a].uuid == ranks[b].uuid ? ranks[a].uuid : fmt::format("at {}", ranks[a].bus));
  return {};
}

}  // namespace

std::string requested_gpu_transport(const Env& env) {
  const auto requested = env.text("XOE_GPU");
  if (!requested || *requested == "auto") return env.text("XOE_DETERMINISTIC") == kPlacementFree ? "staged" : "auto";
  return *requested;
}

std::string_view gpu_transport_name(GpuTransport transport) noexcept {
  return transport == GpuTransport::kNccl ? "nccl" : "staged";
}

std::string RankGpu::name() const { return fmt::format("rank {} ({}, pid {})", rank, host, pid); }

std::string RankGpu::encode() const {
  std::string missing = nccl_missing;
  std::ranges::replace(missing, kSeparator, ' ');
  const std::string fields[kFields] = {requested,
                                       std::to_string(rank),
                                       std::to_string(pid),
                                       host,
                                       boot,
                                       uuid,
                                       bus,
                                       nccl,
                                       missing,
                                       nccl_shares_gpus ? "1" : "0",
                                       std::to_string(staging_bytes),
                                       encrypts ? "1" : "0",
                                       "."};
  return fmt::format("{}", fmt::join(fields, std::string_view(&kSeparator, 1)));
}

Result<RankGpu> RankGpu::decode(std::string_view text) {
  const auto fields = split_text(text, kSeparator);
  const auto number = [&](std::size_t i) { return fields.size() == kFields ? parse_integer(fields[i]) : std::nullopt; };
  const auto rank = number(1), pid = number(2), bytes = number(10);
  if (!rank || !pid || !bytes) return failure(Code::kInternal, "a rank described its GPU as '{}'", text);
  return RankGpu{.requested = fields[0],
                 .rank = static_cast<int>(*rank),
                 .pid = static_cast<int>(*pid),
                 .host = fields[3],
                 .boot = fields[4],
                 .uuid = fields[5],
                 .bus = fields[6],
                 .nccl = fields[7],
                 .nccl_missing = fields[8],
                 .nccl_shares_gpus = fields[9] == "1",
                 .encrypts = fields[11] == "1",
                 .staging_bytes = static_cast<std::size_t>(*bytes)};
}

bool same_gpu(const RankGpu& one, const RankGpu& other) {
  if (one.uuid == other.uuid) return true;
  const bool same_machine = one.boot.empty() || other.boot.empty() ? one.host == other.host : one.boot == other.boot;
  return same_machine && one.bus == other.bus;
}

Result<GpuChoice> choose_gpu_transport(std::span<const RankGpu> ranks) {
  GpuChoice choice;
  choice.staging_bytes = std::ranges::min(ranks, {}, &RankGpu::staging_bytes).staging_bytes;
  const auto with_request = [&](std::string_view requested) {
    return std::ranges::find(ranks, requested, [](const RankGpu& rank) -> std::string_view { return rank.requested; });
  };
  const auto demands = with_request("nccl");
  if (const auto stages = with_request("staged"); stages != ranks.end()) {
    if (demands != ranks.end())
      return failure(Code::kInvalidArgument, "{} has XOE_GPU=nccl, {} has XOE_GPU=staged; set the same for all ranks",
                     demands->name(), stages->name());
    choice.transport = GpuTransport::kStaged;
    choice.why = fmt::format("{} has XOE_GPU=staged or XOE_DETERMINISTIC=placement-free", stages->name());
    return choice;
  }
  const Status usable = check_nccl(ranks);
  if (usable) return choice;
  if (demands != ranks.end())
    return failure(usable.error().code(),
                   "{}; give each rank a GPU of its own (CUDA_VISIBLE_DEVICES) and NCCL, or leave XOE_GPU, XOE_BACKEND "
                   "and XOE_NET unset: then GPU memory is staged through host memory",
                   usable.error().message());
  choice.transport = GpuTransport::kStaged;
  choice.why = usable.error().message();
  return choice;
}

}  // namespace xoe
