#include "backend/backend.h"

#include "base/error.h"

namespace xoe {

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

Status check_host_memory(const Collective& collective, std::string_view backend) {
  if (!collective.device && collective.prescale == 1) return {};
  return failure(Code::kUnsupported, "{}: {} of {}; choose nccl (XOE_BACKEND=nccl), or copy to host memory", backend,
                 collective_name(collective.kind), collective.device ? "GPU memory" : "values with a factor");
}

}  // namespace xoe
