#include "train/trainer/state_exchange.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "train/trainer/agree.h"
#include "xoe/torch/broadcast.h"

namespace xoe::train {
namespace {

using Tensors = std::vector<at::Tensor>;

void append(Tensors& all, const Tensors& more) {
  for (const at::Tensor& tensor : more) all.push_back(tensor.detach());
}

}  // namespace

Result<Holders> find_holders(const RankState& state, bool expects, Communicator& comm) {
  const std::int64_t step = state.trained ? state.progress.step : -1;
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(comm.size()));
  const std::array<std::int64_t, 2> mine = {step, expects ? 1 : 0};
  XOE_TRY(comm.allgather(ConstTensor(mine.data(), mine.size()), Tensor(all.data(), all.size()),
                         {.name = "ranks with a state"}));
  std::int64_t latest = -1;
  bool expected = false;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    latest = std::max(latest, all[i]);
    expected = expected || all[i + 1] != 0;
  }
  if (latest < 0 && expected) return failure(Code::kDataLoss, "the ranks that had the state of the training have left");
  Holders holders{.mine = latest >= 0 && step == latest, .progress = state.progress};
  for (int rank = 0; latest >= 0 && rank < comm.size(); ++rank)
    if (all[2 * static_cast<std::size_t>(rank)] == latest) holders.ranks.push_back(rank);
  holders.all = static_cast<int>(holders.ranks.size()) == comm.size();
  if (holders.ranks.empty() || holders.all) return holders;

  const int root = holders.ranks.front();
  std::string text = comm.rank() == root ? progress_text(state.progress) : std::string();
  XOE_TRY(broadcast_bytes(comm, text, root));
  holders.progress = progress_of(text);
  return holders;
}

Status receive_state(RankState& state, const Holders& holders, Communicator& comm) {
  if (holders.all) return {};
  const at::NoGradGuard no_grad;
  const int root = holders.ranks.front();
  Tensors tensors;
  append(tensors, state.setup.model->parameters());
  XOE_ASSIGN(const Tensors of_optimizer, xoe::torch::same_optimizer_state(*state.setup.optimizer, comm, root));
  append(tensors, of_optimizer);
  if (state.average) append(tensors, state.average->parameters());
  Tensors buffers;
  append(buffers, state.setup.model->buffers());
  if (state.average) append(buffers, state.average->buffers());

  std::vector<int> receivers;
  for (int rank = 0; rank < comm.size(); ++rank)
    if (!std::ranges::binary_search(holders.ranks, rank)) receivers.push_back(rank);
  // What a rank that is a step behind has is good until all of this has arrived.
  const auto arrival = state.trained ? xoe::torch::Arrival::kTogether : xoe::torch::Arrival::kOneByOne;
  XOE_TRY(xoe::torch::send_in_parts(tensors, comm, holders.ranks, receivers, arrival));
  if (!holders.mine) state.trained = false;  // until it has the rest, it has no state at all
  XOE_TRY(xoe::torch::send_in_parts(buffers, comm, {&root, 1}, receivers, arrival));
  if (holders.mine) return {};
  xoe::torch::set_step_counts(*state.setup.optimizer, of_optimizer.back());
  state.progress = holders.progress;
  state.trained = true;
  return {};
}

}  // namespace xoe::train
