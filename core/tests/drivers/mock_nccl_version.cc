// Stands in for libnccl.so.2, and for a backend's plug-in.
#include <cstdlib>

extern "C" {
// As in the library itself; a reader of the file finds it.
__attribute__((used)) extern const char xoe_mock_nccl_words[] = "NCCL version 2.27.5+cuda13.0";

int ncclGetVersion(int* version) {
  const char* const wanted = std::getenv("XOE_MOCK_NCCL");
  *version = wanted != nullptr ? std::atoi(wanted) : 22705;
  return 0;
}

const char* xoe_net_build() { return "0.0.1 test"; }
}
