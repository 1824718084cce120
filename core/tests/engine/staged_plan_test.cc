// How collectives pass through a small buffer: every element once, in the same rounds on all ranks.
#include <gtest/gtest.h>

#include <numeric>

#include "core/engine/execute/gpu/staged_plan.h"

namespace xoe::engine {
namespace {

using Counts = std::vector<std::size_t>;

// Checks that pieces cover `count` elements of each array in order, each once, and returns what they have in the
// buffer.
class Coverage {
 public:
  explicit Coverage(Counts arrays) : seen_(arrays.size()) {
    for (std::size_t i = 0; i < arrays.size(); ++i) seen_[i].resize(arrays[i]);
  }
  void add(const std::vector<StagedPiece>& pieces, std::size_t at, std::size_t count) {
    std::size_t covered = 0;
    for (const StagedPiece& piece : pieces) {
      EXPECT_GE(piece.at, at);
      EXPECT_LE(piece.at + piece.count, at + count);
      covered += piece.count;
      for (std::size_t i = 0; i < piece.count; ++i) ++seen_[piece.array].at(piece.first + i);
    }
    EXPECT_EQ(covered, count);
  }
  void expect_all_once() const {
    for (const auto& array : seen_)
      for (const int times : array) EXPECT_EQ(times, 1);
  }

 private:
  std::vector<std::vector<int>> seen_;
};

// Of one rank.
void check(const Collective& c, std::size_t rank, std::size_t size, std::size_t elements, std::size_t rounds,
           const Counts& in, const Counts& out) {
  const StagedPlan plan(c, rank, size, elements);
  Coverage read(in), written(out);
  for (std::size_t n = 0; n < rounds; ++n) {
    const StagedRound round = plan.round(n);
    EXPECT_LE(round.in_at + round.in_count, elements);
    EXPECT_LE(round.out_at + round.out_count, elements);
    read.add(round.in, round.in_at, round.in_count);
    written.add(round.out, round.out_at, round.out_count);
  }
  read.expect_all_once();
  written.expect_all_once();
}

std::size_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }

TEST(StagedPlan, OneArray) {
  for (const std::size_t count : {0, 1, 7, 8, 9, 100})
    for (const CollectiveKind kind : {CollectiveKind::kAllreduce, CollectiveKind::kBroadcast}) {
      const Collective c{.kind = kind, .in_count = count, .out_count = count};
      const std::size_t rounds = StagedPlan(c, 0, 2, 8).rounds();
      EXPECT_EQ(rounds, (count + 7) / 8);
      check(c, 0, 2, 8, rounds, {count}, {count});
    }
}

TEST(StagedPlan, SeveralArraysShareARound) {
  const Counts counts{3, 0, 20, 1, 8};
  std::vector<Segment> segments;
  for (const std::size_t count : counts) segments.push_back({.count = count});
  const Collective c{
      .kind = CollectiveKind::kAllreduce, .in_count = sum(counts), .out_count = sum(counts), .segments = segments};
  EXPECT_EQ(StagedPlan(c, 0, 2, 8).rounds(), 4U);
  check(c, 0, 2, 8, 4, counts, counts);
  EXPECT_EQ(StagedPlan(c, 0, 2, 8).round(0).in.size(), 2U);
}

TEST(StagedPlan, RowsOfAllRanks) {
  for (const Counts& counts : {Counts{0, 0, 0}, Counts{1, 1, 1}, Counts{5, 0, 17}, Counts{100, 3, 9}})
    for (const std::size_t elements : {3, 7, 64}) {
      std::vector<std::size_t> rounds;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const Collective gather{.kind = CollectiveKind::kAllgather,
                                .in_count = counts[rank],
                                .out_count = sum(counts),
                                .send_counts = counts};
        const Collective scatter{.kind = CollectiveKind::kReduceScatter,
                                 .in_count = sum(counts),
                                 .out_count = counts[rank],
                                 .send_counts = counts};
        const std::size_t n = StagedPlan(gather, rank, 3, elements).rounds();
        EXPECT_EQ(StagedPlan(scatter, rank, 3, elements).rounds(), n);
        rounds.push_back(n);
        check(gather, rank, 3, elements, n, {counts[rank]}, {sum(counts)});
        check(scatter, rank, 3, elements, n, {sum(counts)}, {counts[rank]});
      }
      EXPECT_EQ(rounds, std::vector<std::size_t>(3, rounds[0]));
    }
}

TEST(StagedPlan, RanksExchangeInTheSameRounds) {
  const std::vector<Counts> sent{{0, 40, 1}, {2, 0, 0}, {0, 5, 3}};
  const std::size_t elements = 12;
  std::size_t most = 0;
  std::vector<Collective> all;
  std::vector<Counts> received(3, Counts(3));
  for (std::size_t to = 0; to < 3; ++to)
    for (std::size_t from = 0; from < 3; ++from) received[to][from] = sent[from][to];
  for (std::size_t rank = 0; rank < 3; ++rank) {
    all.push_back({.kind = CollectiveKind::kAlltoall,
                   .in_count = sum(sent[rank]),
                   .out_count = sum(received[rank]),
                   .send_counts = sent[rank],
                   .recv_counts = received[rank]});
    most = std::max(most, StagedPlan(all[rank], rank, 3, elements).rounds());
  }
  EXPECT_EQ(most, 20U);
  for (std::size_t rank = 0; rank < 3; ++rank)
    check(all[rank], rank, 3, elements, most, {sum(sent[rank])}, {sum(received[rank])});
  for (std::size_t n = 0; n < most; ++n)
    for (std::size_t from = 0; from < 3; ++from)
      for (std::size_t to = 0; to < 3; ++to)
        EXPECT_EQ(StagedPlan(all[from], from, 3, elements).round(n).send_counts[to],
                  StagedPlan(all[to], to, 3, elements).round(n).recv_counts[from]);
}

}  // namespace
}  // namespace xoe::engine
