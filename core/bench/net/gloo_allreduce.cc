// Float32 sums over loopback: Xoe's collectives on Gloo's connections, as they are and encrypted, against Gloo's own,
// each member a thread.
//   xoe_bench_gloo [MEMBERS [ROUNDS]]
// Prints by size, for one allreduce of all members in step: the median of the time, and the processor time of all
// members together, which says more where others use the machine too.
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include "core/backend/net/plugin.h"
#include "core/reduce/reduce.h"

namespace {

using xoe::net::Clock;
using Allreduce = std::function<void(std::vector<float>&)>;  // of one member
using Algorithm = ::gloo::AllreduceOptions::Algorithm;

void die(const xoe::Error& error) {
  std::fprintf(stderr, "xoe_bench_gloo: %s\n", error.to_string().c_str());
  std::exit(1);
}

Allreduce gloo_own(int member, int size, ::gloo::rendezvous::Store& store, Algorithm algorithm) {
  auto device = ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr("127.0.0.1"));
  auto context = std::make_shared<::gloo::rendezvous::Context>(member, size);
  context->connectFullMesh(store, device);
  return [context, algorithm](std::vector<float>& data) {
    ::gloo::AllreduceOptions options(context);
    options.setAlgorithm(algorithm);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
      void* const outs[] = {out};
      const void* const ins[] = {a, b};
      xoe::reduce::reduce_into(outs, ins, n, xoe::DType::kFloat32, xoe::ReduceOp::kSum);
    });
    ::gloo::allreduce(options);
  };
}

Allreduce xoe_on_gloo(int member, int size, const xoe::net::Exchange& exchange, bool encrypt) {
  auto provider = xoe::net::open_plugin("gloo", {.address = "127.0.0.1", .encrypt = encrypt});
  if (!provider) die(provider.error());
  xoe::net::Members members{
      .ranks = std::vector<int>(static_cast<std::size_t>(size)), .self = member, .secret = "of this run"};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  auto net = (*provider)->connect(members, exchange, Clock::now() + std::chrono::seconds(30));
  if (!net) die(net.error());
  return [net = std::shared_ptr(std::move(*net))](std::vector<float>& data) {
    const auto status = net->run({.kind = xoe::CollectiveKind::kAllreduce,
                                  .dtype = xoe::DType::kFloat32,
                                  .in = data.data(),
                                  .out = data.data(),
                                  .in_count = data.size(),
                                  .out_count = data.size()},
                                 Clock::now() + std::chrono::seconds(60));
    if (!status) die(status.error());
  };
}

struct Cost {
  double median = 0, processor = 0;  // us
};

double processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// By size.
std::vector<Cost> measure(int members, int rounds, const std::vector<std::size_t>& counts,
                          const std::function<Allreduce(int)>& make) {
  std::barrier together(members);
  std::vector<Cost> costs;
  std::vector<std::jthread> threads;
  for (int m = 0; m < members; ++m)
    threads.emplace_back([&, m] {
      const Allreduce allreduce = make(m);
      for (const std::size_t count : counts) {
        std::vector<float> data(count);
        std::vector<double> times;
        double began = 0;
        for (int i = 0; i < rounds + 3; ++i) {
          together.arrive_and_wait();
          if (i == 3) began = processor_time();
          const auto begin = Clock::now();
          allreduce(data);
          times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        }
        together.arrive_and_wait();
        std::sort(times.begin() + 3, times.end());
        if (m == 0)
          costs.push_back({times[3 + static_cast<std::size_t>(rounds) / 2], (processor_time() - began) / rounds});
      }
      together.arrive_and_wait();
    });
  threads.clear();
  return costs;
}

}  // namespace

int main(int argc, char** argv) {
  const int members = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  if (members < 2 || rounds < 1) {
    std::fprintf(stderr, "usage: xoe_bench_gloo [MEMBERS [ROUNDS]]\n");
    return 2;
  }
  std::vector<std::size_t> counts;
  for (std::size_t bytes = 4; bytes <= (64 << 20); bytes *= 4) counts.push_back(bytes / 4);

  std::vector<std::string> told(static_cast<std::size_t>(members));
  std::barrier exchanged(members);
  const auto exchange = [&](int m) {
    return [&, m](std::string mine) -> xoe::Result<std::vector<std::string>> {
      told[static_cast<std::size_t>(m)] = std::move(mine);
      exchanged.arrive_and_wait();
      return told;
    };
  };
  const auto on_gloo = [&](bool encrypt) {
    return measure(members, rounds, counts, [&](int m) { return xoe_on_gloo(m, members, exchange(m), encrypt); });
  };
  const auto ours = on_gloo(false), sealed = on_gloo(true);
  const auto own = [&](Algorithm algorithm) {
    ::gloo::rendezvous::HashStore store;
    return measure(members, rounds, counts, [&](int m) { return gloo_own(m, members, store, algorithm); });
  };
  const auto ring = own(Algorithm::RING), bcube = own(Algorithm::BCUBE);
  std::printf("%12s %10s %10s %10s %10s   processor: %10s %10s %10s %10s  us\n", "bytes", "xoe", "encrypted", "ring",
              "bcube", "xoe", "encrypted", "ring", "bcube");
  for (std::size_t i = 0; i < counts.size(); ++i)
    std::printf("%12zu %10.1f %10.1f %10.1f %10.1f              %10.1f %10.1f %10.1f %10.1f\n", counts[i] * 4,
                ours[i].median, sealed[i].median, ring[i].median, bcube[i].median, ours[i].processor,
                sealed[i].processor, ring[i].processor, bcube[i].processor);
  return 0;
}
