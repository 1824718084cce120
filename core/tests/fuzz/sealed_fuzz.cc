// What arrives on an encrypted connection, from a program that took it over: arbitrary bytes, and sealed ones that were
// changed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/bootstrap/sealed_stream.h"
#include "target.h"

XOE_FUZZ_TARGET(sealed_fuzz) {
  using namespace xoe::bootstrap;
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const SessionKeys client = session_keys("s", End::kClient, "c", "n"),
                    server = session_keys("s", End::kServer, "c", "n");
  Opener opener(server.receive);
  std::string plain;
  // In two pieces, the first of which may end anywhere.
  const std::size_t cut = size == 0 ? 0 : bytes[0] % (size + 1);
  if (opener.open(input.substr(0, cut), plain)) (void)opener.open(input.substr(cut), plain);
  if (!plain.empty()) std::abort();  // who does not know the key cannot seal

  Sealer sealer(client.send);
  std::string wire, got;
  sealer.seal(input, wire);
  Opener other(server.receive);
  if (!other.open(wire, got) || got != input) std::abort();
  if (wire.empty()) return 0;
  wire[size % wire.size()] = static_cast<char>(wire[size % wire.size()] ^ (1 + bytes[0] % 255));
  Opener deceived(server.receive);
  got.clear();
  if (deceived.open(wire, got) && got == input) std::abort();
  return 0;
}
