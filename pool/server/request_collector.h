// Reads requests without a thread for each: a connection gets a thread when its request is there as a whole, so a
// client that sends it byte by byte, or none, takes none of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "pool/server/connection.h"
#include "pool/server/connection_threads.h"

namespace xoe::pool {

struct CollectorOptions {
  int threads = 768;
  int report_threads = 8;       // that serve agents' reports and nothing else
  std::size_t connections = 0;  // at once; 0: 8192. At most as many as the process may open files
  std::size_t max_body = std::size_t{1} << 20;
  std::size_t small_body = 4096;                    // that is collected from anybody
  Span request_timeout = std::chrono::seconds(10);  // from its begin, for its head, and again for a large body
  Span idle_timeout = std::chrono::seconds(5);      // without a request
  SSL_CTX* tls = nullptr;                           // it outlives the collector
};

class RequestCollector {
 public:
  // Both are called by the collector's threads, and may wait. admit: whether the large body of the request that begins
  // so is to be collected; if not, it is served without. serve: one request of those that the connection has received,
  // and removes it from there. False: the connection is closed.
  using Admit = std::function<bool(std::string_view head)>;
  using Serve = std::function<bool(Connection&)>;
  RequestCollector(const CollectorOptions& options, Admit admit, Serve serve);
  // end()
  ~RequestCollector();
  RequestCollector(const RequestCollector&) = delete;
  RequestCollector& operator=(const RequestCollector&) = delete;

  // Where there are too many, the one that was longest without a whole request gives its place. Any thread.
  void add(Fd socket);
  // Closes all connections that have no request; waits for the others.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Entry(Fd socket, SSL_CTX* tls) : connection(std::move(socket), tls) {}
    Connection connection;
    Clock::time_point since = Clock::now();  // it is in its present state
    bool collecting = true;                  // else a thread serves it, which alone touches `connection` then
    std::size_t searched = 0;                // bytes that have no end of a head
    bool admitted = false;                   // its large body is wanted
    bool continued = false;                  // "100 Continue" was sent
    bool draining = false;                   // it has its last answer, and what it still sends is thrown away
  };
  using Entries = std::map<std::uint64_t, std::unique_ptr<Entry>>;

  // With mutex_ held.
  bool collect(std::uint64_t id, Entry& entry);
  void enqueue(std::uint64_t id, Entry& entry, bool whole);
  bool await_more(std::uint64_t id, Entry& entry, int operation);
  bool drain(std::uint64_t id, Entry& entry);
  void drop_silent_ones();

  void admit(std::uint64_t id, Entry& entry);
  void serve(std::uint64_t id, Entry& entry);
  void take_back(std::uint64_t id, Entry& entry);
  void close(std::uint64_t id, Entry& entry);
  void work(const std::stop_token& stop);
  void wake();

  const CollectorOptions options_;
  const Admit admit_;
  const Serve serve_;
  const std::size_t most_;
  std::mutex mutex_;
  Entries entries_;  // by the number of the connection
  std::uint64_t next_ = 1;
  bool ending_ = false;
  Fd ready_;  // epoll, with the numbers of connections
  Fd wake_;   // an eventfd: the first of them, or the end
  ConnectionThreads threads_;
  ConnectionThreads report_threads_;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace xoe::pool
