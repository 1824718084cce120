// Arbitrary messages to a Coordinator in the middle of the tree, in several states; what it sends then must be valid.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "core/engine/negotiate/coordinator.h"
#include "target.h"

namespace {

using namespace xoe::engine;

constexpr int kHosts = 5;  // 0 with the children 1 and 2, and 1 with 3 and 4

struct Tree {
  Coordinator coordinators[kHosts] = {{0, kHosts, options()},
                                      {1, kHosts, options()},
                                      {2, kHosts, options()},
                                      {3, kHosts, options()},
                                      {4, kHosts, options()}};

  static CoordinatorOptions options() { return {.fanout = 2, .cache_capacity = 6}; }

  // Messages of the coordinators themselves must be accepted.
  void run() {
    for (int quiet = 0; quiet < 2; ++quiet) {
      coordinators[0].flush(1);
      for (int host = 0; host < kHosts; ++host) {
        (void)coordinators[host].take_decisions();
        for (const Outgoing& message : coordinators[host].take_messages()) {
          quiet = -1;
          if (!coordinators[message.to_host].receive(host, message.bytes)) std::abort();
        }
      }
    }
  }

  void step(int tensors) {
    for (int i = 0; i < tensors; ++i)
      for (Coordinator& coordinator : coordinators) coordinator.ready("t" + std::to_string(i), 7, "text");
    run();
  }
};

}  // namespace

// The first byte chooses the state; then a byte of sender and a length, and that many bytes of message, over and over.
XOE_FUZZ_TARGET(coordinator_fuzz) {
  if (size == 0) return 0;
  Tree tree;
  for (int i = 0; i < bytes[0] % 4; ++i) tree.step(4);
  if (bytes[0] & 16) tree.step(8);
  if (bytes[0] & 32) tree.coordinators[1].joined(9);
  if (bytes[0] & 64) tree.coordinators[1].ready("t1", 8, "other");
  std::span<const std::uint8_t> rest(bytes + 1, size - 1);
  Coordinator& coordinator = tree.coordinators[bytes[0] & 128 ? 0 : 1];
  while (rest.size() >= 2) {
    const int from = rest[0] % kHosts;
    const std::size_t length = std::min<std::size_t>(rest[1], rest.size() - 2);
    (void)coordinator.receive(from, std::as_bytes(rest.subspan(2, length)));
    rest = rest.subspan(2 + length);
    coordinator.ready("t" + std::to_string(from), 7, "text");
    coordinator.flush(2);
    (void)coordinator.missing_hosts("t1");
    (void)coordinator.take_messages();
    (void)coordinator.take_decisions();
  }
  return 0;
}
