// Messages between the ranks of `xoe run`: of many sizes, expected in another order than they are sent in, in both
// directions at once; from any rank; of another size than expected; given up; with no thread that waits; to and from a
// rank that dies or closes. The exit code is 0 where all is well.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "xoe/c.h"

namespace {

using Bytes = std::vector<unsigned char>;

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

void check(xoe_status status) {
  if (status != XOE_OK) fail(fmt::format("{}: {}", xoe_status_name(status), xoe_last_error()));
}

void need(bool is_so, const char* what) {
  if (!is_so) fail(what);
}

struct Free {
  void operator()(xoe_message* message) const { xoe_message_free(message); }
};
using Message = std::unique_ptr<xoe_message, Free>;

struct Here {
  xoe_engine* engine = nullptr;
  xoe_topology at{};
  xoe_messages* messages = nullptr;

  Message send(int to, std::uint64_t tag, const Bytes& bytes, std::int64_t timeout = 0) const {
    xoe_message* message = nullptr;
    check(xoe_message_send(messages, to, tag, bytes.data(), bytes.size(), timeout, &message));
    return Message(message);
  }
  Message receive(int from, std::uint64_t tag, Bytes& into, std::int64_t timeout = 0) const {
    xoe_message* message = nullptr;
    check(xoe_message_receive(messages, from, tag, into.data(), into.size(), timeout, &message));
    return Message(message);
  }
};

// Empty, or "code: message".
std::string wait(const Message& message) {
  std::int32_t done = 0;
  while (done == 0) {
    const xoe_status status = xoe_message_wait(message.get(), 1'000'000'000, &done);
    if (status != XOE_OK) return fmt::format("{}: {}", xoe_status_name(status), xoe_last_error());
  }
  return {};
}

void finish(const Message& message) {
  if (const std::string failure = wait(message); !failure.empty()) fail(failure);
}

void need_failure(const std::string& failure, std::string_view part) {
  if (failure.find(part) == std::string::npos) fail(fmt::format("'{}' does not say '{}'", failure, part));
}

void barrier(const Here& here) {
  xoe_request request;
  xoe_request_init(&request, sizeof(request));
  request.kind = XOE_BARRIER;
  check(xoe_run(here.engine, &request));
}

// The same on both sides.
Bytes content(int from, int to, int round, std::uint64_t tag) {
  std::mt19937 random(static_cast<unsigned>(((from * 64 + to) * 1000 + round) * 8 + static_cast<int>(tag)));
  const std::size_t sizes[] = {0, 1, 15, 4096, 100'000, random() % 5000, random() % 1'000'000};
  Bytes bytes(sizes[random() % 7]);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

void exchange(const Here& here, int rounds) {
  constexpr std::uint64_t kTags = 3;
  const int rank = here.at.rank;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Bytes> sent;
    std::vector<Message> messages;
    for (int to = 0; to < here.at.size; ++to) {
      for (std::uint64_t tag = 0; tag < kTags; ++tag) {
        sent.push_back(content(rank, to, round, tag));
        messages.push_back(here.send(to, tag, sent.back()));
      }
    }
    for (int from = here.at.size - 1; from >= 0; --from) {
      for (std::uint64_t tag = kTags; tag-- > 0;) {
        const Bytes expected = content(from, rank, round, tag);
        Bytes received(expected.size());
        finish(here.receive(from, tag, received));
        if (received != expected) fail(fmt::format("rank {}: round {}: wrong bytes from {}", rank, round, from));
      }
    }
    for (const Message& message : messages) finish(message);
  }
}

// Rank 0 hears from all, in whatever order they come.
void from_any(const Here& here) {
  Bytes own(1000, static_cast<unsigned char>(here.at.rank));
  const Message sent = here.send(0, 20, own);
  std::vector<bool> heard(static_cast<std::size_t>(here.at.size));
  for (int i = 0; here.at.rank == 0 && i < here.at.size; ++i) {
    Bytes received(own.size());
    const Message message = here.receive(XOE_ANY_RANK, 20, received);
    finish(message);
    std::int32_t from = -1;
    check(xoe_message_peer(message.get(), &from));
    need(received == Bytes(own.size(), static_cast<unsigned char>(from)), "wrong bytes from any rank");
    need(!heard[static_cast<std::size_t>(from)], "one rank was heard twice");
    heard[static_cast<std::size_t>(from)] = true;
  }
  finish(sent);
}

void disagree(const Here& here) {
  Bytes sent(8), received(4), right(8, 1);
  const int last = here.at.size - 1;
  if (here.at.rank == 0) {
    finish(here.send(last, 7, sent));
    finish(here.send(last, 7, right));
  } else if (here.at.rank == last) {
    need_failure(wait(here.receive(0, 7, received)), "rank 0 has 8 bytes where 4 were expected");
    Bytes next(8);
    finish(here.receive(0, 7, next));
    need(next == right, "the message that was refused came again");
  }
}

// Memory of a message that was given up is not touched; those that follow are right. The receive is given up before
// anything is sent, else it may have been over.
void give_up(const Here& here) {
  const Bytes large(3'000'000, 1), small(100, 2);  // more than a ring or a socket holds
  const int last = here.at.size - 1;
  if (here.at.rank == 0) {
    auto given = std::make_unique<Bytes>(large);
    barrier(here);
    here.send(last, 9, *given).reset();
    given.reset();
    finish(here.send(last, 10, small));
  } else if (here.at.rank == last) {
    auto into = std::make_unique<Bytes>(large.size());
    here.receive(0, 9, *into).reset();
    into.reset();
    barrier(here);
    Bytes received(small.size()), late(large.size());
    finish(here.receive(0, 10, received));
    need(received == small, "wrong bytes after a message that was given up");
    finish(here.receive(0, 9, late));
    need(late == large, "a send that was given up was not whole");
  } else {
    barrier(here);
  }
}

// A child of a fork can do nothing with messages, and does nothing to its parent's.
void be_forked(const Here& here) {
  Bytes received(1);
  const Message open = here.receive(here.at.rank, 15, received);
  const pid_t child = ::fork();
  if (child == 0) {
    xoe_message* message = nullptr;
    const xoe_status status = xoe_message_send(here.messages, 0, 15, received.data(), 1, 0, &message);
    xoe_message_free(const_cast<xoe_message*>(open.get()));
    xoe_messages_close(here.messages);
    ::_exit(status == XOE_UNAVAILABLE ? 0 : 1);
  }
  int status = -1;
  need(child > 0 && ::waitpid(child, &status, 0) == child && status == 0, "a forked child could use messages");
  finish(here.send(here.at.rank, 15, Bytes{7}));
  finish(open);
  need(received == Bytes{7}, "wrong bytes after a fork");
}

// Both sides wait for a barrier, and the messages come through all the same.
void unattended(const Here& here) {
  const Bytes large(3'000'000, 3);
  Bytes received(large.size());
  const int size = here.at.size;
  const Message sent = here.send((here.at.rank + 1) % size, 11, large);
  const Message wanted = here.receive((here.at.rank + size - 1) % size, 11, received);
  std::int32_t done = 0;
  for (int i = 0; i < 100 && done == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    barrier(here);
    std::int32_t both[2] = {};
    check(xoe_message_wait(sent.get(), 0, &both[0]));
    check(xoe_message_wait(wanted.get(), 0, &both[1]));
    std::int32_t mine = both[0] * both[1];
    xoe_tensor tensor{};
    tensor.in = &mine;
    tensor.out = &done;
    tensor.dtype = XOE_INT32;
    xoe_request request;
    xoe_request_init(&request, sizeof(request));
    request.kind = XOE_ALLREDUCE;
    request.reduce = XOE_MIN;
    request.tensors = &tensor;
    request.tensor_count = 1;
    check(xoe_run(here.engine, &request));
  }
  need(done == 1 && received == large, "messages do not move by themselves");
}

void time_out(const Here& here) {
  Bytes received(1);
  if (here.at.rank == 0) need_failure(wait(here.receive(here.at.size - 1, 12, received, 50'000'000)), ": Timed out");
}

// Of two dead ends, both are told: the one that waits for a message, and the one that sends more than there is room
// for.
void die(const Here& here) {
  ::signal(SIGTERM, SIG_IGN);  // the launcher's
  const int victim = 1;
  const Bytes large(30'000'000, 4);
  Bytes received(1);
  barrier(here);
  if (here.at.rank == victim) ::kill(::getpid(), SIGKILL);
  xoe_message* message = nullptr;
  const xoe_status started =
      here.at.rank == 0 ? xoe_message_receive(here.messages, victim, 13, received.data(), received.size(), 0, &message)
                        : xoe_message_send(here.messages, victim, 13, large.data(), large.size(), 0, &message);
  // Where there is no connection to it yet, the message cannot even start.
  need_failure(started == XOE_OK ? wait(Message(message)) : xoe_last_error(), "rank 1");
  fmt::print("rank {} was told\n", here.at.rank);
  std::fflush(stdout);
  std::_Exit(3);
}

void leave(const Here& here) {
  Bytes last(100, 5), received(100);
  if (here.at.rank == 0) finish(here.send(here.at.size - 1, 14, last));
  barrier(here);
  if (here.at.rank == 0) {
    xoe_messages_close(here.messages);
  } else if (here.at.rank == here.at.size - 1) {
    finish(here.receive(0, 14, received));
    need(received == last, "wrong bytes from a rank that left");
    need_failure(wait(here.receive(0, 14, received)), "peer_lost: rank 0 has ended, or sends and receives no more");
  }
  barrier(here);
  if (here.at.rank != 0) xoe_messages_close(here.messages);
}

}  // namespace

int main(int count, char** /*arguments*/) {
  Here here;
  check(xoe_init(nullptr, &here.engine));
  check(xoe_topology_of(here.engine, &here.at));
  check(xoe_messages_open(here.engine, "test", 1, &here.messages));
  if (count > 1) die(here);
  exchange(here, 40);
  be_forked(here);
  from_any(here);
  unattended(here);
  time_out(here);
  barrier(here);
  if (here.at.size > 1) {
    disagree(here);
    give_up(here);
    leave(here);
  } else {
    xoe_messages_close(here.messages);
  }
  xoe_shutdown(here.engine);
}
