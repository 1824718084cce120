// Pipes.
#include <cerrno>
#include <cstring>

#include "core/testing/sim/objects.h"

namespace xoe::sim {
namespace {

class PipeEnd final : public Object {
 public:
  explicit PipeEnd(bool writes) : writes_(writes) {}

  short ready() override {
    const auto other = other_.lock();
    const bool alone = other == nullptr || other->closed_;
    if (writes_) return static_cast<short>(alone ? POLLOUT | POLLERR : other->bytes_.size() < kRoom ? POLLOUT : 0);
    return static_cast<short>((bytes_.empty() ? 0 : POLLIN) | (alone ? POLLHUP : 0));
  }

  ssize_t read(void* bytes, std::size_t size, bool waits, int) override {
    if (writes_) return Object::read(bytes, size, waits, 0);
    if (!wait_until(waits, [this] { return ready() != 0; })) return -1;
    std::size_t count = std::min(size, bytes_.size());
    if (count > 1 && kernel->random.chance(kernel->options.short_read)) count = 1 + kernel->random.below(count);
    std::memcpy(bytes, bytes_.data(), count);
    bytes_.erase(0, count);
    if (const auto other = other_.lock(); other != nullptr && count > 0) other->changed();
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const void* bytes, std::size_t size, bool waits) override {
    if (!writes_) return Object::write(bytes, size, waits);
    std::size_t done = 0;
    while (done < size) {
      if (!wait_until(waits, [this] { return ready() != 0; })) return done > 0 ? static_cast<ssize_t>(done) : -1;
      const auto other = other_.lock();
      if (other == nullptr || other->closed_) {
        errno = EPIPE;
        kernel->raise_in_caller(SIGPIPE);
        return -1;
      }
      const std::size_t count = std::min(size - done, kRoom - other->bytes_.size());
      other->bytes_.append(static_cast<const char*>(bytes) + done, count);
      other->changed();
      done += count;
      if (!waits) break;
    }
    return static_cast<ssize_t>(done);
  }

  void on_last_close() override {
    closed_ = true;
    if (const auto other = other_.lock()) other->changed();
  }

  void join(const std::shared_ptr<PipeEnd>& other) { other_ = other; }

 private:
  static constexpr std::size_t kRoom = std::size_t{64} << 10;
  bool writes_;
  bool closed_ = false;
  std::string bytes_;
  std::weak_ptr<PipeEnd> other_;
};

}  // namespace

std::array<ObjectPtr, 2> make_pipe() {
  const auto reader = std::make_shared<PipeEnd>(false);
  const auto writer = std::make_shared<PipeEnd>(true);
  reader->join(writer);
  writer->join(reader);
  return {reader, writer};
}

}  // namespace xoe::sim
