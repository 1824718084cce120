// The two ends of an agent's connection, fed with arbitrary bytes in chunks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "launch/agents/agent_job.h"
#include "remote/frame.h"

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
      std::string again;
      remote::append_frame(again, **frame);
      if (!remote::parse_frame(std::string_view(again).substr(4))) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t chunk = size == 0 ? 1 : 1 + data[0];
  read(bytes, true, chunk);
  read(bytes, false, chunk);
  (void)remote::decode_hello(bytes);
  if (const auto job = decode_job(bytes))
    if (encode(*job) != bytes) std::abort();
  if (const auto command = remote::decode_texts(bytes))
    if (remote::encode_texts(*command) != bytes) std::abort();
  return 0;
}
