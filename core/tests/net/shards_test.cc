// Every element belongs to one chunk of one round, for every size and count.
#include "core/backend/net/shards.h"

#include <numeric>

#include <gtest/gtest.h>

namespace xoe::net {
namespace {

void expect_covers(const Shards& shards, int members, std::size_t count, std::size_t chunk_size) {
  std::vector<int> seen(count);
  for (int m = 0; m < members; ++m) {
    std::size_t chunks = 0;
    for (std::size_t round = 0; round < shards.rounds(); ++round) {
      const auto chunk = shards.chunk(m, round);
      EXPECT_LE(chunk.count, chunk_size);
      chunks += chunk.count != 0;
      for (std::size_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) ++seen[i];
    }
    EXPECT_EQ(chunks, shards.chunks(m));
  }
  EXPECT_EQ(seen, std::vector<int>(count, 1)) << members << " members, " << count << " elements";
}

TEST(Shards, CoverEverythingOnce) {
  for (const int members : {1, 2, 3, 4, 7, 16})
    for (const std::size_t count : {0, 1, 2, 3, 15, 16, 17, 100, 1003})
      for (const std::size_t grain : {1, 16})
        for (const std::size_t chunk_size : {16, 48, 4096}) {
          Shards shards(members);
          shards.cut_evenly(count, -1, grain, chunk_size);
          expect_covers(shards, members, count, chunk_size);
        }
}

TEST(Shards, ALeftOutMemberHasNone) {
  for (const int members : {2, 3, 7})
    for (int root = 0; root < members; ++root) {
      Shards shards(members);
      shards.cut_evenly(1003, root, 16, 64);
      expect_covers(shards, members, 1003, 64);
      EXPECT_EQ(shards.chunks(root), 0u);
    }
}

TEST(Shards, OfUnevenCounts) {
  const std::vector<std::size_t> counts{5, 0, 200, 1};
  Shards shards(4);
  shards.cut(counts, 64);
  expect_covers(shards, 4, 206, 64);
  EXPECT_EQ(shards.rounds(), 4u);
  EXPECT_EQ(shards.chunk(2, 1).offset, 5u + 64);
  EXPECT_EQ(shards.chunk(3, 1).count, 0u);
}

TEST(Shards, AreWholeGrains) {
  Shards shards(3);
  shards.cut_evenly(1000, -1, 16, 4096);
  EXPECT_EQ(shards.chunk(1, 0).offset, 336u);
  EXPECT_EQ(shards.chunk(2, 0).offset, 672u);
}

}  // namespace
}  // namespace xoe::net
