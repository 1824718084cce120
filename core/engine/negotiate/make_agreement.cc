#include "core/engine/negotiate/make_agreement.h"

#include <algorithm>
#include <utility>

#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/engine/negotiate/cross_host_agreement.h"
#include "core/engine/negotiate/host_agreement.h"

namespace xoe::engine {

Result<std::unique_ptr<Agreement>> make_agreement(Communicator& comm, std::vector<int> world_ranks, int capacity) {
  HostGroup& host_group = comm.backend().host_group();
  const AgreementMembers members{std::move(world_ranks), host_group.hosts(), comm.rank()};
  const bool one_host = std::all_of(members.hosts.begin(), members.hosts.end(), [](int host) { return host == 0; });
  std::unique_ptr<LeaderChannel> channel;
  const auto make = [&](SharedLayout& memory) -> std::unique_ptr<Agreement> {
    if (one_host) return std::make_unique<HostAgreement>(memory, host_group, members, capacity);
    return std::make_unique<CrossHostAgreement>(memory, host_group, members, capacity, std::move(channel));
  };
  SharedLayout needed(nullptr);
  make(needed);
  XOE_ASSIGN(std::byte* const memory, host_group.host_memory(needed.bytes()));
  if (!one_host) {
    XOE_ASSIGN(channel, host_group.leader_channel());
  }
  SharedLayout layout(memory);
  return make(layout);
}

}  // namespace xoe::engine
