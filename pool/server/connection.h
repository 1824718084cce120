// A client's connection, and what it has sent that was not served yet.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/fd.h"
#include "pool/model/time.h"
#include "pool/server/request_extent.h"

namespace xoe::pool {

// One thread at a time.
class Connection {
 public:
  // `socket` does not block. tls: nullptr: the connection is in plain text.
  Connection(Fd socket, SSL_CTX* tls);

  enum class Got { kNothing, kSome, kEnd };
  // Appends to `received` what has come, so that it has `most` bytes at most. The end is told when nothing is before
  // it.
  Got receive(std::size_t most);
  // False: the client is gone, takes nothing for `timeout`, or all of it more slowly than 16 KiB in a second beyond
  // that.
  bool send(std::string_view text, Span timeout);
  // Waits for room to write. False: the client is gone, or takes nothing for so long.
  bool awaits_more(Span timeout) const;
  // Nothing is sent any more; the client may still send.
  void finish();
  int socket() const noexcept { return socket_.get(); }

  std::string received;
  RequestExtent request;  // the first in `received`, once its head is there

 private:
  // Waits until the socket is ready for poll's `events`.
  bool await(short events, std::chrono::steady_clock::time_point end) const;

  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  Fd socket_;
  std::unique_ptr<SSL, Free> tls_;  // ends before its socket
};

// The connection as httplib reads and writes it: reads end where `received` does.
class ReceivedStream : public httplib::Stream {
 public:
  ReceivedStream(Connection& connection, Span write_timeout) : connection_(connection), timeout_(write_timeout) {}
  // Of Connection::received.
  std::size_t consumed() const noexcept { return consumed_; }

  bool is_readable() const override { return consumed_ < connection_.received.size(); }
  bool is_writable() const override { return connection_.awaits_more(timeout_); }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return connection_.socket(); }

 private:
  Connection& connection_;
  const Span timeout_;
  std::size_t consumed_ = 0;
};

}  // namespace xoe::pool
