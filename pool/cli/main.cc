#include "pool/cli/xoe_pool.h"

int main(int argc, char** argv) { return xoe::tools::run_pool(argc, argv); }
