// Included by interleave_inl.h: how stages take turns.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "xoe/data/detail/cpu_account.h"
#include "xoe/data/detail/interleave_parts_inl.h"
#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/detail/tuning.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {

template <class T, class U>
class InterleaveIterator final : public IteratorBase<U> {
 public:
  using Open = std::function<Result<StagePtr<U>>(const T&)>;

  InterleaveIterator(StagePtr<T> stage, Open open, InterleaveOptions options, std::int64_t epoch)
      : stage_(std::move(stage)), open_(std::move(open)), options_(options), epoch_(epoch) {
    if (tunes()) tuning_.emplace(interleave_limits(options, most_threads_), &account_);
    threads_ = tuning_ ? tuning_->threads() : most_threads_;
    cycle_ = auto_cycle() ? tuning_->depth() : static_cast<std::size_t>(options.cycle_length);
  }
  ~InterleaveIterator() override { stop(); }

  Status open() {
    auto opened = stage_->iterate(epoch_);
    if (!opened) return failure(opened.error());
    upstream_ = std::move(*opened);
    slots_.resize(cycle_);
    start();
    return {};
  }

  Next<U> produce() override {
    std::unique_lock lock(mutex_);
    for (;;) {
      const Turn turn = find_turn();
      if (turn == Turn::kEnd) return std::nullopt;
      if (turn == Turn::kWait) {
        wait(lock);
        continue;
      }
      Child& child = *slots_[slot_];
      if (child.ready > 0) return give(child);
      if (child.error) return failure(*child.error);
      past_.add_past(child.iterator->stages());
      slots_[slot_].reset();  // it ended; its place is filled, with a turn of its own, when it is looked at next
      taken_ = 0;
      if (!future_has_more()) next_slot();
    }
  }

  State save() const override {
    const std::lock_guard lock(mutex_);
    State state;
    for (const ChildPtr& child : slots_) {
      if (child == nullptr) {
        state.push("interleave.child", -1);
        continue;
      }
      const bool within = !child->chunks.empty();
      state.push_group("interleave.position", within ? child->chunks.front().before : child->after);
      state.push("interleave.skip", within ? static_cast<std::int64_t>(child->chunks.front().given) : 0);
      state.push("interleave.child", child->ordinal);
    }
    state.push("interleave.slot", static_cast<std::int64_t>(slot_));
    state.push("interleave.taken", taken_);
    state.push("interleave.opened", placed_);
    if (auto_cycle()) state.push("interleave.slots", static_cast<std::int64_t>(slots_.size()));
    return state;
  }

  Status resume(State state) override {
    stop();
    Status restored = read(std::move(state));
    past_.clear();
    start();
    return restored;
  }

 protected:
  std::vector<StageReport> inputs() const override {
    const std::lock_guard lock(mutex_);
    StageSum children = past_;
    for (const ChildPtr& child : slots_) add_stages(children, child.get());
    for (const ChildPtr& child : future_) add_stages(children, child.get());
    std::vector<StageReport> all = upstream_->stages();
    append_stages(all, children.list());
    return all;
  }
  void describe(StageReport& mine) const override {
    mine.name = "interleave";
    if (most_threads_ == 0) return;
    const std::lock_guard lock(mutex_);
    figures_.report(mine);
    mine.threads = threads_;
    mine.most_threads = mine.pullers = most_threads_;
    const auto ahead = static_cast<std::size_t>(options_.ahead);
    mine.depth = cycle_ * ahead;
    mine.most_depth = auto_cycle() ? kMostCycle * ahead : mine.depth;
    if (tuning_) mine.last_tuning = tuning_->reason();
  }

 private:
  using Child = InterleaveChild<U>;
  using ChildPtr = std::unique_ptr<Child>;
  enum class Turn : std::uint8_t { kGive, kWait, kEnd };
  static constexpr std::size_t kChunk = 16;
  static constexpr std::size_t kFuture = 2;       // stages opened before their turn
  static constexpr std::int64_t kLookEvery = 16;  // elements between looks at the clock

  bool auto_cycle() const { return options_.cycle_length == kAutoCycle; }
  bool tunes() const { return auto_cycle() || options_.threads == kAutoThreads; }

  void start() {
    stopping_ = false;
    figures_ = {};
    if (tuning_) tuning_->restart();
    for (int reader = 0; reader < most_threads_; ++reader)
      readers_.emplace_back([this, reader] { read_ahead(reader); });
    account_.open(readers_);
  }
  void stop() {
    account_.close();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    in_use_.notify_all();
    readers_.clear();
  }

  void next_slot() {
    slot_ = (slot_ + 1) % slots_.size();
    taken_ = 0;
  }
  bool future_has_more() const { return !future_.empty() || !upstream_ended_; }
  // What is above a cycle that became shorter ends, and is not replaced.
  bool is_filled(std::size_t slot) const { return slot < cycle_; }

  // Moves slot_ to the child whose turn it is. With the lock held.
  Turn find_turn() {
    bool waiting = false;
    for (std::size_t seen = 0; seen <= slots_.size(); ++seen) {
      if (slots_[slot_] == nullptr && is_filled(slot_) && !future_.empty()) {
        slots_[slot_] = std::move(future_.front());
        future_.pop_front();
        ++placed_;
        room_.notify_all();
      }
      const ChildPtr& child = slots_[slot_];
      if (child != nullptr && child->has_answer()) return Turn::kGive;
      const bool may_come = child != nullptr || (is_filled(slot_) && !upstream_ended_);
      if (may_come && options_.deterministic) return Turn::kWait;
      waiting = waiting || may_come;
      next_slot();
    }
    return waiting ? Turn::kWait : Turn::kEnd;
  }

  U give(Child& child) {
    auto& chunk = child.chunks.front();
    U element = std::move(chunk.elements[chunk.given++]);
    --child.ready;
    figures_.give(ElementBytes<U>::of(element));
    // The last one before an error stays, as the position behind it is not known.
    const bool known_behind = !child.error || child.chunks.size() > 1;
    if (chunk.given == chunk.elements.size() && known_behind) {
      child.chunks.pop_front();
      room_.notify_one();
    }
    if (++taken_ == options_.block_length) next_slot();
    if (figures_.given % kLookEvery == 0) tune();
    return element;
  }

  // Until something changed; without readers, by doing the work.
  void wait(std::unique_lock<std::mutex>& lock) {
    if (most_threads_ > 0) {
      room_.notify_one();  // what is to come next may be read although there is no room for more
      figures_.waited += seconds_of([&] { changed_.wait(lock); });
      tune();
      return;
    }
    Child* child = slots_[slot_].get();
    if (child == nullptr)
      open_next(lock);
    else
      read_chunk(*child, 1, lock);
  }

  void tune() {
    if (!tuning_ || !tuning_->due()) return;
    if (!tuning_->step({.waited = figures_.waited, .idle = figures_.idle, .taken = figures_.given})) return;
    threads_ = tuning_->threads();
    if (auto_cycle()) cycle_ = tuning_->depth();
    if (slots_.size() < cycle_) slots_.resize(cycle_);
    room_.notify_all();
    in_use_.notify_all();
  }

  // Opens the next element's stage into future_. One thread at a time; lets go of the lock meanwhile.
  void open_next(std::unique_lock<std::mutex>& lock) {
    opening_ = true;
    lock.unlock();
    auto child = std::make_unique<Child>();
    bool ended = false;
    const auto open = [&] {
      if (auto made = caught([&] { return open_child(*child); }); !made)
        child->error = made.error();
      else
        ended = !*made;
    };
    const double seconds = seconds_if(most_threads_ > 0, open);
    lock.lock();
    figures_.opening += seconds;
    opening_ = false;
    upstream_ended_ = ended || child->error;
    if (!ended) {
      child->ordinal = opened_++;
      future_.push_back(std::move(child));
    }
    changed_.notify_all();
    room_.notify_all();
  }
  // False at the end of the upstream.
  Result<bool> open_child(Child& child) {
    auto element = upstream_->next();
    if (!element) return failure(element.error());
    if (!*element) return false;
    auto stage = guarded<StagePtr<U>>("interleave", epoch_, opened_, open_, **element);
    if (!stage) return failure(stage.error());
    auto iterator = (*stage)->iterate(epoch_);
    if (!iterator) return failure(iterator.error());
    child.iterator = std::move(*iterator);
    child.after = child.iterator->save();
    return true;
  }

  void read_chunk(Child& child, std::size_t most, std::unique_lock<std::mutex>& lock) {
    child.busy = true;
    lock.unlock();
    typename Child::Chunk chunk;
    bool ended = false;
    State after;
    Status read;
    const auto fill = [&] { read = caught([&] { return child.fill(chunk, most, ended, after); }); };
    const double seconds = seconds_if(most_threads_ > 0, fill);
    lock.lock();
    figures_.reading += seconds;
    child.busy = false;
    child.ended = ended;
    if (!read) child.error = read.error();
    child.ready += static_cast<std::int64_t>(chunk.elements.size());
    figures_.ready += static_cast<std::int64_t>(chunk.elements.size());
    figures_.ready_bytes += chunk.bytes;
    chunk.before = child.after;
    if (read) child.after = std::move(after);
    if (!chunk.elements.empty()) child.chunks.push_back(std::move(chunk));
    changed_.notify_all();
  }

  bool wants_reading(const ChildPtr& child) const {
    if (child == nullptr || child->busy || child->ended || child->error || child->ready >= options_.ahead) return false;
    return within_budget() || (child == slots_[slot_] && child->ready == 0);
  }
  bool within_budget() const { return figures_.ready_bytes < budget_; }
  // Whoever is needed soonest.
  Child* to_read() {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (const auto& child = slots_[(slot_ + i) % slots_.size()]; wants_reading(child)) return child.get();
    for (const ChildPtr& child : future_)
      if (wants_reading(child)) return child.get();
    return nullptr;
  }
  bool may_open() const {
    const auto filled = slots_.begin() + static_cast<std::ptrdiff_t>(std::min(cycle_, slots_.size()));
    const auto empty = static_cast<std::size_t>(std::count(slots_.begin(), filled, nullptr));
    return !opening_ && !upstream_ended_ && future_.size() < kFuture + empty;
  }
  void read_ahead(int reader) {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (reader >= threads_)
        in_use_.wait(lock, [&] { return stopping_ || reader < threads_; });
      else if (may_open())
        open_next(lock);
      else if (Child* child = to_read())
        read_chunk(*child, within_budget() ? kChunk : 1, lock);
      else
        wait_for_room(lock, reader);
    }
  }
  void wait_for_room(std::unique_lock<std::mutex>& lock, int reader) {
    // At the end, and while others are in what there is to do, nobody waits for the consumer.
    const bool counts = std::any_of(slots_.begin(), slots_.end(),
                                    [](const auto& child) { return child && !child->busy && !child->ended; });
    const auto may_work = [&] { return stopping_ || reader >= threads_ || may_open() || to_read() != nullptr; };
    const double seconds = seconds_of([&] { room_.wait(lock, may_work); });
    if (counts) figures_.idle += seconds;
  }

  // Opens again the stages that were open, by going through the upstream from its beginning.
  Status read(State state) {
    auto slots = auto_cycle() ? InterleavePosition::slots(state, kMostCycle) : slots_.size();
    if (!slots) return failure(slots.error());
    auto saved = InterleavePosition::from(std::move(state), *slots);
    if (!saved) return failure(saved.error());
    auto opened = stage_->iterate(epoch_);
    if (!opened) return failure(opened.error());
    upstream_ = std::move(*opened);
    future_.clear();
    slots_.clear();
    slots_.resize(std::max(*slots, cycle_));
    opening_ = upstream_ended_ = false;
    opened_ = 0;
    slot_ = saved->slot;
    taken_ = saved->taken;
    placed_ = saved->placed;
    for (const InterleavePosition::Child& was : saved->children)
      if (auto child = reopen(was.ordinal, was.position, was.skip); child)
        slots_[was.slot] = std::move(*child);
      else
        return failure(child.error());
    return pass(placed_);
  }
  // Goes on in the upstream until `ordinal` is next.
  Status pass(std::int64_t ordinal) {
    const auto there = upstream_->skip(ordinal - opened_);
    if (!there) return failure(there.error());
    if (!*there) return failure(Code::kInvalidArgument, "interleave: the saved position is past the upstream's end");
    opened_ = ordinal;
    return {};
  }
  Result<ChildPtr> reopen(std::int64_t ordinal, const State& position, std::int64_t skip) {
    if (ordinal < opened_) return failure(Code::kInvalidArgument, "interleave: the saved position is damaged");
    if (auto passed = pass(ordinal); !passed) return failure(passed.error());
    auto child = std::make_unique<Child>();
    const auto there = open_child(*child);
    if (!there) return failure(there.error());
    if (!*there) return failure(Code::kInvalidArgument, "interleave: the saved position is past the upstream's end");
    child->ordinal = opened_++;
    if (auto restored = child->iterator->restore(position); !restored) return failure(restored.error());
    if (const auto skipped = child->iterator->skip(skip); !skipped) return failure(skipped.error());
    child->after = child->iterator->save();
    return child;
  }

  StagePtr<T> stage_;
  Open open_;
  InterleaveOptions options_;
  std::int64_t epoch_;
  std::int64_t budget_ = static_cast<std::int64_t>(memory_budget(options_.memory_budget));  // bytes
  int most_threads_ = most_threads(options_.threads, options_.processes);

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something to give
  std::condition_variable room_;     // something to read, for readers in use
  std::condition_variable in_use_;   // for those that are not
  int threads_ = 0;                  // in use
  std::size_t cycle_ = 0;            // slots that are filled again
  CpuAccount account_;
  std::optional<Tuning> tuning_;  // empty: fixed
  IteratorPtr<T> upstream_;       // of the one thread that set opening_
  bool opening_ = false;
  bool upstream_ended_ = false;
  bool stopping_ = false;
  std::int64_t opened_ = 0;  // elements of the upstream
  std::int64_t placed_ = 0;  // of those, that came to a slot
  std::deque<ChildPtr> future_;
  std::vector<ChildPtr> slots_;
  std::size_t slot_ = 0;
  std::int64_t taken_ = 0;  // in this turn
  StageSum past_;           // of stages that ended
  InterleaveFigures figures_;
  std::vector<std::jthread> readers_;  // last: joined before what they use goes
};

}  // namespace xoe::data::detail
