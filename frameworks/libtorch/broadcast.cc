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
#include "frameworks/libtorch/optimizer_state.h"
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

// Bytes [begin, begin + part.size()) of all tensors, back to back.
void pack_range(std::span<const at::Tensor> tensors, std::size_t begin, std::span<std::uint8_t> part) {
  std::size_t offset = 0;  // of a tensor
  const std::size_t end = begin + part.size();
  for (const at::Tensor& tensor : tensors) {
    const std::size_t first = std::max(begin, offset);
    const std::size_t last = std::min(end, offset + tensor.nbytes());
    if (first < last) {
      const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
      std::memcpy(&part[first - begin], static_cast<const char*>(host.data_ptr()) + (first - offset), last - first);
    }
    offset += tensor.nbytes();
  }
}

void unpack(std::span<const std::uint8_t> bytes, std::span<const at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    const bool direct = tensor.is_cpu() && tensor.is_contiguous();
    const at::Tensor host = direct ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    std::memcpy(host.data_ptr(), bytes.data(), tensor.nbytes());
    if (!direct) tensor.copy_(host);
    bytes = bytes.subspan(tensor.nbytes());
  }
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

std::vector<at::Tensor> parameters_in_order(const ::torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups())
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

// In the order of the parameters.
std::vector<std::int64_t*> step_counts_of(::torch::optim::Optimizer& optimizer) {
  std::vector<std::int64_t*> counts;
  for (const at::Tensor& parameter : parameters_in_order(optimizer)) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const StateFields fields = fields_of(*found->second);
    counts.insert(counts.end(), fields.numbers.begin(), fields.numbers.end());
  }
  return counts;
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

Status send_in_parts(std::span<const at::Tensor> tensors, Communicator& comm, std::span<const int> from,
                     std::span<const int> to) {
  const at::NoGradGuard no_grad;
  std::size_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.nbytes();
  if (total == 0 || to.empty()) return {};
  const auto begin_of = [&](std::size_t part) {
    return total / from.size() * part + total % from.size() * part / from.size();
  };
  const auto receives = std::ranges::find(to, comm.rank()) != to.end();
  std::vector<std::size_t> send_counts(static_cast<std::size_t>(comm.size()));
  std::vector<std::size_t> receive_counts(send_counts.size());
  std::vector<std::uint8_t> sent;
  try {
    for (std::size_t part = 0; part < from.size(); ++part) {
      const std::size_t bytes = begin_of(part + 1) - begin_of(part);
      if (receives) receive_counts[static_cast<std::size_t>(from[part])] = bytes;
      if (from[part] != comm.rank()) continue;
      for (const int rank : to) send_counts[static_cast<std::size_t>(rank)] = bytes;
      sent.resize(bytes * to.size());
      pack_range(tensors, begin_of(part), std::span(sent).first(bytes));
      for (std::size_t copy = 1; copy < to.size(); ++copy) std::memcpy(&sent[copy * bytes], sent.data(), bytes);
    }
    std::vector<std::uint8_t> received(receives ? total : 0);
    XOE_TRY(comm.alltoall(ConstTensor(sent.data(), sent.size()), send_counts, Tensor(received.data(), received.size()),
                          receive_counts, {.name = "send_in_parts"}));
    if (receives) unpack(received, tensors);
    return {};
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "send_in_parts: libtorch: {}", error.what());
  }
}

Result<std::vector<at::Tensor>> same_optimizer_state(::torch::optim::Optimizer& optimizer, Communicator& comm,
                                                     int root) {
  const auto prototype = make_state(optimizer);
  if (!prototype) return failure(Code::kUnsupported, "the state of this class of optimizer is not known");
  // Of each parameter: whether it has a state, and which tensors that has.
  const std::size_t width = 1 + fields_of(*prototype).tensors.size();
  const std::vector<at::Tensor> parameters = parameters_in_order(optimizer);
  auto& states = optimizer.state();
  std::vector<std::uint8_t> has(std::max<std::size_t>(width * parameters.size(), 1));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto found = states.find(parameters[i].unsafeGetTensorImpl());
    if (found == states.end()) continue;
    std::uint8_t* fact = &has[i * width];
    *fact++ = 1;
    for (const at::Tensor* tensor : fields_of(*found->second).tensors) *fact++ = tensor->defined() ? 1 : 0;
  }
  XOE_TRY(comm.broadcast(Tensor(has.data(), has.size()), root, {.name = "optimizer state"}));
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::uint8_t* fact = &has[i * width];
    void* const key = parameters[i].unsafeGetTensorImpl();
    if (*fact++ == 0) {
      states.erase(key);
      continue;
    }
    if (states.find(key) == states.end()) states[key] = make_state(optimizer);
    for (at::Tensor* tensor : fields_of(*states[key]).tensors) {
      if (*fact++ == 0) {
        *tensor = at::Tensor();
        continue;
      }
      if (!tensor->defined()) *tensor = at::zeros_like(parameters[i].detach());
      tensors.push_back(*tensor);
    }
  }
  std::vector<std::int64_t> counts;
  for (std::int64_t* number : step_counts_of(optimizer)) counts.push_back(*number);
  tensors.push_back(at::tensor(counts, at::kLong));
  return tensors;
}

void set_step_counts(::torch::optim::Optimizer& optimizer, const at::Tensor& counts) {
  const auto* count = counts.data_ptr<std::int64_t>();
  for (std::int64_t* number : step_counts_of(optimizer)) *number = *count++;
}

}  // namespace xoe::torch
