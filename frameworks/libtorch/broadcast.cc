#include "xoe/torch/broadcast.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>
#include <typeinfo>

#include "core/base/error.h"
#include "frameworks/libtorch/same_layout.h"
#include "xoe/torch/tensors.h"

namespace xoe::torch {
namespace {

constexpr std::size_t kPackBytes = std::size_t{8} << 20;  // tensors up to a quarter of this are packed

// Broadcasts `tensors`, packed back to back, in one collective.
Status broadcast_packed(std::span<const at::Tensor> tensors, std::size_t bytes, Communicator& comm, int root) {
  const at::Tensor pack = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  std::uint8_t* const start = pack.data_ptr<std::uint8_t>();
  std::uint8_t* place = start;
  if (comm.rank() == root) {
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
      if (host.nbytes() > 0) std::memcpy(place, host.data_ptr(), host.nbytes());
      place += host.nbytes();
    }
  }
  XOE_TRY(comm.broadcast(Tensor(start, bytes), root, {.name = "broadcast_parameters"}));
  if (comm.rank() == root) return {};
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor host = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    if (host.nbytes() > 0) std::memcpy(host.data_ptr(), place, host.nbytes());
    place += host.nbytes();
    tensor.copy_(host);
  }
  return {};
}

Status broadcast_all(std::span<const at::Tensor> tensors, Communicator& comm, int root) {
  const at::NoGradGuard no_grad;
  std::size_t first = 0;
  while (first < tensors.size()) {
    if (tensors[first].nbytes() > kPackBytes / 4) {
      XOE_TRY(broadcast(tensors[first], comm, root, {.name = "broadcast_parameters"}));
      ++first;
      continue;
    }
    std::size_t bytes = 0;
    std::size_t last = first;
    while (last < tensors.size() && tensors[last].nbytes() <= kPackBytes / 4 && bytes < kPackBytes) {
      bytes += tensors[last++].nbytes();
    }
    XOE_TRY(broadcast_packed(tensors.subspan(first, last - first), bytes, comm, root));
    first = last;
  }
  return {};
}

std::vector<Described> describe_optimizer(const ::torch::optim::Optimizer& optimizer) {
  std::vector<Described> things{{"the optimizer", typeid(optimizer).name()}};
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& parameters = optimizer.param_groups()[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      things.push_back({fmt::format("parameter {} of group {}", i, group), describe(parameters[i])});
    }
  }
  return things;
}

at::Device device_of(const ::torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return at::kCPU;
}

}  // namespace

Status broadcast_parameters(::torch::nn::Module& module, Communicator& comm, int root) {
  std::vector<Described> things;
  std::vector<at::Tensor> tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    things.push_back({name, describe(tensor)});
    tensors.push_back(tensor);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  XOE_TRY(check_same(things, comm, "broadcast_parameters"));
  try {
    return broadcast_all(tensors, comm, root);
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "broadcast_parameters: libtorch: {}", error.what());
  }
}

Status broadcast_optimizer_state(::torch::optim::Optimizer& optimizer, Communicator& comm, int root) {
  const std::string_view what = "broadcast_optimizer_state";
  XOE_TRY(check_same(describe_optimizer(optimizer), comm, what));
  try {
    std::string bytes;
    if (comm.rank() == root) {
      ::torch::serialize::OutputArchive archive;
      optimizer.save(archive);
      std::ostringstream stream;
      archive.save_to(stream);
      bytes = std::move(stream).str();
    }
    std::int64_t size = static_cast<std::int64_t>(bytes.size());
    XOE_TRY(comm.broadcast(Tensor(&size, 1), root, {.name = what}));
    bytes.resize(static_cast<std::size_t>(size));
    XOE_TRY(comm.broadcast(Tensor(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), root, {.name = what}));
    if (comm.rank() == root) return {};
    ::torch::serialize::InputArchive archive;
    std::istringstream stream(std::move(bytes));
    archive.load_from(stream, device_of(optimizer));
    optimizer.state().clear();  // load() adds, and root may have less state than this rank
    optimizer.load(archive);
    return {};
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "{}: libtorch: {}", what, error.what());
  }
}

}  // namespace xoe::torch
