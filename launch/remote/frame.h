// The messages between a program and the agents that it started on hosts, over the pipes of the remote shell.
//
// The agent's first bytes are kAgentGreeting. A login shell may print something before them, the preamble; after them,
// and in the other direction from the start, frames follow: 32 bits of length, and that many bytes of one kind (8
// bits), four numbers (64 bits each) and a text. All numbers are little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "xoe/status.h"

namespace xoe::remote {

inline constexpr std::string_view kAgentGreeting = "\x01xoe-agent-1\n";
inline constexpr std::size_t kMaxFrame = std::size_t{16} << 20;
inline constexpr std::size_t kMaxPreamble = std::size_t{64} << 10;
// Bytes of output that an agent sends before the launcher has to acknowledge some, and of input the other way.
inline constexpr std::int64_t kOutputWindow = std::int64_t{1} << 20;
inline constexpr std::int64_t kInputWindow = std::int64_t{256} << 10;

struct Frame {
  enum class Kind : std::uint8_t {
    kAlive = 1,  // either way: a keepalive; time: the sender's steady clock
    // From the launcher.
    kPrepare = 16,   // text: the host's part of a job
    kStart = 17,     // starts what was prepared
    kSignal = 18,    // value: the signal, to all ranks
    kKill = 19,      // kills everything at once
    kInput = 20,     // text, for rank 0
    kInputEnd = 21,  //
    kCredit = 22,    // value: so many bytes of output were taken
    kPause = 23,     // the launcher will be silent until its next frame
    // From the launcher, about hosts behind this one; rank: the host's number.
    kRelayStart = 24,   // text: the command as texts, value: hosts that are reached through it, and its own
    kRelayInput = 25,   // text: for its stdin
    kRelayHangUp = 26,  // closes its stdin at once
    kRelayKill = 27,    //
    // From the launcher of a job whose failed ranks are restarted.
    kRestart = 28,         // rank: it has ended
    kNoMoreRestarts = 29,  //
    // From `xoe doctor`.
    kExamine = 30,  // the agent becomes the doctor's probe, which answers with kReady
    kRequest = 31,  // text: a request to the probe
    // From the launcher of a job that ends.
    kEnd = 32,  // SIGTERM to all ranks
    // From the launcher, to an agent that joined by itself.
    kOutcome = 33,  // the last one; value: the code of an Outcome, text: its lines
    // From the launcher, when it asks what came first.
    kReport = 34,  // answered by kReported, after all that has happened there
    // From the launcher of a job whose ranks come and go.
    kSignalRank = 35,  // rank, value: the signal, to what is left of that rank
    kWorld = 36,       // value: the version of the world, text: the slots of its ranks, as "0,2,5"
    // From the agent.
    kHello = 64,        // text: a Hello
    kReady = 65,        // text: the program's path there and the ranks' locality, as texts; time: its clock
    kOutput = 66,       // rank, value: 0 stdout, 1 stderr; text; time: as in kAlive
    kEnded = 67,        // rank, pid, value: its wait status, time: as in kAlive, of its end; text: a RankEnding
    kStartFailed = 68,  // rank, value: errno
    kInputTaken = 69,   // value: so many bytes
    kInputClosed = 70,  //
    kAllGone = 71,      // the last one: no process is left there
    kError = 72,        // text: why nothing can be started there, value: the exit code for it
    // From the agent, about hosts behind it; rank: the host's number.
    kRelayOutput = 73,  // text: bytes of its stdout; empty: its end
    kRelayStderr = 74,  // text
    kRelayEnded = 75,   // the last one; value: its wait status
    // From the doctor's probe.
    kAnswer = 76,  // text
    // From the agent.
    kSupervisorLost = 77,  // the ranks' supervisor was killed, and they with it; time: as in kAlive
    // From the agent of a job whose launcher shows a panel.
    kStatus = 78,  // text: the facts of all ranks there, time: as in kAlive
    // From an agent that joined by itself.
    kSignalled = 79,  // value: the signal that it got, for the whole job
    // From the agent.
    kReported = 80,
    kDeparting = 81,  // value: milliseconds until the host is gone; -1: it cannot be found out whether; text: why
  };
  Kind kind = Kind::kAlive;
  std::int64_t rank = 0;
  std::int64_t value = 0;
  std::int64_t pid = 0;
  std::int64_t time = 0;  // nanoseconds
  std::string_view text = {};
};

// The agent's first frame: the facts about its host that it sends unasked.
struct Hello {
  std::string version = {};  // of Xoe; stays the first field in every version of the protocol
  std::string hostname = {};
  std::string launcher = {};                // the launcher's address as this host sees it; empty: not known
  std::vector<std::string> addresses = {};  // of this host
  int cores = 0;
  int ranks = 0;  // that it is told to run, where it joined by itself; else 0
};

// How the job ended, for an agent that joined by itself.
struct Outcome {
  std::int64_t code = 0;  // the exit code for it, or one of those below
  std::string lines = {};
};
// The job begins again, and the agent is to join it again.
inline constexpr std::int64_t kNextRound = -1;
// The job goes on without the agent's host: which has left, as it was to, or is lost to it.
inline constexpr std::int64_t kHasLeft = -2;
inline constexpr std::int64_t kIsLost = -3;

// More about a rank that has ended.
struct RankEnding {
  std::int64_t ran = 0;  // nanoseconds
  bool asked = false;    // it had been asked to end
};

// The system clock in nanoseconds since 1970.
std::int64_t clock_now();

void append_frame(std::string& out, const Frame& frame);
// `invalid_argument` for anything that append_frame() would not write.
Result<Frame> parse_frame(std::string_view body);

std::string encode(const Hello& hello);
// `invalid_argument` for anything that encode() would not write. A hello of another version has its version only.
Result<Hello> decode_hello(std::string_view text);
std::string encode(const RankEnding& ending);
// `invalid_argument` for anything that encode() would not write.
Result<RankEnding> decode_ending(std::string_view text);
// A command, or another list of texts that is not empty.
std::string encode_texts(const std::vector<std::string>& texts);
Result<std::vector<std::string>> decode_texts(std::string_view text);
// Fields of messages: a text with 32 bits of length; several with their count, a 64-bit number, before them.
void write_texts(ByteWriter& fields, std::span<const std::string> texts);
std::string read_text(ByteReader& fields);
std::vector<std::string> read_texts(ByteReader& fields);

tl::unexpected<Error> malformed_message(std::string_view what);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  // `greeting`: the stream begins with one.
  explicit FrameReader(bool greeting) : greeted_(!greeting) {}
  void append(std::string_view bytes);
  // The next frame, valid until append() is called; nullopt when more bytes are needed. After an error, which says what
  // came instead, the stream is of no use.
  Result<std::optional<Frame>> next();
  bool greeted() const noexcept { return greeted_; }
  // The bytes before the greeting.
  const std::string& preamble() const noexcept { return preamble_; }

 private:
  Status look_for_greeting();

  bool greeted_;
  std::string preamble_;
  std::string unread_;  // before the greeting
  FrameBuffer frames_;
};

}  // namespace xoe::remote
