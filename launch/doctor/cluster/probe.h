// Measures TCP between two hosts: one listens, the other connects. A token for each pair keeps other clients out.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/proof.h"
#include "xoe/status.h"

namespace xoe::doctor {

inline constexpr std::size_t kTokenBytes = 32;  // as text
inline constexpr std::size_t kMaxProbed = 16;   // addresses of one host

// The server begins with a nonce. The client's hello: "XOE2", 'L' or 'B', the number of the address, and the proof (of
// bootstrap/proof.h) that it knows the token: of these six bytes and the nonce.
inline constexpr std::size_t kAsked = 6;
inline constexpr std::size_t kHelloBytes = kAsked + bootstrap::kProofBytes;

struct Received {
  int address = 0;  // its number
  std::uint64_t bytes = 0;
  double seconds = 0;  // between the first and the last of them
};

// Echoes ('L') or swallows and counts ('B') what clients with the token send. Clients without the token are
// disconnected after a second and get no reply. Never blocks: its owner polls what entries() names and calls serve().
class ProbeServer {
 public:
  using Clock = std::chrono::steady_clock;
  static Result<ProbeServer> listen(std::string token);

  int port() const noexcept { return port_; }
  void entries(std::vector<pollfd>& all) const;
  void serve();
  // Closes all connections and returns the counts.
  std::vector<Received> finish();

 private:
  struct Peer {
    Fd fd;
    std::string nonce;
    std::string hello;
    Clock::time_point deadline;
    Clock::time_point first;
    Clock::time_point last;
    std::uint64_t bytes = 0;
  };

  ProbeServer(Fd listener, int port, std::string token)
      : listener_(std::move(listener)), port_(port), token_(std::move(token)) {}
  void accept_peers();
  bool serve_peer(Peer& peer);  // false: it is done
  bool read_hello(Peer& peer);
  void keep(const Peer& peer);

  Fd listener_;
  int port_ = 0;
  std::string token_;
  std::vector<Peer> peers_;
  std::vector<Received> received_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{256} << 10);  // of what peers send
};

struct ProbedAddress {
  std::string address;
  std::string error = {};  // empty: it was reached
  double latency = 0;      // seconds of half a round trip, the median
  bool loaded = false;     // bandwidth was measured; the server has the figures
};

// Connects to all addresses at once, measures the latency of those that answer, and sends for a while to those in
// `load` (numbers of addresses). Takes less than a second.
std::vector<ProbedAddress> probe_addresses(const std::vector<std::string>& addresses, int port,
                                           const std::string& token, const std::vector<int>& load);

}  // namespace xoe::doctor
