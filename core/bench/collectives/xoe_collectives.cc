// Xoe under core/bench/collectives/harness.h.   xoe_bench_collectives zero-copy | staged
#include <sys/mman.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

#include "core/bench/collectives/harness.h"
#include "xoe/xoe.h"

namespace {

class XoeEngine {
 public:
  XoeEngine(xoe::Communicator world, bool zero_copy) : world_(std::move(world)), zero_copy_(zero_copy) {}

  const xoe::Communicator& world() const { return world_; }

  void* acquire(std::size_t bytes) {
    if (!zero_copy_) {
      void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return data == MAP_FAILED ? nullptr : data;
    }
    auto buffer = world_.shared_buffer(bytes);
    if (!buffer) {
      std::cerr << buffer.error().to_string() << '\n';
      return nullptr;
    }
    void* const data = buffer->data();
    buffers_[data] = std::move(*buffer);
    return data;
  }

  void release(void* data, std::size_t bytes) {
    if (!zero_copy_) munmap(data, bytes);
    buffers_.erase(data);
  }

  bool run(const XoeBenchCall& call) {
    static constexpr xoe::DType kDTypes[] = {xoe::DType::kFloat32, xoe::DType::kBfloat16, xoe::DType::kFloat16};
    const xoe::Status done = run(call, kDTypes[call.dtype], static_cast<std::size_t>(world_.size()));
    if (!done) std::cerr << done.error().to_string() << '\n';
    return done.has_value();
  }

 private:
  xoe::Status run(const XoeBenchCall& call, xoe::DType dtype, std::size_t size) {
    const xoe::Tensor whole(call.data, call.count, dtype);
    const std::size_t part = call.count / size;
    switch (call.collective) {
      case kBenchBroadcast: return world_.broadcast(whole, 0);
      case kBenchAllgather: {
        auto* const own = static_cast<std::byte*>(call.data) +
                          static_cast<std::size_t>(world_.rank()) * part * xoe::dtype_size(dtype);
        return world_.allgather(xoe::ConstTensor(own, part, dtype), whole);
      }
      case kBenchAlltoall: {
        const std::vector<std::size_t> parts(size, part);
        return world_.alltoall(whole, parts, xoe::Tensor(call.out, call.count, dtype), parts);
      }
      default: return world_.allreduce(whole);
    }
  }

  xoe::Communicator world_;
  bool zero_copy_;
  std::map<void*, xoe::SharedBuffer> buffers_;
};

XoeEngine& self(void* context) { return *static_cast<XoeEngine*>(context); }

}  // namespace

int main(int argc, char** argv) {
  const std::string_view memory = argc == 2 ? argv[1] : "";
  if (memory != "zero-copy" && memory != "staged") {
    std::cerr << "usage: xoe_bench_collectives zero-copy|staged\n";
    return 2;
  }
  auto world = xoe::init();
  if (!world) {
    std::cerr << world.error().to_string() << '\n';
    return 1;
  }
  XoeEngine engine(std::move(*world), memory == "zero-copy");
  const XoeBenchEngine callbacks{
      &engine,
      [](void*, int, int) { return 1; },
      [](void* context, std::size_t bytes) { return self(context).acquire(bytes); },
      [](void* context, void* data, std::size_t bytes) { self(context).release(data, bytes); },
      [](void* context, const XoeBenchCall* call) { return self(context).run(*call) ? 1 : 0; },
  };
  return xoe_bench_serve(std::getenv("XOE_BENCH_SYNC"), engine.world().rank(), engine.world().size(), &callbacks);
}
