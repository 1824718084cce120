// Broadcasts, allgathers and alltoalls that are larger than the caches, from and to memory of either kind.
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/collective.h"
#include "core/backend/shm/partition.h"
#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

// Elements of a rank, which groups of 2 and of 3 can divide; no whole number of cache lines.
constexpr std::size_t kLargeCount = (shm::kCachedBytes / sizeof(std::uint32_t) / 6 + 1001) * 6;

std::uint32_t number_of(int rank, std::size_t i) {
  return static_cast<std::uint32_t>(rank + 1) * 100'000'000 + static_cast<std::uint32_t>(i);
}

// kLargeCount elements of a rank, shared with its peers or not.
class Numbers {
 public:
  Numbers(Communicator& world, bool shared) {
    if (shared)
      buffer_ = world.shared_buffer(kLargeCount * sizeof(std::uint32_t)).value();
    else
      private_.resize(kLargeCount);
    data_ = shared ? buffer_.as<std::uint32_t>().data() : private_.data();
  }
  void fill(int rank) {
    for (std::size_t i = 0; i < kLargeCount; ++i) data_[i] = number_of(rank, i);
  }
  std::uint32_t* data() const { return data_; }
  Tensor tensor() const { return {data_, kLargeCount, DType::kInt32}; }

 private:
  SharedBuffer buffer_;
  std::vector<std::uint32_t> private_;
  std::uint32_t* data_;
};

// Elements [begin, begin + count) of `data` are those of `rank` from `first` on.
void expect_numbers(const Numbers& numbers, std::size_t begin, std::size_t count, int rank, std::size_t first) {
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(numbers.data()[begin + i], number_of(rank, first + i)) << "element " << begin + i;
}

void check_copies(Communicator& world, bool in_shared, bool out_shared) {
  const int me = world.rank();
  const std::vector<std::size_t> parts(index(world.size()), kLargeCount / index(world.size()));
  const std::size_t part = parts[0];
  Numbers in(world, in_shared), out(world, out_shared);
  for (int root = 0; root < world.size(); ++root) {
    out.fill(me);
    ASSERT_TRUE(world.broadcast(out.tensor(), root));
    expect_numbers(out, 0, kLargeCount, root, 0);
  }
  in.fill(me);
  ASSERT_TRUE(world.alltoall(in.tensor(), parts, out.tensor(), parts));
  for (int r = 0; r < world.size(); ++r) expect_numbers(out, index(r) * part, part, r, index(me) * part);
  ASSERT_TRUE(world.allgather(ConstTensor(in.data() + index(me) * part, part, DType::kInt32), out.tensor()));
  for (int r = 0; r < world.size(); ++r) expect_numbers(out, index(r) * part, part, r, index(r) * part);
  ASSERT_TRUE(world.barrier());  // the buffers go now
}

TEST(LargeCopies, ArriveFromAndInMemoryOfEitherKind) {
  for (const int size : {2, 3})
    for (const unsigned in_shared : {5U, 0U, 7U})  // of the ranks with these bits
      for (const unsigned out_shared : {6U, 0U, 7U}) {
        run_ranks(size, [&](Communicator& world) {
          check_copies(world, (in_shared >> world.rank() & 1) != 0, (out_shared >> world.rank() & 1) != 0);
        });
        if (XOE_SANITIZED != 0) return;  // which is slow
      }
}

// Of several rounds, of bytes, at an odd address, in a group of another order, from every root.
TEST(LargeCopies, BroadcastInRounds) {
  if (XOE_SANITIZED != 0) GTEST_SKIP() << "slow under sanitizers";
  constexpr std::size_t kBytes = 2 * shm::kDirectBytes + (std::size_t{3} << 20) + 13;
  run_ranks(3, [&](Communicator& world) {
    auto group = world.split(0, -world.rank()).value();
    SharedBuffer buffer = group->shared_buffer(kBytes + 3).value();
    const std::span data = buffer.as<std::uint8_t>().subspan(3, kBytes);
    for (int root = 0; root < group->size(); ++root) {
      for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::uint8_t>(i / 251 + i + index(group->rank()));
      ASSERT_TRUE(group->broadcast(Tensor(data.data(), kBytes), root));
      for (std::size_t i = 0; i < kBytes; ++i)
        ASSERT_EQ(data[i], static_cast<std::uint8_t>(i / 251 + i + index(root))) << i << " from " << root;
    }
    ASSERT_TRUE(group->barrier());  // the buffer goes now
  });
}

}  // namespace
}  // namespace xoe::testing
