// Prints the description of the pool's HTTP interface, from which the page's types are made.
#include <cstdio>

#include "pool/server/openapi.h"

int main() {
  const std::string& document = xoe::pool::openapi_document();
  return std::fwrite(document.data(), 1, document.size(), stdout) == document.size() && std::fflush(stdout) == 0 ? 0
                                                                                                                 : 1;
}
