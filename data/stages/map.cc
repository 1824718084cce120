// map(): a function of the user for each element.
#include <algorithm>

#include "core/base/text.h"
#include "data/stages/iterator_base.h"
#include "data/tune/tuning.h"
#include "xoe/data/ordered_thread_pool.h"
#include "xoe/data/stages.h"

namespace xoe::data {

bool may_skip(const Error& error) noexcept {
  return error.code() == Code::kDataLoss || error.code() == Code::kResourceExhausted ||
         error.code() == Code::kUnavailable;
}

namespace detail {
namespace {

struct MapRecipe {
  MapFunction f;
  MapOptions options;
};

class MapIterator : public UpstreamIterator {
 public:
  MapIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, MapRecipe recipe)
      : UpstreamIterator(recipe.options.name, std::move(upstream), type, epoch,
                         {{"map.position", &position_}, {"map.skipped", &skipped_}}),
        recipe_(std::move(recipe)) {}

 protected:
  Status call(const void* element, std::int64_t position, Slot& slot) const {
    const Status made = caught([&] { return recipe_.f(element, slot); });
    if (!made) return element_failure("map", epoch_, position, made.error());
    return {};
  }
  Status count_bad(const Error& error) {
    const MapOptions& options = recipe_.options;
    if (options.on_error == OnError::kFail || !may_skip(error)) return failure(error);
    if (++skipped_ <= options.max_bad) return {};
    return failure(error.code(), "map: {}, more than the {} allowed; the last one: {}",
                   xoe::counted(skipped_, "bad element"), options.max_bad, error.message());
  }
  MapRecipe recipe_;
  std::int64_t position_ = 0;  // in the upstream
  std::int64_t skipped_ = 0;
};

// Calls the function in the thread of next().
class InlineMapIterator final : public Produces<InlineMapIterator, MapIterator> {
 public:
  InlineMapIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, MapRecipe recipe)
      : Produces(std::move(upstream), type, epoch, std::move(recipe)), element_(stage_->element_type()) {}

  Result<bool> produce(Slot& slot) override {
    for (;;) {
      XOE_ASSIGN(const bool there, element_.pull(*upstream_));
      if (!there) return false;
      const Status made = call(element_.get(), position_++, slot);
      element_.clear();
      if (made) return true;
      XOE_TRY(count_bad(made.error()));
    }
  }

 private:
  ElementBox element_;
};

// One element on its way through the function; an error or the end of the upstream is the last job.
struct MapJob final : Job {
  MapJob(const ElementType& from, const ElementType& to) : Job(1), source(from), made(to) {}

  Result<bool> there = false;
  ElementBox source;
  std::int64_t position = 0;
  State after;  // of the upstream
  ElementBox made;
  Status status;
};

// Calls the function in threads.
class ThreadedMapIterator final : public Produces<ThreadedMapIterator, MapIterator> {
 public:
  using Produces::Produces;

  Status open() override {
    XOE_TRY(MapIterator::open());
    delivered_ = upstream_->save();
    const MapOptions& options = recipe_.options;
    const bool automatic = options.threads == kAutoThreads;
    const int threads = most_threads(options.threads, options.processes);
    pool_ = std::make_unique<OrderedThreadPool>(
        ThreadPoolOptions{.threads = threads,
                          .depth = options.ahead > 0 ? options.ahead : 4 * static_cast<std::size_t>(threads),
                          .tune = options.tune || automatic,
                          .cpus = automatic ? threads : 0,
                          .name = options.name},
        [this] { return pull(); }, [this](Job& job, std::size_t, int) { run(static_cast<MapJob&>(job)); });
    return {};
  }

  Result<bool> produce(Slot& slot) override {
    for (;;) {
      const std::unique_ptr<Job> taken = pool_->take();
      if (taken == nullptr) return false;
      auto& job = static_cast<MapJob&>(*taken);
      if (!job.there || !*job.there) return job.there;
      delivered_ = std::move(job.after);
      position_ = job.position + 1;
      if (job.status) {
        job.made.give(slot);
        return true;
      }
      XOE_TRY(count_bad(job.status.error()));
    }
  }
  State save() const override { return with_fields(delivered_); }
  Status resume(State state) override {
    Status restored;
    pool_->restart([&] {
      restored = caught([&] { return MapIterator::resume(std::move(state)); });
      if (restored) delivered_ = upstream_->save();
      pulled_ = position_;
      ended_ = false;
    });
    return restored;
  }

 private:
  void describe(StageReport& mine) const override { pool_->report(mine); }

  std::unique_ptr<Job> pull() {
    if (ended_) return nullptr;
    auto job = std::make_unique<MapJob>(stage_->element_type(), type_);
    job->there = caught([&] {
      Result<bool> there = job->source.pull(*upstream_);
      if (there) job->after = upstream_->save();
      return there;
    });
    job->position = pulled_++;
    ended_ = !job->there || !*job->there;
    return job;
  }
  void run(MapJob& job) const {
    if (!job.source.full()) return;
    job.status = job.made.fill([&](Slot& slot) { return call(job.source.get(), job.position, slot); });
  }

  // Of the thread that pulls.
  std::int64_t pulled_ = 0;
  bool ended_ = false;

  State delivered_;                          // of the consumer
  std::unique_ptr<OrderedThreadPool> pool_;  // last: its threads end before what they use goes
};

}  // namespace

AnyStagePtr map(const AnyStagePtr& upstream, const ElementType& type, MapFunction f, MapOptions options) {
  resolve_bad_limit(options);
  const MapRecipe recipe{std::move(f), std::move(options)};
  return make_stage(
      type,
      [=, &type](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        const int threads = recipe.options.threads;
        if (threads < kAutoThreads) return failure(Code::kInvalidArgument, "map: threads is {}", threads);
        if (threads == 0) return opened<InlineMapIterator>(upstream, type, epoch, recipe);
        return opened<ThreadedMapIterator>(upstream, type, epoch, recipe);
      },
      [=] { return recipe.options.on_error == OnError::kSkip ? std::nullopt : upstream->size(); });
}

}  // namespace detail
}  // namespace xoe::data
