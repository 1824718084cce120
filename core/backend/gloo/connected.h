// Gloo over connections that were made and authenticated before: Gloo's own take the first program that connects for
// the peer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include "core/base/fd.h"

namespace xoe::gloo {

// One that make_contexts() takes. `address` is of this host; nothing is served there. Throws what Gloo throws.
std::shared_ptr<::gloo::transport::Device> make_device(const std::string& address);

// Contexts whose pairs are connected: `sockets` has those of the first context by member, then those of the next ones;
// it has none at this member's places. Throws what Gloo throws.
std::vector<std::shared_ptr<::gloo::transport::Context>> make_contexts(::gloo::transport::Device& device, int self,
                                                                       int size, std::span<Fd> sockets);

// While it lives, the device's thread does not sleep. Closing a pair waits for the next turn of that thread, which is
// up to 10 ms away while no message arrives, for each pair. Any thread.
class AwakeDevice {
 public:
  explicit AwakeDevice(std::shared_ptr<::gloo::transport::Device> device);
  ~AwakeDevice();

 private:
  class Wakeup;
  std::shared_ptr<::gloo::transport::Device> device_;
  std::unique_ptr<Wakeup> wakeup_;
};

}  // namespace xoe::gloo
