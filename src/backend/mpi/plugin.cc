// libxoe-mpi-openmpi.so and libxoe-mpi-mpich.so.
#include "backend/net/plugin.h"

#include "backend/mpi/provider.h"

XOE_NET_PLUGIN(xoe::mpi::open_provider)
