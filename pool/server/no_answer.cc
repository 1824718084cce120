#include "pool/server/no_answer.h"

namespace xoe::pool {

std::string why_no_answer(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "no connection can be made; see whether a server runs there, and whether host and port are right";
    case httplib::Error::ConnectionTimeout:
      return "no connection came about in time; see whether its host is up, and whether a firewall lets this one "
             "through";
    case httplib::Error::Read: return "it was asked, and no answer came in time or the connection broke; try again";
    case httplib::Error::Write: return "the connection broke while it was asked; try again";
    case httplib::Error::SSLConnection:
      return "no encrypted connection can be made; see whether it speaks TLS at this port";
    case httplib::Error::SSLLoadingCerts:
      return "the file of certificates to trust cannot be read; see whether it is there and in PEM form";
    case httplib::Error::SSLServerVerification:
      return "its certificate is for another name, or signed by none whom this host trusts";
    default: return "the request failed (" + httplib::to_string(error) + ")";
  }
}

}  // namespace xoe::pool
