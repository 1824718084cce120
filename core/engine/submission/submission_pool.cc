#include "core/engine/submission/submission_pool.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/tagged_address.h"

namespace xoe::engine {
namespace {

constexpr int kMostPlaces = 8192;
constexpr std::uint64_t kClosed = 1;  // no address

}  // namespace

SubmissionPool::SubmissionPool(int capacity, int rank, int ranks)
    : rank_(rank), ranks_(ranks), places_(static_cast<std::size_t>(std::min(capacity, kMostPlaces))) {}

void SubmissionPool::close() {
  for (auto& place : places_) {
    const std::uint64_t kept = place.exchange(kClosed, std::memory_order_acq_rel);
    if (kept > kClosed) delete untagged_address<Submission>(kept);
  }
}

std::unique_ptr<Submission> SubmissionPool::take(std::uint64_t hash, const Request& request) {
  std::atomic<std::uint64_t>* const places = bucket(hash);
  for (std::size_t i = 0; i < kBucket; ++i) {
    std::uint64_t kept = places[i].load(std::memory_order_relaxed);
    if (tag_of_address(kept) != tag_of_address(hash) || kept <= kClosed) continue;
    if (!places[i].compare_exchange_strong(kept, 0, std::memory_order_acquire)) continue;
    std::unique_ptr<Submission> submission(untagged_address<Submission>(kept));
    if (submission->renew(request, rank_, ranks_)) [[likely]]
      return submission;
  }
  return nullptr;
}

Result<std::shared_ptr<Submission>> SubmissionPool::obtain(const Request& request) {
  const std::uint64_t hash = hash_text(request.name);
  if (auto submission = take(hash, request)) return share(submission.release());
  XOE_ASSIGN(auto made, Submission::make(request, std::string(request.name), rank_, ranks_));
  if (request.name.empty() || !made->operation().renewable()) return std::shared_ptr<Submission>(std::move(made));
  made->kept_.hash = hash;
  made->kept_.home = shared_from_this();
  return share(made.release());
}

std::shared_ptr<Submission> SubmissionPool::share(Submission* submission) {
  return {submission, [](Submission*) {}, InPlace<Submission>(submission)};
}

void SubmissionPool::give_back(Submission* submission) noexcept {
  submission->clear();
  std::atomic<std::uint64_t>* const places = submission->kept_.home->bucket(submission->kept_.hash);
  const std::uint64_t value = tag_address(submission, submission->kept_.hash);
  for (std::size_t i = 0; i < kBucket; ++i) {
    // Once it is in a place, neither it nor the pool may be touched any more.
    std::uint64_t none = places[i].load(std::memory_order_relaxed);
    if (none == 0 && places[i].compare_exchange_strong(none, value, std::memory_order_release)) return;
  }
  // Names that are not used any more must not keep all others out.
  const std::size_t victim = (value >> 6) % kBucket;
  std::uint64_t other = places[victim].load(std::memory_order_relaxed);
  if (other > kClosed && places[victim].compare_exchange_strong(other, value, std::memory_order_acq_rel))
    submission = untagged_address<Submission>(other);
  delete submission;
}

}  // namespace xoe::engine
