#include "pool/hooks/notice.h"

#include <array>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::pool {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"granted", "expiry-warned", "give-way", "idle-warned"};

}  // namespace

bool is_notice(const Event& event, const Lease& lease) {
  if (event.kind == "ended") return event.actor != lease.user && !lease.gpus.empty();
  return std::ranges::find(kKinds, event.kind) != kKinds.end();
}

std::string sentence_of(const Notice& notice) {
  const Lease& lease = notice.lease;
  const std::string& why = notice.event.why;
  if (notice.event.kind == "granted")
    return fmt::format("lease {}: {} on {} {}", lease.id, counted(lease.request.gpus, "GPU"),
                       fmt::join(notice.hosts, ", "), why);
  if (notice.event.kind == "expiry-warned")
    return fmt::format("lease {} {}; xoe pool renew {} makes it longer", lease.id, why, lease.id);
  if (notice.event.kind == "give-way") return fmt::format("lease {} is asked to give way {}", lease.id, why);
  if (notice.event.kind == "idle-warned") return fmt::format("lease {} is idle, and will be ended: {}", lease.id, why);
  return ended_sentence(fmt::format("lease {}", lease.id), why);
}

std::string ended_sentence(std::string_view lease, std::string_view why) {
  static constexpr std::string_view kRefused = "refused: ";
  static constexpr std::string_view kIdle = "idle: ";
  if (why.starts_with(kRefused)) return fmt::format("{} was refused: {}", lease, why.substr(kRefused.size()));
  if (why.starts_with(kIdle))
    return fmt::format("{} has ended because its GPUs were idle: {}", lease, why.substr(kIdle.size()));
  return fmt::format("{} has ended{}{}", lease, why.empty() ? "" : ": ", why);
}

std::string mail_of(const Notice& notice, const std::string& domain) {
  return fmt::format(
      "To: {}{}{}\nSubject: [GPU pool] lease {}: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n"
      "Content-Type: text/plain; charset=utf-8\n\n{}\n",
      notice.lease.user, domain.empty() ? "" : "@", domain, notice.lease.id, notice.event.kind, sentence_of(notice));
}

}  // namespace xoe::pool
