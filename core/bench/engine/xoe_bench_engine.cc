// Engines over Xoe's transport under core/bench/engine/steps.h.   xoe_bench_engine private | shared | cycle [TRACE]
// private, shared: Xoe's engine, and where the tensors lie. cycle: cycle_engine.h, private memory. TRACE: path for
// `record`.
#include <sys/mman.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bench/engine/cycle_engine.h"
#include "core/bench/engine/steps.h"
#include "xoe/engine.h"
#include "xoe/xoe.h"

namespace {

constexpr std::size_t kAlignment = 64;

// Anonymous memory of this process.
class PrivateMemory {
 public:
  explicit PrivateMemory(std::size_t bytes) : bytes_(bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) data_ = static_cast<std::byte*>(data);
  }
  PrivateMemory(const PrivateMemory&) = delete;
  ~PrivateMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

bool good(const xoe::Status& status) {
  if (!status) std::cerr << status.error().to_string() << '\n';
  return status.has_value();
}

class Bench {
 public:
  Bench(xoe::Communicator world, std::string_view design, std::string trace)
      : world_(std::move(world)), cycles_(design == "cycle"), shares_(design == "shared"), trace_(std::move(trace)) {}

  const xoe::Communicator& world() const { return world_; }

  bool prepare(std::size_t count, const std::size_t* elements, void** data) {
    std::size_t bytes = 0;
    for (std::size_t t = 0; t < count; ++t) bytes += padded(elements[t]);
    auto comm = world_.split(0);
    if (!comm || !*comm) return false;
    if (!cycles_ && !make_engine(std::move(**comm))) return false;
    std::byte* place = memory(bytes);
    if (place == nullptr) return false;
    std::vector<xoe::bench::CycleEngine::Tensor> tensors;
    for (std::size_t t = 0; t < count; ++t) {
      data[t] = place;
      shapes_.push_back(static_cast<std::int64_t>(elements[t]));
      names_.push_back("layer" + std::to_string(t) + ".weight");
      tensors.push_back({reinterpret_cast<float*>(place), elements[t]});
      place += padded(elements[t]);
    }
    for (std::size_t t = 0; t < count; ++t)
      args_.push_back({data[t], data[t], xoe::DType::kFloat32, std::span(&shapes_[t], 1)});
    handles_.resize(count);
    if (cycles_) cycle_.emplace(std::move(**comm), std::move(tensors));
    return true;
  }

  void release() {
    handles_.clear();
    engine_.reset();
    cycle_.reset();
    private_.reset();
    shared_ = {};
    args_.clear();
    names_.clear();
    shapes_.clear();
  }

  bool step(const int* order) {
    if (cycle_) return step_of_cycles(order);
    if (args_.size() == 1) return good(engine_->run(request(0)));
    for (std::size_t k = 0; k < args_.size(); ++k) {
      auto handle = engine_->submit(request(static_cast<std::size_t>(order[k])));
      if (!handle) return good(xoe::failure(handle.error()));
      handles_[k] = std::move(*handle);
    }
    for (xoe::EngineHandle& handle : handles_)
      if (!good(handle.wait())) return false;
    return true;
  }

  bool record(bool on) {
    if (!engine_ || trace_.empty()) return false;
    return good(on ? engine_->start_timeline(trace_) : engine_->stop_timeline());
  }

 private:
  static std::size_t padded(std::size_t elements) {
    return (elements * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  }

  bool make_engine(xoe::Communicator comm) {
    std::vector<std::string> warnings;
    auto options = xoe::read_engine_options(warnings);
    if (!options) return good(xoe::failure(options.error()));
    // A figure is too short to tune in; what is shown is what everybody starts with.
    if (std::getenv("XOE_TUNE") == nullptr) options->tune = false;
    auto engine = xoe::Engine::create(std::move(comm), std::move(*options));
    if (!engine) return good(xoe::failure(engine.error()));
    engine_ = std::move(*engine);
    return true;
  }

  std::byte* memory(std::size_t bytes) {
    if (!shares_) {
      private_ = std::make_unique<PrivateMemory>(bytes);
      return private_->data();
    }
    auto buffer = engine_->shared_buffer(bytes);
    if (!buffer) {
      std::cerr << buffer.error().to_string() << '\n';
      return nullptr;
    }
    shared_ = std::move(*buffer);
    return shared_.data();
  }

  xoe::Request request(std::size_t t) const {
    return {.name = names_[t], .op = {.kind = xoe::OpKind::kAllreduce}, .tensors = std::span(&args_[t], 1)};
  }

  bool step_of_cycles(const int* order) {
    for (std::size_t k = 0; k < args_.size(); ++k) cycle_->submit(static_cast<std::size_t>(order[k]));
    for (std::size_t k = 0; k < args_.size(); ++k)
      if (!cycle_->wait(static_cast<std::size_t>(order[k]))) return false;
    return true;
  }

  xoe::Communicator world_;
  const bool cycles_;
  const bool shares_;
  const std::string trace_;
  std::unique_ptr<PrivateMemory> private_;
  xoe::SharedBuffer shared_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> shapes_;
  std::vector<xoe::TensorArg> args_;
  std::unique_ptr<xoe::Engine> engine_;
  std::optional<xoe::bench::CycleEngine> cycle_;
  std::vector<xoe::EngineHandle> handles_;
};

Bench& self(void* context) { return *static_cast<Bench*>(context); }

}  // namespace

int main(int argc, char** argv) {
  const std::string_view design = argc >= 2 ? argv[1] : "";
  if (design != "private" && design != "shared" && design != "cycle") {
    std::cerr << "usage: xoe_bench_engine private|shared|cycle [TRACE]\n";
    return 2;
  }
  auto world = xoe::init();
  if (!world) {
    std::cerr << world.error().to_string() << '\n';
    return 1;
  }
  Bench bench(std::move(*world), design, argc >= 3 ? argv[2] : "");
  const XoeBenchSteps callbacks{
      &bench,
      [](void* context, int count, const std::size_t* elements, void** data) {
        return self(context).prepare(static_cast<std::size_t>(count), elements, data) ? 1 : 0;
      },
      [](void* context) { self(context).release(); },
      [](void* context, const int* order) { return self(context).step(order) ? 1 : 0; },
      [](void* context, int on) { return self(context).record(on != 0) ? 1 : 0; },
  };
  return xoe_bench_serve_steps(std::getenv("XOE_BENCH_SYNC"), bench.world().rank(), bench.world().size(), &callbacks);
}
