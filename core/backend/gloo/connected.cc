#include "core/backend/gloo/connected.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>

namespace xoe::gloo {
namespace {

namespace tcp = ::gloo::transport::tcp;

// Calls a function in the device's thread, which meanwhile neither accepts nor reads.
class InItsThread final : public tcp::Handler {
 public:
  static void call(tcp::Device& device, const std::function<void()>& function) {
    InItsThread call(function);
    device.registerDescriptor(call.wakeup_.get(), EPOLLIN, &call);
    call.done_.wait(false);
    device.unregisterDescriptor(call.wakeup_.get(), &call);
    if (call.problem_) std::rethrow_exception(call.problem_);
  }

  void handleEvents(int /*events*/) override {
    std::uint64_t ignored = 0;
    (void)!::read(wakeup_.get(), &ignored, sizeof ignored);  // so that this is called once
    try {
      function_();
    } catch (...) {
      problem_ = std::current_exception();
    }
    done_.store(true);
    done_.notify_one();
  }

 private:
  explicit InItsThread(const std::function<void()>& function) : function_(function) {}

  const std::function<void()>& function_;
  const Fd wakeup_{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::exception_ptr problem_;
  std::atomic<bool> done_{false};
};

// Gloo makes every pair listen, and registers the listener with the device's thread. In that thread the listener can be
// exchanged for a connection before anybody is accepted.
class ConnectedPair final : public tcp::Pair {
 public:
  ConnectedPair(tcp::Context* context, tcp::Device* device, int rank, std::chrono::milliseconds timeout, Fd socket)
      : Pair(context, device, rank, timeout) {
    const std::lock_guard lock(m_);
    device_->unregisterDescriptor(fd_, this);
    ::close(std::exchange(fd_, socket.release()));
    try {
      handleConnected();
    } catch (...) {  // the peer closed it at once
      ::close(std::exchange(fd_, -1));
      state_ = CLOSED;
      throw;
    }
  }
};

class ConnectedContext final : public tcp::Context {
 public:
  ConnectedContext(std::shared_ptr<tcp::Device> device, int self, std::span<Fd> sockets)
      : tcp::Context(std::move(device), self, static_cast<int>(sockets.size())), sockets_(sockets) {
    setTimeout(tcp::kLargeTimeDuration);
    for (int member = 0; member < size; ++member)
      if (member != self) ConnectedContext::createPair(member);
    sockets_ = {};
  }

  std::unique_ptr<::gloo::transport::Pair>& createPair(int member) override {
    auto& pair = pairs_[static_cast<std::size_t>(member)];
    pair = std::make_unique<ConnectedPair>(this, device_.get(), member, getTimeout(),
                                           std::move(sockets_[static_cast<std::size_t>(member)]));
    return pair;
  }

 private:
  std::span<Fd> sockets_;  // while the pairs are made
};

}  // namespace

std::shared_ptr<::gloo::transport::Device> make_device(const std::string& address) {
  return tcp::CreateDevice(tcp::attr(address.c_str()));
}

std::vector<std::shared_ptr<::gloo::transport::Context>> make_contexts(::gloo::transport::Device& device, int self,
                                                                       int size, std::span<Fd> sockets) {
  auto& own = dynamic_cast<tcp::Device&>(device);
  std::vector<std::shared_ptr<::gloo::transport::Context>> contexts;
  const auto members = static_cast<std::size_t>(size);
  InItsThread::call(own, [&] {
    for (; sockets.size() >= members; sockets = sockets.subspan(members))
      contexts.push_back(std::make_shared<ConnectedContext>(own.shared_from_this(), self, sockets.first(members)));
  });
  return contexts;
}

class AwakeDevice::Wakeup final : public tcp::Handler {
 public:
  explicit Wakeup(tcp::Device& device) : device_(device) {
    if (!readable_.valid()) return;
    try {
      device_.registerDescriptor(readable_.get(), EPOLLIN, this);
      registered_ = true;
    } catch (const std::exception&) {  // the device sleeps, and closing takes longer
    }
  }
  ~Wakeup() override {
    if (registered_) device_.unregisterDescriptor(readable_.get(), this);
  }
  void handleEvents(int /*events*/) override {}  // it is readable again at once

 private:
  tcp::Device& device_;
  const Fd readable_{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool registered_ = false;
};

AwakeDevice::AwakeDevice(std::shared_ptr<::gloo::transport::Device> device)
    : device_(std::move(device)), wakeup_(std::make_unique<Wakeup>(dynamic_cast<tcp::Device&>(*device_))) {}

AwakeDevice::~AwakeDevice() = default;

}  // namespace xoe::gloo
