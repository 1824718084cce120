#include "core/backend/hierarchical/rails.h"

#include <algorithm>
#include <numeric>

#include "core/backend/net/buffers.h"
#include "core/base/error.h"

namespace xoe::hierarchical {
namespace {

// A rail carries less than this only if it carries everything, since a message costs more than its bytes.
constexpr std::size_t kLeastRailBytes = std::size_t{32} << 10;

}  // namespace

Rails::Rails(const Placement& placement, Backend& local, Routing routing, Connect connect)
    : placement_(placement), local_(local), routing_(routing), connect_(std::move(connect)) {}

Status Rails::connect() {
  if (routing_.flat) {
    XOE_ASSIGN(net::Net* const net, all_ranks());
    net_name_ = net->name();
    return {};
  }
  const int rail = placement_.local_rank();
  if (rail >= count()) return {};
  std::vector<int> ranks;
  for (const auto& host : placement_.ranks_of) ranks.push_back(host[index(rail)]);
  XOE_ASSIGN(auto net, connect_(ranks, fmt::format("rail/{}", rail)));
  net_name_ = net->name();
  keep(rail_, std::move(net));
  return {};
}

Result<net::Net*> Rails::all_ranks() {
  if (all_ranks_ == nullptr) {
    std::vector<int> ranks(placement_.hosts.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    XOE_ASSIGN(auto net, connect_(ranks, "all"));
    keep(all_ranks_, std::move(net));
  }
  return all_ranks_.get();
}

void Rails::keep(std::unique_ptr<net::Net>& member, std::unique_ptr<net::Net> net) {
  const std::lock_guard lock(nets_mutex_);
  if (aborted_) net->abort();
  member = std::move(net);
}

void Rails::abort() noexcept {
  const std::lock_guard lock(nets_mutex_);
  aborted_ = true;
  if (rail_ != nullptr) rail_->abort();
  if (all_ranks_ != nullptr) all_ranks_->abort();
}

int Rails::count() const {
  return static_cast<int>(std::ranges::min(placement_.ranks_of, {}, &std::vector<int>::size).size());
}

bool Rails::one_rank_each() const { return placement_.hosts.size() == placement_.ranks_of.size(); }

std::vector<std::size_t> Rails::shares(std::size_t count, DType dtype) const {
  const std::size_t least = kLeastRailBytes / dtype_size(dtype);
  const auto used = std::clamp<std::size_t>(count / least, 1, index(this->count()));
  std::vector<std::size_t> shares = net::equal_parts(count, used);
  shares.resize(index(placement_.local_size()));
  return shares;
}

Result<std::byte*> Rails::scratch(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  if (scratch_.bytes() < bytes) {
    scratch_ = {};
    XOE_ASSIGN(scratch_, local_.shared_buffer(std::max(bytes, 2 * scratch_.bytes())));
  }
  return scratch_.data();
}

Status Rails::on_host(const Operation& op, Collective collective) {
  collective.options.name = op.collective.options.name;
  collective.options.timeout = op.time_left();
  return local_.run(collective);
}

Status Rails::on(net::Net& net, const Operation& op, const Collective& collective) {
  Status status = net.run(collective, op.deadline);
  if (status) return status;
  return failure(status.error().code(), "{}: between hosts: {}", op.title(), status.error().message());
}

Result<std::vector<OperationHeader>> Rails::agree(net::Net& net, std::size_t members, const Operation& op,
                                                  std::span<const std::byte> data) {
  OperationHeader mine(op, placement_.rank);
  std::ranges::copy(data, mine.data);
  std::vector<OperationHeader> all(members);
  const std::vector<std::size_t> counts(members, sizeof mine);
  XOE_TRY(on(net, op,
             make_allgather(ConstTensor(&mine, sizeof mine, DType::kUint8),
                            Tensor(all.data(), members * sizeof mine, DType::kUint8), counts)));
  for (const OperationHeader& theirs : all)
    if (!mine.agrees(theirs))
      return failure(Code::kInvalidArgument, "{}: ranks disagree: rank {} called {}, rank {} called {}", op.title(),
                     mine.rank, mine.text(), theirs.rank, theirs.text());
  return all;
}

Status Rails::agree_all(net::Net& net, const Operation& op) {
  XOE_TRY(agree(net, placement_.hosts.size(), op, {}));
  return {};
}

}  // namespace xoe::hierarchical
