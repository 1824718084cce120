// The store's server fed with arbitrary bytes by one client while another uses it as it should.
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/fd.h"
#include "core/base/random_token.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_protocol.h"
#include "core/bootstrap/store_service.h"
#include "target.h"

namespace {

using namespace xoe::bootstrap;

void parse(std::string_view bytes) {
  xoe::FrameBuffer reader;
  reader.append(bytes);
  while (true) {
    const auto body = next_body(reader);
    if (!body || !*body) return;
    (void)parse_body(**body);
  }
}

xoe::Fd connect_to(StoreService& service) {
  const auto name = SocketAddress::parse(service.address()).value();
  xoe::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), name.address(), name.size()) != 0) std::abort();
  return socket;
}

void send(const xoe::Fd& socket, std::string_view bytes) {
  (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

XOE_FUZZ_TARGET(store_fuzz) {
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  parse(input);
  auto service =
      StoreService::listen(SocketAddress::parse("unix:@xoe-fuzz-" + xoe::random_token().value()).value(), "s").value();
  const xoe::Fd hostile = connect_to(*service);
  const xoe::Fd friendly = connect_to(*service);
  std::string hello;
  append_hello(hello, "s");
  // The first byte chooses whether the bytes come from an unauthenticated client or from a known client.
  if (!input.empty() && input[0] % 2 == 0) send(hostile, hello);
  send(hostile, input);
  service->serve();
  std::string request = hello;
  append_set(request, "\x01 friendly", "v");
  append_get(request, "\x01 friendly");
  send(friendly, request);
  for (int i = 0; i < 4; ++i) service->serve();
  char reply[256];
  // Replies to the greeting, to the set and to the get.
  if (::recv(friendly.get(), reply, sizeof reply, MSG_DONTWAIT) < 15) std::abort();
  return 0;
}
