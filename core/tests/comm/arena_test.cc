// The memory that a rank shares: blocks, and places that are taken back from a peer.
#include "core/backend/shm/arena.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace xoe::shm {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPages = 32;

class ArenaTest : public ::testing::Test {
 protected:
  std::byte* at(std::size_t offset) const { return arena_->mapping()->base() + offset; }
  // Until there is none left.
  std::vector<std::size_t> allocate_pages() {
    std::vector<std::size_t> offsets;
    for (auto offset = arena_->allocate(page_); offset; offset = arena_->allocate(page_)) offsets.push_back(*offset);
    return offsets;
  }

  const std::size_t page_ = Arena::page_bytes();
  const std::shared_ptr<Arena> arena_ = Arena::create((kPages + 1) * page_, page_).value();
};

TEST_F(ArenaTest, ReleasedBlocksAreZeroAgainAndJoin) {
  for (int round = 0; round < 3; ++round) {
    const auto pages = allocate_pages();
    ASSERT_EQ(pages.size(), kPages);
    for (const std::size_t page : pages) {
      EXPECT_EQ(*at(page), std::byte{0});
      std::memset(at(page), 7, page_);
    }
    // Every second one first, so that each of the others joins two.
    for (const std::size_t first : {0, 1})
      for (std::size_t i = first; i < kPages; i += 2) arena_->release(pages[i], page_);
    const auto whole = arena_->allocate(kPages * page_);
    ASSERT_TRUE(whole) << whole.error().message();
    EXPECT_EQ(*at(*whole), std::byte{0});
    arena_->release(*whole, kPages * page_);
  }
}

TEST_F(ArenaTest, AFullOneSaysWhatIsThere) {
  const auto pages = allocate_pages();
  arena_->release(pages[3], page_);
  const auto refused = arena_->allocate(2 * page_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("the largest free block"));
  EXPECT_FALSE(arena_->allocate(SIZE_MAX));
}

// As after each failure with a stopped peer. A place is remembered for as long as the arena lives, but none is taken
// twice: what is taken back is not shared, so that no operation has peers write there, and its block is not given out
// again. So there are at most as many as the arena has pages.
TEST_F(ArenaTest, TakenPlacesAreNotUsedAgain) {
  std::size_t taken = 0;
  for (auto block = arena_->allocate(2 * page_); block; block = arena_->allocate(2 * page_), ++taken) {
    ASSERT_TRUE(arena_->shares(at(*block), 2 * page_));
    std::memset(at(*block), 5, 2 * page_);
    ASSERT_TRUE(arena_->take_back(at(*block) + 8, 8));
    EXPECT_FALSE(arena_->shares(at(*block), 16));
    EXPECT_TRUE(arena_->shares(at(*block) + page_, page_)) << "the block's other page";
    EXPECT_EQ(*at(*block), std::byte{5}) << "it has what it held";
    arena_->release(*block, 2 * page_);
  }
  EXPECT_EQ(taken, kPages / 2);
  EXPECT_FALSE(arena_->allocate(page_));
}

}  // namespace
}  // namespace xoe::shm
