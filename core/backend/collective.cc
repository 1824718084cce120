#include "core/backend/collective.h"

#include "core/base/error.h"
#include "core/reduce/reduce.h"

namespace xoe {
namespace {

using Counts = std::span<const std::size_t>;

Collective make(CollectiveKind kind, const ConstTensor& in, const Tensor& out, const OpOptions& options, ReduceOp op,
                int root, Counts send_counts, Counts recv_counts) {
  return {.kind = kind,
          .dtype = in.dtype,
          .op = op,
          .root = root,
          .in = in.data,
          .out = out.data,
          .in_count = in.count,
          .out_count = out.count,
          .send_counts = send_counts,
          .recv_counts = recv_counts,
          .options = options};
}

}  // namespace

std::string_view collective_name(CollectiveKind kind) noexcept {
  switch (kind) {
    case CollectiveKind::kAllreduce: return "allreduce";
    case CollectiveKind::kBroadcast: return "broadcast";
    case CollectiveKind::kAllgather: return "allgather";
    case CollectiveKind::kReduceScatter: return "reduce_scatter";
    case CollectiveKind::kAlltoall: return "alltoall";
    case CollectiveKind::kBarrier: return "barrier";
  }
  return "unknown";
}

Collective make_allreduce(ConstTensor in, Tensor out, ReduceOp op, const OpOptions& options) {
  return make(CollectiveKind::kAllreduce, in, out, options, op, 0, {}, {});
}
Collective make_broadcast(Tensor data, int root, const OpOptions& options) {
  return make(CollectiveKind::kBroadcast, data, data, options, ReduceOp::kSum, root, {}, {});
}
Collective make_allgather(ConstTensor in, Tensor out, Counts counts, const OpOptions& options) {
  return make(CollectiveKind::kAllgather, in, out, options, ReduceOp::kSum, 0, counts, {});
}
Collective make_reduce_scatter(ConstTensor in, Tensor out, Counts counts, ReduceOp op, const OpOptions& options) {
  return make(CollectiveKind::kReduceScatter, in, out, options, op, 0, counts, {});
}
Collective make_alltoall(ConstTensor in, Counts send_counts, Tensor out, Counts recv_counts, const OpOptions& options) {
  return make(CollectiveKind::kAlltoall, in, out, options, ReduceOp::kSum, 0, send_counts, recv_counts);
}

std::string title_of(const Collective& collective, std::uint64_t number) {
  std::string title(collective_name(collective.kind));
  if (number != 0) title += fmt::format(" #{}", number);
  if (!collective.options.name.empty()) title += fmt::format(" ({})", collective.options.name);
  return title;
}

Status check_host_memory(const Collective& collective, std::string_view backend) {
  if (collective.device || collective.prescale != 1) [[unlikely]]
    return failure(Code::kUnsupported, "{}: {} of {}; choose nccl (XOE_BACKEND=nccl), or copy to host memory", backend,
                   collective_name(collective.kind), collective.device ? "GPU memory" : "values with a factor");
  return is_reduction(collective.kind) ? reduce::supports(collective.dtype, collective.op) : Status();
}

void OwnedCollective::assign(const Collective& collective) {
  collective_ = collective;
  send_counts_.assign(collective.send_counts.begin(), collective.send_counts.end());
  recv_counts_.assign(collective.recv_counts.begin(), collective.recv_counts.end());
  segments_.assign(collective.segments.begin(), collective.segments.end());
  name_.assign(collective.options.name);
  collective_.send_counts = send_counts_;
  collective_.recv_counts = recv_counts_;
  collective_.segments = segments_;
  collective_.options.name = name_;
}

}  // namespace xoe
