// Keeps submissions that have completed for the next step, which most often submits the same names again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/submission/submission.h"

namespace xoe::engine {

// Of one process set. A submission whose name, operation and shapes are those of an earlier one takes that one's place:
// nothing is allocated, checked or hashed again but the name. The others are made from nothing.
//
// INVARIANTS
// 1. A place holds a submission's address with 16 bits of its name's hash above it; 0: none. The thread that takes an
//    address out by compare-exchange owns the submission.
// 2. While a submission has references, its pool lives. A submission in a place keeps the pool alive too, until close()
//    takes it out.
// 3. close() fills all places for good, so that a submission that is given back later finds none, and is deleted.
//
// Thread safety: any thread, also after the engine is gone.
class SubmissionPool : public std::enable_shared_from_this<SubmissionPool> {
 public:
  // capacity: of the readiness table. rank, ranks: of the process set.
  SubmissionPool(int capacity, int rank, int ranks);
  // Deletes what it keeps.
  void close();

  // Checks everything that one rank can check alone.
  Result<std::shared_ptr<Submission>> obtain(const Request& request);

 private:
  static constexpr std::size_t kBucket = 8;  // places of a name; one cache line

  // The storage of a submission's reference counts: in the submission itself. Giving it back ends the last reference.
  template <class T>
  struct InPlace {
    using value_type = T;
    explicit InPlace(Submission* of) noexcept : submission(of) {}
    template <class U>
    InPlace(const InPlace<U>& other) noexcept : submission(other.submission) {}  // NOLINT: as allocators convert
    T* allocate(std::size_t count) noexcept {
      static_assert(sizeof(T) <= sizeof(Submission::Kept::counts) && alignof(T) <= alignof(std::max_align_t));
      return count == 1 ? reinterpret_cast<T*>(submission->kept_.counts) : nullptr;
    }
    void deallocate(T*, std::size_t) noexcept { give_back(submission); }
    template <class U>
    bool operator==(const InPlace<U>& other) const noexcept {
      return submission == other.submission;
    }
    Submission* submission;
  };

  static std::shared_ptr<Submission> share(Submission* submission);
  static void give_back(Submission* submission) noexcept;
  std::atomic<std::uint64_t>* bucket(std::uint64_t hash) noexcept {
    return &places_[hash % (places_.size() / kBucket) * kBucket];
  }
  std::unique_ptr<Submission> take(std::uint64_t hash, const Request& request);

  const int rank_;
  const int ranks_;
  std::vector<std::atomic<std::uint64_t>> places_;
};

}  // namespace xoe::engine
