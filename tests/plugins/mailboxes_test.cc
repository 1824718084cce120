// Messages of many sizes between the ranks of `xoe run`, expected in another order than they are sent in, in both
// directions at once; a message of another size than expected; and a sender that dies. The exit code is 0 where all is
// well.
#include "plugins/mailboxes.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using xoe::plugins::Mailboxes;

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

void check(xoe_status status) {
  if (status != XOE_OK) fail(xoe_last_error());
}

// The same on both sides.
std::vector<unsigned char> content(int from, int to, int round, std::uint64_t context) {
  std::mt19937 random(static_cast<unsigned>(((from * 64 + to) * 1000 + round) * 8 + static_cast<int>(context)));
  const std::size_t sizes[] = {0, 1, 15, 4096, 100'000, random() % 5000, random() % 1'000'000};
  std::vector<unsigned char> bytes(sizes[random() % 7]);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

void exchange(Mailboxes& mailboxes, int rank, int size, int rounds) {
  constexpr std::uint64_t kContexts = 3;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<unsigned char>> sent;
    std::vector<Mailboxes::Request> requests;
    for (int to = 0; to < size; ++to) {
      for (std::uint64_t context = 0; context < kContexts; ++context) {
        sent.push_back(content(rank, to, round, context));
        requests.push_back(mailboxes.send(to, context, sent.back().data(), sent.back().size()));
      }
    }
    for (int from = size - 1; from >= 0; --from) {
      for (std::uint64_t context = kContexts; context-- > 0;) {
        const auto expected = content(from, rank, round, context);
        std::vector<unsigned char> received(expected.size());
        const std::string failure = mailboxes.wait(mailboxes.receive(from, context, received.data(), received.size()));
        if (!failure.empty()) fail(failure);
        if (received != expected) fail(fmt::format("rank {}: round {}: wrong bytes from {}", rank, round, from));
      }
    }
    for (const auto& request : requests) {
      if (const std::string failure = mailboxes.wait(request); !failure.empty()) fail(failure);
    }
  }
}

void need_failure(const std::string& failure, std::string_view part) {
  if (failure.find(part) == std::string::npos) fail(fmt::format("'{}' does not say '{}'", failure, part));
}

void disagree(Mailboxes& mailboxes, int rank) {
  char bytes[8] = {};
  if (rank == 0) {
    if (!mailboxes.wait(mailboxes.send(1, 7, bytes, 8)).empty()) fail("the sender was told");
  } else if (rank == 1) {
    need_failure(mailboxes.wait(mailboxes.receive(0, 7, bytes, 4)), "8 bytes where 4 were expected");
  }
}

// Memory of an abandoned request is not touched; the messages that follow are right.
void abandon(Mailboxes& mailboxes, int rank) {
  std::vector<unsigned char> large(3'000'000, 1);  // more than a ring holds
  std::vector<unsigned char> small(100, 2);
  if (rank == 0) {
    auto given = std::make_unique<std::vector<unsigned char>>(large);
    const auto request = mailboxes.send(1, 9, given->data(), given->size());
    mailboxes.abandon(request);
    given.reset();
    if (!mailboxes.wait(mailboxes.send(1, 10, small.data(), small.size())).empty()) fail("not sent");
  } else if (rank == 1) {
    auto into = std::make_unique<std::vector<unsigned char>>(large.size());
    const auto request = mailboxes.receive(0, 9, into->data(), into->size());
    mailboxes.abandon(request);
    into.reset();
    std::vector<unsigned char> received(small.size());
    if (!mailboxes.wait(mailboxes.receive(0, 10, received.data(), received.size())).empty()) fail("not received");
    if (received != small) fail("wrong bytes after an abandoned message");
    std::vector<unsigned char> late(large.size());
    if (!mailboxes.wait(mailboxes.receive(0, 9, late.data(), late.size())).empty() || late != large)
      fail("an abandoned send was not whole");
  }
}

void die(xoe_engine* engine, Mailboxes& mailboxes, int rank) {
  ::signal(SIGTERM, SIG_IGN);  // the launcher's
  xoe_request barrier;
  xoe_request_init(&barrier, sizeof(barrier));
  barrier.kind = XOE_BARRIER;
  check(xoe_run(engine, &barrier));
  if (rank == 1) ::kill(::getpid(), SIGKILL);
  char byte = 0;
  need_failure(mailboxes.wait(mailboxes.receive(1, 1, &byte, 1)), "rank 1");
  fmt::print("rank {} was told\n", rank);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** /*arguments*/) {
  xoe_engine* engine = nullptr;
  check(xoe_init(nullptr, &engine));
  xoe_topology at{};
  check(xoe_topology_of(engine, &at));
  auto mailboxes = Mailboxes::open(engine, at.rank, at.size);
  if (!mailboxes) fail(xoe_last_error());
  if (count > 1) {
    die(engine, *mailboxes, at.rank);
    std::_Exit(3);
  }
  exchange(*mailboxes, at.rank, at.size, 40);
  if (at.size > 1) {
    disagree(*mailboxes, at.rank);
    abandon(*mailboxes, at.rank);
  }
  mailboxes.reset();
  xoe_shutdown(engine);
}
