#include "core/engine/telemetry/metrics.h"

#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "core/base/prometheus.h"
#include "core/base/world_changes.h"

namespace xoe::engine {
namespace {

std::string print_labels(int rank, const Metrics::Labels& labels) {
  std::string out = fmt::format("process_rank=\"{}\"", rank);
  for (const auto& [name, value] : labels) out += fmt::format(",{}=\"{}\"", name, escape_label(value));
  return out;
}

// Prints metrics and their samples.
class Printer {
 public:
  Printer(std::string& out, const std::string& labels) : out_(out), labels_(labels) {}

  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void sample(auto value) { fmt::format_to(std::back_inserter(out_), "{}{{{}}} {}\n", name_, labels_, value); }
  void sample(std::string_view label, std::string_view of, auto value) {
    fmt::format_to(std::back_inserter(out_), "{}{{{},{}=\"{}\"}} {}\n", name_, labels_, label, escape_label(of), value);
  }

 private:
  std::string& out_;
  const std::string& labels_;
  std::string_view name_;
};

std::uint64_t read(const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

Metrics::Metrics(int rank, int size, const Labels& labels)
    : labels_(print_labels(rank, labels)), knobs_(Knobs().encode()), waited_ns_(static_cast<std::size_t>(size)) {}

void Metrics::operation(OpKind kind, std::size_t bytes) noexcept {
  OfKind& of = kinds_[static_cast<std::size_t>(kind)];
  of.operations.fetch_add(1, std::memory_order_relaxed);
  of.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void Metrics::batch(std::size_t tensors) noexcept {
  batches_.fetch_add(1, std::memory_order_relaxed);
  if (tensors > 1) fused_tensors_.fetch_add(tensors, std::memory_order_relaxed);
}

void Metrics::waited_for(int rank, std::chrono::nanoseconds time) noexcept {
  if (rank < 0 || static_cast<std::size_t>(rank) >= waited_ns_.size() || time.count() <= 0) return;
  waited_ns_[static_cast<std::size_t>(rank)].fetch_add(static_cast<std::uint64_t>(time.count()),
                                                       std::memory_order_relaxed);
}

void Metrics::error(Code code) noexcept {
  errors_[static_cast<std::size_t>(code)].fetch_add(1, std::memory_order_relaxed);
}

std::string Metrics::text() const {
  std::string out;
  Printer print(out, labels_);
  print.metric("xoe_operations_total", "counter", "Operations that have completed.");
  for (std::size_t i = 0; i < kKinds; ++i)
    print.sample("kind", op_kind_name(static_cast<OpKind>(i)), read(kinds_[i].operations));
  print.metric("xoe_bytes_total", "counter", "Bytes of the tensors of completed operations.");
  for (std::size_t i = 0; i < kKinds; ++i)
    print.sample("kind", op_kind_name(static_cast<OpKind>(i)), read(kinds_[i].bytes));
  print.metric("xoe_batches_total", "counter", "Collectives that were run.");
  print.sample(read(batches_));
  print.metric("xoe_fused_tensors_total", "counter", "Tensors that shared a collective with others.");
  print.sample(read(fused_tensors_));
  print.metric("xoe_gpu_collectives_total", "counter",
               "Collectives on GPU memory, by NCCL or staged through the host.");
  for (const GpuTransport transport : {GpuTransport::kNccl, GpuTransport::kStaged})
    print.sample("transport", gpu_transport_name(transport),
                 read(gpu_collectives_[static_cast<std::size_t>(transport)]));
  print.metric("xoe_steps_total", "counter", "Training steps that have ended.");
  print.sample(read(steps_));
  print.metric("xoe_wait_seconds_total", "counter", "Time for which this process waited for a rank that was the last.");
  for (std::size_t rank = 0; rank < waited_ns_.size(); ++rank)
    if (const auto ns = read(waited_ns_[rank]); ns > 0)
      print.sample("rank", std::to_string(rank), static_cast<double>(ns) * 1e-9);
  const WorldChanges& changes = world_changes();
  print.metric("xoe_resizes_total", "counter", "How often this process has joined another version of the world.");
  print.sample(read(changes.count));
  print.metric("xoe_resize_seconds_total", "counter", "Time that this took.");
  print.sample(static_cast<double>(read(changes.nanoseconds)) * 1e-9);
  print.metric("xoe_steps_redone_total", "counter", "Steps of `xoe train` that were computed again after a loss.");
  print.sample(read(changes.steps_redone));
  print.metric("xoe_queue_depth", "gauge", "Operations that are submitted and not completed.");
  print.sample(read(queue_depth_));
  print.metric("xoe_errors_total", "counter", "Operations that failed.");
  for (std::size_t i = 0; i < kCodes; ++i) print.sample("code", code_name(static_cast<Code>(i)), read(errors_[i]));
  print.metric("xoe_stalled", "gauge", "Tensors that some ranks have submitted and others have not for too long.");
  print.sample(read(stalled_));
  const Knobs knobs = Knobs::decode(knobs_.load(std::memory_order_relaxed)).value_or(Knobs());
  print.metric("xoe_fusion_threshold_bytes", "gauge", "What one fused collective carries at most.");
  print.sample(knobs.fusion_threshold);
  print.metric("xoe_pack_limit_bytes", "gauge", "Larger tensors travel on their own.");
  print.sample(knobs.pack_limit);
  print.metric("xoe_in_flight", "gauge", "Collectives of a process set under way at once, at most.");
  print.sample(knobs.in_flight);
  return out;
}

}  // namespace xoe::engine
