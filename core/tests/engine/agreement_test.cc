// TestRanks of one host, and of two, agree on an order; all in this thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "core/base/error.h"
#include "core/engine/negotiate/cross_host_agreement.h"
#include "core/engine/negotiate/host_agreement.h"

namespace xoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Messages under way between leaders, by sender and receiver.
using Links = std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>>;

class TestChannel final : public LeaderChannel {
 public:
  TestChannel(Links& links, int host) : links_(links), host_(host) {}
  void send(int to_host, std::vector<std::byte> message) override {
    links_[{host_, to_host}].push_back(std::move(message));
  }
  bool progress() override { return false; }
  std::optional<Incoming> receive() override {
    for (auto& [link, messages] : links_)
      if (link.second == host_ && !messages.empty()) {
        Incoming incoming{link.first, std::move(messages.front())};
        messages.pop_front();
        return incoming;
      }
    return std::nullopt;
  }

 private:
  Links& links_;
  int host_;
};

// Blocks of this process; their numbers are addresses.
class TestBlocks final : public HostBlocks {
 public:
  Result<std::uint64_t> allocate_block(std::size_t bytes) override {
    if (blocks_.size() == most) return failure(Code::kResourceExhausted, "no blocks left");
    auto& block = blocks_.emplace_back(bytes / sizeof(Line) + 1);
    return reinterpret_cast<std::uint64_t>(block.data());
  }
  std::byte* block_address(std::uint64_t block) const noexcept override { return reinterpret_cast<std::byte*>(block); }

  std::size_t most = 100;

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<std::vector<Line>> blocks_;
};

// Agreements of all ranks of a process set. hosts: by rank.
class TestRanks {
 public:
  explicit TestRanks(const std::vector<int>& hosts, int capacity = 32) : memory_(hosts.size()) {
    AgreementMembers members{.world_ranks = {}, .hosts = hosts, .rank = 0};
    for (std::size_t r = 0; r < hosts.size(); ++r) members.world_ranks.push_back(static_cast<int>(10 + r));
    for (; members.rank < static_cast<int>(hosts.size()); ++members.rank) {
      SharedLayout needed(nullptr);
      make(needed, members, capacity);
      auto& memory = memory_[static_cast<std::size_t>(members.host())];
      memory.resize(needed.bytes() / sizeof(Line) + 1);
      SharedLayout layout(reinterpret_cast<std::byte*>(memory.data()));
      agreements_.push_back(make(layout, members, capacity));
    }
  }

  Agreement& at(int rank) { return *agreements_[static_cast<std::size_t>(rank)]; }
  TestBlocks& blocks() { return blocks_; }

  // The entry, and the generation by which the log calls the submission.
  std::pair<int, std::uint8_t> submit(int rank, std::string_view name, std::uint64_t signature = 1) {
    OpDescriptor op;
    op.tensors = 1;
    std::atomic<std::uint8_t> generation{0};
    while (true) {
      const auto found = at(rank).find(name, [] { return true; });
      if (!found) {
        ADD_FAILURE() << found.error().message();
        return {};
      }
      const auto text = [&] { return "value " + std::to_string(signature); };
      if (at(rank).arrive(*found, {signature, ++now_, op, {}, text}, generation)) return {found->entry, generation};
    }
  }

  // Lets all ranks decide and read the sealed lines. Returns, for each rank, the name or the error of each line.
  std::vector<std::vector<std::string>> run() {
    std::vector<std::vector<std::string>> lines(agreements_.size());
    for (int quiet = 0; quiet < 3; ++quiet)
      for (std::size_t r = 0; r < agreements_.size(); ++r) {
        const auto moved = agreements_[r]->progress(true);
        EXPECT_TRUE(moved) << moved.error().message();
        while (const auto seal = agreements_[r]->next_sealed()) {
          for (auto position = seal->begin; position < seal->end; ++position)
            lines[r].push_back(describe(*agreements_[r], agreements_[r]->line(position)));
          agreements_[r]->completed(seal->end);
        }
        if (*moved) quiet = 0;
      }
    return lines;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };

  std::unique_ptr<Agreement> make(SharedLayout& memory, const AgreementMembers& members, int capacity) {
    if (members.hosts.back() == 0) return std::make_unique<HostAgreement>(memory, blocks_, members, capacity);
    std::unique_ptr<LeaderChannel> channel;
    if (members.host_rank() == 0) channel = std::make_unique<TestChannel>(links_, members.host());
    return std::make_unique<CrossHostAgreement>(memory, blocks_, members, capacity, std::move(channel));
  }

  static std::string describe(Agreement& agreement, const AgreedLine& agreed) {
    if (agreed.line.kind == LogKind::kAllJoined) return "joined, last " + std::to_string(agreed.last_rank);
    const std::string name = agreement.name(agreed.line.entry);
    return agreed.line.kind == LogKind::kRun ? name : agreement.error(agreed.line, name);
  }

  Links links_;
  TestBlocks blocks_;
  std::vector<std::vector<Line>> memory_;  // by host
  std::vector<std::unique_ptr<Agreement>> agreements_;
  std::int64_t now_ = 0;
};

const std::vector<std::vector<int>> kPlacements = {{0, 0, 0}, {0, 0, 1}, {0, 1, 2}};

TEST(Agreement, AllRanksRunCompleteTensorsInOneOrder) {
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts);
    ranks.submit(0, "a");
    ranks.submit(0, "b");
    ranks.submit(1, "b");
    ranks.submit(2, "b");
    ranks.submit(2, "a");
    for (const auto& lines : ranks.run()) EXPECT_THAT(lines, ElementsAre("b"));
    ranks.submit(1, "a");
    for (int rank = 0; rank < 3; ++rank) ranks.submit(rank, "b");  // again
    const auto lines = ranks.run();
    EXPECT_THAT(lines[0], ::testing::UnorderedElementsAre("a", "b"));
    EXPECT_EQ(lines[1], lines[0]);
    EXPECT_EQ(lines[2], lines[0]);
  }
}

TEST(Agreement, DifferingValuesAreAnErrorOnAllRanks) {
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts);
    for (int rank = 0; rank < 3; ++rank) ranks.submit(rank, "x", rank == 2 ? 7 : 1);
    for (const auto& lines : ranks.run()) {
      ASSERT_EQ(lines.size(), 1U);
      EXPECT_THAT(lines[0],
                  ::testing::AllOf(HasSubstr("'x': ranks disagree"), HasSubstr("value 1"), HasSubstr("value 7")));
    }
  }
}

TEST(Agreement, JoinedRanksRunTheOperationsOfTheOthers) {
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts);
    ranks.at(2).join();
    ranks.submit(0, "a");
    ranks.submit(1, "a");
    for (const auto& lines : ranks.run()) EXPECT_THAT(lines, ElementsAre("a"));
    ranks.at(0).join();
    ranks.run();
    ranks.at(1).join();
    for (const auto& lines : ranks.run()) EXPECT_THAT(lines, ElementsAre("joined, last 11"));
    for (int rank = 0; rank < 3; ++rank) ranks.submit(rank, "a");
    for (const auto& lines : ranks.run()) EXPECT_THAT(lines, ElementsAre("a"));
  }
}

TEST(Agreement, NamesTheRanksThatAreMissing) {
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts);
    ranks.submit(1, "before");
    ranks.submit(1, "a");
    const auto [entry, generation] = ranks.submit(0, "a");
    ranks.run();
    const auto missing = ranks.at(0).missing(entry, generation);
    ASSERT_TRUE(missing);
    ASSERT_EQ(missing->size(), 1U);
    EXPECT_EQ(missing->front().rank, 12);
  }
}

TEST(Agreement, EntriesPassToNewNames) {
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts, /*capacity=*/32);
    for (int i = 0; i < 200; ++i) {
      const std::string name = "tensor" + std::to_string(i);
      for (int rank = 0; rank < 3; ++rank) ranks.submit(rank, name);
      for (const auto& lines : ranks.run()) ASSERT_THAT(lines, ElementsAre(name));
    }
  }
}

// Ranks submit in opposite orders, so that at half time no tensor is complete.
TEST(Agreement, ATableWithoutRoomGrows) {
  constexpr int kTensors = 1000;
  const auto name = [](int i) { return "tensor" + std::to_string(i); };
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts, /*capacity=*/32);
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<std::string>> lines(3);
      const auto run = [&] {
        const auto more = ranks.run();
        for (std::size_t r = 0; r < lines.size(); ++r) lines[r].insert(lines[r].end(), more[r].begin(), more[r].end());
      };
      for (int i = 0; i < kTensors; ++i) {
        ranks.submit(0, name(i));
        ranks.submit(1, name(kTensors - 1 - i));
        ranks.submit(2, name((i * 7 + step) % kTensors));
        if (i % 300 == 299) run();
      }
      run();
      EXPECT_GE(ranks.at(0).entries(), kTensors);
      EXPECT_EQ(lines[1], lines[0]);
      EXPECT_EQ(lines[2], lines[0]);
      std::sort(lines[0].begin(), lines[0].end());
      ASSERT_EQ(lines[0].size(), static_cast<std::size_t>(kTensors));
      EXPECT_EQ(std::unique(lines[0].begin(), lines[0].end()), lines[0].end());
    }
    EXPECT_LE(ranks.at(0).entries(), 5 * kTensors);
  }
}

TEST(Agreement, RanksThatHaveJoinedRunWhatAGrownTableHolds) {
  constexpr int kTensors = 200;
  for (const auto& hosts : kPlacements) {
    TestRanks ranks(hosts, /*capacity=*/32);
    for (int i = 0; i < kTensors; ++i) ranks.submit(0, "tensor" + std::to_string(i));
    ranks.at(1).join();
    ranks.at(2).join();
    for (const auto& lines : ranks.run()) EXPECT_EQ(lines.size(), static_cast<std::size_t>(kTensors));
    for (int i = 0; i < kTensors; ++i) ranks.submit(0, "other" + std::to_string(i));
    ranks.at(0).join();
    for (const auto& lines : ranks.run()) {
      ASSERT_EQ(lines.size(), static_cast<std::size_t>(kTensors) + 1);
      EXPECT_EQ(lines.back(), "joined, last 10");
    }
  }
}

TEST(Agreement, WithoutMemoryANewNameIsRefused) {
  TestRanks ranks({0, 0, 0}, /*capacity=*/32);
  ranks.blocks().most = 1;
  Status status;
  for (int i = 0; i < 65 && status; ++i) {
    const auto found = ranks.at(0).find("tensor" + std::to_string(i), [] { return true; });
    if (!found) {
      status = failure(found.error());
    } else {
      ranks.submit(0, "tensor" + std::to_string(i));
    }
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(status.error().message(), HasSubstr("operations in flight: no blocks left"));
}

}  // namespace
}  // namespace xoe::engine
