// What the launcher and the agents on its hosts say to each other, over the pipes of the remote shell.
//
// The agent's first bytes are kAgentGreeting. Before them may stand whatever a login shell prints; from there on, and
// in the other direction from the start, frames follow: 32 bits of length, and that many bytes of one kind (8 bits),
// four numbers (64 bits each) and a text. All numbers are little endian.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

inline constexpr std::string_view kAgentGreeting = "\x01xoe-agent-1\n";
inline constexpr std::size_t kMaxAgentFrame = std::size_t{16} << 20;
inline constexpr std::size_t kMostNoise = std::size_t{64} << 10;  // of a login shell, before the greeting
// Bytes of output that an agent sends before the launcher has to say that it took some, and of input the other way.
inline constexpr std::int64_t kOutputWindow = std::int64_t{1} << 20;
inline constexpr std::int64_t kInputWindow = std::int64_t{256} << 10;

struct AgentFrame {
  enum class Kind : std::uint8_t {
    kAlive = 1,  // either way: nothing else to say
    // From the launcher.
    kPrepare = 16,   // text: an AgentJob
    kStart = 17,     // what was prepared
    kSignal = 18,    // value
    kKill = 19,      // everything, at once
    kInput = 20,     // text, for rank 0
    kInputEnd = 21,  //
    kCredit = 22,    // value: so many bytes of output were taken
    kPause = 23,     // the launcher will be silent until its next frame
    // From the launcher, about hosts behind this one; rank: the host's number.
    kShellStart = 24,   // text: the command as texts, value: hosts that are reached through that shell, and its own
    kShellInput = 25,   // text: for its stdin
    kShellHangUp = 26,  // closes its stdin, at once
    kShellKill = 27,    //
    // From the launcher of a job whose failed ranks are started anew.
    kRestart = 28,  // rank: it has ended
    kSettled = 29,  // it will not happen (again)
    // From the agent.
    kHello = 64,        // text: an AgentHello
    kReady = 65,        // text: the program's path there and what its ranks are near, as texts; time: its clock
    kOutput = 66,       // rank, value: 0 stdout, 1 stderr; text
    kEnded = 67,        // rank, pid, value: its wait status, time: how long it ran
    kStartFailed = 68,  // rank, value: errno
    kInputTaken = 69,   // value: so many bytes
    kInputClosed = 70,  //
    kAllGone = 71,      // the last one: no process is left there; value: 1 when the guardian was killed
    kError = 72,        // text: why nothing can be started there, value: the exit code for it
    // From the agent, about hosts behind it; rank: the host's number.
    kShellOutput = 73,  // text: what its stdout gave; empty: its end
    kShellWords = 74,   // text: what its stderr gave
    kShellEnded = 75,   // the last one; value: its wait status
  };
  Kind kind = Kind::kAlive;
  std::int64_t rank = 0;
  std::int64_t value = 0;
  std::int64_t pid = 0;
  std::int64_t time = 0;  // nanoseconds
  std::string_view text = {};
};

// What an agent says of itself, before it is told anything.
struct AgentHello {
  std::string version = {};  // of Xoe; stays the first field for ever
  std::string hostname = {};
  std::string launcher = {};                // the launcher's address as this host sees it; empty: not known
  std::vector<std::string> addresses = {};  // of this host
  int cores = 0;
};

struct AgentRank {
  int rank = 0;
  int cross_rank = 0;
  int cross_size = 1;
};

// One host's part of a job.
struct AgentJob {
  std::string host = {};        // its name in the user's list
  std::string first_host = {};  // that of rank 0's
  std::string job = {};
  std::string secret = {};
  std::string store = {};
  std::string network_interface = {};
  std::string backend = {};
  std::string directory = {};
  std::vector<std::string> command = {};
  std::vector<std::pair<std::string, std::string>> env = {};
  std::vector<AgentRank> ranks = {};  // by local rank
  int size = 0;                       // of the whole job
  Binding binding = Binding::kNone;
  bool by_socket = false;
  bool bind_gpus = true;
  bool restarts = false;                                             // ranks may be started anew
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(10);  // of silence
};

void append_frame(std::string& out, const AgentFrame& frame);
// `invalid_argument` for anything that append_frame() would not write.
Result<AgentFrame> parse_frame(std::string_view body);

std::string encode(const AgentHello& hello);
std::string encode(const AgentJob& job);
std::string encode_command(const std::vector<std::string>& command);
// `invalid_argument` for anything that encode() would not give. A hello of another version gives its version only.
Result<AgentHello> decode_hello(std::string_view text);
Result<AgentJob> decode_job(std::string_view text);
Result<std::vector<std::string>> decode_command(std::string_view text);

// Cuts a stream of bytes into frames.
class AgentFrameReader {
 public:
  // `greeting`: the stream begins with one.
  explicit AgentFrameReader(bool greeting) : greeted_(!greeting) {}
  void append(std::string_view bytes);
  // The next frame, valid until append() is called; nullopt when more bytes are needed. After an error, which says what
  // came instead, the stream is of no use.
  Result<std::optional<AgentFrame>> next();
  bool greeted() const noexcept { return greeted_; }
  // What came before the greeting.
  const std::string& noise() const noexcept { return noise_; }

 private:
  Status look_for_greeting();

  bool greeted_;
  std::string noise_;
  std::string buffer_;
  std::size_t read_ = 0;
};

}  // namespace xoe::launch
