#include "launch/relayed_link.h"

namespace xoe::launch {
namespace {

// Of one frame: others have their turn in between.
constexpr std::size_t kPiece = std::size_t{64} << 10;

}  // namespace

RelayedLink::RelayedLink(HostShare share, HostLink& relay, std::size_t number, std::size_t hosts,
                         std::vector<std::string> command)
    : HostLink(std::move(share), &relay, FramePipe(true)),
      carrier_(relay),
      number_(static_cast<std::int64_t>(number)),
      hosts_(static_cast<std::int64_t>(hosts)),
      command_(std::move(command)) {}

void RelayedLink::tell(AgentFrame::Kind kind, std::string_view text) {
  carrier_.pipe().send({.kind = kind, .rank = number_, .value = hosts_, .text = text});
}

void RelayedLink::open() {
  pipe().forgive();
  tell(AgentFrame::Kind::kShellStart, encode_command(command_));
}

void RelayedLink::take(const AgentFrame& frame) {
  switch (frame.kind) {
    case AgentFrame::Kind::kShellOutput: return frame.text.empty() ? pipe().end() : pipe().feed(frame.text);
    case AgentFrame::Kind::kShellWords: return add_words(frame.text);
    case AgentFrame::Kind::kShellEnded: status_ = static_cast<int>(frame.value); return pipe().end();
    default: return;
  }
}

void RelayedLink::write() {
  if (!pipe().wants_to_write()) return;
  const std::string bytes = pipe().take();
  for (std::size_t at = 0; at < bytes.size(); at += kPiece)
    tell(AgentFrame::Kind::kShellInput, std::string_view(bytes).substr(at, kPiece));
  carrier_.write();
}

void RelayedLink::hang_up() {
  pipe().close();
  tell(AgentFrame::Kind::kShellHangUp);
  carrier_.write();
}

void RelayedLink::kill() {
  pipe().close();
  tell(AgentFrame::Kind::kShellKill);
  carrier_.write();
}

}  // namespace xoe::launch
