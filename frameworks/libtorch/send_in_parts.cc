#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "frameworks/libtorch/optimizer_state.h"
#include "xoe/torch/broadcast.h"

namespace xoe::torch {
namespace {

// Smaller tensors travel together, larger ones in ranges.
constexpr std::size_t kPackedBytes = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// What goes in one exchange: bytes [begin, end) of all tensors, back to back, which lie in tensors [first, last). Each
// of the ranks that give has an equal part of them.
struct ExchangedRange {
  std::size_t first = 0, last = 0;
  std::size_t begin = 0, end = 0;
};

std::vector<ExchangedRange> plan_ranges(std::span<const at::Tensor> tensors) {
  std::vector<ExchangedRange> ranges;
  std::size_t begin = 0;  // of the tensor
  bool packs = false;     // the last range takes more small tensors
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t bytes = tensors[i].nbytes();
    const bool small = bytes <= kPackedBytes;
    if (bytes == 0) continue;
    if (small && packs && ranges.back().end - ranges.back().begin + bytes <= kPieceBytes) {
      ranges.back().last = i + 1;
      ranges.back().end = begin + bytes;
    } else {
      for (std::size_t at = 0; at < bytes; at += kPieceBytes)
        ranges.push_back({i, i + 1, begin + at, begin + std::min(at + kPieceBytes, bytes)});
    }
    packs = small;
    begin += bytes;
  }
  return ranges;
}

// How the elements lie in memory. Tensors with gaps are like those of no other rank.
std::uint64_t order_of(const at::Tensor& tensor, int rank) {
  std::uint64_t order = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    order = mix(mix(order + static_cast<std::uint64_t>(tensor.size(d))) +
                static_cast<std::uint64_t>(tensor.size(d) > 1 ? tensor.stride(d) : 0));
  return tensor.is_non_overlapping_and_dense() ? order : mix(order + 1 + static_cast<std::uint64_t>(rank));
}

// Whether all ranks have the elements of all tensors in the same order in memory. Collective.
Result<bool> lie_alike(std::span<const at::Tensor> tensors, Communicator& comm) {
  std::uint64_t order = 0;
  bool dense = true;
  for (const at::Tensor& tensor : tensors) {
    order = mix(order) + order_of(tensor, comm.rank());
    dense = dense && tensor.is_non_overlapping_and_dense();
  }
  const auto mine = static_cast<std::int64_t>(order);
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  XOE_TRY(comm.allgather(ConstTensor(&mine, 1), Tensor(all.data(), all.size()), {.name = "send_in_parts"}));
  return dense && std::ranges::all_of(all, [mine](std::int64_t other) { return other == mine; });
}

// Memory that is written before it is read, so that nothing clears it.
class Scratch {
 public:
  std::uint8_t* of(std::size_t bytes) {
    if (bytes > bytes_) memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(bytes_ = bytes);
    return memory_.get();
  }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
  std::size_t bytes_ = 0;
};

class PartsExchange {
 public:
  PartsExchange(std::span<const at::Tensor> tensors, Communicator& comm, std::span<const int> from,
                std::span<const int> to)
      : tensors_(tensors), comm_(comm), from_(from), to_(to) {}

  Status run(Arrival arrival);

 private:
  // The tensor's bytes on this host, in the order in which they travel.
  const std::uint8_t* bytes_of(std::size_t tensor);
  // Copies bytes [begin, end) of all, which lie in tensors from `first` on.
  void pack(std::size_t first, std::size_t begin, std::size_t end, std::uint8_t* to);
  // Once for each rank that gets them, one behind the other.
  const std::uint8_t* part_to_send(const ExchangedRange& range, std::size_t begin, std::size_t end);
  std::uint8_t* place_for(const ExchangedRange& range);
  Status exchange(const ExchangedRange& range);
  void unpack(const std::uint8_t* bytes, std::size_t first, std::size_t last);
  bool takes_directly(const at::Tensor& tensor) const { return tensor.is_cpu() && (alike_ || tensor.is_contiguous()); }

  std::span<const at::Tensor> tensors_;
  Communicator& comm_;
  std::span<const int> from_, to_;
  bool alike_ = false;
  bool receives_ = false;
  std::vector<std::size_t> begins_;  // of the tensors, among all bytes
  std::size_t host_of_ = SIZE_MAX;   // the tensor of which `host_` is a copy
  at::Tensor host_;
  Scratch sent_, packed_;
  std::uint8_t* whole_ = nullptr;  // all bytes, until the last has arrived; null: they go to the tensors at once
};

const std::uint8_t* PartsExchange::bytes_of(std::size_t tensor) {
  const at::Tensor& own = tensors_[tensor];
  if (takes_directly(own)) return static_cast<const std::uint8_t*>(own.data_ptr());
  if (host_of_ != tensor) {
    host_ = own.detach().to(at::kCPU);  // with its order, where it has no gaps
    if (!alike_) host_ = host_.contiguous();
    host_of_ = tensor;
  }
  return static_cast<const std::uint8_t*>(host_.data_ptr());
}

void PartsExchange::pack(std::size_t first, std::size_t begin, std::size_t end, std::uint8_t* to) {
  for (std::size_t i = first; i < tensors_.size() && begins_[i] < end; ++i) {
    const std::size_t from = std::max(begin, begins_[i]), until = std::min(end, begins_[i] + tensors_[i].nbytes());
    if (from < until) std::memcpy(to + (from - begin), bytes_of(i) + (from - begins_[i]), until - from);
  }
}

const std::uint8_t* PartsExchange::part_to_send(const ExchangedRange& range, std::size_t begin, std::size_t end) {
  if (to_.size() == 1 && range.last == range.first + 1) return bytes_of(range.first) + (begin - begins_[range.first]);
  const std::size_t bytes = end - begin;
  std::uint8_t* const copies = sent_.of(bytes * to_.size());
  pack(range.first, begin, end, copies);
  for (std::size_t copy = 1; copy < to_.size(); ++copy) std::memcpy(copies + copy * bytes, copies, bytes);
  return copies;
}

std::uint8_t* PartsExchange::place_for(const ExchangedRange& range) {
  if (whole_ != nullptr) return whole_ + range.begin;
  if (range.last == range.first + 1)
    return static_cast<std::uint8_t*>(tensors_[range.first].data_ptr()) + (range.begin - begins_[range.first]);
  return packed_.of(range.end - range.begin);
}

void PartsExchange::unpack(const std::uint8_t* bytes, std::size_t first, std::size_t last) {
  for (const at::Tensor& tensor : tensors_.subspan(first, last - first)) {
    if (tensor.nbytes() == 0) continue;
    const bool direct = takes_directly(tensor);
    const at::Tensor host = direct ? tensor
                            : alike_
                                ? at::empty_like(tensor, tensor.options().device(at::kCPU), at::MemoryFormat::Preserve)
                                : at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    std::memcpy(host.data_ptr(), bytes, tensor.nbytes());
    if (!direct) tensor.copy_(host);
    bytes += tensor.nbytes();
  }
}

Status PartsExchange::exchange(const ExchangedRange& range) {
  const std::size_t total = range.end - range.begin;
  const auto begin_of = [&](std::size_t part) {
    return total / from_.size() * part + total % from_.size() * part / from_.size();
  };
  std::vector<std::size_t> send_counts(static_cast<std::size_t>(comm_.size()));
  std::vector<std::size_t> receive_counts(send_counts.size());
  const std::uint8_t* sent = nullptr;
  std::size_t sent_bytes = 0;
  for (std::size_t part = 0; part < from_.size(); ++part) {
    const std::size_t begin = begin_of(part), end = begin_of(part + 1);
    if (receives_) receive_counts[static_cast<std::size_t>(from_[part])] = end - begin;
    if (from_[part] != comm_.rank()) continue;
    for (const int rank : to_) send_counts[static_cast<std::size_t>(rank)] = end - begin;
    sent_bytes = (end - begin) * to_.size();
    if (sent_bytes > 0) sent = part_to_send(range, range.begin + begin, range.begin + end);
  }
  std::uint8_t* const place = receives_ ? place_for(range) : nullptr;
  XOE_TRY(comm_.alltoall(ConstTensor(sent, sent_bytes), send_counts, Tensor(place, receives_ ? total : 0),
                         receive_counts, {.name = "send_in_parts"}));
  if (receives_ && whole_ == nullptr && range.last > range.first + 1) unpack(place, range.first, range.last);
  return {};
}

Status PartsExchange::run(Arrival arrival) {
  std::size_t total = 0;
  for (const at::Tensor& tensor : tensors_) {
    begins_.push_back(total);
    total += tensor.nbytes();
  }
  if (total == 0 || to_.empty()) return {};
  XOE_ASSIGN(alike_, lie_alike(tensors_, comm_));
  receives_ = std::ranges::find(to_, comm_.rank()) != to_.end();
  const bool direct =
      std::ranges::all_of(tensors_, [this](const at::Tensor& tensor) { return takes_directly(tensor); });
  Scratch whole;
  if (receives_ && (arrival == Arrival::kTogether || !direct)) whole_ = whole.of(total);
  for (const ExchangedRange& range : plan_ranges(tensors_)) XOE_TRY(exchange(range));
  if (whole_ != nullptr) unpack(whole_, 0, tensors_.size());
  return {};
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

}  // namespace

Status send_in_parts(std::span<const at::Tensor> tensors, Communicator& comm, std::span<const int> from,
                     std::span<const int> to, Arrival arrival) {
  const at::NoGradGuard no_grad;
  try {
    return PartsExchange(tensors, comm, from, to).run(arrival);
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
