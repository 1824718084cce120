// The two ends of an agent's connection, fed with arbitrary bytes in chunks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/bootstrap/status_page.h"
#include "launch/plan/agent_job.h"
#include "launch/remote/frame.h"
#include "target.h"

namespace {

using namespace xoe::launch;
namespace remote = xoe::remote;

void read(std::string_view bytes, bool greeting, std::size_t chunk) {
  remote::FrameReader reader(greeting);
  while (!bytes.empty()) {
    reader.append(bytes.substr(0, chunk));
    bytes.remove_prefix(std::min(chunk, bytes.size()));
    while (true) {
      const auto frame = reader.next();
      if (!frame) return;
      if (!*frame) break;
      (void)remote::decode_hello((*frame)->text);
      (void)decode_job((*frame)->text);
      (void)remote::decode_texts((*frame)->text);
      (void)remote::decode_ending((*frame)->text);
      (void)xoe::bootstrap::decode_facts((*frame)->text);
      std::string again;
      remote::append_frame(again, **frame);
      if (!remote::parse_frame(std::string_view(again).substr(4))) std::abort();
    }
  }
}

}  // namespace

XOE_FUZZ_TARGET(agent_fuzz) {
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const std::size_t chunk = size == 0 ? 1 : 1 + bytes[0];
  read(input, true, chunk);
  read(input, false, chunk);
  (void)remote::decode_hello(input);
  if (const auto job = decode_job(input))
    if (encode(*job) != input) std::abort();
  if (const auto ending = remote::decode_ending(input))
    if (encode(*ending) != input) std::abort();
  if (const auto command = remote::decode_texts(input))
    if (remote::encode_texts(*command) != input) std::abort();
  if (const auto facts = xoe::bootstrap::decode_facts(input)) {
    const auto again = xoe::bootstrap::decode_facts(xoe::bootstrap::encode_facts(*facts));
    if (!again || *again != *facts) std::abort();
  }
  return 0;
}
