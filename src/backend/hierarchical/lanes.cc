#include "backend/hierarchical/lanes.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/hierarchical/call.h"
#include "base/error.h"
#include "reduce/reduce.h"

namespace xoe::hierarchical {
namespace {

// Up to here everybody's part travels with the check of the arguments, and each host reduces by itself.
constexpr std::size_t kSmall = std::size_t{8} << 10;

template <class T>
void widen(const void* in, std::int64_t* out, std::size_t count) {
  std::copy_n(static_cast<const T*>(in), count, out);
}

// Integers toward zero.
template <class Out, class In>
void divide(const In* in, void* out, std::size_t count, In by) {
  for (std::size_t i = 0; i < count; ++i) static_cast<Out*>(out)[i] = static_cast<Out>(in[i] / by);
}

template <class Body>
void with_integer(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kUint8: return body(std::uint8_t{});
    case DType::kInt8: return body(std::int8_t{});
    case DType::kInt16: return body(std::int16_t{});
    case DType::kInt32: return body(std::int32_t{});
    default: return body(std::int64_t{});
  }
}

}  // namespace

Lanes::Lanes(const Placement& placement, Backend& local, bool flat, Connect connect)
    : placement_(placement), local_(local), flat_(flat), connect_(std::move(connect)) {}

Status Lanes::connect() {
  if (flat_) {
    XOE_ASSIGN(net::Net* const net, everybody());
    net_name_ = net->name();
    return {};
  }
  const int lane = placement_.local_rank();
  if (lane >= placement_.lanes()) return {};
  std::vector<int> ranks;
  for (const auto& host : placement_.ranks_of) ranks.push_back(host[static_cast<std::size_t>(lane)]);
  XOE_ASSIGN(auto net, connect_(ranks, fmt::format("lane/{}", lane)));
  net_name_ = net->name();
  keep(lane_, std::move(net));
  return {};
}

// Connected when it is needed first, which is at the same collective on all ranks.
Result<net::Net*> Lanes::everybody() {
  if (everybody_ == nullptr) {
    std::vector<int> ranks(placement_.hosts.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    XOE_ASSIGN(auto net, connect_(ranks, "all"));
    keep(everybody_, std::move(net));
  }
  return everybody_.get();
}

void Lanes::keep(std::unique_ptr<net::Net>& place, std::unique_ptr<net::Net> net) {
  const std::lock_guard lock(nets_mutex_);
  if (aborted_) net->abort();
  place = std::move(net);
}

void Lanes::abort() noexcept {
  const std::lock_guard lock(nets_mutex_);
  aborted_ = true;
  if (lane_ != nullptr) lane_->abort();
  if (everybody_ != nullptr) everybody_->abort();
}

Status Lanes::run(const Collective& collective, std::uint64_t number, net::Clock::time_point deadline) {
  const Call call(collective, number, deadline);
  if (collective.kind == CollectiveKind::kAlltoall) return alltoall(call);
  if (flat_) return run_flat(call);
  switch (collective.kind) {
    case CollectiveKind::kAllreduce: return allreduce(call);
    case CollectiveKind::kBroadcast: return broadcast(call);
    case CollectiveKind::kAllgather: return allgather(call);
    case CollectiveKind::kReduceScatter: return reduce_scatter(call);
    default: return barrier(call);
  }
}

Result<std::byte*> Lanes::scratch(std::size_t bytes) {
  if (scratch_.bytes() < bytes) {
    scratch_ = {};
    XOE_ASSIGN(scratch_, local_.shared_buffer(std::max(bytes, 2 * scratch_.bytes())));
  }
  return scratch_.data();
}

Status Lanes::local(const Call& call, Collective collective) {
  collective.options.name = call.collective.options.name;
  collective.options.timeout = call.time_left();
  return local_.run(collective);
}

Status Lanes::on(net::Net& net, const Call& call, Collective collective) {
  Status status = net.run(collective, call.deadline);
  if (status) return status;
  return failure(status.error().code(), "{}: between hosts: {}", call.title(), status.error().message());
}

Result<std::vector<Greeting>> Lanes::agree(net::Net& net, std::size_t members, const Call& call,
                                           std::span<const std::byte> data) {
  Greeting mine(call, placement_.rank);
  std::copy(data.begin(), data.end(), mine.data);
  std::vector<Greeting> all(members);
  const std::vector<std::size_t> counts(members, sizeof mine);
  XOE_TRY(on(net, call,
             {.kind = CollectiveKind::kAllgather,
              .dtype = DType::kUint8,
              .in = &mine,
              .out = all.data(),
              .in_count = sizeof mine,
              .out_count = members * sizeof mine,
              .send_counts = counts}));
  for (const Greeting& theirs : all)
    if (!mine.agrees(theirs))
      return failure(Code::kInvalidArgument, "{}: ranks disagree: rank {} called {}, rank {} called {}", call.title(),
                     mine.rank, mine.text(), theirs.rank, theirs.text());
  return all;
}

Result<std::vector<Greeting>> Lanes::agree_in_lane(const Call& call, std::span<const std::byte> data) {
  return agree(*lane_, static_cast<std::size_t>(placement_.host_count()), call, data);
}

Status Lanes::allreduce(const Call& call) {
  const Collective& c = call.collective;
  if (!c.segments.empty()) return packed(call, &Lanes::allreduce);
  if (c.op != ReduceOp::kAverage) return allreduce_lanes(call, c.in, c.out, c.dtype, c.in_count, c.op);
  if (is_integer(c.dtype)) return integer_average(call, c.in, c.out);
  if (is_short_float(c.dtype)) return short_average(call, c.in, c.out);
  XOE_TRY(allreduce_lanes(call, c.in, c.out, c.dtype, c.in_count, ReduceOp::kSum));
  average_floats(c);
  return {};
}

// Of the sums in its output.
void Lanes::average_floats(const Collective& c) const {
  const auto size = placement_.hosts.size();
  if (c.dtype == DType::kFloat32)
    divide<float>(static_cast<const float*>(c.out), c.out, c.out_count, static_cast<float>(size));
  else
    divide<double>(static_cast<const double*>(c.out), c.out, c.out_count, static_cast<double>(size));
}

// All hosts have as many ranks.
bool Lanes::even() const {
  const auto same = [&](const auto& ranks) { return ranks.size() == placement_.neighbours().size(); };
  return std::ranges::all_of(placement_.ranks_of, same);
}

// Their sum may lie beyond the type's range: each host averages, and then the hosts do. Where hosts have more ranks
// than others, as float32.
Status Lanes::short_average(const Call& call, const void* in, void* out) {
  const Collective& c = call.collective;
  if (even()) return allreduce_lanes(call, in, out, c.dtype, c.in_count, ReduceOp::kAverage);
  std::vector<float> wide(c.in_count);
  reduce::cast(in, c.dtype, wide.data(), DType::kFloat32, wide.size());
  XOE_TRY(allreduce_lanes(call, wide.data(), wide.data(), DType::kFloat32, wide.size(), ReduceOp::kSum));
  divide<float>(wide.data(), wide.data(), wide.size(), static_cast<float>(placement_.hosts.size()));
  reduce::cast(wide.data(), DType::kFloat32, out, c.dtype, wide.size());
  return {};
}

// The arrays one after the other in memory of our own.
Status Lanes::packed(const Call& call, Status (Lanes::*body)(const Call&)) {
  const Collective& c = call.collective;
  const std::size_t element = dtype_size(c.dtype);
  std::vector<std::byte> memory(c.in_count * element);
  std::byte* at = memory.data();
  for (const Segment& segment : c.segments) {
    if (segment.count != 0) std::memcpy(at, segment.in, segment.count * element);
    at += segment.count * element;
  }
  Collective whole = c;
  whole.segments = {};
  whole.in = whole.out = memory.data();
  XOE_TRY((this->*body)({.collective = whole, .number = call.number, .deadline = call.deadline}));
  at = memory.data();
  for (const Segment& segment : c.segments) {
    if (segment.count != 0) std::memcpy(segment.out, at, segment.count * element);
    at += segment.count * element;
  }
  return {};
}

// The sum in 64 bits, which no type that is smaller holds.
Status Lanes::integer_average(const Call& call, const void* in, void* out) {
  const Collective& c = call.collective;
  std::vector<std::int64_t> wide(c.in_count);
  with_integer(c.dtype, [&](auto type) { widen<decltype(type)>(in, wide.data(), wide.size()); });
  XOE_TRY(allreduce_lanes(call, wide.data(), wide.data(), DType::kInt64, wide.size(), ReduceOp::kSum));
  const auto size = static_cast<std::int64_t>(placement_.hosts.size());
  with_integer(c.dtype, [&](auto type) { divide<decltype(type)>(wide.data(), out, wide.size(), size); });
  return {};
}

Status Lanes::allreduce_lanes(const Call& call, const void* in, void* out, DType dtype, std::size_t count,
                              ReduceOp op) {
  const auto local_size = static_cast<int>(placement_.neighbours().size());
  const auto lane = static_cast<std::size_t>(placement_.local_rank());
  const std::size_t element = dtype_size(dtype);
  const auto counts = lane_counts(count, local_size, placement_.lanes(), kLeastLane / element);
  const Part part{.dtype = dtype, .op = op, .count = counts[lane]};
  const bool carries = lane == 0 || part.count > 0;
  if (local_size == 1) {
    if (in != out && count != 0) std::memcpy(out, in, count * element);
    return across(call, part, out);
  }
  XOE_ASSIGN(std::byte* const own, scratch(std::max<std::size_t>(part.count * element, 1)));
  XOE_TRY(local(call, {.kind = CollectiveKind::kReduceScatter,
                       .dtype = dtype,
                       .op = op,
                       .in = in,
                       .out = own,
                       .in_count = count,
                       .out_count = part.count,
                       .send_counts = counts}));
  if (carries) XOE_TRY(across(call, part, own));
  return local(call, {.kind = CollectiveKind::kAllgather,
                      .dtype = dtype,
                      .in = own,
                      .out = out,
                      .in_count = part.count,
                      .out_count = count,
                      .send_counts = counts});
}

// `data` holds this host's result of its part.
Status Lanes::across(const Call& call, const Part& part, void* data) {
  if (part.count * dtype_size(part.dtype) <= kSmall) return across_small(call, part, data);
  XOE_TRY(agree_in_lane(call));
  return on(*lane_, call,
            {.kind = CollectiveKind::kAllreduce,
             .dtype = part.dtype,
             .op = part.op,
             .in = data,
             .out = data,
             .in_count = part.count,
             .out_count = part.count});
}

// Everybody gets everybody's part, and reduces them in the order of the hosts.
Status Lanes::across_small(const Call& call, const Part& part, void* data) {
  const std::size_t bytes = part.count * dtype_size(part.dtype);
  const auto hosts = static_cast<std::size_t>(placement_.host_count());
  const std::span mine(static_cast<const std::byte*>(data), bytes);
  const bool fits = bytes <= Greeting::kInline;
  XOE_ASSIGN(const auto greetings, agree_in_lane(call, fits ? mine : std::span<const std::byte>()));
  if (bytes == 0) return {};
  std::vector<std::byte> gathered;
  std::vector<const void*> ins;
  if (fits) {
    for (const Greeting& greeting : greetings) ins.push_back(greeting.data);
  } else {
    gathered.resize(hosts * bytes);
    const std::vector<std::size_t> counts(hosts, bytes);
    XOE_TRY(on(*lane_, call,
               {.kind = CollectiveKind::kAllgather,
                .dtype = DType::kUint8,
                .in = data,
                .out = gathered.data(),
                .in_count = bytes,
                .out_count = gathered.size(),
                .send_counts = counts}));
    for (std::size_t host = 0; host < hosts; ++host) ins.push_back(gathered.data() + host * bytes);
  }
  ins[static_cast<std::size_t>(placement_.host())] = data;  // the result's place, which holds the same
  void* const out[] = {data};
  reduce::reduce_into(out, ins, part.count, part.dtype, part.op);
  return {};
}

}  // namespace xoe::hierarchical
