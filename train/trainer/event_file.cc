#include "train/trainer/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "xoe/data/record_writer.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "events.out.tfevents.";

// Fields of TensorFlow's messages: Event, SessionLog (tensorflow/core/util/event.proto) and Summary
// (tensorflow/core/framework/summary.proto).
namespace event {
constexpr std::uint32_t kWallTime = 1;     // double, seconds since 1970
constexpr std::uint32_t kStep = 2;         // int64
constexpr std::uint32_t kFileVersion = 3;  // string
constexpr std::uint32_t kSummary = 5;      // Summary
constexpr std::uint32_t kSessionLog = 7;   // SessionLog
}  // namespace event
namespace session_log {
constexpr std::uint32_t kStatus = 1;  // an enumeration
constexpr std::uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr std::uint32_t kValue = 1;        // repeated Summary.Value
constexpr std::uint32_t kTag = 1;          // of Value: string
constexpr std::uint32_t kSimpleValue = 2;  // of Value: float
}  // namespace summary

// From this version on, a START makes readers forget later steps.
constexpr std::string_view kFileVersion = "brain.Event:2";

// The wire types of protocol buffers.
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Message {
 public:
  Message& varint(std::uint32_t field, std::uint64_t value) {
    key(field, Wire::kVarint);
    writer_.varint(value);
    return *this;
  }
  Message& number(std::uint32_t field, double value) {
    key(field, Wire::kFixed64);
    writer_.fixed(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(std::uint32_t field, float value) {
    key(field, Wire::kFixed32);
    writer_.fixed(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  Message& bytes(std::uint32_t field, std::string_view value) {
    key(field, Wire::kBytes);
    writer_.varint_text(value);
    return *this;
  }
  const std::string& encoded() const noexcept { return writer_.bytes(); }

 private:
  void key(std::uint32_t field, Wire wire) { writer_.varint((field << 3) | static_cast<std::uint32_t>(wire)); }

  ByteWriter writer_;
};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event_at(std::int64_t step) {
  Message message;
  message.number(event::kWallTime, seconds_since_1970()).varint(event::kStep, static_cast<std::uint64_t>(step));
  return message;
}

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// TensorBoard reads the files of a folder in the order of their names, and never goes back. So the number in the new
// name, which says when the file began, is above all that are there, whatever the clock says.
std::string new_name(const std::string& folder) {
  constexpr std::int64_t kLargestNumber = 9'999'999'999;  // of ten digits, or the order of names is another
  auto number = static_cast<std::int64_t>(seconds_since_1970());
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kFilePrefix)) continue;
    const auto rest = std::string_view(name).substr(kFilePrefix.size());
    if (const auto theirs = parse_integer(rest.substr(0, rest.find('.'))); theirs && *theirs < kLargestNumber)
      number = std::max(number, *theirs + 1);
  }
  return fmt::format("{}/{}{:010}.{}", folder, kFilePrefix, number, host_name());
}

}  // namespace

Result<EventFile> EventFile::begin(const std::string& folder, std::int64_t first_step) {
  XOE_ASSIGN(auto file, GrowingFile::open(new_name(folder), /*append=*/false));
  const Message version = event_at(0).bytes(event::kFileVersion, kFileVersion);
  const Message log = Message().varint(session_log::kStatus, session_log::kStart);
  const Message start = event_at(first_step + 1).bytes(event::kSessionLog, log.encoded());
  XOE_TRY(file.append(data::framed_record(version.encoded()) + data::framed_record(start.encoded())));
  return EventFile(std::move(file));
}

Status EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  Message values;
  for (const Scalar& scalar : scalars) {
    const Message value =
        Message().bytes(summary::kTag, scalar.tag).number(summary::kSimpleValue, static_cast<float>(scalar.value));
    values.bytes(summary::kValue, value.encoded());
  }
  return file_.append(data::framed_record(event_at(step).bytes(event::kSummary, values.encoded()).encoded()));
}

}  // namespace xoe::train
