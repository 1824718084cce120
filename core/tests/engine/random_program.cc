#include "core/tests/engine/random_program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "core/tests/comm/element.h"

namespace xoe::testing {
namespace {

constexpr OpKind kKinds[] = {OpKind::kAllreduce, OpKind::kAllreduce,       OpKind::kAllreduce,
                             OpKind::kAllreduce, OpKind::kAllgather,       OpKind::kBroadcast,
                             OpKind::kAlltoall,  OpKind::kReduceScatter,   OpKind::kBroadcastBytes,
                             OpKind::kBarrier,   OpKind::kSparseAllreduce, OpKind::kAdasum};

ProgramOp make_op(Random& random, int set, int set_size, int index) {
  ProgramOp op;
  op.kind = kKinds[random() % std::size(kKinds)];
  op.set = set;
  // Names come back in later rounds with other arguments, some also in other sets.
  op.name =
      chance(random, 15) ? "" : fmt::format("tensor.{}", index + (chance(random, 20) ? 100 * pick(random, 1, 30) : 0));
  op.dtype = static_cast<DType>(random() % kDTypeCount);
  if (op.kind == OpKind::kAdasum && !is_float(op.dtype)) op.dtype = DType::kFloat32;
  op.reduce = static_cast<ReduceOp>(random() % kReduceOpCount);
  if (op.dtype == DType::kBool && op.reduce == ReduceOp::kAverage) op.reduce = ReduceOp::kMax;
  if (op.kind == OpKind::kSparseAllreduce) op.reduce = ReduceOp::kSum;
  op.root = pick(random, 0, set_size - 1);
  for (int d = pick(random, 0, 2); d > 0; --d) op.row.push_back(pick(random, chance(random, 5) ? 0 : 1, 5));
  const bool large = chance(random, 5);
  op.rows = large ? pick(random, 1000, 60000) : pick(random, chance(random, 10) ? 0 : 1, 12);
  if (op.kind == OpKind::kAlltoall) op.rows = set_size * pick(random, 0, 4);
  const bool groups = op.kind == OpKind::kAllreduce || op.kind == OpKind::kAllgather || op.kind == OpKind::kBroadcast ||
                      op.kind == OpKind::kReduceScatter;
  if (groups && chance(random, 15)) op.tensors = pick(random, 2, 6);
  const bool sums = op.reduce == ReduceOp::kSum || op.reduce == ReduceOp::kAverage;
  if (op.kind == OpKind::kAllreduce && is_float(op.dtype) && sums && chance(random, 15))
    op.compression = chance(random, 50) ? Compression::kFloat16 : Compression::kBfloat16;
  if (op.kind == OpKind::kAllreduce && is_float(op.dtype) && sums && chance(random, 15)) op.prescale = 2;
  if (set_size > 1 && op.kind != OpKind::kBarrier && op.kind != OpKind::kBroadcastBytes && chance(random, 6))
    op.odd_rank = pick(random, 0, set_size - 1);
  op.salt = random();
  return op;
}

// What the i-th element of a tensor is on a set rank: small integers, so that every type holds every result exactly.
int value(const ProgramOp& op, int tensor, int rank, std::int64_t i) {
  if (op.kind == OpKind::kAdasum)
    return 1 + static_cast<int>((op.salt + static_cast<std::uint64_t>(i)) % 3);  // all alike
  if (op.dtype == DType::kBool) return static_cast<int>((op.salt + static_cast<std::uint64_t>(i * 7 + rank)) % 2);
  if (op.reduce == ReduceOp::kProduct && op.kind != OpKind::kAllgather)
    return rank == 0 ? 1 + static_cast<int>(static_cast<std::uint64_t>(i) % 3) : 1;
  return static_cast<int>((op.salt + static_cast<std::uint64_t>(i * 5 + rank * 3 + tensor)) % 4);
}

double reduced(const ProgramOp& op, int tensor, int size, std::int64_t i, const std::vector<bool>& gives) {
  double result = 0;
  bool first = true;
  for (int r = 0; r < size; ++r) {
    if (!gives[static_cast<std::size_t>(r)]) continue;
    const double v = value(op, tensor, r, i) * op.prescale;
    const bool is_bool = op.dtype == DType::kBool;
    if (first)
      result = v;
    else if (op.reduce == ReduceOp::kMin || (is_bool && op.reduce == ReduceOp::kProduct))
      result = std::min(result, v);
    else if (op.reduce == ReduceOp::kMax || is_bool)
      result = std::max(result, v);
    else
      result = op.reduce == ReduceOp::kProduct ? result * v : result + v;
    first = false;
  }
  if (op.reduce != ReduceOp::kAverage) return result;
  result /= size;
  return is_float(op.dtype) ? result : std::trunc(result);
}

// One operation on this rank: its buffers, its request, and what should come of it.
class Act {
 public:
  Act(const ProgramOp& op, int rank, int size, std::vector<bool> gives)
      : op_(op), rank_(rank), size_(size), gives_(std::move(gives)) {
    const int tensors = op.kind == OpKind::kBarrier ? 0 : op.kind == OpKind::kSparseAllreduce ? 2 : op.tensors;
    for (int t = 0; t < tensors; ++t) add_tensor(t);
    for (std::size_t t = 0; t < buffers_.size(); ++t) {
      TensorArg arg{.in = buffers_[t].data(), .out = nullptr, .dtype = dtype(t), .shape = shapes_[t]};
      if (op.kind == OpKind::kAllreduce || op.kind == OpKind::kBroadcast || op.kind == OpKind::kAdasum)
        arg.out = op.salt % 2 == 0 ? buffers_[t].data() : (results_.emplace_back(buffers_[t].size()), nullptr);
      args_.push_back(arg);
    }
    for (std::size_t t = 0, k = 0; t < args_.size(); ++t)
      if (args_[t].out == nullptr && k < results_.size()) args_[t].out = results_[k++].data();
  }

  Request request(ProcessSetId set) const {
    Request r{.name = op_.name, .op = {.kind = op_.kind, .root = op_.root}, .tensors = args_, .process_set = set};
    if (op_.kind == OpKind::kAllreduce || op_.kind == OpKind::kReduceScatter) r.op.reduce = op_.reduce;
    if (op_.kind == OpKind::kAllreduce) r.op.prescale = op_.prescale;
    r.op.compression.kind = op_.compression;
    return r;
  }

  std::string check(const EngineHandle& handle, const Status& status) const {
    if (op_.odd_rank >= 0) {
      if (status) return fmt::format("{}: no error though rank {} differs", title(), op_.odd_rank);
      if (status.error().message().find("ranks disagree") == std::string::npos) return status.error().message();
      return {};
    }
    if (!status) return fmt::format("{}: {}", title(), status.error().to_string());
    for (std::size_t t = 0; t < buffers_.size(); ++t)
      if (auto problem = check_tensor(handle, t); !problem.empty()) return problem;
    return {};
  }

  std::string title() const {
    return fmt::format("{} '{}' {} {} rows {} row [{}] tensors {} set {} rank {}", op_kind_name(op_.kind), op_.name,
                       dtype_name(op_.dtype), reduce_op_name(op_.reduce), op_.rows, fmt::join(op_.row, ","),
                       op_.tensors, op_.set, rank_);
  }

 private:
  DType dtype(std::size_t t) const {
    if (op_.kind == OpKind::kBroadcastBytes) return DType::kUint8;
    return op_.kind == OpKind::kSparseAllreduce && t == 0 ? DType::kInt64 : op_.dtype;
  }

  void add_tensor(int t) {
    const bool indices = op_.kind == OpKind::kSparseAllreduce && t == 0;
    std::vector<std::int64_t> shape{op_.rows_of(rank_)};
    if (!indices) shape.insert(shape.end(), op_.row.begin(), op_.row.end());
    if (op_.odd_rank == rank_ && !indices) shape.push_back(1);
    const std::int64_t count = op_.rows_of(rank_) * (indices ? 1 : op_.row_elements());
    const DType type = dtype(static_cast<std::size_t>(t));
    std::vector<std::byte> data(std::max<std::size_t>(1, static_cast<std::size_t>(count) * dtype_size(type)));
    for (std::int64_t i = 0; i < count; ++i)
      store(data.data() + static_cast<std::size_t>(i) * dtype_size(type), type, value(op_, t, rank_, i));
    shapes_.push_back(std::move(shape));
    buffers_.push_back(std::move(data));
  }

  // Element i of what should have arrived.
  double expected(int t, std::int64_t i) const {
    const std::int64_t row = op_.row_elements();
    switch (op_.kind) {
      case OpKind::kAllreduce: return reduced(op_, t, size_, i, gives_);
      case OpKind::kAdasum: return value(op_, t, 0, i);
      case OpKind::kBroadcast:
      case OpKind::kBroadcastBytes: return value(op_, t, op_.root, i);
      case OpKind::kReduceScatter: {
        std::int64_t first = 0;
        for (int r = 0; r < rank_; ++r) first += op_.rows / size_ + (r < op_.rows % size_ ? 1 : 0);
        return reduced(op_, t, size_, first * row + i, gives_);
      }
      case OpKind::kAlltoall: {
        const std::int64_t part = op_.rows / size_ * row;
        return value(op_, t, static_cast<int>(i / part), rank_ * part + i % part);
      }
      default: break;
    }
    const std::int64_t each = op_.kind == OpKind::kSparseAllreduce && t == 0 ? 1 : row;
    for (int r = 0; r < size_; ++r) {
      if (i < op_.rows_of(r) * each) return value(op_, t, r, i);
      i -= op_.rows_of(r) * each;
    }
    return -1;
  }

  std::int64_t expected_count(std::size_t t) const {
    const std::int64_t row = op_.kind == OpKind::kSparseAllreduce && t == 0 ? 1 : op_.row_elements();
    if (op_.kind == OpKind::kReduceScatter) return (op_.rows / size_ + (rank_ < op_.rows % size_ ? 1 : 0)) * row;
    if (op_.kind == OpKind::kBroadcastBytes) return op_.rows_of(op_.root) * row;
    if (op_.kind != OpKind::kAllgather && op_.kind != OpKind::kSparseAllreduce) return op_.rows * row;
    std::int64_t rows = 0;
    for (int r = 0; r < size_; ++r) rows += op_.rows_of(r);
    return rows * row;
  }

  std::string check_tensor(const EngineHandle& handle, std::size_t t) const {
    const std::int64_t count = expected_count(t);
    const std::byte* data = static_cast<const std::byte*>(args_[t].out);
    if (data == nullptr) {
      if (handle.outputs().size() <= t) return title() + ": output missing";
      const Output& output = handle.outputs()[t];
      const auto got = std::accumulate(output.shape.begin(), output.shape.end(), std::int64_t{1}, std::multiplies<>());
      if (got != count) return fmt::format("{}: {} elements, expected {}", title(), got, count);
      data = static_cast<const std::byte*>(output.data);
    }
    const bool rounded =
        op_.dtype == DType::kFloat16 || op_.dtype == DType::kBfloat16 || op_.compression != Compression::kNone;
    for (std::int64_t i = 0; i < count; ++i) {
      const double got = load(data + static_cast<std::size_t>(i) * dtype_size(dtype(t)), dtype(t)),
                   wanted = expected(static_cast<int>(t), i);
      const double slack = std::abs(wanted) * (rounded ? 0.01 : 1e-6);
      if (std::abs(got - wanted) > slack)
        return fmt::format("{}: tensor {} element {} is {}, expected {}", title(), t, i, got, wanted);
    }
    return {};
  }

  const ProgramOp& op_;
  int rank_;
  int size_;
  std::vector<bool> gives_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::vector<std::byte>> buffers_, results_;
  std::vector<TensorArg> args_;
};

// The ops of a round that this rank submits, and where it stands with them.
class Round {
 public:
  Round(Engine& engine, const Program& program, const ProgramRound& round, const std::vector<ProcessSetId>& ids)
      : engine_(engine), ids_(ids) {
    const int me = engine.topology().rank;
    for (std::size_t i = 0; i < round.ops.size(); ++i) {
      const ProgramOp& op = round.ops[i];
      const auto& members = program.sets[static_cast<std::size_t>(op.set)];
      const auto place = std::find(members.begin(), members.end(), me);
      std::vector<bool> gives(members.size(), true);
      for (std::size_t r = 0; !round.has_data.empty() && r < members.size(); ++r)
        gives[r] = round.has_data[static_cast<std::size_t>(members[r])] > static_cast<int>(i);
      if (place == members.end() || !gives[static_cast<std::size_t>(place - members.begin())]) continue;
      acts_.push_back(std::make_unique<Act>(op, static_cast<int>(place - members.begin()),
                                            static_cast<int>(members.size()), std::move(gives)));
      ops_.push_back(&op);
    }
    handles_.resize(acts_.size());
  }

  // Submits those of `mine` in this order, with pauses, and waits for some of them.
  void submit(std::vector<std::size_t> mine, Random random) {
    for (const std::size_t i : mine) {
      if (chance(random, 10)) std::this_thread::yield();
      if (chance(random, 2)) std::this_thread::sleep_for(std::chrono::microseconds(pick(random, 1, 300)));
      auto handle = engine_.submit(acts_[i]->request(ids_[static_cast<std::size_t>(ops_[i]->set)]));
      if (!handle) return report(acts_[i]->title() + ": submit: " + handle.error().to_string());
      handles_[i] = *handle;
      if (chance(random, 10)) handles_[i].poll();
    }
  }

  // Unnamed ops meet by their order, so one thread submits them first.
  void submit_all(int threads, Random random) {
    std::vector<std::size_t> named, unnamed;
    for (std::size_t i = 0; i < ops_.size(); ++i) (ops_[i]->name.empty() ? unnamed : named).push_back(i);
    submit(unnamed, random);
    std::shuffle(named.begin(), named.end(), random);
    std::vector<std::jthread> others;
    const auto n = static_cast<std::size_t>(threads);
    for (std::size_t t = 0; t < n; ++t) {
      std::vector<std::size_t> part;
      for (std::size_t i = t; i < named.size(); i += n) part.push_back(named[i]);
      const Random own(random());
      if (t + 1 < n)
        others.emplace_back([this, part, own] { submit(part, own); });
      else
        submit(part, own);
    }
  }

  void wait_all() {
    for (std::size_t i = 0; i < acts_.size() && problem().empty(); ++i) {
      const Status status = handles_[i].wait_for(std::chrono::seconds(30));
      if (const auto wrong = acts_[i]->check(handles_[i], status); !wrong.empty()) report(wrong);
    }
  }

  std::string problem() {
    const std::lock_guard lock(mutex_);
    return problem_;
  }

 private:
  void report(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = text;
  }

  Engine& engine_;
  const std::vector<ProcessSetId>& ids_;
  std::vector<std::unique_ptr<Act>> acts_;
  std::vector<const ProgramOp*> ops_;
  std::vector<EngineHandle> handles_;
  std::mutex mutex_;
  std::string problem_;
};

std::string join_all(Engine& engine) {
  auto joined = engine.submit({.op = {.kind = OpKind::kJoin}});
  if (!joined) return "join: " + joined.error().to_string();
  if (const Status status = joined->wait_for(std::chrono::seconds(30)); !status) return status.error().to_string();
  return joined->last_joined() >= 0 ? "" : "join: no last rank";
}

ProgramRound make_round(Random& random, const Program& program) {
  ProgramRound round;
  const bool joins = chance(random, 15);
  const int most = chance(random, 10) ? 60 : chance(random, 4) ? 250 : 12;
  const int ops = pick(random, 1, most);
  for (int i = 0; i < ops; ++i) {
    const int set = joins ? 0 : pick(random, 0, static_cast<int>(program.sets.size()) - 1);
    const int size = static_cast<int>(program.sets[static_cast<std::size_t>(set)].size());
    round.ops.push_back(make_op(random, set, size, i));
    ProgramOp& op = round.ops.back();
    if (!joins) continue;
    op.kind = OpKind::kAllreduce;
    if (op.name.empty()) op.name = fmt::format("joined.{}", i);
    op.odd_rank = -1;
  }
  // A name is used once in a round, by each set.
  for (std::size_t i = 0; i < round.ops.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!round.ops[i].name.empty() && round.ops[i].name == round.ops[j].name)
        round.ops[i].name += fmt::format("/{}", i);
  if (joins)
    for (int r = 0; r < program.ranks; ++r) round.has_data.push_back(pick(random, 0, ops));
  return round;
}

}  // namespace

Program make_program(std::uint64_t seed, int ranks) {
  Random random(seed);
  Program program;
  program.ranks = ranks;
  program.threads = chance(random, 40) ? pick(random, 2, 3) : 1;
  constexpr int kCapacities[] = {32, 256, 1024};  // the first one grows in a large round
  program.options.cache_capacity = kCapacities[random() % std::size(kCapacities)];
  program.options.fusion_threshold = std::size_t{1} << pick(random, 14, 22);
  program.options.pack_limit = std::size_t{1} << pick(random, 10, 14);
  program.options.in_flight = 1 << pick(random, 0, 3);
  program.options.tune = chance(random, 20);
  program.options.progress_thread = chance(random, 50);
  program.options.warn = [](std::string_view) {};
  // Hosts of one rank and more.
  if (ranks > 1 && chance(random, 40))
    for (int r = 0, host = 0; r < ranks; ++r) program.hosts.push_back(r > 0 && chance(random, 50) ? ++host : host);
  std::vector<int> world(static_cast<std::size_t>(ranks));
  std::iota(world.begin(), world.end(), 0);
  program.sets.push_back(world);
  for (int s = chance(random, 50) ? pick(random, 1, 3) : 0; s > 0; --s) {
    auto members = world;
    std::shuffle(members.begin(), members.end(), random);
    members.resize(static_cast<std::size_t>(pick(random, 1, ranks)));
    program.sets.push_back(std::move(members));
  }
  for (int r = pick(random, 1, 5); r > 0; --r) program.rounds.push_back(make_round(random, program));
  return program;
}

std::string run_program(Engine& engine, const Program& program, std::uint64_t seed) {
  Random random(seed * 1000 + static_cast<std::uint64_t>(engine.topology().rank) + 1);
  std::vector<ProcessSetId> ids{kWorldSet};
  for (std::size_t s = 1; s < program.sets.size(); ++s) {
    const auto id = engine.add_process_set(program.sets[s]);
    if (!id) return "add_process_set: " + id.error().to_string();
    ids.push_back(*id);
  }
  for (const ProgramRound& planned : program.rounds) {
    Round round(engine, program, planned, ids);
    round.submit_all(program.threads, Random(random()));
    const bool joins_first = !planned.has_data.empty() && chance(random, 50);
    std::string problem = round.problem();
    if (problem.empty() && joins_first) problem = join_all(engine);
    if (problem.empty()) round.wait_all();
    if (problem.empty()) problem = round.problem();
    if (problem.empty() && !planned.has_data.empty() && !joins_first) problem = join_all(engine);
    if (!problem.empty()) return problem;
  }
  for (std::size_t s = 1; s < ids.size(); ++s)
    if (const Status removed = engine.remove_process_set(ids[s]); !removed) return removed.error().to_string();
  return {};
}

}  // namespace xoe::testing
