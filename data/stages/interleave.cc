// interleave(): several stages take turns.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "data/stages/iterator_base.h"
#include "data/tune/tuning.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {
namespace {

constexpr std::size_t kMostCycle = 64;
constexpr std::size_t kChunk = 16;  // elements that a thread reads at once
constexpr std::size_t kFuture = 2;  // stages opened before their turn

bool auto_cycle(const InterleaveOptions& options) { return options.cycle_length == kAutoCycle; }

TunerLimits tuner_limits(const InterleaveOptions& options, int most_threads) {
  const bool auto_threads = options.threads == kAutoThreads;
  const int least_threads = auto_threads ? 1 : most_threads;
  TunerLimits limits{.least = {least_threads, static_cast<std::size_t>(std::max(options.cycle_length, 1))},
                     .most = {most_threads, static_cast<std::size_t>(std::max(options.cycle_length, 1))},
                     .cpus = auto_threads ? most_threads : 0,
                     .depth_means = "at a time"};
  if (auto_cycle(options)) {
    // Each thread reads one, and the consumer takes from one more.
    limits.least.depth = std::min(static_cast<std::size_t>(least_threads) + 1, kMostCycle);
    limits.most.depth = kMostCycle;
  }
  return limits;
}

// ---- One of the stages that take turns

// Elements that were read ahead at once, and the position before them.
struct Chunk {
  explicit Chunk(const ElementType& type) : elements(type) {}

  State before = {};
  ElementList elements;
  std::int64_t given = 0;
};

struct Child {
  std::int64_t ordinal = 0;  // of the upstream's element
  AnyIteratorPtr iterator;   // of the one thread that set `busy`
  State after;               // position behind all chunks
  std::deque<Chunk> chunks;
  std::int64_t ready = 0;  // elements in them that were not given yet
  bool busy = false;
  bool ended = false;
  std::optional<Error> error;  // after the elements that are ready

  bool has_answer() const { return ready > 0 || ended || error; }
};
using ChildPtr = std::unique_ptr<Child>;

void add_stages(StageSum& sum, const Child* child) {
  if (child != nullptr && child->iterator != nullptr) sum.add(child->iterator->stages());
}

// Opens a child for each element of the upstream. One thread at a time, reports any.
class Opener {
 public:
  Opener(AnyStagePtr stage, OpenFunction open, std::int64_t epoch)
      : stage_(std::move(stage)), open_(std::move(open)), epoch_(epoch) {}

  Status restart() {
    opened_ = 0;
    XOE_ASSIGN(upstream_, stage_->iterate_any(epoch_));
    return {};
  }
  // The next element's child, which holds the error if it could not be opened; null at the end of the upstream.
  ChildPtr next() {
    auto child = std::make_unique<Child>();
    const auto made = caught([&] { return open(*child); });
    if (made && !*made) return nullptr;
    if (!made) child->error = made.error();
    child->ordinal = opened_++;
    return child;
  }
  // Goes on in the upstream until `ordinal` is next.
  Status pass(std::int64_t ordinal) {
    XOE_ASSIGN(const bool there, upstream_->skip(ordinal - opened_));
    if (!there) return past_end();
    opened_ = ordinal;
    return {};
  }
  Result<ChildPtr> reopen(std::int64_t ordinal, State position, std::int64_t skip) {
    if (ordinal < opened_) return failure(Code::kInvalidArgument, "interleave: the saved position is damaged");
    XOE_TRY(pass(ordinal));
    ChildPtr child = next();
    if (child == nullptr) return past_end();
    if (child->error) return failure(*child->error);
    XOE_TRY(child->iterator->restore(std::move(position)));
    XOE_TRY(child->iterator->skip(skip));
    child->after = child->iterator->save();
    return child;
  }
  std::vector<StageReport> stages() const { return upstream_->stages(); }

 private:
  static tl::unexpected<Error> past_end() {
    return failure(Code::kInvalidArgument, "interleave: the saved position is past the upstream's end");
  }
  // False at the end of the upstream.
  Result<bool> open(Child& child) {
    ElementBox element(stage_->element_type());
    XOE_ASSIGN(const bool there, element.pull(*upstream_));
    if (!there) return false;
    const auto stage = caught([&] { return open_(element.get()); });
    if (!stage) return element_failure("interleave", epoch_, opened_, stage.error());
    XOE_ASSIGN(child.iterator, (*stage)->iterate_any(epoch_));
    child.after = child.iterator->save();
    return true;
  }

  AnyStagePtr stage_;
  OpenFunction open_;
  std::int64_t epoch_;
  AnyIteratorPtr upstream_;
  std::int64_t opened_ = 0;  // elements of the upstream
};

// ---- Whose turn it is

enum class Turn : std::uint8_t { kGive, kWait, kEnd };

// The slots of the cycle, and the children that wait for one. The order is a function of cycle and block length alone,
// unless it is free (not `deterministic`).
class Turns {
 public:
  Turns(const InterleaveOptions& options, std::size_t cycle)
      : deterministic_(options.deterministic),
        block_length_(options.block_length),
        auto_cycle_(auto_cycle(options)),
        cycle_(cycle),
        slots_(cycle) {}

  // Slots beyond a shorter cycle are not filled again once their children end.
  void set_cycle(std::size_t cycle) {
    cycle_ = cycle;
    if (slots_.size() < cycle) slots_.resize(cycle);
  }
  std::size_t cycle() const { return cycle_; }

  // Moves to the child whose turn it is; `placed` tells whether one got a slot. `more`: the upstream has not ended.
  Turn find(bool more, bool& placed) {
    bool waiting = false;
    for (std::size_t seen = 0; seen <= slots_.size(); ++seen) {
      ChildPtr& child = slots_[slot_];
      if (child == nullptr && slot_ < cycle_ && !future_.empty()) {
        child = std::move(future_.front());
        future_.pop_front();
        ++placed_;
        placed = true;
      }
      if (child != nullptr && child->has_answer()) return Turn::kGive;
      const bool may_come = child != nullptr || (slot_ < cycle_ && more);
      if (may_come && deterministic_) return Turn::kWait;
      waiting = waiting || may_come;
      next_slot();
    }
    return waiting ? Turn::kWait : Turn::kEnd;
  }
  Child* current() const { return slots_[slot_].get(); }
  // The current child gave an element.
  void count() {
    if (++taken_ == block_length_) next_slot();
  }
  // The current child ended. Where another one may come it takes this place, with a turn of its own.
  void remove(bool more) {
    slots_[slot_].reset();
    taken_ = 0;
    if (future_.empty() && !more) next_slot();
  }
  void add(ChildPtr child) { future_.push_back(std::move(child)); }
  bool wants_more() const {
    const auto filled = slots_.begin() + static_cast<std::ptrdiff_t>(std::min(cycle_, slots_.size()));
    return future_.size() < kFuture + static_cast<std::size_t>(std::count(slots_.begin(), filled, nullptr));
  }

  // The first child, in the order of their turns, for which wanted(child) is true; null: none.
  template <class Wanted>
  Child* find_if(Wanted&& wanted) const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (Child* child = slots_[(slot_ + i) % slots_.size()].get(); child != nullptr && wanted(*child)) return child;
    for (const ChildPtr& child : future_)
      if (wanted(*child)) return child.get();
    return nullptr;
  }
  bool any_in_slot(bool (*wanted)(const Child&)) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto& child) { return child && wanted(*child); });
  }
  void add_stages_to(StageSum& sum) const {
    for (const ChildPtr& child : slots_) add_stages(sum, child.get());
    for (const ChildPtr& child : future_) add_stages(sum, child.get());
  }

  State save() const {
    State state;
    for (const ChildPtr& child : slots_) {
      if (child != nullptr) {
        const bool within = !child->chunks.empty();
        state.push_group("interleave.position", within ? child->chunks.front().before : child->after);
        state.push("interleave.skip", within ? child->chunks.front().given : 0);
      }
      state.push("interleave.child", child == nullptr ? -1 : child->ordinal);
    }
    state.push("interleave.slot", static_cast<std::int64_t>(slot_));
    state.push("interleave.taken", taken_);
    state.push("interleave.opened", placed_);
    if (auto_cycle_) state.push("interleave.slots", static_cast<std::int64_t>(slots_.size()));
    return state;
  }
  // Opens the stages again that were open, in the upstream's order.
  Status restore(State state, Opener& opener) {
    std::size_t slots = slots_.size();
    if (auto_cycle_) {
      XOE_ASSIGN(const std::int64_t saved, state.pop("interleave.slots"));
      if (saved < 1 || saved > static_cast<std::int64_t>(kMostCycle))
        return failure(Code::kInvalidArgument, "interleave: the saved position is damaged");
      slots = static_cast<std::size_t>(saved);
    }
    XOE_ASSIGN(const std::int64_t placed, state.pop("interleave.opened"));
    XOE_ASSIGN(const std::int64_t taken, state.pop("interleave.taken"));
    XOE_ASSIGN(const std::int64_t slot, state.pop("interleave.slot"));
    if (slot < 0 || slot >= static_cast<std::int64_t>(slots) || taken < 0 || placed < 0)
      return failure(Code::kInvalidArgument, "interleave: the saved position is of another cycle length");
    XOE_ASSIGN(std::vector<Saved> saved, read_children(std::move(state), slots));
    XOE_TRY(opener.restart());
    future_.clear();
    slots_.clear();
    slots_.resize(std::max(slots, cycle_));
    slot_ = static_cast<std::size_t>(slot);
    taken_ = taken;
    placed_ = placed;
    for (Saved& was : saved) {
      XOE_ASSIGN(slots_[was.slot], opener.reopen(was.ordinal, std::move(was.position), was.skip));
    }
    return opener.pass(placed_);
  }

 private:
  struct Saved {
    std::int64_t ordinal;
    std::size_t slot;
    State position;
    std::int64_t skip;
  };
  static Result<std::vector<Saved>> read_children(State state, std::size_t slots) {
    std::vector<Saved> children;
    for (std::size_t slot = slots; slot-- > 0;) {
      XOE_ASSIGN(const std::int64_t ordinal, state.pop("interleave.child"));
      if (ordinal < 0) continue;
      XOE_ASSIGN(const std::int64_t skip, state.pop("interleave.skip"));
      XOE_ASSIGN(State position, state.pop_group("interleave.position"));
      children.push_back({ordinal, slot, std::move(position), skip});
    }
    std::sort(children.begin(), children.end(), [](const Saved& a, const Saved& b) { return a.ordinal < b.ordinal; });
    return children;
  }
  void next_slot() {
    slot_ = (slot_ + 1) % slots_.size();
    taken_ = 0;
  }

  bool deterministic_;
  std::int64_t block_length_;
  bool auto_cycle_;
  std::size_t cycle_;  // slots that are filled again
  std::deque<ChildPtr> future_;
  std::vector<ChildPtr> slots_;
  std::size_t slot_ = 0;
  std::int64_t taken_ = 0;   // in this turn
  std::int64_t placed_ = 0;  // children that came to a slot
};

// ---- The iterator

// Since the start, for tuning and reports. Seconds of readers are added up; without readers the meter knows.
struct Figures {
  std::int64_t ready = 0;  // elements read ahead
  std::int64_t ready_bytes = 0;
  std::int64_t ready_sum = 0;  // of `ready`, at each element given
  std::int64_t given = 0;
  double waited = 0;  // the consumer's seconds
  double idle = 0;
  double opening = 0;
  double reading = 0;
};

class InterleaveIterator final : public Produces<InterleaveIterator> {
 public:
  InterleaveIterator(AnyStagePtr stage, const ElementType& type, std::int64_t epoch, OpenFunction open,
                     const InterleaveOptions& options)
      : Produces("interleave", type),
        options_(options),
        budget_(static_cast<std::int64_t>(memory_budget(options_.memory_budget))),
        most_threads_(data::most_threads(options_.threads, options_.processes)),
        limits_(tuner_limits(options_, most_threads_)),
        threads_(limits_.least.threads),
        opener_(std::move(stage), std::move(open), epoch),
        turns_(options_, limits_.least.depth) {
    if (auto_cycle(options_) || options_.threads == kAutoThreads) tuning_.emplace(limits_, &account_);
  }
  ~InterleaveIterator() override { stop(); }

  Status open() {
    XOE_TRY(opener_.restart());
    start();
    return {};
  }

  Result<bool> produce(Slot& slot) override {
    std::unique_lock lock(mutex_);
    for (;;) {
      bool placed = false;
      const Turn turn = turns_.find(!upstream_ended_, placed);
      if (placed) room_.notify_all();
      if (turn == Turn::kEnd) return false;
      if (turn == Turn::kWait) {
        wait(lock);
        continue;
      }
      Child& child = *turns_.current();
      if (child.ready > 0) {
        give(child, slot);
        return true;
      }
      if (child.error) return failure(*child.error);
      past_.add_past(child.iterator->stages());
      turns_.remove(!upstream_ended_);
    }
  }
  State save() const override {
    const std::lock_guard lock(mutex_);
    return turns_.save();
  }
  Status resume(State state) override {
    stop();
    opening_ = upstream_ended_ = false;
    Status restored = turns_.restore(std::move(state), opener_);
    past_.clear();
    start();
    return restored;
  }

 private:
  std::vector<StageReport> inputs() const override {
    const std::lock_guard lock(mutex_);
    StageSum children = past_;
    turns_.add_stages_to(children);
    std::vector<StageReport> all = opener_.stages();
    append_stages(all, children.list());
    return all;
  }
  void describe(StageReport& mine) const override {
    if (most_threads_ == 0) return;
    const std::lock_guard lock(mutex_);
    mine.seconds = figures_.opening;
    mine.waited = figures_.reading;
    mine.idle = figures_.idle;
    mine.ready =
        static_cast<double>(figures_.ready_sum) / static_cast<double>(std::max<std::int64_t>(figures_.given, 1));
    mine.threads = threads_;
    mine.most_threads = mine.pullers = most_threads_;
    const auto ahead = static_cast<std::size_t>(options_.ahead);
    mine.depth = turns_.cycle() * ahead;
    mine.most_depth = auto_cycle(options_) ? kMostCycle * ahead : mine.depth;
    if (tuning_) mine.last_tuning = tuning_->reason();
  }

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

  // With the lock held, as all that follows.
  void give(Child& child, Slot& slot) {
    Chunk& chunk = child.chunks.front();
    chunk.elements.give_first(slot);
    ++chunk.given;
    --child.ready;
    figures_.ready_sum += figures_.ready--;
    figures_.ready_bytes -= slot.bytes;
    // The last chunk before an error stays, as the position behind it is not known.
    if (chunk.elements.size() == 0 && (!child.error || child.chunks.size() > 1)) {
      child.chunks.pop_front();
      room_.notify_one();
    }
    turns_.count();
    if (++figures_.given % kTuneEvery == 0) tune();
  }

  // Until something changed; without readers, by doing the work.
  void wait(std::unique_lock<std::mutex>& lock) {
    if (most_threads_ > 0) {
      room_.notify_one();  // the next element may be read although there is no room for more
      figures_.waited += seconds_of([&] { changed_.wait(lock); });
      tune();
    } else if (Child* child = turns_.current(); child != nullptr) {
      read_chunk(*child, 1, lock);
    } else {
      open_next(lock);
    }
  }

  void tune() {
    if (!tuning_ || !tuning_->window_ended()) return;
    if (!tuning_->step({.waited = figures_.waited, .idle = figures_.idle, .taken = figures_.given})) return;
    threads_ = tuning_->setting().threads;
    if (auto_cycle(options_)) turns_.set_cycle(tuning_->setting().depth);
    room_.notify_all();
    in_use_.notify_all();
  }

  // Runs work() without the lock and returns its seconds; without readers the meter counts them.
  template <class Work>
  double unlocked(std::unique_lock<std::mutex>& lock, const Work& work) {
    lock.unlock();
    double seconds = 0;
    if (most_threads_ > 0)
      seconds = seconds_of(work);
    else
      work();
    lock.lock();
    return seconds;
  }
  // One thread at a time.
  void open_next(std::unique_lock<std::mutex>& lock) {
    opening_ = true;
    ChildPtr child;
    figures_.opening += unlocked(lock, [&] { child = opener_.next(); });
    opening_ = false;
    upstream_ended_ = child == nullptr || child->error;
    if (child != nullptr) turns_.add(std::move(child));
    changed_.notify_all();
    room_.notify_all();
  }
  void read_chunk(Child& child, std::size_t most, std::unique_lock<std::mutex>& lock) {
    child.busy = true;
    Chunk chunk(type_);
    std::int64_t bytes = 0;
    State after;
    Result<bool> there = true;
    figures_.reading += unlocked(lock, [&] {
      there = caught([&]() -> Result<bool> {
        bool more = true;
        while (more && chunk.elements.size() < most) {
          XOE_ASSIGN(more, chunk.elements.pull(*child.iterator, &bytes));
        }
        after = child.iterator->save();
        return more;
      });
    });
    const auto count = static_cast<std::int64_t>(chunk.elements.size());
    child.busy = false;
    child.ready += count;
    figures_.ready += count;
    figures_.ready_bytes += bytes;
    chunk.before = child.after;
    if (there) child.after = std::move(after);
    if (!there) child.error = there.error();
    child.ended = there && !*there;
    if (count > 0) child.chunks.push_back(std::move(chunk));
    changed_.notify_all();
  }

  bool within_budget() const { return figures_.ready_bytes < budget_; }
  Child* to_read() const {
    const Child* next = turns_.current();
    return turns_.find_if([&](const Child& child) {
      if (child.busy || child.ended || child.error || child.ready >= options_.ahead) return false;
      return within_budget() || (&child == next && child.ready == 0);
    });
  }
  bool may_open() const { return !opening_ && !upstream_ended_ && turns_.wants_more(); }
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
    // A reader is not idle because of the consumer at the end, and while others do all the work that there is.
    const bool counts = turns_.any_in_slot([](const Child& child) { return !child.busy && !child.ended; });
    const auto may_work = [&] { return stopping_ || reader >= threads_ || may_open() || to_read() != nullptr; };
    const double seconds = seconds_of([&] { room_.wait(lock, may_work); });
    if (counts) figures_.idle += seconds;
  }

  const InterleaveOptions options_;
  const std::int64_t budget_;  // bytes
  const int most_threads_;
  const TunerLimits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something to give
  std::condition_variable room_;     // something to read, for readers in use
  std::condition_variable in_use_;   // for readers that are not in use
  int threads_;                      // in use
  CpuAccount account_;
  std::optional<Tuning> tuning_;  // empty: fixed
  Opener opener_;                 // of the one thread that set opening_
  bool opening_ = false;
  bool upstream_ended_ = false;
  bool stopping_ = false;
  Turns turns_;
  StageSum past_;  // of stages that ended
  Figures figures_;
  std::vector<std::jthread> readers_;  // last: joined before what they use goes
};

}  // namespace

AnyStagePtr interleave(const AnyStagePtr& upstream, const ElementType& type, OpenFunction open,
                       InterleaveOptions options) {
  return make_stage(
      type,
      [=, &type, open = std::move(open)](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        if (auto_cycle(options) && (options.deterministic || options.threads == 0))
          return failure(
              Code::kInvalidArgument,
              "interleave: kAutoCycle needs threads and deterministic = false: the order depends on the cycle");
        if ((options.cycle_length < 1 && !auto_cycle(options)) || options.block_length < 1 ||
            options.threads < kAutoThreads || options.ahead < 1)
          return failure(Code::kInvalidArgument,
                         "interleave: cycle_length (or kAutoCycle), block_length and ahead are 1 or more, threads 0 or "
                         "more, or kAutoThreads");
        return opened<InterleaveIterator>(upstream, type, epoch, open, options);
      },
      [] { return std::optional<std::int64_t>(); });
}

}  // namespace xoe::data::detail
