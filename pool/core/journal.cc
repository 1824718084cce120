#include "pool/core/journal.h"

#include "core/base/error.h"

namespace xoe::pool {

Error Journal::failed(Error error) {
  failure_ = error;
  return error;
}

Status Journal::kept(Status status) {
  if (!status) failure_ = status.error();
  return status;
}

Status Journal::log(std::string_view actor, std::string_view kind, std::int64_t lease, std::string_view subject,
                    std::string_view why) {
  return kept(store_.append({.at = now_,
                             .actor = std::string(actor),
                             .kind = std::string(kind),
                             .lease = lease,
                             .subject = std::string(subject),
                             .why = std::string(why)}));
}

}  // namespace xoe::pool
