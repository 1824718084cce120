// What descriptors lead to.
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <utility>

#include "core/testing/sim/kernel.h"

namespace xoe::sim {

class Epoll final : public Object {
 public:
  short ready() override;
  int control(int operation, int fd, const ObjectPtr& object, const epoll_event* event);
  int wait(epoll_event* events, int most, Time until);

 private:
  struct Entry {
    epoll_event event = {};
    std::weak_ptr<Object> object = {};
    std::uint32_t found = 0;
    std::uint64_t order = 0;
    bool armed = true;
  };
  // In the order in which they became ready.
  std::vector<Entry*> ready_entries();
  std::map<int, Entry> entries_;
};

ObjectPtr make_sink(Machine& machine, std::shared_ptr<std::string> also);
ObjectPtr make_event_counter(unsigned value, bool semaphore);
std::array<ObjectPtr, 2> make_pipe();
std::array<ObjectPtr, 2> make_socket_pair(int type, Machine& machine);

// Finds the simulated object of a caller's descriptor; nullptr: the descriptor is one of the real kernel.
inline ObjectPtr simulated(int fd) { return self == nullptr ? nullptr : kernel->object_of(fd); }

// Adds both ends of a pipe, or a pair of sockets, to the caller's descriptors.
inline int add_pair(const std::array<ObjectPtr, 2>& pair, int* fds, bool close_on_exec, bool nonblocking) {
  for (std::size_t i = 0; i < 2; ++i) {
    pair[i]->nonblocking = nonblocking;
    fds[i] = kernel->add_descriptor(pair[i], close_on_exec);
  }
  return 0;
}

struct Address {
  sa_family_t family = AF_UNSPEC;
  std::uint32_t host = 0;  // of IPv4, in the order of this machine
  int port = 0;
  std::string name = {};  // abstract, of AF_UNIX
};

class Socket final : public Object {
 public:
  Socket(int family, int type, Machine& machine) : family_(family), type_(type), machine_(machine) {}
  short ready() override;
  ssize_t read(void* bytes, std::size_t size, bool waits, int flags) override;
  ssize_t write(const void* bytes, std::size_t size, bool waits) override;
  void on_last_close() override;

  int bind(const Address& address);
  int listen(int backlog);
  int connect(const Address& address, bool waits);
  std::shared_ptr<Socket> accept(bool waits);
  int shut_down(int how);
  int take_error() { return std::exchange(error_, 0); }
  Address here() const { return here_; }
  Address there() const { return there_; }
  int type() const { return type_; }
  int family() const { return family_; }
  bool connected() const { return state_ == State::kConnected; }
  Machine& machine() const { return machine_; }

 private:
  friend std::array<ObjectPtr, 2> make_socket_pair(int type, Machine& machine);
  enum class State : std::uint8_t { kNew, kListening, kConnecting, kConnected, kFailed };
  static constexpr std::size_t kWindow = std::size_t{256} << 10;
  std::shared_ptr<Socket> shared() { return std::static_pointer_cast<Socket>(shared_from_this()); }
  bool local(const Socket& other) const { return &machine_ == &other.machine_; }
  void send_to_peer(std::function<void(Socket& peer)> arrives);
  void arrive(std::string bytes);
  void reset(int error);
  std::size_t room() const;
  int choose_port();
  void begin_connection(Machine& to);
  void fail_to_connect(int error);
  void forget_address();

  int family_, type_;
  Machine& machine_;
  State state_ = State::kNew;
  Address here_, there_;
  std::shared_ptr<Socket> peer_;             // as long as both are connected
  LanePtr lane_ = std::make_shared<Lane>();  // of what it sends
  std::deque<std::string> arrived_;          // of a stream one piece after another, else messages
  std::size_t arrived_bytes_ = 0, in_flight_ = 0;
  bool ended_ = false;    // the peer sends no more
  bool stopped_ = false;  // this sends no more
  bool closed_ = false;
  bool was_reset_ = false;
  int error_ = 0;
  std::size_t backlog_ = 0;
  std::deque<std::shared_ptr<Socket>> waiting_;  // to be accepted
};

}  // namespace xoe::sim
