// Plain sockets for Gloo, which does not encrypt.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/mesh_handshake.h"
#include "xoe/status.h"

namespace xoe::gloo {

// Each connection gets a plain end within this process. A thread seals what is written there, and opens what arrives.
class SealedRelay {
 public:
  // Receives the index of a connection on which something else arrived than was sent; it is closed then. Called from
  // the thread.
  using Changed = std::function<void(std::size_t connection)>;

  // Connections without a socket get none.
  static Result<std::unique_ptr<SealedRelay>> start(std::vector<bootstrap::MemberConnection> connections,
                                                    Changed changed);
  // Sends what was written before the plain ends were closed, for a second at most.
  ~SealedRelay();

  // The plain ends, once.
  std::vector<Fd> take_plain_ends() { return std::move(plain_ends_); }

 private:
  using Clock = std::chrono::steady_clock;

  // Bytes in one direction; they are read when those before them have left.
  struct Direction {
    std::string pending = {};
    std::size_t sent = 0;
    bool ended = false;  // nothing more is read
  };
  struct Pipe {
    std::size_t connection = 0;
    Fd outside, inside;
    bootstrap::Sealer sealer;
    bootstrap::Opener opener;
    Direction out = {}, in = {};
  };

  explicit SealedRelay(Changed changed);
  Status add(bootstrap::MemberConnection connection, std::size_t number);
  void run(const std::stop_token& stop);
  // After an event on one of its sockets.
  void move(Pipe& pipe, short outside, short inside);
  void read_inside(Pipe& pipe);
  void read_outside(Pipe& pipe);
  static void write(const Fd& to, Direction& direction);

  const Changed changed_;
  Fd wakeup_;  // eventfd: the thread shall stop
  std::vector<Pipe> pipes_;
  std::vector<Fd> plain_ends_;
  std::jthread thread_;
};

}  // namespace xoe::gloo
