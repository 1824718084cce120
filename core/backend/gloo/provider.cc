// libxoe-gloo.so: Gloo in this process.
#include "core/backend/net/plugin.h"

#include <exception>

#include <gloo/config.h>

#include "core/backend/gloo/connected.h"
#include "core/backend/gloo/mesh.h"
#include "core/backend/gloo/net.h"
#include "core/backend/gloo/sigpipe_guard.h"
#include "core/base/error.h"
#include "core/bootstrap/own_address.h"

namespace xoe::gloo {
namespace {

// One device, whose thread moves bytes for all nets.
class GlooProvider final : public net::Provider {
 public:
  GlooProvider(MeshOptions options, std::shared_ptr<::gloo::transport::Device> device)
      : options_(std::move(options)), device_(std::move(device)) {}

  std::string_view name() const noexcept override { return "gloo"; }

  std::string describe() const override {
    return fmt::format("Gloo {}.{}.{}, TCP from {}{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH,
                       options_.connection.address, options_.encrypt ? ", encrypted" : "");
  }

  Result<std::unique_ptr<net::Net>> connect(const net::Members& members, const net::Exchange& exchange,
                                            Clock::time_point deadline) override {
    std::unique_ptr<Mesh> mesh;
    if (members.ranks.size() > 1) {
      SigpipeGuard guard;
      guard.may_be_pending();
      XOE_ASSIGN(mesh, Mesh::connect(device_, options_, members, exchange, deadline));
    }
    return std::make_unique<GlooNet>(members, std::move(mesh));
  }

  Result<net::Exchange> bootstrap() override {
    return failure(Code::kUnsupported, "gloo starts no processes: let `xoe run` or mpirun start them");
  }

 private:
  const MeshOptions options_;
  const std::shared_ptr<::gloo::transport::Device> device_;
};

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions& options) {
  XOE_ASSIGN(const auto interfaces, local_interfaces());
  std::string address = options.address;
  if (address.empty()) {
    XOE_ASSIGN(address, bootstrap::choose_address(interfaces, options.interfaces));
  }
  XOE_TRY(bootstrap::check_address(address, interfaces));
  const SigpipeGuard guard;  // the device's thread writes
  try {
    auto device = make_device(address);
    MeshOptions mesh{.connection = {.address = address, .warn = options.warn}, .encrypt = options.encrypt};
    return std::make_unique<GlooProvider>(std::move(mesh), std::move(device));
  } catch (const std::exception& e) {
    return failure(Code::kUnavailable, "gloo: cannot use the address {} of this host: {}", address, e.what());
  }
}

}  // namespace
}  // namespace xoe::gloo

XOE_NET_PLUGIN(xoe::gloo::open_provider)
